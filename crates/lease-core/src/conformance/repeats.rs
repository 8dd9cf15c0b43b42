//! Calls that are sent twice, and calls whose answer nobody waits for.

use super::subject::Subject;
use super::trial::{Call, Trial, send};
use super::violation::{Violation, ensure, ensure_eq};
use crate::{Checkpoint, Holder, LeaseState, Renewal};

/// Every call that took effect and is sent again changes nothing and answers as it did. (An
/// acquisition that is sent again is refused; another case sees to that.)
pub async fn a_call_sent_twice_answers_as_it_did(subject: &Subject<'_>) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let holder = t.granted(t.a).await?;
            for _ in 0..2 {
                let renewal = t.renew(t.a, &holder).await?;
                ensure_eq!(renewal, Renewal::Held, "each of two renewals");
            }
            let at = Checkpoint::at("1");
            for _ in 0..2 {
                t.checkpointed(t.a, &holder, &at).await?;
                let read = t.read(t.b).await?.checkpoint;
                ensure_eq!(read, Some(at.clone()), "a checkpoint sent twice");
            }
            for _ in 0..2 {
                let asked = t.ask(t.b).await?;
                ensure_eq!(asked, t.subject.hands_over, "each of two asks");
            }
            let renewal = Renewal::Asked {
                by: t.b.owner.to_owned(),
            };
            for _ in 0..2 {
                let came = t.renew(t.a, &holder).await?;
                if t.subject.hands_over {
                    ensure_eq!(came, renewal, "each of two renewals when asked");
                }
            }
            let mut released = Vec::new();
            for _ in 0..2 {
                t.release(t.a, &holder).await?;
                released.push(LeaseState {
                    expires_in: None,
                    ..t.read(t.b).await?
                });
            }
            ensure_eq!(released[1], released[0], "the row after a second release");
            Ok(())
        })
        .await
}

/// An acquisition that is cancelled took the lease or did not: at the latest when that lease has
/// expired, the shard is granted to others.
pub async fn a_cancelled_acquisition_takes_the_lease_or_does_not(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let mut call: Call<'_, Option<Holder>> =
                t.a.store.acquire(&t.key, t.a.owner, t.subject.ttl);
            send(&mut call).await;
            drop(call);

            let next = t.taken_over(t.b).await?;
            ensure!(
                next.epoch == 1 || next.epoch == 2,
                "the epoch after a cancelled acquisition is 1 or 2; got {next:?}"
            );
            let renewal = t.renew(t.b, &next).await?;
            ensure_eq!(renewal, Renewal::Held, "the first renewal afterwards");
            Ok(())
        })
        .await
}

/// A checkpoint that is cancelled takes effect whole or not at all, and never after one that was
/// sent later.
pub async fn a_cancelled_checkpoint_never_undoes_a_later_one(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let holder = t.granted(t.a).await?;
            let (cancelled, later) = (Checkpoint::at("100"), Checkpoint::at("200"));
            cancel_checkpoint(t, &holder, &cancelled).await;
            let read = t.read(t.b).await?.checkpoint;
            ensure!(
                read.is_none() || read.as_ref() == Some(&cancelled),
                "a cancelled checkpoint takes effect or does not; got {read:?}"
            );
            cancel_checkpoint(t, &holder, &cancelled).await;
            t.checkpointed(t.a, &holder, &later).await?;
            // Time for what was cancelled to land, if the store lets it.
            t.subject.pass(t.step()).await;
            let read = t.read(t.b).await?.checkpoint;
            ensure_eq!(read, Some(later), "after a cancelled checkpoint");
            Ok(())
        })
        .await
}

async fn cancel_checkpoint(t: &Trial<'_>, holder: &Holder, at: &Checkpoint) {
    let mut call: Call<'_, bool> = t.a.store.checkpoint(&t.key, holder, at);
    send(&mut call).await;
}

/// A release that is cancelled can be sent again, and then has taken effect.
pub async fn a_cancelled_release_can_be_sent_again(subject: &Subject<'_>) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let holder = t.granted(t.a).await?;
            t.checkpointed(t.a, &holder, &Checkpoint::at("1")).await?;
            let mut call: Call<'_, ()> = t.a.store.release(&t.key, &holder);
            send(&mut call).await;
            drop(call);

            t.release(t.a, &holder).await?;
            let released = LeaseState {
                checkpoint: Some(Checkpoint::at("1")),
                epoch: 1,
                ..LeaseState::default()
            };
            ensure_eq!(t.read(t.b).await?, released, "after a release sent again");
            t.granted(t.b).await?;
            Ok(())
        })
        .await
}
