//! What becomes of checkpoints: kept through everything, in the order in which they were sent.

use std::time::{Duration, UNIX_EPOCH};

use futures_util::future::join_all;

use super::subject::Subject;
use super::trial::{Call, send};
use super::violation::{Violation, ensure, ensure_eq};
use crate::{Checkpoint, LeaseError, LeaseState};

/// One of each form, and the longest sequence number that Kinesis documents.
fn every_form() -> [Checkpoint; 7] {
    let sequence_number = "49590338271490256608559692538361571095921575989136588898";
    [
        Checkpoint::at(sequence_number),
        Checkpoint::at_sub(sequence_number, 0),
        Checkpoint::at_sub(sequence_number, 17),
        Checkpoint::at_sub(sequence_number, u64::MAX),
        Checkpoint::at(format!("1{}7", "0".repeat(127))),
        Checkpoint::at_timestamp(UNIX_EPOCH + Duration::from_millis(1_700_000_000_250)),
        Checkpoint::shard_end(),
    ]
}

/// A checkpoint of any form reads back as it was.
pub async fn a_checkpoint_of_any_form_reads_back_as_it_was(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let holder = t.granted(t.a).await?;
            for at in every_form() {
                t.checkpointed(t.a, &holder, &at).await?;
                for reader in [t.a, t.b] {
                    let state = t.read(reader).await?;
                    ensure_eq!(state.is_finished(), at.is_shard_end(), "finished at {at}");
                    ensure_eq!(state.checkpoint.as_ref(), Some(&at), "a checkpoint");
                    ensure_eq!(
                        state.holder.as_ref(),
                        Some(&holder),
                        "the holder after a checkpoint"
                    );
                }
            }
            Ok(())
        })
        .await
}

/// Checkpoints of every form outlive a release and the acquisition after it.
pub async fn checkpoints_outlive_a_release(subject: &Subject<'_>) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            for at in every_form() {
                let holder = t.granted(t.a).await?;
                t.checkpointed(t.a, &holder, &at).await?;
                t.release(t.a, &holder).await?;
                let released = LeaseState {
                    checkpoint: Some(at.clone()),
                    epoch: holder.epoch,
                    ..LeaseState::default()
                };
                ensure_eq!(t.read(t.b).await?, released, "the state after a release");

                let next = t.granted(t.b).await?;
                let read = t.read(t.b).await?.checkpoint;
                ensure_eq!(read, Some(at), "the checkpoint for the next holder");
                t.release(t.b, &next).await?;
            }
            Ok(())
        })
        .await
}

/// Checkpoints of every form outlive an expiry and the take-over after it.
pub async fn checkpoints_outlive_an_expiry(subject: &Subject<'_>) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            // All of them expire together, so that a real clock runs for one lease only.
            let mut held = Vec::new();
            for at in every_form() {
                t.key = t.another_key();
                let holder = t.granted(t.a).await?;
                t.checkpointed(t.a, &holder, &at).await?;
                held.push((t.key.clone(), at));
            }
            for (key, at) in &held {
                t.key = key.clone();
                // The first sight of each, for a store that expires leases by observation.
                let read = t.read(t.b).await?.checkpoint;
                ensure_eq!(read.as_ref(), Some(at), "the checkpoint while it is held");
            }
            for (key, at) in &held {
                t.key = key.clone();
                let read = t.expired(t.b).await?.checkpoint;
                ensure_eq!(read.as_ref(), Some(at), "the checkpoint after an expiry");
            }
            for (key, at) in held {
                t.key = key;
                t.granted(t.b).await?;
                let read = t.read(t.b).await?.checkpoint;
                ensure_eq!(read, Some(at), "the checkpoint for the next holder");
            }
            Ok(())
        })
        .await
}

/// The checkpoint that was sent last counts, even where its sequence number is the smaller.
pub async fn no_sequence_numbers_are_compared(subject: &Subject<'_>) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let holder = t.granted(t.a).await?;
            let positions = [
                Checkpoint::at("200"),
                Checkpoint::at("100"),
                Checkpoint::shard_end(),
                Checkpoint::at("50"),
                Checkpoint::at_sub("50", 10),
                Checkpoint::at_sub("50", 9),
                Checkpoint::at_timestamp(UNIX_EPOCH),
            ];
            for at in positions {
                t.checkpointed(t.a, &holder, &at).await?;
                let read = t.read(t.b).await?.checkpoint;
                ensure_eq!(read, Some(at), "the checkpoint sent last");
            }
            Ok(())
        })
        .await
}

/// A checkpoint that lands after one that was sent later is answered `true` and changes nothing.
pub async fn a_checkpoint_that_lands_late_changes_nothing(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let holder = t.granted(t.a).await?;
            let (early, late) = (Checkpoint::at("100"), Checkpoint::at("200"));
            let mut first: Call<'_, bool> = t.a.store.checkpoint(&t.key, &holder, &early);
            let landed = send(&mut first).await;
            t.checkpointed(t.a, &holder, &late).await?;
            let first = match landed {
                Some(answer) => answer,
                None => first.await,
            };
            let first = first.map_err(|error| Violation::failed("checkpoint", error))?;
            ensure!(first, "a checkpoint that lands late is answered true");
            let read = t.read(t.b).await?.checkpoint;
            ensure_eq!(read, Some(late), "after one sent earlier landed late");
            Ok(())
        })
        .await
}

/// A call is sent when it is first polled, not when its future is made: of two, the one polled last
/// counts.
pub async fn a_checkpoint_is_sent_when_it_is_first_polled(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let holder = t.granted(t.a).await?;
            let (made_first, made_last) = (Checkpoint::at("100"), Checkpoint::at("200"));
            let first = t.a.store.checkpoint(&t.key, &holder, &made_first);
            let last = t.a.store.checkpoint(&t.key, &holder, &made_last);
            for call in [last, first] {
                let accepted = call.await;
                let accepted = accepted.map_err(|error| Violation::failed("checkpoint", error))?;
                ensure!(accepted, "checkpoint refused the present holder {holder:?}");
            }
            let read = t.read(t.b).await?.checkpoint;
            ensure_eq!(read, Some(made_first), "the checkpoint polled last");
            Ok(())
        })
        .await
}

/// Many checkpoints under way at once are all answered `true` and end at the one sent last.
pub async fn checkpoints_that_race_end_at_the_one_sent_last(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let holder = t.granted(t.a).await?;
            // The last one sent has neither the greatest nor the smallest number.
            let positions: Vec<Checkpoint> = (0..16_u32)
                .map(|number| Checkpoint::at(((number * 7) % 16).to_string()))
                .collect();
            let mut answers: Vec<Result<bool, LeaseError>> = Vec::new();
            let mut under_way = Vec::new();
            for at in &positions {
                let mut call: Call<'_, bool> = t.a.store.checkpoint(&t.key, &holder, at);
                match send(&mut call).await {
                    Some(answer) => answers.push(answer),
                    None => under_way.push(call),
                }
            }
            answers.extend(join_all(under_way.into_iter().rev()).await);
            for answer in answers {
                let accepted = answer.map_err(|error| Violation::failed("checkpoint", error))?;
                ensure!(accepted, "checkpoint refused the present holder {holder:?}");
            }
            let read = t.read(t.b).await?.checkpoint;
            ensure_eq!(read.as_ref(), positions.last(), "after sixteen that raced");
            Ok(())
        })
        .await
}

/// The first checkpoint of a new acquisition counts, however many the one before has sent.
pub async fn the_order_of_checkpoints_begins_anew_with_each_acquisition(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let first = t.granted(t.a).await?;
            for number in 1..=8 {
                t.checkpointed(t.a, &first, &Checkpoint::at(number.to_string()))
                    .await?;
            }
            t.release(t.a, &first).await?;
            for (party, number) in [(t.b, "9"), (t.a, "10")] {
                let holder = t.granted(party).await?;
                let at = Checkpoint::at(number);
                t.checkpointed(party, &holder, &at).await?;
                let read = t.read(t.b).await?.checkpoint;
                ensure_eq!(read, Some(at), "the first checkpoint of {holder:?}");
                t.release(party, &holder).await?;
            }
            Ok(())
        })
        .await
}

/// A checkpoint renews nothing: a holder that sends only checkpoints loses its lease.
pub async fn a_checkpoint_renews_nothing(subject: &Subject<'_>) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let holder = t.granted(t.a).await?;
            let earliest = t.rely_no_more();
            let give_up = t.give_up();
            let at = Checkpoint::at("1");
            while t.acquire(t.b).await?.is_none() {
                t.checkpoint(t.a, &holder, &at).await?;
                t.wait(
                    give_up,
                    "the lease of a holder that sends only checkpoints to expire",
                )
                .await?;
            }
            ensure!(
                t.subject.now() >= earliest,
                "acquire granted the lease of another before its time was over"
            );
            Ok(())
        })
        .await
}

/// A shard whose checkpoint is its end reads as finished, through its release as well.
pub async fn a_shard_that_was_read_to_its_end_reads_as_finished(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let holder = t.granted(t.a).await?;
            t.checkpointed(t.a, &holder, &Checkpoint::at("1")).await?;
            ensure!(
                !t.read(t.b).await?.is_finished(),
                "a shard reads as finished before its end"
            );
            t.checkpointed(t.a, &holder, &Checkpoint::shard_end())
                .await?;
            t.release(t.a, &holder).await?;
            let finished = LeaseState {
                checkpoint: Some(Checkpoint::shard_end()),
                epoch: holder.epoch,
                ..LeaseState::default()
            };
            ensure_eq!(t.read(t.b).await?, finished, "a finished shard");
            Ok(())
        })
        .await
}
