//! Rule 7: instances on one store share the shards, by quiet hand-overs.

use std::time::Duration;

use kinesis_sim::Operation;
use lease_core::LeaseKey;
use tokio::time::{Instant, sleep};

use crate::support::{
    Builder, Call, Fleet, Outcome, STREAM, Trouble, ack, ack_after, from_the_start, shard, until,
    within,
};

const SECOND: Duration = Duration::from_secs(1);
const NOBODY: [u64; 0] = [];

/// How many shards of these streams each of these instances holds; one shard a stream if there are several.
async fn counts(fleet: &Fleet, keys: &[LeaseKey], owners: &[&str]) -> Vec<usize> {
    let mut counts = vec![0; owners.len()];
    for key in keys {
        let state = fleet.store.state(key).await;
        let Some(holder) = state.holder.filter(|_| state.live) else {
            continue;
        };
        if let Some(at) = owners.iter().position(|owner| *owner == holder.owner) {
            counts[at] += 1;
        }
    }
    counts
}

fn keys(shards: usize) -> Vec<LeaseKey> {
    (0..shards)
        .map(|n| LeaseKey::new(STREAM, shard(n)))
        .collect()
}

fn streams(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("stream-{n:03}")).collect()
}

/// Waits until the instances hold so many, in whatever order.
#[track_caller]
fn shared<'a>(
    fleet: &'a Fleet,
    keys: &'a [LeaseKey],
    owners: &'a [&str],
    wanted: &'a [usize],
    limit: Duration,
) -> impl Future<Output = ()> + 'a {
    within(
        limit,
        format!("{owners:?} hold {wanted:?}"),
        async move || {
            let mut counts = counts(fleet, keys, owners).await;
            counts.sort_unstable_by(|a, b| b.cmp(a));
            (counts == wanted).then_some(())
        },
    )
}

/// Puts a record into each shard in turn, all along.
fn feed(fleet: &Fleet, shards: usize) -> tokio::task::JoinHandle<()> {
    let fleet = fleet.clone();
    tokio::spawn(async move {
        for n in 0.. {
            fleet.put(&shard(n as usize % shards), n);
            sleep(Duration::from_millis(250)).await;
        }
    })
}

async fn all_are_handled(fleet: &Fleet) {
    until("all are handled", async || {
        let put: usize = (fleet.sim.shards(STREAM).iter())
            .map(|shard| fleet.sim.records(STREAM, &shard.id).len())
            .sum();
        fleet.seen().len() >= put
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn shards_spread_as_instances_join_and_stop_and_nothing_is_handled_twice() {
    let fleet = Fleet::of_shards(8);
    let keys = keys(8);
    let feeding = feed(&fleet, 8);
    let first = fleet.instance("a").start().await;
    assert_eq!(counts(&fleet, &keys, &["a"]).await, [8]);

    let second = fleet.instance("b").start().await;
    shared(&fleet, &keys, &["a", "b"], &[4, 4], 30 * SECOND).await;
    assert_eq!(fleet.store.grants(), 8 + 4, "four moves are the fewest");

    let third = fleet.instance("c").start().await;
    shared(&fleet, &keys, &["a", "b", "c"], &[3, 3, 2], 30 * SECOND).await;
    sleep(20 * SECOND).await;
    let grants = fleet.store.grants();
    assert!(grants - 12 <= 2 + 3, "{} moves", grants - 12);

    third.stop().await;
    shared(&fleet, &keys, &["a", "b"], &[4, 4], 30 * SECOND).await;
    sleep(20 * SECOND).await;
    assert!(fleet.store.grants() - grants <= 2 + 2);

    feeding.abort();
    all_are_handled(&fleet).await;
    assert_eq!(fleet.repeated(), NOBODY);
    fleet.check_history();
    fleet.check_nothing_is_lost();
    first.stop().await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_settles_and_writes_before_it_releases_and_the_asker_goes_on_there() {
    let fleet = Fleet::of_shards(2);
    for n in 0..2 {
        fleet.put_all(&shard(n), 0..40);
    }
    let slow = |_: &_| ack_after(2 * SECOND);
    let first = fleet.instance("a").handler(slow).start().await;
    let second = fleet.instance("b").handler(slow).start().await;
    shared(&fleet, &keys(2), &["a", "b"], &[1, 1], 30 * SECOND).await;
    fleet.until_handled(80).await;
    let moved: Vec<_> = (0..2)
        .filter(|n| fleet.seen_of(&shard(*n)).iter().any(|s| s.owner == "b"))
        .collect();
    let [moved] = moved[..] else {
        panic!("{moved:?}");
    };
    let seen = fleet.seen_of(&shard(moved));
    let taken = seen.iter().position(|seen| seen.owner == "b").unwrap();
    let last = &seen[taken - 1];
    let released = &fleet.store.made_on(Call::Release, &shard(moved))[0];
    let written = fleet.store.made_on(Call::Checkpoint, &shard(moved));
    let written = written
        .iter()
        .find(|made| made.checkpoint.as_ref() == Some(&last.sequence_number));
    assert!(last.done_at.unwrap() <= written.unwrap().at);
    assert!(written.unwrap().at <= released.at);
    assert!(released.at <= last.done_at.unwrap() + SECOND);
    // From the last settling here to the first record there, with the reserved row and a listing between.
    assert!(seen[taken].at - last.done_at.unwrap() <= 4 * SECOND);
    assert_eq!(fleet.repeated(), NOBODY);
    first.stop().await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_hundred_streams_of_one_shard_spread_as_one_stream_of_a_hundred_does() {
    let fleet = Fleet::empty();
    let names = streams(100);
    let keys: Vec<_> = names
        .iter()
        .map(|name| LeaseKey::new(name, shard(0)))
        .collect();
    for name in &names {
        fleet.sim.create_stream(name, 1);
    }
    let instance = |owner: &str| -> Builder {
        let streams = names
            .iter()
            .map(|name| from_the_start(name).poll_interval(5 * SECOND));
        fleet.instance(owner).streams(streams)
    };
    let first = instance("a").start().await;
    let second = instance("b").start().await;
    shared(&fleet, &keys, &["a", "b"], &[50, 50], 30 * SECOND).await;
    assert_eq!(fleet.store.grants(), 150);
    sleep(30 * SECOND).await;
    assert_eq!(fleet.store.grants(), 150);
    first.stop().await;
    shared(&fleet, &keys, &["b"], &[100], 5 * SECOND).await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn once_balanced_nothing_moves() {
    for (shards, owners) in [(1, 3), (2, 5), (8, 3), (7, 2), (30, 4)] {
        let fleet = Fleet::of_shards(shards);
        let mut instances = Vec::new();
        for n in 0..owners {
            let streams = [from_the_start(STREAM).poll_interval(30 * SECOND)];
            let instance = fleet.instance(&format!("i{n}")).streams(streams);
            instances.push(instance.start().await);
        }
        sleep(60 * SECOND).await;
        let owners: Vec<_> = (0..owners).map(|n| format!("i{n}")).collect();
        let owners: Vec<_> = owners.iter().map(String::as_str).collect();
        let before = counts(&fleet, &keys(shards), &owners).await;
        let (most, least) = (before.iter().max().unwrap(), before.iter().min().unwrap());
        assert!(most - least <= 1, "{before:?}");
        let acquired = fleet.store.made_of(Call::Acquire).len();
        let released = fleet.store.made_of(Call::Release).len();
        let asked = fleet.store.made_of(Call::Ask).len();
        sleep(600 * SECOND).await;
        assert_eq!(fleet.store.made_of(Call::Acquire).len(), acquired);
        assert_eq!(fleet.store.made_of(Call::Release).len(), released);
        assert_eq!(fleet.store.made_of(Call::Ask).len(), asked);
        for instance in instances {
            instance.kill();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn instances_that_join_and_leave_at_once_are_even_within_30_s() {
    let fleet = Fleet::of_shards(24);
    let keys = keys(24);
    let feeding = feed(&fleet, 24);
    let first = fleet.instance("a").start().await;
    sleep(20 * SECOND).await;
    let (second, third, fourth, fifth) = tokio::join!(
        fleet.instance("b").start(),
        fleet.instance("c").start(),
        fleet.instance("d").start(),
        fleet.instance("e").start(),
    );
    let before = fleet.store.grants();
    let all = ["a", "b", "c", "d", "e"];
    shared(&fleet, &keys, &all, &[5, 5, 5, 5, 4], 30 * SECOND).await;
    sleep(30 * SECOND).await;
    let moves = fleet.store.grants() - before;
    assert!(moves <= 19 + 5, "{moves} moves");

    // Two leave and one comes, in one moment.
    let (sixth, (), ()) = tokio::join!(fleet.instance("f").start(), second.stop(), first.stop());
    let all = ["c", "d", "e", "f"];
    shared(&fleet, &keys, &all, &[6, 6, 6, 6], 30 * SECOND).await;
    feeding.abort();
    all_are_handled(&fleet).await;
    assert_eq!(fleet.repeated(), NOBODY);
    fleet.check_history();
    fleet.check_nothing_is_lost();
    for instance in [third, fourth, fifth, sixth] {
        instance.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn instances_that_start_together_on_an_empty_store_share_it_within_30_s() {
    let fleet = Fleet::of_shards(9);
    let (first, second, third) = tokio::join!(
        fleet.instance("a").start(),
        fleet.instance("b").start(),
        fleet.instance("c").start(),
    );
    let owners = ["a", "b", "c"];
    shared(&fleet, &keys(9), &owners, &[3, 3, 3], 30 * SECOND).await;
    for instance in [first, second, third] {
        instance.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_killed_instance_leaves_the_others_even_within_30_s() {
    let fleet = Fleet::of_shards(9);
    let keys = keys(9);
    let first = fleet.instance("a").start().await;
    let second = fleet.instance("b").start().await;
    let third = fleet.instance("c").start().await;
    let owners = ["a", "b", "c"];
    shared(&fleet, &keys, &owners, &[3, 3, 3], 60 * SECOND).await;
    second.kill();
    shared(&fleet, &keys, &["a", "c"], &[5, 4], 30 * SECOND).await;
    first.kill();
    third.kill();
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_that_cannot_settle_is_declined_and_another_shard_moves() {
    let fleet = Fleet::of_shards(4);
    for n in 0..4 {
        fleet.put_all(&shard(n), 0..1_000);
    }
    // Three shards settle quickly, whichever of them is asked for; one takes for ever.
    let handler = |seen: &crate::support::Seen| {
        if seen.shard == shard(0) || seen.shard == shard(1) {
            ack_after(100 * SECOND)
        } else {
            ack_after(SECOND)
        }
    };
    let first = fleet.instance("a").handler(handler).start().await;
    let second = fleet.instance("b").handler(handler).start().await;
    shared(&fleet, &keys(4), &["a", "b"], &[2, 2], 240 * SECOND).await;
    sleep(600 * SECOND).await;
    // What was declined was read on, without a gap.
    for n in 0..4 {
        let seen = fleet.seen_of(&shard(n));
        for pair in seen.windows(2) {
            let gap = pair[1].at - pair[0].done_at.unwrap();
            let limit = if pair[0].owner == pair[1].owner { 1 } else { 6 };
            assert!(gap <= limit * SECOND, "{gap:?}: {pair:?}");
        }
    }
    assert_eq!(fleet.repeated(), NOBODY);
    fleet.check_history();
    first.kill();
    second.kill();
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_of_shards_that_never_settle_in_time_costs_no_reading() {
    let fleet = Fleet::of_shards(2);
    for n in 0..2 {
        fleet.put_all(&shard(n), 0..100);
    }
    let slow = |_: &_| ack_after(15 * SECOND);
    let first = fleet
        .instance("a")
        .handler(slow)
        .configure(|broker| broker.hand_over_timeout(3 * SECOND))
        .start()
        .await;
    let second = fleet.instance("b").handler(slow).start().await;
    sleep(300 * SECOND).await;
    for n in 0..2 {
        let seen = fleet.seen_of(&shard(n));
        for pair in seen.windows(2) {
            let gap = pair[1].at - pair[0].done_at.unwrap();
            let limit = if pair[0].owner == pair[1].owner { 1 } else { 6 };
            assert!(gap <= limit * SECOND, "{gap:?}: {pair:?}");
        }
    }
    assert_eq!(fleet.repeated(), NOBODY);
    first.kill();
    second.kill();
}

#[tokio::test(start_paused = true)]
async fn an_asker_that_dies_leaves_no_shard_unread_longer_than_one_lease() {
    for alive in [1, 3, 4, 6, 8, 9, 12] {
        let fleet = Fleet::of_shards(4);
        let feeding = feed(&fleet, 4);
        let first = fleet.instance("a").start().await;
        sleep(20 * SECOND).await;
        let second = fleet.instance("b").start().await;
        sleep(SECOND * alive).await;
        second.kill();
        sleep(60 * SECOND).await;
        feeding.abort();
        all_are_handled(&fleet).await;
        for (shard, seen) in fleet.by_shard() {
            for pair in seen.windows(2) {
                let gap = pair[1].at - pair[0].at;
                // A lease, and what comes between two records, two reads or two listings.
                assert!(gap <= 14 * SECOND, "{alive}: {shard}: {gap:?}");
            }
        }
        assert_eq!(counts(&fleet, &keys(4), &["a"]).await, [4]);
        fleet.check_history();
        fleet.check_nothing_is_lost();
        first.kill();
    }
}

#[tokio::test(start_paused = true)]
async fn instances_that_read_different_streams_leave_each_other_what_they_do_not_read() {
    let fleet = Fleet::empty();
    for (name, shards) in [("left", 2), ("both", 8), ("right", 2)] {
        fleet.sim.create_stream(name, shards);
    }
    let of = |names: &[&str]| -> Vec<_> { names.iter().map(|name| from_the_start(name)).collect() };
    let first = fleet
        .instance("a")
        .streams(of(&["left", "both"]))
        .start()
        .await;
    let second = fleet
        .instance("b")
        .streams(of(&["both", "right"]))
        .start()
        .await;
    let keys = |name: &str, shards: usize| -> Vec<_> {
        (0..shards).map(|n| LeaseKey::new(name, shard(n))).collect()
    };
    let (left, both, right) = (keys("left", 2), keys("both", 8), keys("right", 2));
    // Neither sees the other with two more, of what it reads, than it holds in all.
    within(30 * SECOND, "they are even", async || {
        let of_both = counts(&fleet, &both, &["a", "b"]).await;
        let of_left = counts(&fleet, &left, &["a", "b"]).await;
        let of_right = counts(&fleet, &right, &["a", "b"]).await;
        let are_even = of_both[0] < of_both[1] + 2 + 2 && of_both[1] < of_both[0] + 2 + 2;
        (of_left == [2, 0] && of_right == [0, 2] && are_even).then_some(())
    })
    .await;
    sleep(30 * SECOND).await;
    let grants = fleet.store.grants();
    sleep(120 * SECOND).await;
    assert_eq!(fleet.store.grants(), grants);
    for made in fleet.store.made_by(Call::Acquire, "a") {
        assert!(!made.key.starts_with("right"), "{made:?}");
    }
    for made in fleet.store.made_by(Call::Acquire, "b") {
        assert!(!made.key.starts_with("left"), "{made:?}");
    }
    // What only the dead one read is read by nobody; what both read is.
    first.kill();
    within(20 * SECOND, "b has what it reads", async || {
        (counts(&fleet, &both, &["b"]).await == [8]).then_some(())
    })
    .await;
    second.kill();
}

#[tokio::test(start_paused = true)]
async fn an_asked_holder_learns_of_it_and_hands_over_before_its_lease_is_over() {
    let fleet = Fleet::of_shards(2);
    let first = fleet.instance("a").start().await;
    sleep(30 * SECOND).await;
    let joined = Instant::now();
    let second = fleet.instance("b").start().await;
    shared(&fleet, &keys(2), &["a", "b"], &[1, 1], 30 * SECOND).await;
    assert!(joined.elapsed() <= 16 * SECOND, "{:?}", joined.elapsed());
    assert!(
        fleet
            .store
            .made_of(Call::Acquire)
            .iter()
            .all(|made| made.outcome == Outcome::Yes)
    );
    first.stop().await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_ask_or_a_lost_answer_to_one_does_not_keep_shards_from_spreading() {
    for trouble in [Trouble::Fails, Trouble::LosesAnswer, Trouble::Hangs] {
        let fleet = Fleet::of_shards(6);
        let first = fleet.instance("a").start().await;
        fleet.store.trouble(Call::Ask, trouble, 2);
        let second = fleet.instance("b").start().await;
        shared(&fleet, &keys(6), &["a", "b"], &[3, 3], 40 * SECOND).await;
        first.stop().await;
        second.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn five_thousand_shards_are_listed_within_the_period_and_in_batches() {
    let fleet = Fleet::of_shards(5_000);
    let streams = [from_the_start(STREAM).poll_interval(600 * SECOND)];
    let instance = fleet
        .instance("a")
        .streams(streams)
        .handler(|_| ack())
        .start()
        .await;
    assert_eq!(counts(&fleet, &keys(5_000), &["a"]).await, [5_000]);
    let reads = fleet.store.made_of(Call::ReadAll).len();
    let pages = fleet.sim.calls(Operation::ListShards);
    sleep(30 * SECOND).await;
    let listings = fleet.store.made_of(Call::ReadAll).len() - reads;
    assert!((9..=11).contains(&listings), "{listings}");
    let pages = fleet.sim.calls(Operation::ListShards) - pages;
    assert!(pages <= 11 * 5, "{pages}");
    assert!(fleet.store.made_of(Call::Read).is_empty());
    assert!(instance.errors().is_empty());
    instance.kill();
}
