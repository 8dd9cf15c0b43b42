//! DESIGN §6: which shards may be read, where each opens, and which rows are forgotten.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::types::ScalingType;
use kinesis_broker::KinesisStream;
use kinesis_sim::{Fault, Operation};
use lease_core::{Checkpoint, SHARD_END};
use rstream::HandlerOutcome;
use tokio::time::{Instant, sleep};

use crate::support::{Call, Fleet, Logs, STREAM, Seen, ack, ack_after, say, shard, until};

const SECOND: Duration = Duration::from_secs(1);

/// Puts one more record for each of these many partition keys. Values are `key * 1000 + number`.
fn put_round(fleet: &Fleet, keys: u64, number: u64) {
    for key in 0..keys {
        fleet.put_key(&format!("key-{key}"), key * 1_000 + number);
    }
}

/// Every record was handled, and each partition key's in the order in which they were put: those that
/// were handled again, after a crash, count by their first time.
fn assert_in_order(fleet: &Fleet, keys: u64, rounds: u64) {
    let mut first = HashSet::new();
    let mut by_key: HashMap<String, Vec<u64>> = HashMap::new();
    for seen in fleet.seen() {
        if first.insert(seen.value) {
            let values = by_key.entry(seen.partition_key).or_default();
            values.push(seen.value);
        }
    }
    for key in 0..keys {
        let expected: Vec<_> = (0..rounds).map(|number| key * 1_000 + number).collect();
        let handled = by_key.remove(&format!("key-{key}")).unwrap_or_default();
        assert_eq!(handled, expected, "key-{key}");
    }
}

/// Every record of a shard was settled before any record of a child of it was handed over.
fn assert_parents_first(fleet: &Fleet) {
    let seen = fleet.seen();
    for child in fleet.sim.shards(STREAM) {
        let Some(first) = seen.iter().find(|seen| seen.shard == child.id) else {
            continue;
        };
        for parent in child.parent.iter().chain(&child.adjacent_parent) {
            for of_parent in seen.iter().filter(|seen| seen.shard == *parent) {
                let settled = of_parent.done_at;
                assert!(
                    settled.is_some_and(|at| at <= first.at),
                    "{first:?} before {of_parent:?}"
                );
            }
        }
    }
}

async fn all_are_handled(fleet: &Fleet, count: u64) {
    until(format!("{count} are handled"), async || {
        fleet.handled().len() as u64 >= count
    })
    .await;
    // What must not come has time to.
    sleep(10 * SECOND).await;
    assert_eq!(fleet.handled().len() as u64, count);
}

fn settled_at(seen: &[Seen]) -> Instant {
    seen.iter().filter_map(|seen| seen.done_at).max().unwrap()
}

fn first_at(fleet: &Fleet, shard: &str) -> Instant {
    fleet.seen_of(shard)[0].at
}

async fn is_finished(fleet: &Fleet, shard: &str) -> bool {
    fleet.checkpoint(shard).await == SHARD_END
}

#[tokio::test(start_paused = true)]
async fn a_split_shard_is_read_to_its_end_before_its_children_which_then_start_at_once() {
    let fleet = Fleet::of_shards(1);
    for n in 0..3 {
        fleet.put(&shard(0), n);
    }
    let _instance = fleet
        .instance("a")
        .handler(|seen| match seen.shard.as_str() {
            // It ends between two regular listings.
            "shardId-000000000000" => ack_after(Duration::from_millis(20_500)),
            _ => ack(),
        })
        .start()
        .await;
    until("the first is given", async || fleet.seen().len() == 1).await;
    let children = fleet.sim.split_shard(STREAM, &shard(0));
    for (n, child) in children.iter().enumerate() {
        fleet.put(child, 10 + n as u64);
    }
    all_are_handled(&fleet, 5).await;
    assert_parents_first(&fleet);
    assert_eq!(fleet.seen().len(), 5);
    let ended = settled_at(&fleet.seen_of(&shard(0)));
    for child in &children {
        let after = first_at(&fleet, child) - ended;
        assert!(after < SECOND, "{child} after {after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn merged_shards_are_both_read_to_their_ends_before_the_child_which_then_starts_at_once() {
    let fleet = Fleet::of_shards(2);
    fleet.put(&shard(0), 0);
    fleet.put(&shard(1), 1);
    let _instance = fleet
        .instance("a")
        .handler(|seen| match seen.value {
            0 => ack_after(10 * SECOND),
            1 => ack_after(40 * SECOND),
            _ => ack(),
        })
        .start()
        .await;
    until("both are given", async || fleet.seen().len() == 2).await;
    let child = fleet.sim.merge_shards(STREAM, &shard(0), &shard(1));
    fleet.put(&child, 2);
    all_are_handled(&fleet, 3).await;
    assert_parents_first(&fleet);
    assert!(is_finished(&fleet, &shard(0)).await && is_finished(&fleet, &shard(1)).await);
    let ended = settled_at(&fleet.seen_of(&shard(1)));
    let after = first_at(&fleet, &child) - ended;
    assert!(after < SECOND, "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn records_of_a_key_stay_in_order_through_chains_of_splits_and_merges() {
    // Resharded before anybody reads, or while it is read.
    for is_read in [false, true] {
        let fleet = Fleet::of_shards(2);
        let start = || {
            let instance = fleet.instance("a");
            instance
                .handler(|seen| ack_after(Duration::from_millis(seen.value % 7 * 30)))
                .start()
        };
        let mut running = Vec::new();
        if is_read {
            running.push(start().await);
        }
        let sim = &fleet.sim;
        let mut rounds = 0;
        let mut put = async |times| {
            for _ in 0..times {
                put_round(&fleet, 20, rounds);
                rounds += 1;
                sleep(Duration::from_millis(400)).await;
            }
        };
        put(3).await;
        let [low, middle] = sim.split_shard(STREAM, &shard(0));
        put(3).await;
        let merged = sim.merge_shards(STREAM, &middle, &shard(1));
        put(1).await;
        let [one, other] = sim.split_shard(STREAM, &merged);
        // Right away, with nothing in between.
        let [_, _] = sim.split_shard(STREAM, &one);
        let again = sim.merge_shards(STREAM, &low, &shard(7));
        put(3).await;
        let whole = sim.merge_shards(STREAM, &again, &shard(8));
        let whole = sim.merge_shards(STREAM, &whole, &other);
        put(2).await;
        if !is_read {
            running.push(start().await);
        }
        all_are_handled(&fleet, 20 * rounds).await;
        assert_in_order(&fleet, 20, rounds);
        assert_parents_first(&fleet);
        assert_eq!(fleet.seen().len() as u64, 20 * rounds, "nothing twice");
        assert_eq!(fleet.owner(&whole).await, "a");
    }
}

#[tokio::test(start_paused = true)]
async fn update_shard_count_keeps_the_order_of_each_key() {
    let fleet = Fleet::of_shards(3);
    let client = Client::new(&fleet.sim.sdk_config());
    let _instance = fleet.instance("a").start().await;
    let mut rounds = 0;
    for count in [5, 3, 4] {
        for _ in 0..4 {
            put_round(&fleet, 20, rounds);
            rounds += 1;
            sleep(Duration::from_millis(300)).await;
        }
        let request = client.update_shard_count().stream_name(STREAM);
        let request = request.scaling_type(ScalingType::UniformScaling);
        request.target_shard_count(count).send().await.unwrap();
    }
    put_round(&fleet, 20, rounds);
    rounds += 1;
    all_are_handled(&fleet, 20 * rounds).await;
    assert_in_order(&fleet, 20, rounds);
    assert_parents_first(&fleet);
    assert_eq!(fleet.seen().len() as u64, 20 * rounds, "nothing twice");
}

#[tokio::test(start_paused = true)]
async fn a_retry_in_flight_when_its_shard_is_split_still_settles_before_the_children_start() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 1);
    let _instance = fleet
        .instance("a")
        .handler(|seen| match (seen.value, seen.attempt) {
            (1, ..12) => say(HandlerOutcome::retry_after(5 * SECOND)),
            _ => ack(),
        })
        .start()
        .await;
    until("it is tried again", async || fleet.seen().len() == 2).await;
    let [child, _] = fleet.sim.split_shard(STREAM, &shard(0));
    fleet.put(&child, 2);
    all_are_handled(&fleet, 2).await;
    let values = fleet.values();
    assert_eq!(values.len(), 13);
    assert_eq!(values[12], 2);
    let after = first_at(&fleet, &child) - settled_at(&fleet.seen_of(&shard(0)));
    assert!(after < SECOND, "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_or_a_kill_in_the_middle_of_a_split_keeps_the_order_and_loses_nothing() {
    for is_killed in [false, true] {
        let fleet = Fleet::of_shards(1);
        let start = |owner: &str| {
            let instance = fleet.instance(owner);
            instance
                .handler(|seen| match seen.shard.as_str() {
                    "shardId-000000000000" => ack_after(SECOND),
                    _ => ack_after(Duration::from_millis(100)),
                })
                .start()
        };
        let first = start("a").await;
        put_round(&fleet, 8, 0);
        until("it reads", async || fleet.seen().len() == 3).await;
        let [low, _] = fleet.sim.split_shard(STREAM, &shard(0));
        put_round(&fleet, 8, 1);
        fleet.sim.split_shard(STREAM, &low);
        put_round(&fleet, 8, 2);
        sleep(1_500 * Duration::from_millis(1)).await;
        if is_killed {
            first.kill();
        } else {
            first.stop().await;
        }
        put_round(&fleet, 8, 3);
        let _second = start("b").await;
        all_are_handled(&fleet, 32).await;
        assert_in_order(&fleet, 8, 4);
        // A kill repeats what was unsettled: the one record in hand.
        let repeated = fleet.seen().len() - 32;
        assert_eq!(repeated, usize::from(is_killed));
        if !is_killed {
            assert_parents_first(&fleet);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn children_of_parents_on_several_instances_wait_for_them_wherever_they_are_read() {
    let fleet = Fleet::of_shards(4);
    let start = |owner: &str| {
        let instance = fleet.instance(owner);
        instance
            .handler(|seen| ack_after(Duration::from_millis(seen.value % 5 * 200)))
            .start()
    };
    let _first = start("a").await;
    let _second = start("b").await;
    let holds = async |owner: &str| {
        let mut count = 0;
        for shard in fleet.sim.shards(STREAM) {
            count += usize::from(fleet.owner(&shard.id).await == owner);
        }
        count
    };
    until("two and two", async || {
        holds("a").await == 2 && holds("b").await == 2
    })
    .await;
    put_round(&fleet, 20, 0);
    // A child of one parent of each instance, and children of one.
    let mut owners = Vec::new();
    for n in 0..4 {
        owners.push(fleet.owner(&shard(n)).await);
    }
    let across = (0..3).find(|&n| owners[n] != owners[n + 1]).unwrap();
    fleet
        .sim
        .merge_shards(STREAM, &shard(across), &shard(across + 1));
    put_round(&fleet, 20, 1);
    let other = if across == 2 { 0 } else { 3 };
    fleet.sim.split_shard(STREAM, &shard(other));
    put_round(&fleet, 20, 2);
    all_are_handled(&fleet, 60).await;
    assert_in_order(&fleet, 20, 3);
    assert_parents_first(&fleet);
    assert_eq!(fleet.seen().len(), 60, "nothing twice");
    for child in fleet.sim.shards(STREAM) {
        let parents = child.parent.iter().chain(&child.adjacent_parent);
        let Some(ended) = parents.map(|id| settled_at(&fleet.seen_of(id))).max() else {
            continue;
        };
        // The instance that read the parent reads on at once, and hands over afterwards.
        let after = first_at(&fleet, &child.id) - ended;
        assert!(after < SECOND, "{after:?}");
    }
    until("shared again", async || {
        holds("a").await.abs_diff(holds("b").await) <= 1
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_parent_that_is_no_longer_listed_blocks_nobody_and_is_warned_of_once() {
    let logs = Logs::start();
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 1);
    let first = fleet.instance("a").start().await;
    until("it is checkpointed", async || {
        !fleet.checkpoint(&shard(0)).await.is_empty()
    })
    .await;
    first.stop().await;
    fleet.put(&shard(0), 2);
    let children = fleet.sim.split_shard(STREAM, &shard(0));
    fleet.put(&children[0], 3);
    fleet.put(&children[1], 4);
    fleet.sim.trim(STREAM, &shard(0));

    let _second = fleet.instance("a").start().await;
    all_are_handled(&fleet, 3).await;
    assert_eq!(fleet.handled(), [1, 3, 4]);
    sleep(60 * SECOND).await;
    let warnings = logs.warnings("passed out of retention");
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert!(warnings[0].contains(&format!("stream={STREAM} ")));
    assert!(warnings[0].contains(&format!("parent={} ", shard(0))));
}

#[tokio::test(start_paused = true)]
async fn a_finished_parent_that_is_no_longer_listed_is_nothing_to_warn_of() {
    let logs = Logs::start();
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 1);
    let first = fleet.instance("a").start().await;
    until("it is handled", async || fleet.seen().len() == 1).await;
    fleet.sim.split_shard(STREAM, &shard(0));
    until("it is finished", async || {
        is_finished(&fleet, &shard(0)).await
    })
    .await;
    first.stop().await;
    fleet.put(&shard(1), 2);
    fleet.sim.trim(STREAM, &shard(0));
    let _second = fleet.instance("a").start().await;
    all_are_handled(&fleet, 2).await;
    assert!(logs.warnings("").is_empty(), "{:?}", logs.warnings(""));
}

#[tokio::test(start_paused = true)]
async fn a_parent_that_is_no_longer_listed_blocks_while_a_live_instance_holds_it() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 1);
    fleet.put(&shard(0), 2);
    let handler = |seen: &Seen| match seen.value {
        1 | 2 => ack_after(30 * SECOND),
        _ => ack(),
    };
    let _first = fleet.instance("a").handler(handler).start().await;
    until("the first is given", async || fleet.seen().len() == 1).await;
    let [child, _] = fleet.sim.split_shard(STREAM, &shard(0));
    fleet.put(&child, 3);
    fleet.sim.trim(STREAM, &shard(0));
    let _second = fleet.instance("b").handler(handler).start().await;
    all_are_handled(&fleet, 3).await;
    assert_eq!(fleet.values(), [1, 2, 3]);
    let after = first_at(&fleet, &child) - settled_at(&fleet.seen_of(&shard(0)));
    assert!(after < 5 * SECOND, "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn checkpoints_of_an_earlier_stream_of_the_name_give_way_to_trim_horizon_loudly() {
    let fleet = Fleet::of_shards(2);
    fleet.put(&shard(0), 1);
    fleet.put(&shard(1), 2);
    let first = fleet.instance("a").start().await;
    until("both are handled", async || fleet.seen().len() == 2).await;
    fleet.sim.split_shard(STREAM, &shard(0));
    until("one is finished", async || {
        is_finished(&fleet, &shard(0)).await
    })
    .await;
    first.stop().await;

    fleet.sim.delete_stream(STREAM);
    sleep(10 * SECOND).await;
    fleet.sim.create_stream(STREAM, 2);
    fleet.put(&shard(0), 3);
    fleet.put(&shard(1), 4);
    let logs = Logs::start();
    let started = Instant::now();
    // The start position is not theirs: they were read before.
    let streams = [KinesisStream::new(STREAM)];
    let _second = fleet.instance("a").streams(streams).start().await;
    all_are_handled(&fleet, 4).await;
    assert_eq!(fleet.seen().len(), 4);
    for n in 0..2 {
        let named = format!("shard={} ", shard(n));
        let mut warnings = logs.warnings("earlier stream");
        warnings.retain(|warning| warning.contains(&named));
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains(&format!("stream={STREAM} ")));
    }
    // A sequence number refutes itself; an end, which a listing may not know of yet, ten listings do.
    let after = |n| fleet.seen_of(&shard(n))[1].at - started;
    assert!(after(1) < SECOND, "{:?}", after(1));
    assert!(after(0) >= 27 * SECOND, "{:?}", after(0));
    let state = fleet.state(&shard(0)).await;
    let checkpoint = state.checkpoint.unwrap();
    assert_eq!(
        checkpoint.sequence(),
        Some(&*fleet.seen_of(&shard(0))[1].sequence_number)
    );
}

#[tokio::test(start_paused = true)]
async fn a_stream_created_again_while_it_is_read_is_read_from_its_oldest_record_loudly() {
    let fleet = Fleet::of_shards(2);
    fleet.put(&shard(0), 1);
    fleet.put(&shard(1), 2);
    let instance = fleet.instance("a").start().await;
    until("both are handled", async || fleet.seen().len() == 2).await;
    fleet.sim.split_shard(STREAM, &shard(0));
    until("one is finished", async || {
        is_finished(&fleet, &shard(0)).await
    })
    .await;
    let logs = Logs::start();
    fleet.sim.delete_stream(STREAM);
    sleep(20 * SECOND).await;
    fleet.sim.create_stream(STREAM, 3);
    for n in 0..3 {
        fleet.put(&shard(n), 3 + n as u64);
    }
    all_are_handled(&fleet, 5).await;
    assert_eq!(fleet.seen().len(), 5);
    for n in 0..2 {
        let named = format!("shard={} ", shard(n));
        let mut warnings = logs.warnings("TRIM_HORIZON");
        warnings.retain(|warning| warning.contains(&named));
        assert!(!warnings.is_empty(), "{:?}", logs.warnings(""));
    }
    assert!(!instance.errors_of("Listing").is_empty());
    fleet.put(&shard(2), 6);
    all_are_handled(&fleet, 6).await;
}

/// How many complete listings lacked the first shard before its row was forgotten.
async fn listings_until_forgotten(fleet: &Fleet) -> u64 {
    let before = fleet.sim.calls(Operation::ListShards);
    until("it is forgotten", async || {
        fleet.state(&shard(0)).await.epoch == 0
    })
    .await;
    fleet.sim.calls(Operation::ListShards) - before
}

#[tokio::test(start_paused = true)]
async fn a_finished_row_is_forgotten_after_ten_listings_in_a_row_without_the_shard() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 1);
    let instance = fleet.instance("a").start().await;
    until("it is handled", async || fleet.seen().len() == 1).await;
    let children = fleet.sim.split_shard(STREAM, &shard(0));
    fleet.put(&children[0], 2);
    fleet.put(&children[1], 3);
    until("the children are checkpointed", async || {
        !fleet.checkpoint(&children[0]).await.is_empty()
            && !fleet.checkpoint(&children[1]).await.is_empty()
    })
    .await;
    sleep(120 * SECOND).await;
    assert!(fleet.store.made_of(Call::Forget).is_empty());

    fleet.sim.trim(STREAM, &shard(0));
    // A listing that fails counts for nothing.
    sleep(12 * SECOND).await;
    let failing = Fault::internal().on(Operation::ListShards);
    fleet.sim.inject(failing.for_duration(30 * SECOND));
    sleep(31 * SECOND).await;
    assert!(fleet.store.made_of(Call::Forget).is_empty());
    listings_until_forgotten(&fleet).await;
    assert_eq!(fleet.store.made_of(Call::Forget).len(), 1);
    assert!(!fleet.checkpoint(&children[0]).await.is_empty());
    assert!(!instance.errors_of("Listing").is_empty());

    // Nothing comes of it: no child starts again.
    sleep(60 * SECOND).await;
    assert_eq!(fleet.values().len(), 3);
    assert_eq!(fleet.store.made_of(Call::Forget).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_finished_row_is_kept_until_each_child_has_a_checkpoint_of_its_own() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 1);
    let _instance = fleet.instance("a").start().await;
    until("it is handled", async || fleet.seen().len() == 1).await;
    let children = fleet.sim.split_shard(STREAM, &shard(0));
    fleet.put(&children[0], 2);
    until("it is finished", async || {
        is_finished(&fleet, &shard(0)).await && !fleet.checkpoint(&children[0]).await.is_empty()
    })
    .await;
    fleet.sim.trim(STREAM, &shard(0));
    sleep(120 * SECOND).await;
    assert!(fleet.store.made_of(Call::Forget).is_empty());
    fleet.put(&children[1], 3);
    listings_until_forgotten(&fleet).await;
    assert_eq!(fleet.handled(), [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn ten_listings_are_counted_from_the_first_that_lacks_the_shard() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 1);
    let _instance = fleet.instance("a").start().await;
    until("it is handled", async || fleet.seen().len() == 1).await;
    let children = fleet.sim.split_shard(STREAM, &shard(0));
    fleet.put(&children[0], 2);
    fleet.put(&children[1], 3);
    all_are_handled(&fleet, 3).await;
    fleet.sim.trim(STREAM, &shard(0));
    assert_eq!(listings_until_forgotten(&fleet).await, 10);
}

#[tokio::test(start_paused = true)]
async fn a_parent_whose_last_record_is_settled_but_not_its_end_is_ended_by_the_next_reader() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 1);
    let last = fleet.put(&shard(0), 2);
    let [child, _] = fleet.sim.split_shard(STREAM, &shard(0));
    fleet.put(&child, 3);
    // As a crash just after the last acknowledgement leaves it.
    fleet
        .leave_checkpoint(&shard(0), &Checkpoint::at(last))
        .await;
    let _instance = fleet.instance("a").start().await;
    all_are_handled(&fleet, 1).await;
    assert_eq!(fleet.values(), [3]);
    assert!(is_finished(&fleet, &shard(0)).await);
}

#[tokio::test(start_paused = true)]
async fn a_start_at_the_tip_with_old_closed_shards_reads_no_old_record_and_loses_no_new_one() {
    let fleet = Fleet::of_shards(2);
    let sim = &fleet.sim;
    put_round(&fleet, 10, 900);
    let [low, high] = sim.split_shard(STREAM, &shard(0));
    put_round(&fleet, 10, 901);
    let merged = sim.merge_shards(STREAM, &high, &shard(1));
    put_round(&fleet, 10, 902);
    sleep(10 * SECOND).await;

    let streams = [KinesisStream::new(STREAM)];
    let _instance = fleet.instance("a").streams(streams).start().await;
    put_round(&fleet, 10, 0);
    // Closed so soon after the start that nothing of it may have been read yet.
    sim.split_shard(STREAM, &low);
    put_round(&fleet, 10, 1);
    all_are_handled(&fleet, 20).await;
    put_round(&fleet, 10, 2);
    sim.split_shard(STREAM, &merged);
    put_round(&fleet, 10, 3);
    all_are_handled(&fleet, 40).await;
    assert_in_order(&fleet, 10, 4);
    assert_parents_first(&fleet);
    assert_eq!(fleet.seen().len(), 40);
    for past in [&shard(0), &shard(1), &high] {
        assert_eq!(fleet.state(past).await.epoch, 0, "{past} lies in the past");
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_earlier_stream_is_not_taken_for_this_ones_after_a_split() {
    let fleet = Fleet::of_shards(1);
    fleet
        .leave_checkpoint(&shard(0), &Checkpoint::shard_end())
        .await;
    fleet.put(&shard(0), 1);
    let first = fleet
        .instance("a")
        .handler(|_| ack_after(600 * SECOND))
        .start()
        .await;
    until("the record is handed over", async || {
        fleet.seen().len() == 1
    })
    .await;
    assert!(!is_finished(&fleet, &shard(0)).await);

    // It dies before its first acknowledgement, and the shard is closed by then.
    fleet.sim.split_shard(STREAM, &shard(0));
    first.kill();
    let _second = fleet.instance("b").start().await;
    until("the record is handled", async || fleet.seen().len() == 2).await;
    assert_eq!(fleet.values(), [1, 1]);
}
