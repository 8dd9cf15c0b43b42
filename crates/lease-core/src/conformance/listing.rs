//! What a listing sees, and what it clears away.

use super::subject::Subject;
use super::violation::{Violation, ensure, ensure_eq};
use crate::{Checkpoint, LeaseKey, LeaseState};

/// A key that the store has never seen reads as never leased, and reading makes no row.
pub async fn an_unknown_key_reads_as_never_leased(subject: &Subject<'_>) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            for reader in [t.a, t.b, t.a] {
                let state = t.read(reader).await?;
                ensure_eq!(
                    state,
                    LeaseState::default(),
                    "the key {} (if rows of an earlier run are there, give the subject a namespace of its own)",
                    t.key
                );
            }
            Ok(())
        })
        .await
}

/// A read shows every call that was answered before it was sent, through either instance.
pub async fn a_read_shows_what_was_answered_before_it(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            for round in 1..=10_u64 {
                let holder = t.granted(t.a).await?;
                let read = t.read(t.b).await?;
                ensure_eq!(read.holder, Some(holder.clone()), "read after acquire");
                let at = Checkpoint::at(round.to_string());
                t.checkpointed(t.a, &holder, &at).await?;
                let read = t.read(t.b).await?;
                ensure_eq!(read.checkpoint, Some(at), "read after checkpoint");
                t.release(t.a, &holder).await?;
                let read = t.read(t.b).await?;
                ensure_eq!(
                    (read.holder, read.epoch),
                    (None, round),
                    "read after release"
                );
            }
            Ok(())
        })
        .await
}

/// Thousands of keys at once are answered in their order, as `read` would answer each.
pub async fn thousands_of_keys_are_read_in_their_order(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    const KEYS: usize = 3_000;
    const LEASED: usize = 20;

    subject
        .trial(async |t| {
            // 1,009 and 3,000 have no common divisor, so this is every number once, in no order.
            let keys: Vec<LeaseKey> = (0..KEYS)
                .map(|place| format!("shardId-{:012}", place * 1_009 % KEYS))
                .map(|shard| LeaseKey::new(t.key.stream(), shard))
                .collect();
            let mut expected = vec![LeaseState::default(); KEYS];
            for place in (0..LEASED).map(|number| number * (KEYS - 1) / (LEASED - 1)) {
                t.key = keys[place].clone();
                let holder = t.granted(t.a).await?;
                let at = Checkpoint::at(place.to_string());
                t.checkpointed(t.a, &holder, &at).await?;
                expected[place] = LeaseState {
                    checkpoint: Some(at),
                    holder: Some(holder),
                    epoch: 1,
                    ..LeaseState::default()
                };
            }
            let states = t.b.store.read_all(&keys).await;
            let states = states.map_err(|error| Violation::failed("read_all", error))?;
            ensure_eq!(states.len(), KEYS, "how many states read_all answers");
            for ((state, expected), key) in states.into_iter().zip(expected).zip(&keys) {
                // How live the leases are by now depends on how fast the calls were.
                let state = LeaseState {
                    live: false,
                    expires_in: None,
                    ..state
                };
                ensure_eq!(state, expected, "what read_all answers for {key}");
            }
            Ok(())
        })
        .await
}

/// No keys are answered with no states, and a key that is named twice is answered twice.
pub async fn no_keys_and_repeated_keys_are_answered_one_for_one(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let none = t.b.store.read_all(&[]).await;
            let none = none.map_err(|error| Violation::failed("read_all of nothing", error))?;
            ensure_eq!(none, [], "what read_all answers for no keys");

            t.granted(t.a).await?;
            let keys = [t.key.clone(), t.another_key(), t.key.clone()];
            let states = t.b.store.read_all(&keys).await;
            let states =
                states.map_err(|error| Violation::failed("read_all of one key twice", error))?;
            let epochs: Vec<u64> = states.iter().map(|state| state.epoch).collect();
            ensure_eq!(
                epochs,
                [1, 0, 1],
                "the epochs of a key, another, and it again"
            );
            Ok(())
        })
        .await
}

/// The row of a finished shard that nobody holds is cleared away, and a second time as well.
pub async fn a_finished_shard_that_nobody_holds_is_forgotten(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let holder = t.granted(t.a).await?;
            t.checkpointed(t.a, &holder, &Checkpoint::shard_end())
                .await?;
            t.release(t.a, &holder).await?;
            let before = t.read(t.b).await?;
            for _ in 0..2 {
                let forgotten = t.forget(t.b).await?;
                ensure_eq!(
                    forgotten,
                    t.subject.forgets,
                    "forget of a finished shard that nobody holds"
                );
            }
            let state = t.read(t.a).await?;
            if t.subject.forgets {
                ensure_eq!(
                    state.checkpoint,
                    None,
                    "the checkpoint of a forgotten shard"
                );
                ensure_eq!(state.holder, None, "the holder of a forgotten shard");
            } else {
                ensure_eq!(state, before, "a row that the store keeps");
            }
            Ok(())
        })
        .await
}

/// The row of a shard that is held, or is not finished, is not cleared away.
pub async fn a_shard_that_is_held_or_unfinished_is_not_forgotten(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let first = t.granted(t.a).await?;
            ensure!(!t.forget(t.b).await?, "forget cleared away a held shard");
            t.checkpointed(t.a, &first, &Checkpoint::at("1")).await?;
            t.release(t.a, &first).await?;
            ensure!(
                !t.forget(t.b).await?,
                "forget cleared away a shard that is not finished"
            );

            let second = t.granted(t.a).await?;
            t.checkpointed(t.a, &second, &Checkpoint::shard_end())
                .await?;
            ensure!(
                !t.forget(t.b).await?,
                "forget cleared away a finished shard that is held"
            );
            t.expired(t.b).await?;
            ensure!(
                !t.forget(t.b).await?,
                "forget cleared away a finished shard that its holder has not released"
            );
            let expected = LeaseState {
                checkpoint: Some(Checkpoint::shard_end()),
                holder: Some(second),
                epoch: 2,
                ..LeaseState::default()
            };
            ensure_eq!(t.read(t.b).await?, expected, "a row that must stay");
            Ok(())
        })
        .await
}
