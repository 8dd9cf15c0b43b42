//! Rule 8, and how often the store is called: failures are told and stay with their shard.

use std::time::Duration;

use kinesis_sim::Operation;
use tokio::time::{Instant, sleep};

use crate::support::{
    Call, Fleet, Outcome, STREAM, Trouble, ack_after, from_the_start, shard, until, within,
};

const SECOND: Duration = Duration::from_secs(1);
const NOBODY: [u64; 0] = [];

#[tokio::test(start_paused = true)]
async fn a_failed_call_is_told_with_its_stream_its_shard_and_its_cause() {
    for call in [
        Call::Acquire,
        Call::Renew,
        Call::Checkpoint,
        Call::Release,
        Call::ReadAll,
    ] {
        let fleet = Fleet::of_shards(2);
        fleet.put(&shard(1), 0);
        fleet.store.trouble_on(call, &shard(1), Trouble::Fails, 1);
        if call == Call::ReadAll {
            fleet
                .store
                .trouble_on(Call::Read, &shard(1), Trouble::Fails, 1);
        }
        let instance = fleet.instance("a").start().await;
        let errors = instance.reported();
        fleet.until_handled(1).await;
        sleep(10 * SECOND).await;
        instance.stop().await;
        let errors = errors.lock().unwrap().clone();
        let [error] = &errors[..] else {
            panic!("{call:?}: {errors:?}");
        };
        assert_eq!(error.kind, "Lease");
        for part in [STREAM, &shard(1), "the store is out of reach"] {
            assert!(error.text.contains(part), "{call:?}: {}", error.text);
        }
        assert_eq!(fleet.repeated(), NOBODY);
    }
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_could_not_be_acquired_is_tried_again_at_the_next_listing() {
    let fleet = Fleet::of_shards(2);
    fleet
        .store
        .trouble_on(Call::Acquire, &shard(0), Trouble::Fails, 2);
    let instance = fleet.instance("a").start().await;
    assert_eq!(fleet.owner(&shard(1)).await, "a");
    until("it is had", async || fleet.owner(&shard(0)).await == "a").await;
    let acquired = fleet.store.made_on(Call::Acquire, &shard(0));
    assert_eq!(acquired.len(), 3);
    for pair in acquired.windows(2) {
        let apart = pair[1].at - pair[0].at;
        assert!((2 * SECOND..=4 * SECOND).contains(&apart), "{apart:?}");
    }
    instance.stop().await;
}

/// One shard whose row is bad among others.
async fn with_one_bad_row(shards: usize, bad: usize, trouble: Trouble) {
    let fleet = Fleet::of_shards(shards);
    let streams = || [from_the_start(STREAM).poll_interval(10 * SECOND)];
    fleet.store.outage_on(&shard(bad), trouble);
    let first = fleet.instance("a").streams(streams()).start().await;
    let all_but_one = async |owner: &str| {
        for n in (0..shards).filter(|n| *n != bad) {
            if fleet.owner(&shard(n)).await != owner {
                return false;
            }
        }
        true
    };
    until("the others are read", async || all_but_one("a").await).await;
    sleep(30 * SECOND).await;
    first.kill();
    // Another that lists meets the same, and takes over all the same.
    let second = fleet.instance("b").streams(streams()).start().await;
    within(25 * SECOND, "the others are read on", async || {
        all_but_one("b").await.then_some(())
    })
    .await;
    let n = (bad + 1) % shards;
    fleet.put(&shard(n), 1);
    until("a record is handled", async || fleet.seen().len() == 1).await;
    let errors = second.errors_of("Lease");
    assert!(errors.iter().any(|error| error.text.contains(&shard(bad))));
    second.kill();
}

#[tokio::test(start_paused = true)]
async fn a_shard_whose_row_fails_keeps_no_other_from_being_read() {
    for (shards, bad) in [(3, 1), (150, 0), (150, 149)] {
        with_one_bad_row(shards, bad, Trouble::Fails).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_shard_whose_row_hangs_keeps_no_other_from_being_read() {
    for (shards, bad) in [(3, 1), (40, 0), (150, 149)] {
        with_one_bad_row(shards, bad, Trouble::Hangs).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_shard_whose_row_hangs_keeps_nobody_from_taking_over_what_a_dead_instance_held() {
    let fleet = Fleet::of_shards(5);
    let first = fleet.instance("a").start().await;
    let second = fleet.instance("b").start().await;
    let held = async |owner: &str| {
        let mut held = 0;
        for n in 1..5 {
            held += usize::from(fleet.owner(&shard(n)).await == owner);
        }
        held
    };
    until("both have some", async || {
        let (first, second) = (held("a").await, held("b").await);
        first > 0 && second > 0 && first + second == 4
    })
    .await;
    sleep(30 * SECOND).await;
    fleet
        .store
        .always_on(Call::ReadAll, &shard(0), Trouble::Hangs);
    fleet.store.always_on(Call::Read, &shard(0), Trouble::Hangs);
    sleep(40 * SECOND).await;
    first.kill();
    within(16 * SECOND, "b has the others", async || {
        (held("b").await == 4).then_some(())
    })
    .await;
    second.kill();
}

#[tokio::test(start_paused = true)]
async fn an_hour_without_the_store_is_told_at_each_listing_and_ends_by_itself() {
    for trouble in [Trouble::Fails, Trouble::Hangs, Trouble::Throttles] {
        let fleet = Fleet::of_shards(4);
        let handler = |_: &_| ack_after(Duration::from_millis(100));
        let instance = |owner: &str| {
            let streams = [from_the_start(STREAM).poll_interval(20 * SECOND)];
            fleet.instance(owner).streams(streams).handler(handler)
        };
        let instances = [instance("a").start().await, instance("b").start().await];
        for n in 0..40 {
            fleet.put(&shard(n as usize % 4), n);
            sleep(Duration::from_millis(500)).await;
        }
        let down = Instant::now();
        fleet.store.outage(trouble);
        for n in 40..80 {
            fleet.put(&shard(n as usize % 4), n);
            sleep(90 * SECOND).await;
        }
        for instance in &instances {
            let mut errors = instance.errors_of("Lease");
            errors.retain(|error| error.at > down);
            for pair in errors.windows(2) {
                let apart = pair[1].at - pair[0].at;
                assert!(apart <= 10 * SECOND, "{trouble:?}: {apart:?}");
            }
            // At each listing, and not once a shard a second for an hour.
            let minutes = usize::try_from(down.elapsed().as_secs() / 60).unwrap();
            assert!(errors.len() >= 6 * minutes, "{trouble:?}: {}", errors.len());
            assert!(
                errors.len() <= 60 * minutes,
                "{trouble:?}: {}",
                errors.len()
            );
        }
        let during = fleet.seen();
        let late = during.iter().filter(|seen| seen.at > down + 10 * SECOND);
        assert_eq!(late.count(), 0, "{trouble:?}");
        fleet.store.recover();
        for n in 80..84 {
            fleet.put(&shard(n as usize % 4), n);
        }
        fleet.until_handled(84).await;
        assert_eq!(fleet.repeated(), NOBODY, "{trouble:?}");
        fleet.check_history();
        for instance in instances {
            instance.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_at_the_start_is_told_and_does_not_fail_it() {
    let fleet = Fleet::of_shards(2);
    fleet.put(&shard(0), 0);
    fleet.store.outage(Trouble::Fails);
    let instance = fleet.instance("a").start().await;
    assert!(!instance.errors_of("Lease").is_empty());
    sleep(30 * SECOND).await;
    fleet.store.recover();
    within(5 * SECOND, "it is handled", async || {
        (fleet.seen().len() == 1).then_some(())
    })
    .await;
    instance.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_throttles_now_and_then_costs_no_lease() {
    let fleet = Fleet::of_shards(4);
    let instance = fleet.instance("a").start().await;
    for n in 0..60 {
        if n % 3 == 0 {
            fleet.store.trouble(Call::Renew, Trouble::Throttles, 3);
            fleet.store.trouble(Call::Checkpoint, Trouble::Throttles, 2);
            fleet.store.trouble(Call::ReadAll, Trouble::Throttles, 1);
        }
        fleet.put(&shard(n as usize % 4), n);
        sleep(SECOND).await;
    }
    fleet.until_handled(60).await;
    assert_eq!(fleet.store.grants(), 4);
    assert_eq!(fleet.repeated(), NOBODY);
    instance.stop().await;
    for n in 0..4 {
        let last = fleet.seen_of(&shard(n)).pop().unwrap();
        assert_eq!(fleet.checkpoint(&shard(n)).await, last.sequence_number);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_throttles_is_called_less_and_less_often() {
    let fleet = Fleet::of_shards(1);
    let instance = fleet.instance("a").start().await;
    fleet.put(&shard(0), 0);
    fleet.store.outage(Trouble::Throttles);
    sleep(60 * SECOND).await;
    let began = Instant::now();
    sleep(60 * SECOND).await;
    let mut made = fleet.store.made();
    made.retain(|made| made.at > began);
    let of = |call| made.iter().filter(|made| made.call == call).count();
    // Two seconds is the longest back-off, and its jitter may halve it.
    assert!((25..=60).contains(&of(Call::Renew)), "{}", of(Call::Renew));
    assert_eq!(of(Call::Checkpoint), 0, "the lease has run out");
    assert!(of(Call::ReadAll) <= 21, "{}", of(Call::ReadAll));
    instance.kill();
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_could_not_list_takes_no_expired_lease_for_one_lease_time() {
    let fleet = Fleet::of_shards(4);
    let first = fleet.instance("a").start().await;
    let second = fleet.instance("b").start().await;
    let held = async |owner: &str| {
        let mut held = 0;
        for n in 0..4 {
            held += usize::from(fleet.owner(&shard(n)).await == owner);
        }
        held
    };
    until("two and two", async || held("b").await == 2).await;
    fleet.store.always_of(Call::ReadAll, "b", Trouble::Fails);
    fleet.store.always_of(Call::Read, "b", Trouble::Fails);
    first.kill();
    sleep(20 * SECOND).await;
    fleet.store.recover();
    let recovered = Instant::now();
    until("b has all", async || held("b").await == 4).await;
    let took = recovered.elapsed();
    assert!((10 * SECOND..=16 * SECOND).contains(&took), "{took:?}");
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_missed_one_listing_takes_expired_leases_as_ever() {
    let fleet = Fleet::of_shards(1);
    let first = fleet.instance("a").start().await;
    let second = fleet.instance("b").start().await;
    first.kill();
    let killed = Instant::now();
    fleet
        .store
        .trouble_of(Call::ReadAll, "b", Trouble::Throttles, 1);
    until("b has it", async || fleet.owner(&shard(0)).await == "b").await;
    assert!(killed.elapsed() <= 16 * SECOND);
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_listing_runs_every_three_seconds_and_its_calls_are_batches() {
    let fleet = Fleet::of_shards(50);
    let streams = || [from_the_start(STREAM).poll_interval(10 * SECOND)];
    let first = fleet.instance("a").streams(streams()).start().await;
    let second = fleet.instance("b").streams(streams()).start().await;
    sleep(90 * SECOND).await;
    let began = Instant::now();
    let listed = fleet.sim.calls(Operation::ListShards);
    sleep(60 * SECOND).await;
    assert_eq!(fleet.sim.calls(Operation::ListShards) - listed, 2 * 20);
    let mut made = fleet.store.made();
    made.retain(|made| made.at >= began);
    let of = |call, owner: &str| {
        let mut made = made.clone();
        made.retain(|made| made.call == call && made.owner == owner);
        made
    };
    for owner in ["a", "b"] {
        let reads = of(Call::ReadAll, owner);
        assert_eq!(reads.len(), 20);
        assert!(reads.iter().all(|made| made.keys == 50));
        for pair in reads.windows(2) {
            let apart = (pair[1].at - pair[0].at).as_millis();
            assert!((2_990..=3_010).contains(&apart), "{apart} ms");
        }
        assert!(of(Call::Read, owner).is_empty());
    }
    first.kill();
    second.kill();
}

#[tokio::test(start_paused = true)]
async fn listings_out_of_turn_are_no_closer_than_a_quarter_of_a_second() {
    let fleet = Fleet::of_shards(16);
    let first = fleet.instance("a").start().await;
    let second = fleet.instance("b").start().await;
    let third = fleet.instance("c").start().await;
    sleep(30 * SECOND).await;
    second.kill();
    sleep(30 * SECOND).await;
    for round in 0..8 {
        fleet.sim.split_shard(STREAM, &shard(round));
        sleep(Duration::from_millis(300)).await;
    }
    sleep(30 * SECOND).await;
    for owner in ["a", "b", "c"] {
        let mut reads = fleet.store.made_by(Call::ReadAll, owner);
        reads.retain(|made| made.keys > 4);
        let regular = reads[0].at;
        for pair in reads.windows(2) {
            let apart = pair[1].at - pair[0].at;
            let phase = (pair[1].at - regular).as_millis() % 3_000;
            let in_turn = !(20..=2_980).contains(&phase);
            assert!(in_turn || apart >= Duration::from_millis(250), "{apart:?}");
        }
        assert!(reads.iter().all(|made| made.outcome == Outcome::Yes));
    }
    first.kill();
    third.kill();
}
