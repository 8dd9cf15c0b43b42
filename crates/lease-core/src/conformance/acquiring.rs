//! Who is granted a lease, who is refused, and when a lease expires.

use std::time::Duration;

use futures_util::future::{join, join_all};

use super::subject::Subject;
use super::trial::{Party, Trial};
use super::violation::{Violation, ensure, ensure_eq};
use crate::{Checkpoint, Holder, LeaseError, LeaseState, Renewal};

/// A shard that nobody leased is granted, with epoch 1, and reads as held.
pub async fn a_shard_that_nobody_leased_is_granted(subject: &Subject<'_>) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let holder = t.granted(t.a).await?;
            ensure_eq!(holder.epoch, 1, "the epoch of a first acquisition");
            for reader in [t.a, t.b] {
                let state = t.read(reader).await?;
                ensure!(
                    state.live,
                    "a lease reads as expired before its time was over: {state:?}"
                );
                ensure!(
                    state
                        .expires_in
                        .is_some_and(|left| left > Duration::ZERO && left <= t.subject.ttl),
                    "a live lease expires within its ttl, {:?}; got {state:?}",
                    t.subject.ttl
                );
                let expected = LeaseState {
                    holder: Some(holder.clone()),
                    live: true,
                    expires_in: state.expires_in,
                    epoch: 1,
                    ..LeaseState::default()
                };
                ensure_eq!(state, expected, "the state of a held shard");
            }
            Ok(())
        })
        .await
}

/// A live lease is refused to everybody else, to its own owner's name and to a second call of its
/// holder; its holder keeps it.
pub async fn a_live_lease_is_refused_to_others_and_to_its_own_name(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let holder = t.granted(t.a).await?;
            for refused in [t.b, t.twin, t.a] {
                t.refused(refused).await?;
            }
            ensure_eq!(
                t.read(t.b).await?.holder.as_ref(),
                Some(&holder),
                "the holder after refusals"
            );
            let renewal = t.renew(t.a, &holder).await?;
            ensure_eq!(renewal, Renewal::Held, "a renewal after refusals");
            Ok(())
        })
        .await
}

/// Of sixteen that race for a free shard exactly one is granted it.
pub async fn one_of_sixteen_that_race_for_a_free_shard_wins(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let winner = race(t).await?;
            ensure_eq!(winner.epoch, 1, "the epoch of a first acquisition");
            Ok(())
        })
        .await
}

/// Of sixteen that race for an expired lease exactly one is granted it.
pub async fn one_of_sixteen_that_race_for_an_expired_lease_wins(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            t.granted(t.a).await?;
            t.expired(t.b).await?;
            t.expired(t.a).await?;
            let winner = race(t).await?;
            ensure_eq!(winner.epoch, 2, "the epoch of a second acquisition");
            Ok(())
        })
        .await
}

/// Sends sixteen acquisitions at once, half of them through each instance of the store.
async fn race(t: &mut Trial<'_>) -> Result<Holder, Violation> {
    t.rely(t.subject.now(), t.subject.ttl);
    let owners: Vec<String> = (0..16).map(|number| format!("racer-{number}")).collect();
    let racers = owners.iter().enumerate().map(|(number, owner)| {
        let party: Party<'_> = if number % 2 == 0 { t.a } else { t.b };
        party.store.acquire(&t.key, owner, t.subject.ttl)
    });
    let answers: Result<Vec<Option<Holder>>, LeaseError> =
        join_all(racers).await.into_iter().collect();
    let answers = answers.map_err(|error| Violation::failed("acquire", error))?;
    let winners: Vec<Holder> = answers.into_iter().flatten().collect();
    let [winner] = &winners[..] else {
        return Err(Violation::new(format!(
            "of sixteen that race exactly one wins; granted were {winners:?}"
        )));
    };
    let state = t.read(t.b).await?;
    ensure_eq!(
        state.holder.as_ref(),
        Some(winner),
        "the holder after a race"
    );
    Ok(winner.clone())
}

/// A lease that nobody renews expires, not before its time, and reads as its holder's until
/// somebody takes it.
pub async fn a_lease_that_nobody_renews_expires(subject: &Subject<'_>) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let first = t.granted(t.a).await?;
            let expected = LeaseState {
                holder: Some(first),
                epoch: 1,
                ..LeaseState::default()
            };
            ensure_eq!(
                t.expired(t.b).await?,
                expected,
                "the state of an expired lease"
            );
            t.granted(t.b).await?;
            Ok(())
        })
        .await
}

/// A lease that nobody renews is taken over by whoever goes on trying, not before its time.
pub async fn an_expired_lease_is_taken_over(subject: &Subject<'_>) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            t.granted(t.a).await?;
            let second = t.taken_over(t.b).await?;
            ensure_eq!(second.epoch, 2, "the epoch of a second acquisition");
            let state = t.read(t.a).await?;
            ensure_eq!(
                state.holder,
                Some(second),
                "the holder after a take-over, for the old holder"
            );
            ensure!(state.live, "a lease just taken over is live; got {state:?}");
            t.refused(t.a).await?;
            Ok(())
        })
        .await
}

/// A lease that is renewed is live for as long as it is, and then for one lease time.
pub async fn a_renewed_lease_outlives_its_first_ttl(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let holder = t.granted(t.a).await?;
            let enough = t.subject.now() + t.subject.ttl * 2;
            while t.subject.now() < enough {
                t.subject.pass(t.step() * 5).await;
                let renewal = t.renew(t.a, &holder).await?;
                ensure_eq!(renewal, Renewal::Held, "a renewal by the present holder");
                t.refused(t.b).await?;
            }
            t.taken_over(t.b).await?;
            Ok(())
        })
        .await
}

/// A lease past its time that nobody took is still its holder's: it checkpoints, and a renewal
/// makes it live again.
pub async fn an_expired_lease_that_nobody_took_is_still_its_holders(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let holder = t.granted(t.a).await?;
            t.expired(t.b).await?;
            t.checkpointed(t.a, &holder, &Checkpoint::at("1")).await?;
            let renewal = t.renew(t.a, &holder).await?;
            ensure_eq!(
                renewal,
                Renewal::Held,
                "a renewal of an expired lease that nobody took"
            );
            t.refused(t.b).await?;
            let state = t.read(t.b).await?;
            ensure!(state.live, "a renewed lease is live again; got {state:?}");
            ensure_eq!(
                state.holder,
                Some(holder),
                "the holder after a late renewal"
            );
            Ok(())
        })
        .await
}

/// Of a renewal and an acquisition that race for an expired lease exactly one succeeds.
pub async fn a_late_renewal_and_an_acquisition_do_not_both_succeed(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let first = t.granted(t.a).await?;
            t.expired(t.b).await?;
            t.rely(t.subject.now(), t.subject.ttl);
            let (renewal, taken) = join(
                t.a.store.renew(&t.key, &first, t.subject.ttl),
                t.b.store.acquire(&t.key, t.b.owner, t.subject.ttl),
            )
            .await;
            let renewal = renewal.map_err(|error| Violation::failed("renew", error))?;
            let taken = taken.map_err(|error| Violation::failed("acquire", error))?;
            ensure!(
                (renewal == Renewal::Held) == taken.is_none(),
                "exactly one of a renewal and an acquisition gets an expired lease; \
                 got {renewal:?} and {taken:?}"
            );
            let holder = t.read(t.b).await?.holder;
            ensure_eq!(holder, taken.or(Some(first)), "the holder after the race");
            Ok(())
        })
        .await
}

/// A released lease is free at once, and reads as nobody's.
pub async fn a_released_lease_is_free_at_once(subject: &Subject<'_>) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let first = t.granted(t.a).await?;
            t.release(t.a, &first).await?;
            let released = LeaseState {
                epoch: 1,
                ..LeaseState::default()
            };
            ensure_eq!(
                t.read(t.b).await?,
                released,
                "the state of a released shard"
            );
            t.granted(t.b).await?;
            Ok(())
        })
        .await
}

/// Epochs go up by one with every acquisition, whoever acquires, through releases and expiries.
pub async fn epochs_outlive_release_and_expiry(subject: &Subject<'_>) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let mut epochs = Vec::new();
            let first = t.granted(t.a).await?;
            t.release(t.a, &first).await?;
            epochs.push((first.epoch, t.read(t.b).await?.epoch));

            let second = t.granted(t.b).await?;
            epochs.push((second.epoch, t.expired(t.a).await?.epoch));

            let third = t.taken_over(t.a).await?;
            t.release(t.a, &third).await?;
            epochs.push((third.epoch, t.read(t.b).await?.epoch));

            let fourth = t.granted(t.a).await?;
            epochs.push((fourth.epoch, t.read(t.b).await?.epoch));
            ensure_eq!(
                epochs,
                [(1, 1), (2, 2), (3, 3), (4, 4)],
                "the epochs as acquired and as read"
            );
            Ok(())
        })
        .await
}

/// The same shard id on two streams is two leases.
pub async fn the_same_shard_of_two_streams_is_two_leases(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let holder = t.granted(t.a).await?;
            t.checkpointed(t.a, &holder, &Checkpoint::at("1")).await?;

            let elsewhere = t.another_key();
            let first = std::mem::replace(&mut t.key, elsewhere);
            ensure_eq!(first.shard(), t.key.shard(), "the shard of both streams");
            let unknown = LeaseState::default();
            ensure_eq!(t.read(t.b).await?, unknown, "the same shard elsewhere");
            let other = t.granted(t.b).await?;
            ensure_eq!(other.epoch, 1, "the epoch of the same shard elsewhere");
            t.release(t.b, &other).await?;

            t.key = first;
            let state = t.read(t.b).await?;
            ensure_eq!(state.holder, Some(holder), "the holder of the first stream");
            Ok(())
        })
        .await
}

/// An owner without a name and a lease without a time are refused as misconfigured, and change
/// nothing.
pub async fn an_owner_without_a_name_and_a_lease_without_a_time_are_refused(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let store = t.a.store;
            let nameless = store.acquire(&t.key, "", t.subject.ttl).await;
            ensure_misconfigured(&nameless, "acquire for the owner \"\"")?;
            let timeless = store.acquire(&t.key, "a", Duration::ZERO).await;
            ensure_misconfigured(&timeless, "acquire for no time")?;
            let unknown = LeaseState::default();
            ensure_eq!(t.read(t.b).await?, unknown, "after misconfigured calls");

            let holder = t.granted(t.a).await?;
            let timeless = store.renew(&t.key, &holder, Duration::ZERO).await;
            ensure_misconfigured(&timeless, "renew for no time")?;
            if t.subject.hands_over {
                let nameless = t.b.store.ask(&t.key, "").await;
                ensure_misconfigured(&nameless, "ask for the owner \"\"")?;
            }
            let renewal = t.renew(t.a, &holder).await?;
            ensure_eq!(renewal, Renewal::Held, "after misconfigured calls");
            Ok(())
        })
        .await
}

fn ensure_misconfigured<T: std::fmt::Debug>(
    answer: &Result<T, LeaseError>,
    call: &str,
) -> Result<(), Violation> {
    ensure!(
        matches!(answer, Err(LeaseError::Misconfigured { .. })),
        "{call} is LeaseError::Misconfigured; got {answer:?}"
    );
    Ok(())
}
