//! DESIGN §5: when a checkpoint is written, and where a shard is opened by it.

use std::time::Duration;

use kinesis_broker::{KinesisStream, StartPosition};
use kinesis_sim::{Fault, Operation};
use lease_core::{Checkpoint, LeaseKey, LeaseStore as _, SHARD_END};
use tokio::time::{Instant, sleep};

use crate::support::{
    Call, Fleet, Logs, Made, Outcome, STREAM, Trouble, ack_after, from_the_start, shard, until,
    within,
};

const SECOND: Duration = Duration::from_secs(1);

fn at_the_tip() -> KinesisStream {
    KinesisStream::new(STREAM)
}

fn written(fleet: &Fleet, shard: &str) -> Vec<Made> {
    fleet.store.made_on(Call::Checkpoint, shard)
}

/// Waits until so many records are handled, and a while longer for what must not come.
async fn after_handling(fleet: &Fleet, count: usize) {
    until(format!("{count} are handled"), async || {
        fleet.seen().len() >= count
    })
    .await;
    sleep(10 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn every_acknowledgement_is_one_checkpoint_call_and_an_idle_shard_makes_none() {
    let fleet = Fleet::of_shards(1);
    let put: Vec<_> = (0..5).map(|n| fleet.put(&shard(0), n)).collect();
    let instance = fleet.instance("a").start().await;
    after_handling(&fleet, 5).await;

    let calls = written(&fleet, &shard(0)).into_iter();
    let calls: Vec<_> = calls.filter_map(|call| call.checkpoint).collect();
    assert_eq!(calls, put);

    sleep(600 * SECOND).await;
    assert_eq!(written(&fleet, &shard(0)).len(), 5);
    assert!(fleet.sim.calls(Operation::GetRecords) > 500);
    instance.stop().await;
    assert_eq!(written(&fleet, &shard(0)).len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_reader_opens_after_the_checkpoint_that_the_store_reads_back() {
    let fleet = Fleet::of_shards(2);
    let put: Vec<_> = (0..4).map(|n| fleet.put(&shard(0), n)).collect();
    fleet.put(&shard(1), 10);
    fleet
        .leave_checkpoint(&shard(0), &Checkpoint::at(put[1].clone()))
        .await;
    let _instance = fleet.instance("a").start().await;
    after_handling(&fleet, 3).await;
    assert_eq!(fleet.handled(), [2, 3, 10]);
    assert_eq!(fleet.seen().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_the_same_store_object_resumes_at_the_checkpoint() {
    let fleet = Fleet::of_shards(1);
    for n in 0..3 {
        fleet.put(&shard(0), n);
    }
    let instance = fleet.instance("a").start().await;
    after_handling(&fleet, 3).await;
    instance.stop().await;
    for n in 3..6 {
        fleet.put(&shard(0), n);
    }
    // The start position counts for a shard without a checkpoint alone.
    let _again = fleet.instance("a").streams([at_the_tip()]).start().await;
    after_handling(&fleet, 6).await;
    assert_eq!(fleet.values(), [0, 1, 2, 3, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn without_a_checkpoint_a_shard_opens_at_the_tip_unless_told_otherwise() {
    for (stream, handled) in [
        (at_the_tip(), vec![2]),
        (at_the_tip().start_at(StartPosition::latest()), vec![2]),
        (
            at_the_tip().start_at(StartPosition::trim_horizon()),
            vec![1, 2],
        ),
    ] {
        let fleet = Fleet::of_shards(1);
        fleet.put(&shard(0), 1);
        let _instance = fleet.instance("a").streams([stream]).start().await;
        fleet.put(&shard(0), 2);
        after_handling(&fleet, handled.len()).await;
        assert_eq!(fleet.values(), handled);
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_at_a_timestamp_skips_what_came_before_closed_parents_too() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 1);
    let [low, high] = fleet.sim.split_shard(STREAM, &shard(0));
    fleet.put(&low, 2);
    fleet.put(&high, 3);
    sleep(10 * SECOND).await;
    let moment = fleet.sim.wall_clock();
    fleet.put(&low, 4);
    let [lower, _] = fleet.sim.split_shard(STREAM, &low);
    sleep(10 * SECOND).await;
    fleet.put(&lower, 5);
    fleet.put(&high, 6);

    let stream = at_the_tip().start_at(StartPosition::at_timestamp(moment));
    let _instance = fleet.instance("a").streams([stream]).start().await;
    after_handling(&fleet, 3).await;
    assert_eq!(fleet.handled(), [4, 5, 6]);
    assert_eq!(fleet.seen().len(), 3);
    let position = |value| fleet.values().iter().position(|seen| *seen == value);
    assert!(position(4) < position(5), "{:?}", fleet.values());
    // It closed before the moment: nobody so much as leased it.
    assert_eq!(fleet.state(&shard(0)).await.epoch, 0);
}

#[tokio::test(start_paused = true)]
async fn a_moment_that_the_service_refuses_becomes_trim_horizon_with_a_warning() {
    for is_kept in [false, true] {
        let logs = Logs::start();
        let fleet = Fleet::of_shards(1);
        fleet.put(&shard(0), 1);
        // Kinesis takes no moment in the future.
        let moment = fleet.sim.wall_clock() + 3_600 * SECOND;
        let mut stream = at_the_tip();
        if is_kept {
            let kept = Checkpoint::at_timestamp(moment);
            fleet.leave_checkpoint(&shard(0), &kept).await;
        } else {
            stream = stream.start_at(StartPosition::at_timestamp(moment));
        }
        let instance = fleet.instance("a").streams([stream]).start().await;
        after_handling(&fleet, 1).await;
        assert_eq!(fleet.values(), [1]);
        let warnings = logs.warnings("TRIM_HORIZON");
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains(&format!("stream={STREAM} ")));
        assert!(warnings[0].contains(&format!("shard={} ", shard(0))));
        assert!(instance.errors().is_empty(), "{:?}", instance.errors());
    }
}

#[tokio::test(start_paused = true)]
async fn the_tip_is_checkpointed_once_by_kinesis_own_clock_rounded_down_to_the_second() {
    let fleet = Fleet::of_shards(1);
    sleep(Duration::from_millis(2_700)).await;
    let _instance = fleet.instance("a").streams([at_the_tip()]).start().await;
    // The simulation starts at this time of day.
    let tip = "AT_TIMESTAMP:1767225602";
    until("the tip is written", async || {
        fleet.checkpoint(&shard(0)).await == tip
    })
    .await;
    sleep(600 * SECOND).await;
    assert_eq!(written(&fleet, &shard(0)).len(), 1);
    assert_eq!(fleet.checkpoint(&shard(0)).await, tip);
}

#[tokio::test(start_paused = true)]
async fn while_the_tip_cannot_be_written_no_record_is_handed_over() {
    let fleet = Fleet::of_shards(1);
    fleet
        .store
        .always_on(Call::Checkpoint, &shard(0), Trouble::Fails);
    let instance = fleet.instance("a").streams([at_the_tip()]).start().await;
    fleet.put(&shard(0), 1);
    sleep(30 * SECOND).await;
    assert!(fleet.values().is_empty());
    assert!(!instance.errors_of("Lease").is_empty());

    fleet.store.recover();
    after_handling(&fleet, 1).await;
    assert_eq!(fleet.values(), [1]);
    let mut accepted = written(&fleet, &shard(0));
    accepted.retain(|call| call.outcome == Outcome::Yes);
    let [tip, record] = &accepted[..] else {
        panic!("{accepted:?}")
    };
    assert!(
        tip.checkpoint
            .as_ref()
            .is_some_and(|at| at.starts_with("AT_TIMESTAMP:"))
    );
    assert!(tip.at <= fleet.seen()[0].at);
    let sequence_number = &fleet.seen()[0].sequence_number;
    assert_eq!(record.checkpoint.as_ref(), Some(sequence_number));
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_the_first_acknowledgement_skips_nothing_put_after_the_start() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 0);
    sleep(10 * SECOND).await;
    let first = fleet
        .instance("a")
        .streams([at_the_tip()])
        .handler(|_| ack_after(3_600 * SECOND))
        .start()
        .await;
    fleet.put(&shard(0), 1);
    until("a is given it", async || fleet.values() == [1]).await;
    first.kill();
    fleet.put(&shard(0), 2);
    let _second = fleet.instance("b").streams([at_the_tip()]).start().await;
    fleet.put(&shard(0), 3);
    after_handling(&fleet, 4).await;
    assert_eq!(fleet.values(), [1, 1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_successor_opens_at_the_first_readers_moment_and_not_at_a_new_tip() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 0);
    sleep(10 * SECOND).await;
    let first = fleet.instance("a").streams([at_the_tip()]).start().await;
    sleep(10 * SECOND).await;
    first.stop().await;
    fleet.put(&shard(0), 1);
    sleep(10 * SECOND).await;
    let _second = fleet.instance("b").streams([at_the_tip()]).start().await;
    after_handling(&fleet, 1).await;
    assert_eq!(fleet.values(), [1]);
}

#[tokio::test(start_paused = true)]
async fn an_iterator_lost_right_after_opening_at_the_tip_is_reopened_at_that_moment() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 0);
    sleep(10 * SECOND).await;
    let expired = Fault::expired_iterator();
    fleet.sim.inject(expired.on(Operation::GetRecords).times(3));
    let instance = fleet.instance("a").streams([at_the_tip()]).start().await;
    fleet.put(&shard(0), 1);
    after_handling(&fleet, 1).await;
    assert_eq!(fleet.values(), [1]);
    assert_eq!(fleet.sim.calls(Operation::GetShardIterator), 4);
    assert!(instance.errors_of("Read").len() <= 1);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_shard_is_written_once_all_is_settled_and_the_lease_then_given_back() {
    let fleet = Fleet::of_shards(1);
    let last = fleet.put(&shard(0), 1);
    let _instance = fleet
        .instance("a")
        .handler(|_| ack_after(20 * SECOND))
        .start()
        .await;
    until("it is given", async || fleet.seen().len() == 1).await;
    fleet.sim.split_shard(STREAM, &shard(0));
    until("it ends", async || {
        fleet.checkpoint(&shard(0)).await == SHARD_END
    })
    .await;
    let settled = fleet.seen()[0].done_at.unwrap();
    until("it is given back", async || {
        fleet.state(&shard(0)).await.holder.is_none()
    })
    .await;

    let calls = written(&fleet, &shard(0));
    let texts: Vec<_> = calls
        .iter()
        .filter_map(|call| call.checkpoint.as_deref())
        .collect();
    assert_eq!(texts, [last.as_str(), SHARD_END]);
    assert!(calls.iter().all(|call| call.at >= settled));
    let released = &fleet.store.made_on(Call::Release, &shard(0))[0];
    assert!(released.at >= calls[1].at);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_shard_is_sent_again_until_it_is_accepted() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 1);
    let instance = fleet.instance("a").start().await;
    after_handling(&fleet, 1).await;
    fleet
        .store
        .always_on(Call::Checkpoint, &shard(0), Trouble::Fails);
    let [child, _] = fleet.sim.split_shard(STREAM, &shard(0));
    fleet.put(&child, 2);
    // Far past the time of a lease: it is kept meanwhile, and the children wait.
    sleep(60 * SECOND).await;
    assert_eq!(fleet.owner(&shard(0)).await, "a");
    assert_eq!(fleet.state(&shard(0)).await.epoch, 1);
    assert_eq!(fleet.values(), [1]);
    assert!(written(&fleet, &shard(0)).len() > 10);
    assert!(instance.errors_of("Lease").len() > 10);

    fleet.store.recover();
    within(5 * SECOND, "the child is read", async || {
        fleet.values().contains(&2).then_some(())
    })
    .await;
    assert_eq!(fleet.checkpoint(&shard(0)).await, SHARD_END);
    assert_eq!(fleet.state(&shard(0)).await.holder, None);
    assert_eq!(fleet.values(), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn over_a_long_run_with_troubles_no_checkpoint_moves_backwards() {
    let fleet = Fleet::of_shards(3);
    let (sim, store) = (&fleet.sim, &fleet.store);
    sim.inject(
        Fault::expired_iterator()
            .on(Operation::GetRecords)
            .rate(0.02),
    );
    sim.inject(Fault::internal().on(Operation::GetRecords).rate(0.05));
    let start = |owner: &str| {
        let instance = fleet.instance(owner);
        instance
            .handler(|seen| ack_after(Duration::from_millis(37 * (seen.value % 11))))
            .start()
    };
    let mut running = vec![start("a-0").await, start("b-0").await];
    let troubles = [
        Trouble::Fails,
        Trouble::LosesAnswer,
        Trouble::Late(SECOND),
        Trouble::AnswersLate(SECOND),
        Trouble::Hangs,
        Trouble::Throttles,
    ];
    let mut latest = vec![String::new(); 3];
    let mut put = 0;
    for round in 0..60_usize {
        store.trouble(Call::Checkpoint, troubles[round % troubles.len()], 2);
        if round % 7 == 3 {
            store.trouble(Call::Renew, Trouble::Fails, 2);
        }
        if round % 20 == 10 {
            running.remove(0).kill();
            running.push(start(&format!("c-{round}")).await);
        }
        for _ in 0..20 {
            fleet.put(&shard(put as usize % 3), put);
            put += 1;
            sleep(Duration::from_millis(150)).await;
            for (n, latest) in latest.iter_mut().enumerate() {
                let now = fleet.checkpoint(&shard(n)).await;
                // All sequence numbers have as many digits.
                assert!(now >= *latest, "{}: {now} after {latest}", shard(n));
                *latest = now;
            }
        }
    }
    store.recover();
    sim.clear_faults();
    until("all are handled", async || {
        fleet.handled().len() as u64 == put
    })
    .await;
    for (n, latest) in latest.iter_mut().enumerate() {
        let key = LeaseKey::new(STREAM, shard(n));
        *latest = sim
            .records(STREAM, key.shard())
            .pop()
            .unwrap()
            .sequence_number;
        until("all is written", async || {
            fleet.checkpoint(key.shard()).await == *latest
        })
        .await;
    }
    // From one acknowledgement to the next as well as in the row.
    for n in 0..3 {
        let mut accepted = written(&fleet, &shard(n));
        accepted.retain(|call| call.outcome == Outcome::Yes);
        let mut last = (0, String::new());
        for call in accepted {
            let next = (call.epoch, call.checkpoint.unwrap());
            assert!(next.0 >= last.0, "{next:?} after {last:?}");
            assert!(next.1 >= last.1, "{next:?} after {last:?}");
            last = next;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_streams_checkpoint_is_not_anothers() {
    let fleet = Fleet::of_shards(1);
    fleet.sim.create_stream("orders", 1);
    fleet.put(&shard(0), 1);
    fleet.sim.put("orders", "key", "2");
    let streams = [from_the_start(STREAM), from_the_start("orders")];
    let _instance = fleet.instance("a").streams(streams).start().await;
    after_handling(&fleet, 2).await;
    for seen in fleet.seen() {
        let key = LeaseKey::new(&*seen.stream, &*seen.shard);
        let state = fleet.store.inner.read(&key).await.unwrap();
        let checkpoint = state.checkpoint.unwrap();
        assert_eq!(checkpoint.sequence(), Some(&*seen.sequence_number));
    }
}

#[tokio::test(start_paused = true)]
async fn reading_goes_on_at_its_own_pace_while_checkpoints_fail() {
    let fleet = Fleet::of_shards(1);
    for value in 0..30 {
        fleet.put(&shard(0), value);
    }
    fleet
        .store
        .always_on(Call::Checkpoint, &shard(0), Trouble::Fails);
    let began = Instant::now();
    let instance = fleet.instance("a").start().await;
    until("all are handled", async || fleet.values().len() == 30).await;
    // Each acknowledgement that waited for the next try would take up to two seconds.
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );

    fleet.store.recover();
    let last = fleet.seen().pop().unwrap().sequence_number;
    until("the last position is written", async || {
        fleet.checkpoint(&shard(0)).await == last
    })
    .await;
    assert_eq!(fleet.values(), (0..30).collect::<Vec<_>>());
    instance.stop().await;
}
