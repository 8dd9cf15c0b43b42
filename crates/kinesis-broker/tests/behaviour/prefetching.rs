//! Reading ahead: the next read is made while the handler works, and what is held has bounds.

use std::time::Duration;

use kinesis_broker::Prefetch;
use kinesis_sim::{Fault, Operation};
use tokio::time::{Instant, sleep};

use crate::support::{Fleet, STREAM, ack_after, from_the_start, shard, until, within};

const SECOND: Duration = Duration::from_secs(1);

fn reads(fleet: &Fleet) -> u64 {
    fleet.sim.calls_of(Operation::GetRecords, &shard(0))
}

#[tokio::test(start_paused = true)]
async fn the_next_records_are_there_when_the_handler_is_done_with_the_last() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 0);
    let a = fleet
        .instance("a")
        .handler(|_| ack_after(10 * SECOND))
        .start()
        .await;
    until("it is given", async || fleet.seen().len() == 1).await;
    fleet.put(&shard(0), 1);
    fleet.until_handled(2).await;
    let seen = fleet.seen();
    assert_eq!(
        Some(seen[1].at),
        seen[0].done_at,
        "without a pause for reading"
    );
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_handler_is_read_ahead_of_no_further_than_was_said() {
    let fleet = Fleet::of_shards(1);
    let stream = from_the_start(STREAM).prefetch(Prefetch::default().records(5));
    let a = fleet
        .instance("a")
        .streams([stream])
        .handler(|_| ack_after(60 * SECOND))
        .start()
        .await;
    for value in 0..20 {
        fleet.put(&shard(0), value);
        sleep(2 * SECOND).await;
    }
    let before = reads(&fleet);
    sleep(15 * SECOND).await;
    assert_eq!(
        reads(&fleet),
        before,
        "five are held beside the one in hand"
    );
    within(400 * SECOND, "it is read on later", async || {
        (reads(&fleet) > before).then_some(())
    })
    .await;
    a.kill();
}

#[tokio::test(start_paused = true)]
async fn a_shard_whose_handler_hangs_keeps_no_other_from_being_read() {
    let fleet = Fleet::of_shards(2);
    fleet.put_all(&shard(0), 0..100);
    let stream = from_the_start(STREAM).prefetch(Prefetch::default().total_bytes(50));
    let a = fleet
        .instance("a")
        .streams([stream])
        .handler(|seen| {
            ack_after(if seen.value < 100 {
                3_600 * SECOND
            } else {
                Duration::ZERO
            })
        })
        .start()
        .await;
    until("it hangs", async || fleet.seen().len() == 1).await;
    fleet.put_all(&shard(1), 100..400);
    within(20 * SECOND, "the other shard is read", async || {
        (fleet.seen_of(&shard(1)).len() == 300).then_some(())
    })
    .await;
    a.kill();
}

#[tokio::test(start_paused = true)]
async fn what_was_read_ahead_is_handed_over_before_a_lost_iterator_matters() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..10);
    let a = fleet
        .instance("a")
        .handler(|_| ack_after(SECOND))
        .start()
        .await;
    until("it is given", async || fleet.seen().len() == 2).await;
    fleet
        .sim
        .inject(Fault::expired_iterator().on(Operation::GetRecords).times(2));
    fleet.put_all(&shard(0), 10..20);
    fleet.until_handled(20).await;
    assert_eq!(fleet.values(), (0..20).collect::<Vec<_>>());
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_ends_while_records_are_held_ends_once_they_are_settled() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..10);
    let a = fleet
        .instance("a")
        .handler(|_| ack_after(5 * SECOND))
        .start()
        .await;
    until("it is given", async || fleet.seen().len() == 1).await;
    let [child, _] = fleet.sim.split_shard(STREAM, &shard(0));
    fleet.put(&child, 10);
    let started = Instant::now();
    fleet.until_handled(11).await;
    assert!(started.elapsed() < 60 * SECOND);
    let seen = fleet.seen();
    assert_eq!(seen[10].shard, child);
    assert!(
        seen[9]
            .done_at
            .is_some_and(|done_at| done_at <= seen[10].at)
    );
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_declined_hand_over_goes_on_with_what_was_read_ahead() {
    let fleet = Fleet::of_shards(2);
    fleet.put_all(&shard(0), 0..5);
    fleet.put_all(&shard(1), 5..10);
    let a = fleet
        .instance("a")
        .handler(|_| ack_after(25 * SECOND))
        .start()
        .await;
    let b = fleet.instance("b").start().await;
    within(400 * SECOND, "all are handled", async || {
        (fleet.handled().len() == 10).then_some(())
    })
    .await;
    assert_eq!(fleet.seen().len(), 10, "nothing twice");
    a.stop().await;
    b.stop().await;
}
