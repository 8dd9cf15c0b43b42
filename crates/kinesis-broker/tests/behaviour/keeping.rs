//! What keeps a lease and what ends it: slow handlers, long pauses, lost answers, kills and stops.

use std::collections::BTreeMap;
use std::time::Duration;

use kinesis_broker::Prefetch;
use kinesis_sim::Operation;
use tokio::time::{Instant, sleep};

use crate::support::{
    Call, Fleet, Outcome, STREAM, Trouble, ack_after, from_the_start, shard, until, within,
};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_handler_of_a_minute_a_record_loses_no_lease_and_repeats_nothing() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..250);
    let first = fleet
        .instance("a")
        // Read ahead, the iterator would be kept fresh.
        .streams([from_the_start(STREAM).prefetch(Prefetch::none())])
        .handler(|seen| ack_after(if seen.value < 30 { 60 * SECOND } else { SECOND }))
        .start()
        .await;
    let second = fleet.instance("b").start().await;
    sleep(30 * 60 * SECOND).await;
    assert_eq!(fleet.store.grants(), 1);
    // They come through an iterator that expired half an hour ago.
    fleet.put_all(&shard(0), 250..260);
    within(400 * SECOND, "all are handled", async || {
        let last = fleet.seen().pop()?;
        (last.value == 259).then_some(())
    })
    .await;
    fleet.until_handled(260).await;
    assert_eq!(fleet.values(), (0..260).collect::<Vec<_>>());
    assert_eq!(fleet.store.grants(), 1);
    let last = fleet.seen().pop().unwrap().sequence_number;
    until("it is written", async || {
        fleet.checkpoint(&shard(0)).await == last
    })
    .await;
    assert!(first.errors().is_empty(), "{:?}", first.errors());
    assert!(fleet.sim.calls(Operation::GetShardIterator) > 1);
    fleet.check_history();
    first.stop().await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_poll_interval_longer_than_a_lease_loses_no_lease_and_repeats_nothing() {
    let fleet = Fleet::of_shards(2);
    let instance = fleet
        .instance("a")
        .streams([from_the_start(STREAM).poll_interval(30 * SECOND)])
        .start()
        .await;
    for n in 0..40 {
        fleet.put(&shard(n as usize % 2), n);
        sleep(17 * SECOND).await;
    }
    fleet.until_handled(40).await;
    assert_eq!(fleet.repeated(), [] as [u64; 0]);
    assert_eq!(fleet.store.grants(), 2);
    assert!(instance.errors().is_empty());
    instance.stop().await;
}

#[tokio::test(start_paused = true)]
async fn whatever_one_call_meets_nothing_is_handled_twice() {
    let calls = [
        Call::Acquire,
        Call::Renew,
        Call::Checkpoint,
        Call::ReadAll,
        Call::Release,
    ];
    let troubles = [
        Trouble::Fails,
        Trouble::Throttles,
        Trouble::LosesAnswer,
        Trouble::Hangs,
        Trouble::Late(2 * SECOND),
        Trouble::Late(5 * SECOND),
        Trouble::AnswersLate(2 * SECOND),
        Trouble::AnswersLate(5 * SECOND),
    ];
    for call in calls {
        for trouble in troubles {
            for skip in [0, 3] {
                let fleet = Fleet::of_shards(2);
                fleet.store.trouble_after(skip, call, trouble);
                for restart in 0..2 {
                    let instance = fleet.instance("a").start().await;
                    for n in 0..6 {
                        fleet.put(&shard(n as usize % 2), 100 * restart + n);
                        sleep(SECOND).await;
                    }
                    fleet.until_handled(6 * (restart as usize + 1)).await;
                    instance.stop().await;
                }
                let of = format!("{call:?} {trouble:?} {skip}");
                assert_eq!(fleet.repeated(), [] as [u64; 0], "{of}");
                fleet.check_history();
                for n in 0..2 {
                    let last = fleet.seen_of(&shard(n)).pop().unwrap();
                    let written = fleet.checkpoint(&shard(n)).await;
                    assert_eq!(written, last.sequence_number, "{of}");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_killed_instance_read_is_read_elsewhere_within_16_s_from_its_last_checkpoint() {
    for killed_at in 0..4 {
        let fleet = Fleet::of_shards(4);
        let slow = |_: &_| ack_after(Duration::from_millis(300));
        let first = fleet.instance("a").handler(slow).start().await;
        let second = fleet.instance("b").handler(slow).start().await;
        let mut put = 0;
        let mut feed = async |times: u64| {
            for _ in 0..times {
                for n in 0..4 {
                    fleet.put(&shard(n), put);
                    put += 1;
                }
                sleep(Duration::from_millis(700)).await;
            }
        };
        feed(40 + 2 * killed_at).await;
        let held = async |owner: &str| {
            let mut held = Vec::new();
            for n in 0..4 {
                if fleet.owner(&shard(n)).await == owner {
                    held.push(shard(n));
                }
            }
            held
        };
        let of_the_dead = held("a").await;
        assert_eq!(of_the_dead.len(), 2);
        first.kill();
        let killed = Instant::now();
        feed(20).await;
        for shard in of_the_dead {
            let by_b = within(60 * SECOND, "b reads it", async || {
                let mut seen = fleet.seen_of(&shard).into_iter();
                seen.find(|seen| seen.owner == "b" && seen.at >= killed)
            })
            .await;
            let took = by_b.at - killed;
            assert!(took <= 16 * SECOND, "{shard} after {took:?}");
        }
        until("all are handled", async || {
            let mut handled: Vec<_> = fleet
                .seen()
                .iter()
                .filter(|seen| seen.done_at.is_some())
                .map(|seen| seen.value)
                .collect();
            handled.sort_unstable();
            handled.dedup();
            handled.len() == put as usize
        })
        .await;
        // Behind the last checkpoint nothing is handled twice, and before it at most what was under way.
        fleet.check_history();
        assert!(fleet.repeated().len() <= 4, "{:?}", fleet.repeated());
        second.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_stopped_instance_read_is_read_elsewhere_within_4_s_of_its_last_settling() {
    for stopped_at in 0..5 {
        let fleet = Fleet::of_shards(4);
        let slow = |_: &_| ack_after(Duration::from_millis(1_500));
        let first = fleet.instance("a").handler(slow).start().await;
        let second = fleet.instance("b").handler(slow).start().await;
        until("two and two", async || {
            let mut held = 0;
            for n in 0..4 {
                held += usize::from(fleet.owner(&shard(n)).await == "b");
            }
            held == 2
        })
        .await;
        sleep(Duration::from_millis(600) * stopped_at).await;
        for n in 0..40 {
            fleet.put(&shard(n as usize % 4), n);
        }
        sleep(2 * SECOND).await;
        first.stop().await;
        fleet.until_handled(40).await;
        for (shard, seen) in fleet.by_shard() {
            let by_a = seen.iter().rposition(|seen| seen.owner == "a");
            let Some(last) = by_a else { continue };
            let settled = seen[last].done_at.unwrap();
            let gap = seen[last + 1].at - settled;
            assert!(gap <= 4 * SECOND, "{shard}: {gap:?}");
        }
        assert_eq!(fleet.repeated(), [] as [u64; 0]);
        fleet.check_history();
        second.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn renewals_are_spread_over_the_period_and_not_in_bursts() {
    let fleet = Fleet::of_shards(300);
    let instance = fleet
        .instance("a")
        .streams([from_the_start(STREAM).poll_interval(60 * SECOND)])
        .start()
        .await;
    let began = Instant::now();
    sleep(30 * SECOND).await;
    let mut windows = BTreeMap::<_, usize>::new();
    let mut by_shard = BTreeMap::<_, Vec<Instant>>::new();
    for made in fleet.store.made_of(Call::Renew) {
        let window = (made.at - began).as_millis() / 250;
        *windows.entry(window).or_default() += 1;
        by_shard.entry(made.key).or_default().push(made.at);
    }
    // Three hundred in three seconds are twenty-five in a quarter of one.
    let fullest = windows.values().max().unwrap();
    assert!(*fullest <= 50, "{windows:?}");
    assert_eq!(by_shard.len(), 300);
    for (shard, times) in by_shard {
        for pair in times.windows(2) {
            let apart = pair[1] - pair[0];
            assert!(apart <= 3_100 * SECOND / 1_000, "{shard}: {apart:?}");
        }
    }
    instance.kill();
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_the_lease_that_runs_out_first_is_renewed_first() {
    let fleet = Fleet::of_shards(400);
    let instance = fleet
        .instance("a")
        .streams([from_the_start(STREAM).poll_interval(60 * SECOND)])
        .start()
        .await;
    sleep(10 * SECOND).await;
    // More renewals than may be under way at once come due while none is answered.
    fleet.store.always_of(
        Call::Renew,
        "a",
        Trouble::Late(Duration::from_millis(2_500)),
    );
    sleep(Duration::from_millis(2_600)).await;
    let slow = Instant::now();
    sleep(10 * SECOND).await;
    fleet.store.recover();
    sleep(5 * SECOND).await;
    let renewals = fleet.store.made_of(Call::Renew);
    let mut last_sent = BTreeMap::new();
    let mut ages = Vec::new();
    for made in &renewals {
        if let Some(last) = last_sent.insert(made.key.clone(), made.at)
            && made.at >= slow
        {
            ages.push((made.at, made.at - last));
        }
    }
    // Of those sent in one moment, those that waited longest come first.
    let in_order = |pair: &[(Instant, Duration)]| pair[0].0 < pair[1].0 || pair[0].1 >= pair[1].1;
    let wrong = ages.windows(2).filter(|pair| !in_order(pair)).count();
    assert!(wrong * 20 <= ages.len(), "{wrong} of {}", ages.len());
    // Four hundred at 128 a 2.5 s are slower than the period, and yet no lease is lost.
    assert!(ages.iter().all(|(_, age)| *age < 10 * SECOND));
    assert!(renewals.iter().all(|made| made.outcome != Outcome::No));
    assert_eq!(fleet.store.grants(), 400);
    instance.kill();
}

#[tokio::test(start_paused = true)]
async fn what_a_slow_store_makes_of_one_shard_keeps_no_other_from_its_renewal() {
    let fleet = Fleet::of_shards(8);
    let instance = fleet.instance("a").start().await;
    fleet
        .store
        .always_on(Call::Renew, &shard(3), Trouble::Hangs);
    sleep(60 * SECOND).await;
    for n in 0..8 {
        if n != 3 {
            assert_eq!(fleet.owner(&shard(n)).await, "a", "{n}");
            assert_eq!(fleet.state(&shard(n)).await.epoch, 1, "{n}");
        }
    }
    instance.kill();
}
