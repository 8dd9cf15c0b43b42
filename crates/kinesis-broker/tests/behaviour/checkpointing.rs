//! `KinesisStream::checkpointing`: when settled positions reach the store.

use std::time::Duration;

use kinesis_broker::{Checkpointing, KinesisStream};
use lease_core::SHARD_END;
use tokio::time::{Instant, sleep};

use crate::support::{
    Call, Fleet, Made, STREAM, Trouble, ack_after, from_the_start, shard, until, within,
};

const SECOND: Duration = Duration::from_secs(1);

fn every(interval: Duration) -> KinesisStream {
    from_the_start(STREAM).checkpointing(Checkpointing::Interval(interval))
}

fn writes(fleet: &Fleet) -> Vec<Made> {
    fleet.store.made_on(Call::Checkpoint, &shard(0))
}

#[tokio::test(start_paused = true)]
async fn with_an_interval_the_newest_position_is_written_once_in_each() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..1_000);
    let a = fleet
        .instance("a")
        .streams([every(5 * SECOND)])
        .handler(|_| ack_after(Duration::from_millis(50)))
        .start()
        .await;
    fleet.until_handled(1_000).await;
    let made = writes(&fleet);
    assert!(
        (9..=12).contains(&made.len()),
        "{} in 50 seconds",
        made.len()
    );
    for pair in made.windows(2) {
        assert!(pair[1].at - pair[0].at >= 5 * SECOND);
    }
    let last = fleet
        .sim
        .records(STREAM, &shard(0))
        .pop()
        .unwrap()
        .sequence_number;
    within(6 * SECOND, "the last one is written too", async || {
        (fleet.checkpoint(&shard(0)).await == last).then_some(())
    })
    .await;
    let made = writes(&fleet).len();
    sleep(60 * SECOND).await;
    assert_eq!(
        writes(&fleet).len(),
        made,
        "and then there is nothing to write"
    );
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn with_an_interval_a_slow_store_keeps_no_handler_waiting() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..200);
    let slow = Trouble::AnswersLate(2 * SECOND);
    fleet.store.always_on(Call::Checkpoint, &shard(0), slow);
    let started = Instant::now();
    let a = fleet
        .instance("a")
        .streams([every(SECOND)])
        .handler(|_| ack_after(Duration::from_millis(10)))
        .start()
        .await;
    fleet.until_handled(200).await;
    assert!(started.elapsed() < 3 * SECOND, "{:?}", started.elapsed());
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_writes_the_last_position_without_waiting_for_the_interval() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..10);
    let a = fleet
        .instance("a")
        .streams([every(3_600 * SECOND)])
        .start()
        .await;
    fleet.until_handled(10).await;
    let started = Instant::now();
    a.stop().await;
    assert!(started.elapsed() < SECOND);
    let last = fleet
        .sim
        .records(STREAM, &shard(0))
        .pop()
        .unwrap()
        .sequence_number;
    assert_eq!(fleet.checkpoint(&shard(0)).await, last);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_writes_what_is_settled_though_a_handler_never_ends() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..9);
    let last = fleet.put(&shard(0), 9);
    fleet.put(&shard(0), 10);
    let a = fleet
        .instance("a")
        .streams([every(3_600 * SECOND)])
        .handler(|seen| {
            ack_after(match seen.value {
                10 => 3_600 * SECOND,
                _ => Duration::from_millis(10),
            })
        })
        .start()
        .await;
    until("the last one runs", async || fleet.seen().len() == 11).await;
    assert_ne!(fleet.checkpoint(&shard(0)).await, last);
    a.stop().await;
    assert_eq!(fleet.checkpoint(&shard(0)).await, last);
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_writes_the_last_position_and_nothing_comes_again() {
    let fleet = Fleet::of_shards(2);
    fleet.put_all(&shard(0), 0..50);
    fleet.put_all(&shard(1), 50..100);
    let a = fleet
        .instance("a")
        .streams([every(3_600 * SECOND)])
        .start()
        .await;
    fleet.until_handled(100).await;
    let b = fleet
        .instance("b")
        .streams([every(3_600 * SECOND)])
        .start()
        .await;
    until("b has one", async || {
        let owners = [fleet.owner(&shard(0)).await, fleet.owner(&shard(1)).await];
        owners.contains(&"b".to_owned())
    })
    .await;
    sleep(30 * SECOND).await;
    assert_eq!(fleet.seen().len(), 100);
    a.stop().await;
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_shard_is_written_without_waiting_for_the_interval() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..10);
    let a = fleet
        .instance("a")
        .streams([every(3_600 * SECOND)])
        .start()
        .await;
    fleet.until_handled(10).await;
    let [child, _] = fleet.sim.split_shard(STREAM, &shard(0));
    fleet.put(&child, 10);
    within(5 * SECOND, "it ends, and its child is read", async || {
        (fleet.checkpoint(&shard(0)).await == SHARD_END && fleet.handled().len() == 11)
            .then_some(())
    })
    .await;
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_redelivers_what_was_settled_in_the_last_interval_and_no_more() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..1_000);
    let a = fleet
        .instance("a")
        .streams([every(2 * SECOND)])
        .handler(|_| ack_after(Duration::from_millis(100)))
        .start()
        .await;
    fleet.until_handled(95).await;
    a.kill();
    let handled = fleet.handled().len();
    let b = fleet.instance("b").start().await;
    fleet.until_handled(1_000).await;
    let mut values = fleet.values();
    values.sort_unstable();
    let twice = values.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!((1..=21).contains(&twice), "{twice} of {handled}");
    assert_eq!(
        fleet.handled(),
        (0..1_000).collect::<Vec<_>>(),
        "nothing is lost"
    );
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_is_sent_again_before_the_next_interval() {
    let fleet = Fleet::of_shards(1);
    let put = fleet.put(&shard(0), 0);
    fleet
        .store
        .trouble_on(Call::Checkpoint, &shard(0), Trouble::Fails, 2);
    let a = fleet
        .instance("a")
        .streams([every(3_600 * SECOND)])
        .start()
        .await;
    within(10 * SECOND, "it is written", async || {
        (fleet.checkpoint(&shard(0)).await == put).then_some(())
    })
    .await;
    a.stop().await;
}
