//! `KinesisStream::concurrency`: several records of a shard in handlers at once, and the order of each key.

use std::collections::BTreeMap;
use std::time::Duration;

use kinesis_broker::KinesisStream;
use rstream::HandlerOutcome;
use tokio::time::{Instant, sleep};

use crate::support::{
    Act, Call, Fleet, STREAM, Says, Seen, Trouble, ack, ack_after, from_the_start, say, shard,
    until, within,
};

const SECOND: Duration = Duration::from_secs(1);

fn concurrent(records: usize) -> KinesisStream {
    from_the_start(STREAM).concurrency(records)
}

/// Puts records of these values under the key that each has modulo `keys`.
fn put_keyed(fleet: &Fleet, values: std::ops::Range<u64>, keys: u64) {
    for value in values {
        fleet.put_key(&format!("key-{}", value % keys), value);
    }
}

/// The most handlers that ran at one moment.
fn most_at_once(seen: &[Seen]) -> usize {
    let at = |moment: Instant| {
        let runs =
            |seen: &&Seen| seen.at <= moment && seen.done_at.is_none_or(|done_at| done_at > moment);
        seen.iter().filter(runs).count()
    };
    seen.iter().map(|seen| at(seen.at)).max().unwrap_or(0)
}

/// For each key: its deliveries follow each other, and its values come in their order, each as often as it was
/// retried.
fn assert_ordered_by_key(seen: &[Seen]) {
    let mut by_key = BTreeMap::<_, Vec<&Seen>>::new();
    for seen in seen {
        by_key.entry(&seen.partition_key).or_default().push(seen);
    }
    for (key, seen) in by_key {
        for pair in seen.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            assert!(
                before.done_at.is_some_and(|done| done <= after.at),
                "{key}: two at once"
            );
            assert!(
                before.value <= after.value,
                "{key}: {before:?} before {after:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn as_many_records_are_in_handlers_as_were_asked_for_and_no_more() {
    let fleet = Fleet::of_shards(1);
    put_keyed(&fleet, 0..60, 60);
    let a = fleet
        .instance("a")
        .streams([concurrent(8)])
        .handler(|_| ack_after(SECOND))
        .start()
        .await;
    let started = Instant::now();
    fleet.until_handled(60).await;
    assert_eq!(most_at_once(&fleet.seen()), 8);
    // Sixty seconds of work, eight at a time.
    assert!(started.elapsed() < 10 * SECOND, "{:?}", started.elapsed());
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn unless_it_is_asked_for_one_record_of_a_shard_is_in_a_handler() {
    let fleet = Fleet::of_shards(1);
    put_keyed(&fleet, 0..10, 10);
    let a = fleet
        .instance("a")
        .handler(|_| ack_after(SECOND))
        .start()
        .await;
    fleet.until_handled(10).await;
    assert_eq!(most_at_once(&fleet.seen()), 1);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn records_of_one_key_are_handled_one_after_the_other_in_their_order() {
    let fleet = Fleet::of_shards(1);
    put_keyed(&fleet, 0..90, 5);
    let a = fleet
        .instance("a")
        .streams([concurrent(16)])
        // The earlier ones take longest.
        .handler(|seen| ack_after(Duration::from_millis(1_000 / (1 + seen.value))))
        .start()
        .await;
    fleet.until_handled(90).await;
    assert_eq!(most_at_once(&fleet.seen()), 5, "there are five keys");
    assert_ordered_by_key(&fleet.seen());
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_retried_record_holds_up_its_own_key_alone() {
    let fleet = Fleet::of_shards(1);
    put_keyed(&fleet, 0..40, 4);
    let a = fleet
        .instance("a")
        .streams([concurrent(4)])
        .handler(|seen| match seen.value {
            0 if seen.attempt < 6 => say(HandlerOutcome::retry_after(10 * SECOND)),
            _ => ack(),
        })
        .start()
        .await;
    within(5 * SECOND, "the other keys are handled", async || {
        (fleet
            .handled()
            .iter()
            .filter(|value| **value % 4 != 0)
            .count()
            == 30)
            .then_some(())
    })
    .await;
    let of_its_key = |fleet: &Fleet| {
        fleet
            .handled()
            .iter()
            .filter(|value| **value % 4 == 0)
            .count()
    };
    assert_eq!(of_its_key(&fleet), 1);
    until("its key goes on", async || of_its_key(&fleet) == 10).await;
    assert_ordered_by_key(&fleet.seen());
    let last = fleet
        .sim
        .records(STREAM, &shard(0))
        .pop()
        .unwrap()
        .sequence_number;
    until("all is written", async || {
        fleet.checkpoint(&shard(0)).await == last
    })
    .await;
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_checkpoint_stays_before_the_oldest_unsettled_record() {
    let fleet = Fleet::of_shards(1);
    let oldest = fleet.put(&shard(0), 0);
    fleet.put_all(&shard(0), 1..20);
    let a = fleet
        .instance("a")
        .streams([concurrent(4)])
        .handler(|seen| {
            ack_after(if seen.value == 1 {
                60 * SECOND
            } else {
                Duration::ZERO
            })
        })
        .start()
        .await;
    fleet.until_handled(19).await;
    sleep(10 * SECOND).await;
    assert_eq!(fleet.checkpoint(&shard(0)).await, oldest);
    a.kill();

    let b = fleet.instance("b").start().await;
    within(
        30 * SECOND,
        "what was not settled comes again",
        async || {
            let again: Vec<_> = fleet
                .seen()
                .iter()
                .filter(|seen| seen.owner == "b")
                .map(|seen| seen.value)
                .collect();
            (again == (1..20).collect::<Vec<_>>()).then_some(())
        },
    )
    .await;
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn acknowledgements_that_settle_while_a_write_is_under_way_share_the_next() {
    let fleet = Fleet::of_shards(1);
    put_keyed(&fleet, 0..1_000, 1_000);
    let slow = Trouble::AnswersLate(Duration::from_millis(100));
    fleet.store.always_on(Call::Checkpoint, &shard(0), slow);
    let a = fleet
        .instance("a")
        .streams([concurrent(10)])
        .handler(|_| ack_after(Duration::from_millis(10)))
        .start()
        .await;
    let started = Instant::now();
    fleet.until_handled(1_000).await;
    // A second of work: the store keeps no handler waiting.
    assert!(started.elapsed() < 2 * SECOND, "{:?}", started.elapsed());
    let calls = fleet.store.made_on(Call::Checkpoint, &shard(0)).len();
    assert!(calls <= 20, "{calls}");
    let last = fleet
        .sim
        .records(STREAM, &shard(0))
        .pop()
        .unwrap()
        .sequence_number;
    until("all is written", async || {
        fleet.checkpoint(&shard(0)).await == last
    })
    .await;
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_settles_what_is_in_hand_and_leaves_the_rest() {
    let fleet = Fleet::of_shards(1);
    put_keyed(&fleet, 0..50, 50);
    let a = fleet
        .instance("a")
        .streams([concurrent(4)])
        .handler(|_| ack_after(3 * SECOND))
        .start()
        .await;
    until("four are in hand", async || fleet.seen().len() == 4).await;
    a.stop().await;
    let seen = fleet.seen();
    assert_eq!(seen.len(), 4);
    assert!(seen.iter().all(|seen| seen.done_at.is_some()));
    let b = fleet.instance("b").streams([concurrent(4)]).start().await;
    fleet.until_handled(50).await;
    let mut values = fleet.values();
    values.sort_unstable();
    assert_eq!(values, (0..50).collect::<Vec<_>>(), "nothing twice");
    b.stop().await;
}

/// Two slow records of one key, and two quick ones of another behind them.
fn put_a_gap(fleet: &Fleet) {
    for (key, values) in [("slow", 0..2), ("quick", 2..4)] {
        values.for_each(|value| fleet.put_key(key, value));
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_settles_every_record_that_has_settled_ones_behind_it() {
    let handlers: [fn(&Seen) -> Act; 2] = [
        |seen| ack_after((if seen.value < 2 { 3 } else { 0 }) * SECOND),
        |seen| match seen.value {
            0 if seen.attempt < 3 => say(HandlerOutcome::retry_after(3 * SECOND)),
            _ => ack(),
        },
    ];
    for handler in handlers {
        let fleet = Fleet::of_shards(1);
        put_a_gap(&fleet);
        let a = fleet
            .instance("a")
            .streams([concurrent(2)])
            .handler(handler)
            .start()
            .await;
        until("the quick ones are handled", async || {
            fleet.handled() == [0, 2, 3]
        })
        .await;
        a.stop().await;
        assert_eq!(fleet.handled(), [0, 1, 2, 3]);
        let b = fleet.instance("b").streams([concurrent(2)]).start().await;
        fleet.put(&shard(0), 4);
        until("the next is handled", async || fleet.handled().len() == 5).await;
        let of_b = fleet.seen().into_iter().filter(|seen| seen.owner == "b");
        let of_b: Vec<_> = of_b.map(|seen| seen.value).collect();
        assert_eq!(of_b, [4], "nothing twice");
        b.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_settles_every_record_that_has_settled_ones_behind_it() {
    let fleet = Fleet::of_shards(2);
    // Two records of one key in each shard, of which the first is slow; behind them others of many keys.
    for (value, of) in [(0, 0), (1, 1), (2, 0), (3, 1)] {
        (fleet.sim).put_to_shard(STREAM, &shard(of), "slow", value.to_string());
    }
    put_keyed(&fleet, 4..40, 36);
    let a = fleet
        .instance("a")
        .streams([concurrent(2)])
        .handler(|seen| ack_after((if seen.value < 2 { 8 } else { 0 }) * SECOND))
        .start()
        .await;
    until("the others are handled", async || {
        fleet.handled().len() == 38
    })
    .await;
    let b = fleet.instance("b").streams([concurrent(2)]).start().await;
    until("b has one", async || {
        let owners = [fleet.owner(&shard(0)).await, fleet.owner(&shard(1)).await];
        owners.contains(&"b".to_owned())
    })
    .await;
    sleep(30 * SECOND).await;
    let mut values = fleet.values();
    values.sort_unstable();
    assert_eq!(values, (0..40).collect::<Vec<_>>(), "nothing twice");
    a.stop().await;
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_settles_every_record_in_hand_and_repeats_nothing() {
    let fleet = Fleet::of_shards(2);
    put_keyed(&fleet, 0..400, 40);
    let handler = |seen: &Seen| Act {
        takes: Duration::from_millis(300),
        says: Says::Outcome(if seen.value.is_multiple_of(7) && seen.attempt == 1 {
            HandlerOutcome::retry()
        } else {
            HandlerOutcome::ack()
        }),
    };
    let a = fleet
        .instance("a")
        .streams([concurrent(8)])
        .handler(handler)
        .start()
        .await;
    let b = fleet
        .instance("b")
        .streams([concurrent(8)])
        .handler(handler)
        .start()
        .await;
    let settled = |fleet: &Fleet| {
        let settles = |seen: &&Seen| {
            seen.done_at.is_some() && (!seen.value.is_multiple_of(7) || seen.attempt > 1)
        };
        fleet.seen().iter().filter(settles).count()
    };
    until("all are settled", async || settled(&fleet) >= 400).await;
    assert_eq!(settled(&fleet), 400, "nothing twice");
    assert!(
        fleet.seen().iter().any(|seen| seen.owner == "b"),
        "b had a share"
    );
    assert_ordered_by_key(&fleet.seen());
    a.stop().await;
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn records_that_others_went_past_are_handled_before_the_shard_is_given_up() {
    let fleet = Fleet::of_shards(1);
    // Of two records each one has the hot key, and others go past it.
    for value in 0..60 {
        let key = if value % 2 == 0 {
            "hot".to_owned()
        } else {
            format!("cold-{value}")
        };
        fleet.put_key(&key, value);
    }
    let a = fleet
        .instance("a")
        .streams([concurrent(4)])
        .handler(|_| ack_after(Duration::from_millis(200)))
        .start()
        .await;
    until("some are handled", async || fleet.seen().len() > 12).await;
    a.stop().await;
    let handled = fleet.seen().len();
    assert!(handled < 50, "{handled}: what nobody went past is left");
    let b = fleet.instance("b").streams([concurrent(4)]).start().await;
    until("all are handled", async || fleet.handled().len() == 60).await;
    assert_eq!(fleet.seen().len(), 60, "nothing twice");
    assert_ordered_by_key(&fleet.seen());
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_so_many_records_go_past_one_that_is_never_settled() {
    let fleet = Fleet::of_shards(1);
    put_keyed(&fleet, 0..4_200, 4_200);
    let a = fleet
        .instance("a")
        .streams([concurrent(2)])
        .handler(|seen| match seen.value {
            0 => say(HandlerOutcome::retry_after(3_600 * SECOND)),
            _ => ack(),
        })
        .start()
        .await;
    until("the others go past", async || fleet.seen().len() >= 4_000).await;
    sleep(60 * SECOND).await;
    assert_eq!(fleet.seen().len(), 4_096);
    a.kill();
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_ends_every_record_in_hand_without_effect() {
    let fleet = Fleet::of_shards(1);
    put_keyed(&fleet, 0..30, 30);
    let a = fleet
        .instance("a")
        .streams([concurrent(6)])
        .handler(|_| ack_after(30 * SECOND))
        .start()
        .await;
    until("six are in hand", async || fleet.seen().len() == 6).await;
    fleet.store.partition("a");
    let b = fleet.instance("b").streams([concurrent(6)]).start().await;
    within(40 * SECOND, "b handles all", async || {
        let of_b = fleet.seen().iter().filter(|seen| seen.owner == "b").count();
        (of_b == 30).then_some(())
    })
    .await;
    fleet.store.recover();
    sleep(60 * SECOND).await;
    assert_eq!(
        fleet.seen().iter().filter(|seen| seen.owner == "a").count(),
        6
    );
    let last = fleet
        .sim
        .records(STREAM, &shard(0))
        .pop()
        .unwrap()
        .sequence_number;
    assert_eq!(fleet.checkpoint(&shard(0)).await, last);
    a.kill();
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_order_of_a_key_holds_across_a_split_with_records_in_hand() {
    let fleet = Fleet::of_shards(1);
    put_keyed(&fleet, 0..120, 6);
    let a = fleet
        .instance("a")
        .streams([concurrent(5)])
        .handler(|_| ack_after(Duration::from_millis(200)))
        .start()
        .await;
    until("some are in hand", async || fleet.seen().len() > 20).await;
    fleet.sim.split_shard(STREAM, &shard(0));
    put_keyed(&fleet, 120..240, 6);
    fleet.until_handled(240).await;
    assert_ordered_by_key(&fleet.seen());
    assert_eq!(fleet.seen().len(), 240);
    a.stop().await;
}
