//! Rule 6: a reader that stops settles, has its checkpoint accepted, and then releases, renewing meanwhile.

use std::time::Duration;

use kinesis_sim::Operation;
use rstream::HandlerOutcome;
use tokio::time::{Instant, sleep};

use crate::support::{Call, Fleet, Outcome, Trouble, ack, ack_after, say, shard, until};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_shutdown_settles_what_is_in_flight_and_writes_it_before_it_releases() {
    let fleet = Fleet::of_shards(3);
    for n in 0..3 {
        fleet.put_all(&shard(n), 0..5);
    }
    let instance = fleet
        .instance("a")
        .handler(|_| ack_after(20 * SECOND))
        .start()
        .await;
    until("all three run", async || fleet.seen().len() == 3).await;
    let stopped = Instant::now();
    instance.stop().await;

    let seen = fleet.seen();
    assert_eq!(seen.len(), 3, "nothing more is handed over: {seen:?}");
    for seen in seen {
        let settled = seen.done_at.expect("it was settled");
        assert!(settled > stopped + 15 * SECOND);
        let state = fleet.state(&seen.shard).await;
        assert_eq!(state.checkpoint.unwrap().to_string(), seen.sequence_number);
        assert_eq!(state.holder, None);
        let written = fleet.store.made_on(Call::Checkpoint, &seen.shard);
        let released = fleet.store.made_on(Call::Release, &seen.shard);
        assert!(written.last().unwrap().at <= released[0].at);
        assert!(settled <= released[0].at && released[0].at <= settled + SECOND);
        let renewed = fleet.store.made_on(Call::Renew, &seen.shard);
        assert!(renewed.iter().filter(|made| made.at > stopped).count() >= 5);
    }
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_fails_during_a_shutdown_is_sent_until_it_is_accepted() {
    for trouble in [Trouble::Fails, Trouble::Throttles, Trouble::Hangs] {
        let fleet = Fleet::of_shards(1);
        fleet.put_all(&shard(0), 0..2);
        let instance = fleet
            .instance("a")
            .handler(|_| ack_after(SECOND))
            .start()
            .await;
        until("it runs", async || fleet.seen().len() == 1).await;
        fleet.store.trouble(Call::Checkpoint, trouble, 4);
        instance.stop().await;
        let seen = fleet.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert_eq!(fleet.checkpoint(&shard(0)).await, seen[0].sequence_number);
        assert_eq!(fleet.state(&shard(0)).await.holder, None);
        let written = fleet.store.made_of(Call::Checkpoint);
        assert_eq!(written.len(), 5);
        assert_eq!(written[4].outcome, Outcome::Yes);
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_is_tried_again() {
    let fleet = Fleet::of_shards(1);
    let instance = fleet.instance("a").start().await;
    fleet.store.trouble(Call::Release, Trouble::Fails, 1);
    instance.stop().await;
    assert_eq!(fleet.state(&shard(0)).await.holder, None);
}

#[tokio::test(start_paused = true)]
async fn handlers_that_run_past_the_shutdown_limit_are_dropped_and_their_shards_released_unsettled()
{
    let fleet = Fleet::of_shards(2);
    fleet.put_all(&shard(0), 0..3);
    fleet.put_all(&shard(1), 10..11);
    let instance = fleet
        .instance("a")
        .handler(|seen| match seen.value {
            1 => ack_after(600 * SECOND),
            _ => ack(),
        })
        .configure(|broker| broker.shutdown_timeout(7 * SECOND))
        .start()
        .await;
    until("the slow one runs", async || fleet.seen().len() == 3).await;
    let errors = instance.reported();
    let stopped = Instant::now();
    instance.stop().await;
    assert!((7 * SECOND..8 * SECOND).contains(&stopped.elapsed()));

    let errors = errors.lock().unwrap().clone();
    let unsettled: Vec<_> = errors.iter().filter(|e| e.kind == "Unsettled").collect();
    assert_eq!(unsettled.len(), 1, "{errors:?}");
    assert!(unsettled[0].text.contains(&shard(0)), "{unsettled:?}");
    let slow = fleet.seen().into_iter().find(|seen| seen.value == 1);
    assert_eq!(slow.unwrap().done_at, None);
    for n in 0..2 {
        assert_eq!(fleet.state(&shard(n)).await.holder, None);
    }

    // It is handed over again, and so is nothing else.
    let next = fleet.instance("b").start().await;
    fleet.until_handled(4).await;
    assert_eq!(fleet.repeated(), [1]);
    next.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_the_wait_for_a_retry_and_leaves_its_record_unsettled() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..3);
    let instance = fleet
        .instance("a")
        .handler(|seen| match seen.value {
            1 => say(HandlerOutcome::retry_after(600 * SECOND)),
            _ => ack(),
        })
        .start()
        .await;
    until("it waits", async || fleet.seen().len() == 2).await;
    let stopped = Instant::now();
    instance.stop().await;
    assert!(stopped.elapsed() < SECOND);
    let first = fleet.seen()[0].sequence_number.clone();
    assert_eq!(fleet.checkpoint(&shard(0)).await, first);
    assert_eq!(fleet.state(&shard(0)).await.holder, None);
}

#[tokio::test(start_paused = true)]
async fn after_a_shutdown_nothing_is_read_and_every_lease_is_released() {
    let fleet = Fleet::of_shards(8);
    let mut put = 0;
    let instances = [
        fleet.instance("a").start().await,
        fleet.instance("b").start().await,
    ];
    for _ in 0..30 {
        fleet.put(&shard(put as usize % 8), put);
        put += 1;
        sleep(SECOND).await;
    }
    for instance in instances {
        instance.stop().await;
    }
    for n in 0..8 {
        assert_eq!(fleet.state(&shard(n)).await.holder, None);
    }
    let reads = fleet.sim.calls(Operation::GetRecords);
    let listings = fleet.sim.calls(Operation::ListShards);
    let calls = fleet.store.made().len();
    for n in 0..8 {
        fleet.put(&shard(n), 1_000);
    }
    sleep(60 * SECOND).await;
    assert_eq!(fleet.sim.calls(Operation::GetRecords), reads);
    assert_eq!(fleet.sim.calls(Operation::ListShards), listings);
    assert_eq!(fleet.store.made().len(), calls);
    assert_eq!(fleet.seen().len(), put as usize);
    assert_eq!(fleet.repeated(), [] as [u64; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_with_the_store_out_of_reach_ends_and_says_so() {
    let fleet = Fleet::of_shards(2);
    fleet.put(&shard(0), 0);
    let instance = fleet
        .instance("a")
        .handler(|_| ack_after(SECOND))
        .configure(|broker| broker.shutdown_timeout(5 * SECOND))
        .start()
        .await;
    until("it runs", async || fleet.seen().len() == 1).await;
    fleet.store.outage(Trouble::Hangs);
    let errors = instance.reported();
    let stopped = Instant::now();
    instance.stop().await;
    assert!(stopped.elapsed() <= 11 * SECOND, "{:?}", stopped.elapsed());
    let errors = errors.lock().unwrap().clone();
    assert!(errors.iter().any(|error| error.kind == "Lease"));
}

#[tokio::test(start_paused = true)]
async fn an_app_that_is_dropped_calls_no_handler_and_no_service_any_more() {
    let fleet = Fleet::of_shards(4);
    for n in 0..4 {
        fleet.put_all(&shard(n), 0..100);
    }
    let instance = fleet
        .instance("a")
        .handler(|_| ack_after(SECOND))
        .start()
        .await;
    sleep(Duration::from_millis(5_500)).await;
    instance.kill();
    let seen = fleet.seen().len();
    sleep(Duration::from_millis(1)).await;
    let calls = fleet.store.made().len();
    let reads = fleet.sim.calls(Operation::GetRecords);
    sleep(60 * SECOND).await;
    assert_eq!(fleet.seen().len(), seen);
    assert_eq!(fleet.store.made().len(), calls);
    assert_eq!(fleet.sim.calls(Operation::GetRecords), reads);
    let running = fleet
        .seen()
        .into_iter()
        .filter(|seen| seen.done_at.is_none());
    assert_eq!(running.count(), 4, "handlers are dropped where they are");
    // Nothing was given back.
    assert!(fleet.store.made_of(Call::Release).is_empty());
}

#[tokio::test(start_paused = true)]
async fn neither_a_shutdown_nor_a_drop_leaves_a_task_behind() {
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let fleet = Fleet::of_shards(8);
    for n in 0..8 {
        fleet.put_all(&shard(n), 0..3);
    }
    let before = tasks();
    for stops in [true, false] {
        let first = fleet.instance("a").start().await;
        let second = fleet.instance("b").start().await;
        sleep(20 * SECOND).await;
        assert!(tasks() > before);
        if stops {
            first.stop().await;
            second.stop().await;
        } else {
            first.kill();
            second.kill();
        }
        until("all are gone", async || tasks() == before).await;
    }
}
