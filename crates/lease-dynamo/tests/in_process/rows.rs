//! What becomes of rows that are deleted by hand, begun anew, cleared away, or damaged in ways that no condition
//! can tell.

use std::time::{Duration, UNIX_EPOCH};

use lease_core::{Checkpoint, Holder, LeaseError, LeaseKey, LeaseState, LeaseStore, Renewal};
use serde_json::json;
use tokio::time::advance;

use crate::fake::{Fake, Refusals};

const TTL: Duration = Duration::from_secs(10);

fn fake() -> Fake {
    Fake::new(Refusals::WithItem)
}

fn key() -> LeaseKey {
    LeaseKey::new("inventory", "shardId-000000000000")
}

async fn acquired(store: &dyn LeaseStore, owner: &str) -> Option<Holder> {
    store.acquire(&key(), owner, TTL).await.unwrap()
}

async fn renewed(store: &dyn LeaseStore, holder: &Holder) -> Renewal {
    store.renew(&key(), holder, TTL).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_slept_through_a_take_over_and_a_deletion_never_has_the_epoch_of_the_present_one()
 {
    let fake = fake();
    let (asleep, other) = (fake.store(), fake.store());
    let first = acquired(&asleep, "a").await.unwrap();
    other.read(&key()).await.unwrap();
    advance(TTL).await;
    let second = acquired(&other, "b").await.unwrap();
    assert_eq!((first.epoch, second.epoch), (1, 2));
    fake.delete(&key());

    assert_eq!(renewed(&asleep, &first).await, Renewal::Lost);
    assert_eq!(acquired(&asleep, "a").await, None);

    // The present holder goes on at once.
    assert_eq!(renewed(&other, &second).await, Renewal::Lost);
    let third = acquired(&other, "b").await.unwrap();
    assert_eq!(third.epoch, 3);
    advance(TTL - Duration::from_nanos(1)).await;
    assert_eq!(acquired(&asleep, "a").await, None);
    assert_eq!(renewed(&other, &third).await, Renewal::Held);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_slept_has_a_row_that_vanished_after_a_lease() {
    let fake = fake();
    let store = fake.store();
    acquired(&store, "a").await.unwrap();
    advance(TTL).await;
    fake.delete(&key());
    assert_eq!(acquired(&store, "a").await, None);
    advance(TTL).await;
    assert_eq!(acquired(&store, "a").await.unwrap().epoch, 2);
}

#[tokio::test(start_paused = true)]
async fn of_two_processes_of_one_name_the_one_whose_row_was_begun_anew_is_refused() {
    let fake = fake();
    let (first, second) = (fake.store(), fake.store());
    let lost = acquired(&first, "a").await.unwrap();
    fake.delete(&key());
    let held = acquired(&second, "a").await.unwrap();
    assert_eq!(lost, held, "owner and epoch tell them not apart");

    assert_eq!(renewed(&first, &lost).await, Renewal::Lost);
    let at = Checkpoint::at("666");
    assert!(!first.checkpoint(&key(), &lost, &at).await.unwrap());
    first.release(&key(), &lost).await.unwrap();

    assert_eq!(renewed(&second, &held).await, Renewal::Held);
    let state = second.read(&key()).await.unwrap();
    assert_eq!((state.holder, state.checkpoint), (Some(held), None));
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_not_taken_over_for_what_was_seen_of_the_row_before_it_was_begun_anew() {
    let fake = fake();
    let (first, second, observer) = (fake.store(), fake.store(), fake.store());
    acquired(&first, "a").await.unwrap();
    observer.read(&key()).await.unwrap();
    fake.delete(&key());
    advance(TTL).await;
    acquired(&second, "a").await.unwrap();

    assert_eq!(acquired(&observer, "b").await, None);
    let state = observer.read(&key()).await.unwrap();
    assert_eq!((state.live, state.expires_in), (true, Some(TTL)));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_seen_to_expire_is_taken_and_not_asked_for() {
    let fake = fake();
    let (holders, observer) = (fake.store(), fake.store());
    let holder = acquired(&holders, "a").await.unwrap();
    observer.read(&key()).await.unwrap();
    advance(TTL - Duration::from_nanos(1)).await;
    assert!(observer.ask(&key(), "b").await.unwrap(), "live");
    advance(Duration::from_nanos(1)).await;
    assert!(!observer.ask(&key(), "b").await.unwrap(), "expired");

    // Renewed since it was last seen, it is live.
    assert!(matches!(
        renewed(&holders, &holder).await,
        Renewal::Asked { .. }
    ));
    assert!(observer.ask(&key(), "b").await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_finished_row_that_was_cleared_away_by_oneself_reads_as_never_leased() {
    let fake = fake();
    let (holders, clearing) = (fake.store(), fake.store());
    let holder = acquired(&holders, "a").await.unwrap();
    // The last that it sees of the row is a live lease of an unfinished shard.
    assert!(clearing.read(&key()).await.unwrap().live);
    let end = Checkpoint::shard_end();
    assert!(holders.checkpoint(&key(), &holder, &end).await.unwrap());
    holders.release(&key(), &holder).await.unwrap();

    for _ in 0..2 {
        assert!(clearing.forget(&key()).await.unwrap());
        let state = clearing.read(&key()).await.unwrap();
        assert_eq!(state, LeaseState::default());
    }
    assert!(acquired(&clearing, "b").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_row_that_somebody_else_cleared_away_may_be_anybodys() {
    let fake = fake();
    let (holders, observer) = (fake.store(), fake.store());
    acquired(&holders, "a").await.unwrap();
    observer.read(&key()).await.unwrap();
    fake.delete(&key());
    // There was nothing to delete, so nothing was learned of it.
    assert!(observer.forget(&key()).await.unwrap());
    assert!(observer.read(&key()).await.unwrap().live);
}

#[tokio::test(start_paused = true)]
async fn what_no_condition_can_tell_is_told_all_the_same() {
    let damages = [
        ("counter", json!({"N": "1.5"})),
        ("ask_lapses", json!({"N": "4.5"})),
        ("cp_no", json!({"N": "0.5"})),
        ("checkpoint", json!({"S": "42nd"})),
        ("checkpoint", json!({"S": "42:"})),
        ("checkpoint", json!({"S": "42:07"})),
        (
            "checkpoint",
            json!({"S": "AT_TIMESTAMP:2026-01-31T12:00:00Z"}),
        ),
    ];
    for (name, value) in damages {
        let fake = fake();
        let store = fake.store();
        let holder = acquired(&store, "a").await.unwrap();
        assert!(store.ask(&key(), "b").await.unwrap());
        fake.edit(&key(), |item| {
            item.insert(name.to_owned(), value.clone());
        });
        let before = fake.item(&key()).unwrap();
        let read = store.read(&key()).await.unwrap_err();
        assert_eq!(fake.item(&key()).unwrap(), before);
        assert!(read.to_string().contains("left as it is"), "{read}");
        let renewal = store.renew(&key(), &holder, TTL).await.unwrap_err();
        assert!(renewal.to_string().contains("it was written"), "{renewal}");
        for error in [read, renewal] {
            assert!(matches!(error, LeaseError::Corrupt { .. }), "{error:?}");
            let text = error.to_string();
            for part in ["table leases", &key().to_string(), name] {
                assert!(text.contains(part), "{part} in {text}");
            }
        }
        // A renewal adds to the counter, and leaves the rest.
        if name != "counter" {
            assert_eq!(fake.item(&key()).unwrap()[name], value);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_position_and_every_lease_time_leaves_an_item_that_can_be_written() {
    let fake = fake();
    let store = fake.store();
    let second = Duration::from_secs(1);
    let positions = [
        Checkpoint::at("0"),
        Checkpoint::at("9".repeat(128)),
        Checkpoint::at_sub("0", 0),
        Checkpoint::at_sub("9".repeat(128), u64::MAX),
        Checkpoint::at_timestamp(UNIX_EPOCH),
        Checkpoint::at_timestamp(UNIX_EPOCH - second / 2),
        Checkpoint::at_timestamp(UNIX_EPOCH + second * u32::MAX),
        Checkpoint::shard_end(),
    ];
    for ttl in [Duration::from_nanos(1), TTL, Duration::MAX] {
        for at in &positions {
            let holder = store.acquire(&key(), "a", ttl).await.unwrap().unwrap();
            assert!(store.checkpoint(&key(), &holder, at).await.unwrap());
            let renewal = store.renew(&key(), &holder, ttl).await.unwrap();
            assert_eq!(renewal, Renewal::Held, "{at} {ttl:?}");
            store.release(&key(), &holder).await.unwrap();
            let state = store.read(&key()).await.unwrap();
            assert_eq!((state.holder, state.checkpoint.as_ref()), (None, Some(at)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_could_not_be_read_back_is_not_written() {
    let fake = fake();
    let store = fake.store();
    let holder = acquired(&store, "a").await.unwrap();
    let before = fake.item(&key());
    for text in ["", "LATEST", "42:x"] {
        let at = Checkpoint::at(text);
        let error = store.checkpoint(&key(), &holder, &at).await.unwrap_err();
        assert!(
            matches!(error, LeaseError::Misconfigured { .. }),
            "{error:?}"
        );
        for part in [format!("{text:?}"), key().to_string()] {
            assert!(error.to_string().contains(&part), "{part} in {error}");
        }
    }
    assert_eq!(fake.item(&key()), before);
}
