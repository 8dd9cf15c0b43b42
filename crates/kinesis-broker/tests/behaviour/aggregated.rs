//! Records that a producer has packed into one: each is handed over, settled and checkpointed by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use kinesis_broker::{Checkpointing, KinesisBroker, KinesisStream, Prefetch};
use lease_core::Checkpoint;
use md5::{Digest as _, Md5};
use prost::Message;
use rstream::testing::TestApp;
use rstream::{AppInfo, Context, Handle, HandlerOutcome, RustStream, subscriber};
use tokio::time::sleep;

use crate::support::{
    Act, Call, Fleet, STREAM, Seen, ack, ack_after, from_the_start, say, shard, until, within,
};

const SECOND: Duration = Duration::from_secs(1);

#[derive(Message)]
struct Aggregated {
    #[prost(string, repeated, tag = "1")]
    partition_keys: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    records: Vec<Packed>,
}

#[derive(Message)]
struct Packed {
    #[prost(uint64, required, tag = "1")]
    partition_key: u64,
    #[prost(bytes = "vec", required, tag = "3")]
    data: Vec<u8>,
}

/// An aggregated record of these partition keys and values.
fn pack(records: &[(&str, u64)]) -> Vec<u8> {
    let message = Aggregated {
        partition_keys: records.iter().map(|(key, _)| (*key).to_owned()).collect(),
        records: (0..)
            .zip(records)
            .map(|(partition_key, (_, value))| Packed {
                partition_key,
                data: value.to_string().into_bytes(),
            })
            .collect(),
    };
    let message = message.encode_to_vec();
    let checksum = Md5::digest(&message);
    [&[0xF3, 0x89, 0x9A, 0xC2], &message[..], &checksum].concat()
}

/// Puts values from `first` on, `count` of them and each under a key of its own, into a shard as one record.
fn put_packed(fleet: &Fleet, shard: &str, first: u64, count: u64) -> String {
    let keys: Vec<_> = (first..first + count)
        .map(|value| (format!("key-{value}"), value))
        .collect();
    let records: Vec<_> = keys
        .iter()
        .map(|(key, value)| (key.as_str(), *value))
        .collect();
    fleet
        .sim
        .put_to_shard(STREAM, shard, "packed", pack(&records))
        .sequence_number
}

fn written(fleet: &Fleet) -> Vec<String> {
    let calls = fleet.store.made_on(Call::Checkpoint, &shard(0));
    calls
        .into_iter()
        .filter_map(|call| call.checkpoint)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn each_record_inside_is_handed_over_and_checkpointed_by_itself() {
    let fleet = Fleet::of_shards(1);
    let before = fleet.put(&shard(0), 0);
    let packed = put_packed(&fleet, &shard(0), 1, 3);
    let after = fleet.put(&shard(0), 4);
    let a = fleet.instance("a").start().await;
    fleet.until_handled(5).await;
    until("all is written", async || {
        fleet.checkpoint(&shard(0)).await == after
    })
    .await;
    assert_eq!(fleet.values(), [0, 1, 2, 3, 4]);
    let keys: Vec<_> = fleet
        .seen()
        .into_iter()
        .map(|seen| seen.partition_key)
        .collect();
    assert_eq!(keys, ["0", "key-1", "key-2", "key-3", "4"]);
    let expected = [
        before,
        format!("{packed}:0"),
        format!("{packed}:1"),
        // With the last one inside, the whole record is done.
        packed,
        after,
    ];
    assert_eq!(written(&fleet), expected);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_resumes_inside_skips_exactly_what_is_settled() {
    for settled in 1..6 {
        let fleet = Fleet::of_shards(1);
        put_packed(&fleet, &shard(0), 0, 6);
        fleet.put(&shard(0), 6);
        let a = fleet
            .instance("a")
            .handler(move |seen| {
                if seen.value < settled {
                    ack()
                } else {
                    ack_after(3_600 * SECOND)
                }
            })
            .start()
            .await;
        until("one hangs", async || {
            fleet.seen().len() as u64 == settled + 1
        })
        .await;
        a.kill();
        let b = fleet.instance("b").start().await;
        let of_b = |fleet: &Fleet| {
            let seen = fleet.seen().into_iter();
            seen.filter(|seen| seen.owner == "b")
                .map(|seen| seen.value)
                .collect::<Vec<_>>()
        };
        within(30 * SECOND, "b reads on", async || {
            (of_b(&fleet).last() == Some(&6)).then_some(())
        })
        .await;
        assert_eq!(of_b(&fleet), (settled..7).collect::<Vec<_>>());
        b.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_planned_move_inside_repeats_nothing() {
    let fleet = Fleet::of_shards(1);
    put_packed(&fleet, &shard(0), 0, 50);
    let a = fleet
        .instance("a")
        .handler(|_| ack_after(SECOND))
        .start()
        .await;
    until("some are handled", async || fleet.seen().len() == 20).await;
    a.stop().await;
    let b = fleet.instance("b").start().await;
    fleet.until_handled(50).await;
    assert_eq!(fleet.values(), (0..50).collect::<Vec<_>>());
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_split_records_of_the_other_child_are_passed_over_and_they_alone() {
    let fleet = Fleet::of_shards(1);
    let children = fleet.sim.split_shard(STREAM, &shard(0));
    let key = |of: usize| fleet.sim.partition_key_for(STREAM, &children[of]);
    let (left, right) = (key(0), key(1));
    let records = [
        (left.as_str(), 0),
        (right.as_str(), 1),
        (left.as_str(), 2),
        (right.as_str(), 3),
    ];
    fleet
        .sim
        .put_to_shard(STREAM, &children[0], "packed", pack(&records));
    // Its producer sends the others again.
    let again = [(right.as_str(), 1), (right.as_str(), 3)];
    let last = fleet
        .sim
        .put_to_shard(STREAM, &children[1], "packed", pack(&again))
        .sequence_number;
    let a = fleet.instance("a").start().await;
    fleet.until_handled(4).await;
    until("all is written", async || {
        fleet.checkpoint(&children[1]).await == last
    })
    .await;
    let values = |of: usize| {
        fleet
            .seen_of(&children[of])
            .iter()
            .map(|seen| seen.value)
            .collect::<Vec<_>>()
    };
    assert_eq!(values(0), [0, 2]);
    assert_eq!(values(1), [1, 3]);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_with_nothing_for_the_shard_is_passed_over_whole() {
    let fleet = Fleet::of_shards(1);
    let children = fleet.sim.split_shard(STREAM, &shard(0));
    let right = fleet.sim.partition_key_for(STREAM, &children[1]);
    fleet.sim.put_to_shard(
        STREAM,
        &children[0],
        "packed",
        pack(&[(&right, 0), (&right, 1)]),
    );
    let own = fleet.put(&children[0], 2);
    let a = fleet.instance("a").start().await;
    fleet.until_handled(1).await;
    until("it is written", async || {
        fleet.checkpoint(&children[0]).await == own
    })
    .await;
    sleep(10 * SECOND).await;
    assert_eq!(fleet.values(), [2]);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_damaged_one_is_handed_over_as_the_record_that_it_is() {
    let fleet = Fleet::of_shards(1);
    let mut data = pack(&[("k", 1), ("k", 2)]);
    *data.last_mut().unwrap() ^= 1;
    fleet.sim.put_to_shard(STREAM, &shard(0), "packed", data);
    fleet.put(&shard(0), 3);
    let a = fleet.instance("a").start().await;
    fleet.until_handled(1).await;
    assert_eq!(fleet.values(), [3]);
    assert_eq!(a.errors_of("Undecodable").len(), 1, "it is no number");
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn records_inside_have_lanes_by_their_own_keys() {
    let fleet = Fleet::of_shards(1);
    put_packed(&fleet, &shard(0), 0, 40);
    let stream: KinesisStream = from_the_start(STREAM).concurrency(8);
    let a = fleet
        .instance("a")
        .streams([stream])
        .handler(|seen| ack_after(Duration::from_millis(100 + seen.value)))
        .start()
        .await;
    fleet.until_handled(40).await;
    let seen = fleet.seen();
    let beside = |one: &Seen| {
        seen.iter()
            .filter(|other| other.at <= one.at && other.done_at > Some(one.at))
            .count()
    };
    assert_eq!(seen.iter().map(beside).max(), Some(8));
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
async fn one_of_them_is_retried_before_those_behind_it() {
    let fleet = Fleet::of_shards(1);
    put_packed(&fleet, &shard(0), 0, 4);
    let a = fleet
        .instance("a")
        .handler(|seen| match (seen.value, seen.attempt) {
            (1, ..4) => say(HandlerOutcome::retry()),
            _ => ack(),
        })
        .start()
        .await;
    fleet.until_handled(7).await;
    assert_eq!(fleet.values(), [0, 1, 1, 1, 1, 2, 3]);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_place_inside_a_record_that_has_passed_out_of_retention_is_the_oldest_record() {
    let fleet = Fleet::of_shards(1);
    let packed = put_packed(&fleet, &shard(0), 0, 4);
    fleet.put(&shard(0), 4);
    fleet
        .leave_checkpoint(&shard(0), &Checkpoint::at_sub(packed.as_str(), 1))
        .await;
    fleet.sim.trim_through(STREAM, &shard(0), &packed);
    let a = fleet.instance("a").start().await;
    fleet.until_handled(1).await;
    assert_eq!(fleet.values(), [4]);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_iterator_that_expires_inside_repeats_nothing() {
    let fleet = Fleet::of_shards(1);
    put_packed(&fleet, &shard(0), 0, 5);
    let a = fleet
        .instance("a")
        .handler(|_| ack_after(30 * SECOND))
        .start()
        .await;
    until("it is given", async || fleet.seen().len() == 2).await;
    fleet.sim.expire_iterators();
    fleet.put(&shard(0), 5);
    within(900 * SECOND, "all are handled", async || {
        (fleet
            .seen()
            .iter()
            .filter(|seen| seen.done_at.is_some())
            .count()
            == 6)
            .then_some(())
    })
    .await;
    assert_eq!(fleet.values(), (0..6).collect::<Vec<_>>());
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn in_a_test_app_each_record_inside_is_handed_over_too() {
    struct Nothing;

    impl Handle<u64> for Nothing {
        async fn handle(&self, _: &u64, _: &(), _: &mut Context<'_>) -> Result<(), HandlerOutcome> {
            Ok(())
        }
    }

    let app =
        RustStream::new(AppInfo::new("test", "0.0.0")).with_broker(KinesisBroker::new(), |b| {
            b.include(subscriber(KinesisStream::new(STREAM), Nothing).build::<u64>());
        });
    let app = TestApp::start(app).await.unwrap();
    let kinesis = app.broker::<KinesisBroker>();
    let packed = pack(&[("a", 1), ("b", 2)]);
    kinesis.payload(packed).to(STREAM).publish().await.unwrap();
    assert_eq!(kinesis.subscriber(STREAM).received::<u64>(), [1, 2]);
}

/// Partition keys of the first of two shards, or of the second.
fn keys_of(half: usize) -> Vec<String> {
    let keys = (0..).map(|n| format!("key-{n}"));
    let is_here = |key: &String| usize::from(Md5::digest(key)[0] >= 128) == half;
    keys.filter(is_here).take(5).collect()
}

/// Half a minute of planned moves of two shards with loose and packed records, and then none.
async fn planned_moves(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let fleet = Fleet::of_shards(2);
    let stream = from_the_start(STREAM)
        .concurrency(rng.usize(1..6))
        .poll_interval(Duration::from_millis(50))
        .prefetch(match rng.u8(..3) {
            0 => Prefetch::none(),
            1 => Prefetch::default().records(4),
            _ => Prefetch::default(),
        })
        .checkpointing(if rng.bool() {
            Checkpointing::EveryAck
        } else {
            Checkpointing::Interval(Duration::from_millis(rng.u64(1..5_000)))
        });
    let start = |owner: String| {
        let instance = fleet.instance(&owner).streams([stream.clone()]);
        let instance = instance.handler(|seen| {
            let takes = Duration::from_millis(seen.value * 7_919 % 400);
            // Whoever is stopped leaves a record that is being retried, and what went past it.
            let is_retried = seen.owner == "stays" && seen.value % 5 == 0 && seen.attempt < 3;
            Act {
                takes,
                ..if is_retried {
                    say(HandlerOutcome::retry_after(takes))
                } else {
                    ack()
                }
            }
        });
        instance.start()
    };
    let stays = start("stays".to_owned()).await;
    let mut others = Vec::new();
    let mut put = 0;
    for n in 0..30 {
        for _ in 0..rng.usize(..4) {
            let half = rng.usize(..2);
            let keys = keys_of(half);
            let count = rng.u64(1..12);
            let records: Vec<_> = (put..put + count)
                .map(|value| (keys[rng.usize(..keys.len())].as_str(), value))
                .collect();
            put += count;
            match records[..] {
                [(key, value)] => fleet.put_key(key, value),
                _ => drop(
                    fleet
                        .sim
                        .put_to_shard(STREAM, &shard(half), "packed", pack(&records)),
                ),
            }
        }
        match rng.u8(..6) {
            0 if others.len() < 2 => others.push(start(format!("i{n}")).await),
            1 => {
                if let Some(other) = others.pop() {
                    other.stop().await;
                }
            }
            _ => {}
        }
        sleep(Duration::from_millis(rng.u64(100..2_000))).await;
    }
    until("all are handled", async || {
        fleet.handled().len() as u64 == put
    })
    .await;
    // What is retried is settled too, before it is stopped.
    sleep(10 * SECOND).await;
    for instance in others.into_iter().chain([stays]) {
        instance.stop().await;
    }
    let mut first: Vec<_> = (fleet.seen().iter())
        .filter(|seen| seen.attempt == 1)
        .map(|seen| seen.value)
        .collect();
    first.sort_unstable();
    assert_eq!(first, (0..put).collect::<Vec<_>>(), "nothing comes anew");
    let mut by_key = BTreeMap::<_, Vec<Seen>>::new();
    for seen in fleet.seen() {
        by_key
            .entry(seen.partition_key.clone())
            .or_default()
            .push(seen);
    }
    for (key, seen) in by_key {
        for pair in seen.windows(2) {
            let is_after = pair[0].done_at.is_some_and(|done_at| done_at <= pair[1].at);
            assert!(
                is_after && pair[0].value <= pair[1].value,
                "{key}: {pair:?}"
            );
        }
    }
    for n in 0..2 {
        let last = fleet.sim.records(STREAM, &shard(n)).pop().unwrap();
        assert_eq!(fleet.checkpoint(&shard(n)).await, last.sequence_number);
    }
}

#[tokio::test(start_paused = true)]
async fn planned_moves_repeat_nothing_and_keep_the_order_of_each_key_however_records_are_packed() {
    for seed in 0..5 {
        eprintln!("seed {seed}");
        planned_moves(seed).await;
    }
}
