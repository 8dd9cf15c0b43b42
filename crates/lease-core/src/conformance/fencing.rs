//! What a stale holder can do: nothing.

use super::subject::Subject;
use super::trial::{Party, Trial};
use super::violation::{Violation, ensure, ensure_eq};
use crate::{Checkpoint, Holder, LeaseState, Renewal};

/// Presents a stale holder with every call. Each must be turned down, and the row, apart from the
/// time that is left of it, must stay as it is.
async fn ensure_fenced(
    t: &Trial<'_>,
    by: Party<'_>,
    stale: &Holder,
    whose: &str,
) -> Result<(), Violation> {
    let before = undated(t.read(t.b).await?);
    let renewal = by.store.renew(&t.key, stale, t.subject.ttl).await;
    let renewal = renewal.map_err(|error| Violation::failed("renew", error))?;
    ensure_eq!(renewal, Renewal::Lost, "renew by {whose}, {stale:?}");
    ensure!(
        !t.checkpoint(by, stale, &Checkpoint::at("666")).await?,
        "checkpoint accepted a position from {whose}, {stale:?}"
    );
    t.release(by, stale).await?;
    let after = undated(t.read(t.b).await?);
    ensure_eq!(after, before, "the row after calls by {whose}, {stale:?}");
    Ok(())
}

fn undated(state: LeaseState) -> LeaseState {
    LeaseState {
        expires_in: None,
        ..state
    }
}

/// After another owner has taken over, nothing that the old holder sends changes anything.
pub async fn a_holder_whose_lease_was_taken_over_changes_nothing(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let stale = t.granted(t.a).await?;
            t.checkpointed(t.a, &stale, &Checkpoint::at("1")).await?;
            let holder = t.taken_over(t.b).await?;
            ensure_fenced(t, t.a, &stale, "a holder whose lease was taken over").await?;
            ensure_eq!(
                t.read(t.b).await?.holder,
                Some(holder),
                "the holder after late calls"
            );
            Ok(())
        })
        .await
}

/// After the same owner has acquired the shard again, nothing that it sends with its earlier holder
/// changes anything.
pub async fn an_earlier_acquisition_of_the_same_owner_changes_nothing(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let first = t.granted(t.a).await?;
            t.checkpointed(t.a, &first, &Checkpoint::at("1")).await?;
            t.release(t.a, &first).await?;
            let second = t.granted(t.a).await?;
            ensure_fenced(t, t.a, &first, "an earlier acquisition").await?;

            let third = t.taken_over(t.a).await?;
            ensure_fenced(t, t.a, &first, "an acquisition before the last").await?;
            ensure_fenced(t, t.a, &second, "an acquisition that expired").await?;
            ensure_eq!(
                t.read(t.b).await?.holder,
                Some(third),
                "the holder after late calls"
            );
            Ok(())
        })
        .await
}

/// After its release, nothing that a holder sends changes anything, though nobody else holds the
/// shard.
pub async fn a_holder_that_released_changes_nothing(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let stale = t.granted(t.a).await?;
            t.checkpointed(t.a, &stale, &Checkpoint::at("1")).await?;
            t.release(t.a, &stale).await?;
            ensure_fenced(t, t.a, &stale, "a holder that has released").await?;
            t.granted(t.b).await?;
            Ok(())
        })
        .await
}

/// Owner and epoch must both be those of the present holder.
pub async fn owner_and_epoch_must_both_be_the_present_holders(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let holder = t.granted(t.a).await?;
            t.checkpointed(t.a, &holder, &Checkpoint::at("1")).await?;
            let other_owner = Holder {
                owner: t.b.owner.to_owned(),
                epoch: holder.epoch,
            };
            ensure_fenced(t, t.b, &other_owner, "another owner with the same epoch").await?;
            for epoch in [holder.epoch.saturating_sub(1), holder.epoch + 1] {
                let other_epoch = Holder {
                    owner: holder.owner.clone(),
                    epoch,
                };
                ensure_fenced(t, t.a, &other_epoch, "the owner with another epoch").await?;
            }
            let renewal = t.renew(t.a, &holder).await?;
            ensure_eq!(renewal, Renewal::Held, "a renewal by the present holder");
            Ok(())
        })
        .await
}

/// Whoever presents a holder of a shard that nobody leased holds nothing, and makes no row.
pub async fn a_holder_of_a_shard_that_nobody_leased_changes_nothing(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            for epoch in [0, 1] {
                let nobody = Holder {
                    owner: t.a.owner.to_owned(),
                    epoch,
                };
                ensure_fenced(t, t.a, &nobody, "a holder of a row that does not exist").await?;
            }
            let unknown = LeaseState::default();
            ensure_eq!(t.read(t.b).await?, unknown, "a shard that nobody leased");
            Ok(())
        })
        .await
}
