//! Generations: a stream that is read afresh, beside what was read before.

use std::time::Duration;

use kinesis_broker::{KinesisBroker, KinesisError, KinesisStream, StartPosition};
use kinesis_sim::{Fault, KinesisSim, Operation};
use lease_core::LeaseKey;
use rstream::{AppError, AppInfo, Context, Handle, HandlerOutcome, RustStream, subscriber};
use tokio::time::sleep;

use crate::support::{
    Call, Fleet, Instance, STREAM, Seen, Trouble, ack, ack_after, from_the_start, shard, until,
};

const SECOND: Duration = Duration::from_secs(1);

/// An instance that reads this generation from its oldest record.
async fn of_generation(fleet: &Fleet, owner: &str, generation: &str) -> Instance {
    let stream = from_the_start(STREAM).generation(generation);
    fleet.instance(owner).streams([stream]).start().await
}

/// Each value that one instance was given, the smallest first.
fn values_of(fleet: &Fleet, owner: &str) -> Vec<u64> {
    let seen = fleet.seen();
    let mut values: Vec<_> = (seen.iter())
        .filter(|seen| seen.owner == owner && seen.done_at.is_some())
        .map(|seen| seen.value)
        .collect();
    values.sort_unstable();
    values
}

async fn until_given(fleet: &Fleet, owner: &str, values: std::ops::Range<u64>) {
    let expected = Vec::from_iter(values);
    until(format_args!("{owner} is given {expected:?}"), async || {
        values_of(fleet, owner).len() >= expected.len()
    })
    .await;
    assert_eq!(values_of(fleet, owner), expected);
}

/// The texts of all checkpoints that were written under this name.
fn written(fleet: &Fleet, lease_name: &str) -> Vec<String> {
    let prefix = format!("{lease_name}:");
    let made = fleet.store.made_of(Call::Checkpoint).into_iter();
    made.filter(|made| made.key.starts_with(&prefix))
        .filter_map(|made| made.checkpoint)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_new_generation_reads_everything_again_with_what_was_resharded_and_the_old_one_goes_on_where_it_was()
 {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..3);
    let a = fleet.instance("a").start().await;
    until_given(&fleet, "a", 0..3).await;
    let children = fleet.sim.split_shard(STREAM, &shard(0));
    fleet.put_all(&children[0], 3..5);
    fleet.put_all(&children[1], 5..7);
    until_given(&fleet, "a", 0..7).await;
    a.stop().await;
    let mut before = Vec::new();
    for id in [&shard(0), &children[0], &children[1]] {
        before.push(fleet.state(id).await);
    }

    let b = of_generation(&fleet, "b", "second").await;
    until_given(&fleet, "b", 0..7).await;
    let first = fleet.seen_of(&shard(0));
    let children_of_b = |seen: &&Seen| seen.owner == "b" && seen.shard != shard(0);
    let seen = fleet.seen();
    let first_child = seen.iter().find(children_of_b).unwrap();
    assert!(
        first
            .iter()
            .all(|seen| seen.done_at.unwrap() <= first_child.at || seen.owner == "a")
    );
    assert!(fleet.seen().iter().all(|seen| seen.stream == STREAM));
    sleep(30 * SECOND).await;
    b.stop().await;
    for (id, before) in [&shard(0), &children[0], &children[1]]
        .into_iter()
        .zip(before)
    {
        assert_eq!(fleet.state(id).await, before, "{id}");
    }

    fleet.put(&children[0], 7);
    let c = fleet.instance("c").start().await;
    until_given(&fleet, "c", 7..8).await;
    c.stop().await;
}

#[tokio::test(start_paused = true)]
async fn generations_read_one_stream_beside_each_other_each_for_itself() {
    let fleet = Fleet::of_shards(2);
    for n in 0..2 {
        fleet.put_all(&shard(n), 10 * n as u64..10 * n as u64 + 5);
    }
    let old = fleet.instance("old").start().await;
    let one = of_generation(&fleet, "one", "second").await;
    let other = of_generation(&fleet, "other", "second").await;
    until("both generations are read", async || {
        let second = values_of(&fleet, "one").len() + values_of(&fleet, "other").len();
        values_of(&fleet, "old").len() == 10 && second == 10
    })
    .await;
    let of_generation = |n: usize| LeaseKey::new("inventory@second", shard(n));
    until("the second is shared", async || {
        let mut owners = Vec::new();
        for n in 0..2 {
            let state = fleet.store.state(&of_generation(n)).await;
            owners.extend(state.holder.map(|holder| holder.owner));
        }
        owners.sort();
        owners == ["one", "other"]
    })
    .await;
    sleep(60 * SECOND).await;
    for n in 0..2 {
        assert_eq!(fleet.owner(&shard(n)).await, "old");
    }
    assert_eq!(fleet.seen().len(), 20, "nothing twice in either");
    assert_eq!(written(&fleet, "inventory").len(), 10);
    assert_eq!(written(&fleet, "inventory@second").len(), 10);
    for instance in [old, one, other] {
        assert!(instance.errors().is_empty(), "{:?}", instance.errors());
        instance.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_generation_opens_at_its_own_start_position() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..3);
    let a = fleet.instance("a").start().await;
    until_given(&fleet, "a", 0..3).await;
    a.stop().await;
    sleep(10 * SECOND).await;
    let stream = KinesisStream::new(STREAM)
        .generation("tip")
        .start_at(StartPosition::latest());
    let b = fleet.instance("b").streams([stream]).start().await;
    fleet.put(&shard(0), 3);
    until_given(&fleet, "b", 3..4).await;
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn errors_of_a_generation_bear_the_name_of_the_stream() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..2);
    fleet.sim.put_to_shard(STREAM, &shard(0), "k", "no number");
    fleet.store.trouble(Call::Checkpoint, Trouble::Fails, 1);
    fleet.store.trouble(Call::Acquire, Trouble::Fails, 1);
    fleet.store.trouble(Call::ReadAll, Trouble::Fails, 1);
    let stream = from_the_start(STREAM).generation("second");
    let a = fleet
        .instance("a")
        .streams([stream])
        .configure(|broker| broker.shutdown_timeout(5 * SECOND))
        .handler(|seen| match seen.value {
            0 | 1 => ack(),
            _ => ack_after(600 * SECOND),
        })
        .start()
        .await;
    until("all three are met", async || {
        a.errors_of("Lease").len() >= 3 && !a.errors_of("Undecodable").is_empty()
    })
    .await;
    for operation in [Operation::ListShards, Operation::GetRecords] {
        fleet.sim.inject(Fault::access_denied().on(operation));
    }
    until("the service fails", async || {
        !a.errors_of("Listing").is_empty() && !a.errors_of("Read").is_empty()
    })
    .await;
    fleet.put(&shard(0), 2);
    until("it is in hand", async || fleet.values().contains(&2)).await;
    let reported = a.reported();
    a.stop().await;
    let reported = reported.lock().unwrap().clone();
    assert!(reported.iter().any(|error| error.kind == "Unsettled"));
    for error in reported {
        assert!(error.text.contains("stream inventory"), "{error:?}");
        assert!(!error.text.contains('@'), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_generation_is_moved_under_the_streams_name_and_stays_in_its_own_rows() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..3);
    let a = of_generation(&fleet, "a", "second").await;
    until_given(&fleet, "a", 0..3).await;
    a.seek(StartPosition::trim_horizon()).await.unwrap();
    fleet.until_handled(6).await;
    assert_eq!(fleet.values(), [0, 1, 2, 0, 1, 2]);
    assert!(written(&fleet, "inventory").is_empty());
    a.stop().await;
}

struct Ignore;

impl Handle<u64> for Ignore {
    async fn handle(&self, _: &u64, _: &(), _: &mut Context<'_>) -> Result<(), HandlerOutcome> {
        Ok(())
    }
}

async fn refused(
    streams: impl IntoIterator<Item = KinesisStream>,
) -> Box<dyn std::error::Error + Send + Sync> {
    let broker = KinesisBroker::from_config(&KinesisSim::new().sdk_config());
    let app = RustStream::new(AppInfo::new("test", "0.0.0")).with_broker(broker, |b| {
        for stream in streams {
            b.include(subscriber(stream, Ignore).build());
        }
    });
    match app.start().await {
        Err(AppError::Broker { source, .. }) => source,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_can_be_no_generation_is_an_error_at_start() {
    for bad in ["", "a b", "a@b", "a:b", "ä", &"x".repeat(65)] {
        let error = refused([KinesisStream::new(STREAM).generation(bad)]).await;
        let Some(KinesisError::Generation { stream, generation }) = error.downcast_ref() else {
            panic!("{error:?}")
        };
        assert_eq!((&**stream, &**generation), (STREAM, bad));
    }
}

#[tokio::test(start_paused = true)]
async fn two_generations_of_one_stream_on_one_broker_are_an_error_at_start() {
    let error = refused([
        KinesisStream::new(STREAM),
        KinesisStream::new(STREAM).generation("second"),
    ])
    .await;
    let Some(KinesisError::TwoSubscriptions { stream }) = error.downcast_ref() else {
        panic!("{error:?}")
    };
    assert_eq!(stream, STREAM);
}
