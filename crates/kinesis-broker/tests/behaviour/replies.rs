//! What handlers publish: stored before the record is settled, in order, and only where it is settled.

use std::time::Duration;

use kinesis_broker::{DeadLetter, KinesisStream};
use kinesis_sim::{Fault, Operation};
use rstream::broker::Subscription;
use rstream::{HandlerOutcome, Out, RetryPolicy, subscriber};
use tokio::time::{Instant, sleep};

use crate::support::{
    Act, Batches, Call, Fleet, Receipt, Recorder, Replies, STREAM, Seen, Trouble, ack,
    from_the_start, panics, say, shard, until, within,
};

const SECOND: Duration = Duration::from_secs(1);

/// Returns a receipt for each record under each of these keys.
fn returns<const N: usize>(
    keys: [&'static str; N],
) -> impl Fn(KinesisStream, Recorder) -> Subscription {
    move |stream, recorder| {
        subscriber(stream, Replies::new(recorder, keys))
            .retry(RetryPolicy::fixed(SECOND).max_attempts(3))
            .dead_letter("dead")
            .reply("receipts")
            .build::<u64>()
    }
}

/// Sends a receipt for each record, and a note, before the handler says how it ends.
fn sends(stream: KinesisStream, recorder: Recorder) -> Subscription {
    subscriber(stream, Replies::new(recorder, ["k"]))
        .retry(RetryPolicy::fixed(SECOND))
        .outs((Out::to("receipts"), Out::to("notes")))
        .build::<u64>()
}

fn fleet() -> Fleet {
    let fleet = Fleet::of_shards(1);
    for stream in ["receipts", "notes", "dead"] {
        fleet.sim.create_stream(stream, 2);
    }
    fleet
}

/// What lies among the receipts: value and attempt of each.
fn receipts(fleet: &Fleet) -> Vec<(u64, u32)> {
    let stored = fleet.stored("receipts").into_iter();
    stored
        .map(|record| {
            let receipt: Receipt = serde_json::from_slice(&record.data).unwrap();
            assert_eq!(receipt.key, record.partition_key);
            (receipt.value, receipt.attempt)
        })
        .collect()
}

fn notes(fleet: &Fleet) -> Vec<String> {
    let stored = fleet.stored("notes").into_iter();
    stored
        .map(|record| serde_json::from_slice(&record.data).unwrap())
        .collect()
}

async fn until_settled(fleet: &Fleet, at: &str) {
    until("all is settled", async || {
        fleet.checkpoint(&shard(0)).await == at
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_returns_is_stored_under_its_key_and_only_then_is_the_record_settled() {
    let fleet = fleet();
    fleet.put(&shard(0), 7);
    let last = fleet.put(&shard(0), 8);
    fleet
        .sim
        .inject(Fault::late_answer(5 * SECOND).on(Operation::PutRecords));
    let began = Instant::now();
    let a = fleet
        .instance("a")
        .subscription(returns(["k"]))
        .start()
        .await;
    until("it is stored", async || receipts(&fleet) == [(7, 1)]).await;
    assert!(fleet.store.made_of(Call::Checkpoint).is_empty());
    assert_eq!(fleet.values(), [7], "the next one waits");
    until_settled(&fleet, &last).await;
    let written = &fleet.store.made_of(Call::Checkpoint)[0];
    assert_eq!((written.at - began).as_secs(), 5);
    assert_eq!(receipts(&fleet), [(7, 1), (8, 1)]);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_sends_is_stored_in_each_stream_before_the_record_is_settled() {
    let fleet = fleet();
    let put = fleet.put(&shard(0), 7);
    let slow = Fault::late_answer(5 * SECOND).on(Operation::PutRecords);
    fleet.sim.inject(slow.stream("notes"));
    let began = Instant::now();
    let a = fleet.instance("a").subscription(sends).start().await;
    until_settled(&fleet, &put).await;
    let written = &fleet.store.made_of(Call::Checkpoint)[0];
    assert_eq!((written.at - began).as_secs(), 5);
    assert_eq!(receipts(&fleet), [(7, 1)]);
    assert_eq!(notes(&fleet), ["7 at attempt 1"]);
    assert_eq!(fleet.stored("notes")[0].partition_key, "notes");
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_before_a_retry_or_a_panic_is_thrown_away() {
    let fleet = fleet();
    fleet.put(&shard(0), 7);
    let last = fleet.put(&shard(0), 8);
    let a = fleet
        .instance("a")
        .subscription(sends)
        .handler(|seen| match (seen.value, seen.attempt) {
            (7, 1) => say(HandlerOutcome::retry()),
            (7, 2) => panics(),
            (7, 3) => say(HandlerOutcome::ack_until(0)),
            (7, 4) => say(HandlerOutcome::retry_after(SECOND)),
            (8, 1) => say(HandlerOutcome::dead_letter("there is no place for it")),
            (8, _) => say(HandlerOutcome::drop()),
            _ => ack(),
        })
        .start()
        .await;
    until_settled(&fleet, &last).await;
    assert_eq!(receipts(&fleet), [(7, 5), (8, 2)]);
    assert_eq!(notes(&fleet), ["7 at attempt 5", "8 at attempt 2"]);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn replies_that_fail_in_part_are_put_again_alone_and_each_key_keeps_its_order() {
    let fleet = fleet();
    fleet.put_all(&shard(0), 0..30);
    for fault in [
        Fault::partial(2).rate(0.5).times(20),
        Fault::throttle().rate(0.3).times(10),
    ] {
        fleet.sim.inject(fault.on(Operation::PutRecords));
    }
    let a = fleet
        .instance("a")
        .subscription(returns(["x", "y", "z", "x"]))
        .start()
        .await;
    let last = fleet.stored(STREAM).pop().unwrap().sequence_number;
    until_settled(&fleet, &last).await;
    assert!(fleet.sim.faults_struck() > 10);
    for (key, times) in [("x", 2), ("y", 1), ("z", 1)] {
        let stored = fleet.stored("receipts").into_iter();
        let values: Vec<_> = stored
            .filter(|record| record.partition_key == key)
            .map(|record| {
                serde_json::from_slice::<Receipt>(&record.data)
                    .unwrap()
                    .value
            })
            .collect();
        let expected = (0..30).flat_map(|value| std::iter::repeat_n(value, times));
        assert_eq!(values, Vec::from_iter(expected), "{key}");
    }
    assert!(a.errors().is_empty(), "{:?}", a.errors());
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_stream_of_the_replies_the_record_waits_and_its_handler_is_not_called_again() {
    let fleet = Fleet::of_shards(1);
    fleet.sim.create_stream("notes", 1);
    let put = fleet.put(&shard(0), 7);
    let a = fleet.instance("a").subscription(sends).start().await;
    sleep(300 * SECOND).await;
    let errors = a.errors_of("NotStored");
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].text.contains("receipts") && errors[0].text.contains(&put));
    assert_eq!(fleet.checkpoint(&shard(0)).await, "");
    fleet.sim.create_stream("receipts", 1);
    within(11 * SECOND, "it goes on", async || {
        (fleet.checkpoint(&shard(0)).await == put).then_some(())
    })
    .await;
    assert_eq!(fleet.values(), [7]);
    assert_eq!(receipts(&fleet), [(7, 1)]);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_no_stream_takes_makes_the_record_fail_with_the_reason() {
    let fleet = fleet();
    let long_key: &'static str = "k".repeat(300).leak();
    fleet.put_all(&shard(0), 0..1);
    let a = fleet
        .instance("a")
        .subscription(returns(["k", long_key]))
        .start()
        .await;
    until("it is given up", async || !fleet.stored("dead").is_empty()).await;
    let attempts: Vec<_> = fleet.seen().iter().map(|seen| seen.attempt).collect();
    assert_eq!(attempts, [1, 2, 3]);
    let letter = DeadLetter::parse(&fleet.stored("dead")[0].data).unwrap();
    assert!(letter.reason.contains("partition key"), "{letter:?}");
    assert!(letter.reason.contains("receipts"), "{letter:?}");
    assert_eq!((&letter.payload[..], letter.attempts), (&b"0"[..], 3));
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_reply_larger_than_its_stream_takes_makes_the_record_fail_with_the_reason() {
    #[derive(Debug)]
    struct Large;

    impl rstream::Handle<u64, (), Out<String>> for Large {
        async fn handle(
            &self,
            _: &u64,
            out: &Out<String>,
            _: &mut rstream::Context<'_>,
        ) -> Result<(), HandlerOutcome> {
            out.send_keyed("k", &"x".repeat(1024 * 1024))?;
            Ok(())
        }
    }

    let fleet = fleet();
    let put = fleet.put(&shard(0), 0);
    let a = fleet
        .instance("a")
        .subscription(|stream, _| {
            subscriber(stream, Large)
                .retry(RetryPolicy::fixed(SECOND).max_attempts(1))
                .dead_letter("dead")
                .outs(Out::to("notes"))
                .build::<u64>()
        })
        .start()
        .await;
    until_settled(&fleet, &put).await;
    let letter = DeadLetter::parse(&fleet.stored("dead")[0].data).unwrap();
    assert!(letter.reason.contains("cannot be stored"), "{letter:?}");
    assert!(letter.reason.contains("notes"), "{letter:?}");
    assert!(fleet.stored("notes").is_empty());
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_between_reply_and_checkpoint_loses_nothing() {
    let fleet = fleet();
    let put = fleet.put(&shard(0), 7);
    fleet.store.always_of(Call::Checkpoint, "a", Trouble::Hangs);
    let a = fleet
        .instance("a")
        .subscription(returns(["k"]))
        .start()
        .await;
    until("it is stored, and that is not written", async || {
        receipts(&fleet).len() == 1 && !fleet.store.made_of(Call::Checkpoint).is_empty()
    })
    .await;
    a.kill();
    let b = fleet
        .instance("b")
        .subscription(returns(["k"]))
        .start()
        .await;
    until_settled(&fleet, &put).await;
    assert_eq!(receipts(&fleet), [(7, 1), (7, 1)], "at least once");
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_before_its_replies_are_stored_loses_nothing() {
    let fleet = fleet();
    let put = fleet.put(&shard(0), 7);
    fleet.sim.inject(Fault::hang().on(Operation::PutRecords));
    let a = fleet
        .instance("a")
        .subscription(returns(["k"]))
        .start()
        .await;
    until("they are on their way", async || {
        fleet.sim.faults_struck() == 1
    })
    .await;
    a.kill();
    let b = fleet
        .instance("b")
        .subscription(returns(["k"]))
        .start()
        .await;
    until_settled(&fleet, &put).await;
    assert!(!receipts(&fleet).is_empty());
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn with_concurrency_each_record_waits_for_its_own_replies_alone() {
    let fleet = fleet();
    fleet.put_all(&shard(0), 0..20);
    // The first of the calls, and no other, is answered late.
    fleet
        .sim
        .inject(Fault::late_answer(8 * SECOND).on(Operation::PutRecords));
    let began = Instant::now();
    let a = fleet
        .instance("a")
        .streams([from_the_start(STREAM).concurrency(4)])
        .subscription(|stream, recorder| {
            subscriber(stream, ByValue(recorder))
                .reply("receipts")
                .build::<u64>()
        })
        .handler(|seen: &Seen| Act {
            takes: Duration::from_millis(10 * (seen.value + 1)),
            ..ack()
        })
        .start()
        .await;
    within(5 * SECOND, "the others go on", async || {
        (receipts(&fleet).len() == 20).then_some(())
    })
    .await;
    assert_eq!(fleet.checkpoint(&shard(0)).await, "");
    let last = fleet.stored(STREAM).pop().unwrap().sequence_number;
    until_settled(&fleet, &last).await;
    assert!(began.elapsed() >= 8 * SECOND);
    let mut stored = receipts(&fleet);
    stored.sort_unstable();
    assert_eq!(stored, Vec::from_iter((0..20).map(|value| (value, 1))));
    a.stop().await;
}

/// Returns one receipt, under a key of the value's own.
#[derive(Debug)]
struct ByValue(Recorder);

impl rstream::Handle<u64, Receipt> for ByValue {
    async fn handle(
        &self,
        value: &u64,
        _: &(),
        ctx: &mut rstream::Context<'_>,
    ) -> Result<Receipt, HandlerOutcome> {
        rstream::Handle::<u64>::handle(&self.0, value, &(), ctx).await?;
        Ok(Receipt {
            key: value.to_string(),
            value: *value,
            attempt: ctx.attempt(),
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_handled_in_part_publishes_what_it_sent() {
    /// Sends each value, and handles all but the last.
    struct AllButTheLast(Batches);

    impl rstream::Handle<[u64], (), Out<u64>> for AllButTheLast {
        async fn handle(
            &self,
            values: &[u64],
            out: &Out<u64>,
            ctx: &mut rstream::Context<'_>,
        ) -> Result<(), HandlerOutcome> {
            rstream::Handle::<[u64]>::handle(&self.0, values, &(), ctx).await?;
            let handled = (values.len() - 1).max(1);
            for value in &values[..handled] {
                out.send_keyed("k", value)?;
            }
            Err(HandlerOutcome::ack_until(handled))
        }
    }

    let fleet = fleet();
    fleet.put_all(&shard(0), 0..4);
    let batches = Batches::new(|_| ack());
    let handler = batches.clone();
    let a = fleet
        .instance("a")
        .subscription(move |stream, _| {
            subscriber(stream, AllButTheLast(handler.clone()))
                .batch(4, Duration::ZERO)
                .retry(RetryPolicy::fixed(SECOND))
                .outs(Out::to("notes"))
                .build::<u64>()
        })
        .start()
        .await;
    let last = fleet.stored(STREAM).pop().unwrap().sequence_number;
    until_settled(&fleet, &last).await;
    assert_eq!(batches.values(), [vec![0, 1, 2, 3], vec![3]]);
    let stored = fleet.stored("notes").into_iter();
    let values: Vec<u64> = stored
        .map(|record| serde_json::from_slice(&record.data).unwrap())
        .collect();
    assert_eq!(values, [0, 1, 2, 3]);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_for_a_while_leaves_the_order_of_each_key_and_repeats_nothing() {
    let fleet = fleet();
    let put = fleet.put(&shard(0), 7);
    let refused = Fault::access_denied().on(Operation::PutRecords);
    fleet.sim.inject(refused.stream("receipts").times(2));
    let a = fleet
        .instance("a")
        .subscription(|stream, recorder| {
            subscriber(stream, InTurn(recorder))
                .reply("receipts")
                .build::<u64>()
        })
        .start()
        .await;
    until_settled(&fleet, &put).await;
    for key in ["x", "y"] {
        let stored = fleet.stored("receipts").into_iter();
        let values: Vec<_> = stored
            .filter(|record| record.partition_key == key)
            .map(|record| {
                serde_json::from_slice::<Receipt>(&record.data)
                    .unwrap()
                    .value
            })
            .collect();
        assert_eq!(values, [0, 1, 2], "{key}");
    }
    assert_eq!(a.errors_of("NotStored").len(), 1);
    a.stop().await;
}

/// Returns three receipts under each of two keys, each with its place.
#[derive(Debug)]
struct InTurn(Recorder);

impl rstream::Handle<u64, Vec<Receipt>> for InTurn {
    async fn handle(
        &self,
        value: &u64,
        _: &(),
        ctx: &mut rstream::Context<'_>,
    ) -> Result<Vec<Receipt>, HandlerOutcome> {
        rstream::Handle::<u64>::handle(&self.0, value, &(), ctx).await?;
        let receipt = |place| {
            ["x", "y"].map(|key| Receipt {
                key: key.to_owned(),
                value: place,
                attempt: ctx.attempt(),
            })
        };
        Ok((0..3).flat_map(receipt).collect())
    }
}
