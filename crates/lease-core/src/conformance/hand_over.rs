//! Asking for a lease: who may, how the holder learns of it, and for whom a released shard waits.
//!
//! A store that hands nothing over is asked in the same situations, and must answer no.

use futures_util::future::join_all;

use super::subject::Subject;
use super::trial::{Party, Trial};
use super::violation::{Violation, ensure, ensure_eq};
use crate::{Checkpoint, Holder, Renewal};

/// `a` holds the lease and `asker` has asked for it. `None` where the store hands nothing over,
/// which it has then shown.
async fn asked(t: &mut Trial<'_>, asker: Party<'_>) -> Result<Option<Holder>, Violation> {
    let holder = t.granted(t.a).await?;
    if t.subject.hands_over {
        ensure!(
            t.ask(asker).await?,
            "ask refused {:?} a live lease that nobody asks for",
            asker.owner
        );
        return Ok(Some(holder));
    }
    ensure!(
        !t.ask(asker).await?,
        "ask granted something in a store that hands nothing over"
    );
    let renewal = t.renew(t.a, &holder).await?;
    ensure_eq!(renewal, Renewal::Held, "a renewal after a refused ask");
    Ok(None)
}

fn asked_by(party: Party<'_>) -> Renewal {
    Renewal::Asked {
        by: party.owner.to_owned(),
    }
}

/// The holder learns of an ask from its next renewal, everybody else from reading, and keeps the
/// lease.
pub async fn an_ask_reaches_the_holder_with_its_next_renewal(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let Some(holder) = asked(t, t.b).await? else {
                return Ok(());
            };
            let renewal = t.renew(t.a, &holder).await?;
            ensure_eq!(renewal, asked_by(t.b), "the first renewal after an ask");
            for reader in [t.a, t.c] {
                let state = t.read(reader).await?;
                ensure_eq!(state.asked_by.as_deref(), Some(t.b.owner), "who asks");
                ensure_eq!(
                    state.holder.as_ref(),
                    Some(&holder),
                    "the holder when asked"
                );
                ensure!(state.live, "an ask takes no lease; got {state:?}");
            }
            for refused in [t.b, t.c] {
                t.refused(refused).await?;
            }
            Ok(())
        })
        .await
}

/// One asks at a time: others are refused, and the asker may ask again.
pub async fn one_asks_at_a_time(subject: &Subject<'_>) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let Some(holder) = asked(t, t.b).await? else {
                return Ok(());
            };
            ensure!(
                !t.ask(t.c).await?,
                "ask granted a lease that another asks for"
            );
            ensure!(t.ask(t.b).await?, "ask refused the asker to ask again");
            let renewal = t.renew(t.a, &holder).await?;
            ensure_eq!(renewal, asked_by(t.b), "a renewal after two asked");
            Ok(())
        })
        .await
}

/// Of sixteen that race to ask exactly one becomes the asker.
pub async fn one_of_sixteen_that_race_to_ask_wins(subject: &Subject<'_>) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let holder = t.granted(t.a).await?;
            let owners: Vec<String> = (0..16).map(|number| format!("asker-{number}")).collect();
            let asks = owners.iter().map(|owner| t.b.store.ask(&t.key, owner));
            let mut askers = Vec::new();
            for (owner, answer) in owners.iter().zip(join_all(asks).await) {
                if answer.map_err(|error| Violation::failed("ask", error))? {
                    askers.push(owner.clone());
                }
            }
            let renewal = t.renew(t.a, &holder).await?;
            if t.subject.hands_over {
                ensure_eq!(askers.len(), 1, "how many of sixteen become askers");
                let by = askers.remove(0);
                ensure_eq!(renewal, Renewal::Asked { by }, "a renewal after the race");
            } else {
                ensure_eq!(askers.len(), 0, "askers where nothing is handed over");
                ensure_eq!(renewal, Renewal::Held, "a renewal after the race");
            }
            Ok(())
        })
        .await
}

/// What nobody else holds is not asked for: an unknown shard, a released one, one's own, a finished
/// one.
pub async fn only_what_another_holds_is_asked_for(subject: &Subject<'_>) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            ensure!(!t.ask(t.b).await?, "ask granted a shard that nobody leased");
            let first = t.granted(t.a).await?;
            ensure!(!t.ask(t.a).await?, "ask granted an owner its own lease");
            t.release(t.a, &first).await?;
            ensure!(!t.ask(t.b).await?, "ask granted a released shard");

            let second = t.granted(t.a).await?;
            t.checkpointed(t.a, &second, &Checkpoint::shard_end())
                .await?;
            ensure!(!t.ask(t.b).await?, "ask granted a finished shard");
            let renewal = t.renew(t.a, &second).await?;
            ensure_eq!(renewal, Renewal::Held, "a renewal after refused asks");
            ensure_eq!(t.read(t.b).await?.asked_by, None, "the asker when refused");
            Ok(())
        })
        .await
}

/// An ask that its asker does not make again lapses; then another may ask, and a release reserves
/// nothing for the first.
pub async fn an_ask_that_is_not_made_again_lapses(subject: &Subject<'_>) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let Some(holder) = asked(t, t.b).await? else {
                return Ok(());
            };
            lapsed(t, &holder).await?;
            ensure_eq!(t.read(t.c).await?.asked_by, None, "who asks after a lapse");
            ensure!(
                t.ask(t.c).await?,
                "ask refused a lease whose ask has lapsed"
            );
            let renewal = t.renew(t.a, &holder).await?;
            ensure_eq!(renewal, asked_by(t.c), "a renewal after another asked");

            lapsed(t, &holder).await?;
            t.release(t.a, &holder).await?;
            let reserved = t.read(t.b).await?.asked_by;
            ensure_eq!(reserved, None, "the reservation of an ask that has lapsed");
            t.granted(t.b).await?;
            Ok(())
        })
        .await
}

/// Renews until no renewal speaks of an ask any more.
async fn lapsed(t: &mut Trial<'_>, holder: &Holder) -> Result<(), Violation> {
    let give_up = t.give_up();
    loop {
        match t.renew(t.a, holder).await? {
            Renewal::Held => return Ok(()),
            Renewal::Asked { .. } => t.wait(give_up, "an ask to lapse").await?,
            Renewal::Lost => {
                return Err(Violation::new(format!(
                    "renew answered Lost to the present holder {holder:?}, which was only asked"
                )));
            }
        }
    }
}

/// An ask that is made again and again stands for as long as it is.
pub async fn an_ask_that_is_made_again_stands(subject: &Subject<'_>) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let Some(holder) = asked(t, t.b).await? else {
                return Ok(());
            };
            let enough = t.subject.now() + t.subject.ttl * 2;
            while t.subject.now() < enough {
                t.subject.pass(t.step() * 5).await;
                ensure!(t.ask(t.b).await?, "ask refused the asker to ask again");
                let renewal = t.renew(t.a, &holder).await?;
                ensure_eq!(renewal, asked_by(t.b), "a renewal while the asker asks");
            }
            Ok(())
        })
        .await
}

/// A released shard that was asked for is reserved: granted to its asker, refused to everybody else,
/// its last holder included. A release sent again changes nothing of that.
pub async fn a_release_reserves_the_shard_for_its_asker(
    subject: &Subject<'_>,
) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let Some(first) = asked(t, t.b).await? else {
                return Ok(());
            };
            let sent = t.subject.now();
            t.release(t.a, &first).await?;
            t.rely(sent, t.subject.ttl / 2);
            t.release(t.a, &first).await?;

            let state = t.read(t.c).await?;
            ensure_eq!(state.holder, None, "the holder of a reserved shard");
            ensure!(!state.live, "a reserved shard is nobody's; got {state:?}");
            ensure_eq!(state.reserved_for(), Some(t.b.owner), "the reservation");
            ensure!(
                state
                    .expires_in
                    .is_some_and(|left| left <= t.subject.ttl / 2),
                "a reservation lasts half a lease, {:?}; got {state:?}",
                t.subject.ttl / 2
            );
            for refused in [t.c, t.a] {
                t.refused(refused).await?;
            }
            ensure!(!t.ask(t.c).await?, "ask granted a reserved shard");

            let second = t.granted(t.b).await?;
            ensure_eq!(second.epoch, 2, "the epoch of the asker's lease");
            t.release(t.a, &first).await?;
            let renewal = t.renew(t.b, &second).await?;
            ensure_eq!(renewal, Renewal::Held, "the asker's first renewal");
            ensure_eq!(t.read(t.c).await?.asked_by, None, "who asks the asker");
            Ok(())
        })
        .await
}

/// A reservation that its asker does not use runs out, not before half a lease time.
pub async fn a_reservation_runs_out(subject: &Subject<'_>) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            let Some(first) = asked(t, t.b).await? else {
                return Ok(());
            };
            let sent = t.subject.now();
            t.release(t.a, &first).await?;
            t.rely(sent, t.subject.ttl / 2);
            let second = t.taken_over(t.c).await?;
            ensure_eq!(second.epoch, 2, "the epoch after a reservation ran out");
            let renewal = t.renew(t.c, &second).await?;
            ensure_eq!(renewal, Renewal::Held, "the first renewal afterwards");
            Ok(())
        })
        .await
}

/// An asker whose holder died has no right of its own: the lease expires and is anybody's, and the
/// ask ends with it.
pub async fn a_take_over_ends_the_ask(subject: &Subject<'_>) -> Result<(), Violation> {
    subject
        .trial(async |t| {
            if asked(t, t.b).await?.is_none() {
                return Ok(());
            }
            let second = t.taken_over(t.c).await?;
            let renewal = t.renew(t.c, &second).await?;
            ensure_eq!(
                renewal,
                Renewal::Held,
                "the first renewal after a take-over"
            );
            ensure_eq!(t.read(t.b).await?.asked_by, None, "who asks afterwards");
            ensure!(
                t.ask(t.b).await?,
                "ask refused a lease that nobody asks for"
            );
            Ok(())
        })
        .await
}
