//! When a record that failed comes again, and what its last attempt leads to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kinesis_broker::{DeadLetter, KinesisBroker, KinesisStream};
use rstream::broker::Subscription;
use rstream::testing::TestApp;
use rstream::{AppInfo, Context, Handle, HandlerOutcome, RetryPolicy, RustStream, subscriber};
use tokio::time::{Instant, advance, sleep};

use crate::support::{
    Act, Batches, Call, Fleet, Recorder, STREAM, Seen, ack, ack_after, panics, say, shard, until,
};

const SECOND: Duration = Duration::from_secs(1);

/// A subscription by this policy, with or without a place for dead letters.
fn by(
    policy: RetryPolicy,
    dead_letters: Option<&'static str>,
) -> impl Fn(KinesisStream, Recorder) -> Subscription {
    move |stream, handler| {
        let builder = subscriber(stream, handler).retry(policy);
        match dead_letters {
            Some(to) => builder.dead_letter(to).build::<u64>(),
            None => builder.build::<u64>(),
        }
    }
}

fn fleet() -> Fleet {
    let fleet = Fleet::of_shards(1);
    fleet.sim.create_stream("dead", 1);
    fleet
}

/// The seconds between the attempts on one record.
fn pauses(seen: &[Seen], value: u64) -> Vec<u128> {
    let of_record = seen.iter().filter(|seen| seen.value == value);
    let at: Vec<_> = of_record.map(|seen| seen.at).collect();
    let pauses = at.windows(2).map(|pair| pair[1] - pair[0]);
    pauses
        .map(|pause| (pause.as_millis() + 5) / 1_000)
        .collect()
}

fn attempts(seen: &[Seen]) -> Vec<(u64, u32)> {
    seen.iter().map(|seen| (seen.value, seen.attempt)).collect()
}

fn letters(fleet: &Fleet) -> Vec<DeadLetter> {
    let stored = fleet.stored("dead").into_iter();
    stored
        .map(|record| DeadLetter::parse(&record.data).unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn the_pauses_are_those_of_the_policy() {
    let fleet = fleet();
    fleet.put_all(&shard(0), 0..2);
    let policy = RetryPolicy::exponential()
        .first(SECOND)
        .factor(3.0)
        .cap(20 * SECOND)
        .jitter(0.0);
    let a = fleet
        .instance("a")
        .subscription(by(policy, None))
        .handler(|seen| match seen.attempt {
            ..6 => say(HandlerOutcome::retry()),
            _ => ack(),
        })
        .start()
        .await;
    fleet.until_handled(12).await;
    assert_eq!(pauses(&fleet.seen(), 0), [1, 3, 9, 20, 20]);
    assert_eq!(pauses(&fleet.seen(), 1), [1, 3, 9, 20, 20], "from anew");
    assert!(a.errors().is_empty(), "{:?}", a.errors());
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_delay_of_the_handlers_own_takes_the_place_of_a_pause_and_its_attempt_counts() {
    let fleet = fleet();
    fleet.put(&shard(0), 0);
    let policy = RetryPolicy::exponential()
        .first(SECOND)
        .jitter(0.0)
        .max_attempts(4);
    let a = fleet
        .instance("a")
        .subscription(by(policy, Some("dead")))
        .handler(|seen| match seen.attempt {
            2 => say(HandlerOutcome::retry_after(17 * SECOND)),
            _ => say(HandlerOutcome::retry()),
        })
        .start()
        .await;
    until("it is given up", async || !fleet.stored("dead").is_empty()).await;
    assert_eq!(pauses(&fleet.seen(), 0), [1, 17, 4]);
    assert_eq!(letters(&fleet)[0].attempts, 4);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_its_last_attempt_a_record_is_a_dead_letter_and_the_next_one_comes() {
    let fleet = fleet();
    let poison = fleet.put(&shard(0), 0);
    let last = fleet.put(&shard(0), 1);
    let policy = RetryPolicy::fixed(SECOND).max_attempts(3);
    let a = fleet
        .instance("a")
        .subscription(by(policy, Some("dead")))
        .handler(|seen| match (seen.value, seen.attempt) {
            (0, 3) => panics(),
            (0, _) => say(HandlerOutcome::retry()),
            _ => ack(),
        })
        .start()
        .await;
    until("all is settled", async || {
        fleet.checkpoint(&shard(0)).await == last
    })
    .await;
    assert_eq!(attempts(&fleet.seen()), [(0, 1), (0, 2), (0, 3), (1, 1)]);
    let letters = letters(&fleet);
    assert_eq!(letters.len(), 1);
    assert_eq!(
        (letters[0].attempts, &letters[0].sequence_number),
        (3, &poison)
    );
    assert_eq!(
        letters[0].reason,
        "the handler panicked: a handler of a test panics"
    );
    let written = fleet.store.made_on(Call::Checkpoint, &shard(0));
    assert_eq!(written.len(), 2, "a dead letter settles as any does");
    assert!(a.errors().is_empty(), "{:?}", a.errors());
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_place_for_dead_letters_it_goes_on_after_the_last_attempt_and_says_so() {
    let fleet = fleet();
    fleet.put_all(&shard(0), 0..2);
    let policy = RetryPolicy::fixed(SECOND).max_attempts(3);
    let a = fleet
        .instance("a")
        .subscription(by(policy, None))
        .handler(|seen| match (seen.value, seen.attempt) {
            (0, ..20) => say(HandlerOutcome::retry()),
            _ => ack(),
        })
        .start()
        .await;
    fleet.until_handled(21).await;
    let seen = fleet.seen();
    assert_eq!(seen.last().unwrap().value, 1, "nothing is passed over");
    assert_eq!(pauses(&seen, 0), [1; 19]);
    let errors = a.errors_of("NoDeadLetters");
    let at: Vec<_> = (errors.iter())
        .map(|error| {
            let since = error.at - seen[0].at;
            since.as_millis().div_ceil(1_000) + 1
        })
        .collect();
    assert_eq!(
        at,
        [3, 4, 8, 16],
        "at the last attempt, and then ever less often"
    );
    assert!(errors[0].text.contains("after 3 attempts"), "{errors:?}");
    assert!(errors[0].text.contains("the handler asked for a retry"));
    assert!(errors[0].text.contains(&seen[0].sequence_number));
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_without_a_place_is_said_the_first_time_and_retried() {
    let fleet = fleet();
    fleet.put_all(&shard(0), 0..2);
    let a = fleet
        .instance("a")
        .subscription(by(RetryPolicy::fixed(SECOND), None))
        .handler(|seen| match (seen.value, seen.attempt) {
            (0, 1..3) => say(HandlerOutcome::retry()),
            (0, 3..6) => say(HandlerOutcome::dead_letter("no such sku")),
            _ => ack(),
        })
        .start()
        .await;
    fleet.until_handled(7).await;
    let errors = a.errors_of("NoDeadLetters");
    assert_eq!(errors.len(), 2, "at attempts 3 and 4: {errors:?}");
    for (error, attempts) in errors.iter().zip(["3 attempts", "4 attempts"]) {
        assert!(error.text.contains(attempts), "{error:?}");
        assert!(error.text.contains("no such sku"), "{error:?}");
    }
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_last_attempt_on_a_batch_leads_to_each_record_alone_so_that_only_what_fails_is_given_up()
 {
    let fleet = fleet();
    fleet.put_all(&shard(0), 0..7);
    let batches = Batches::new(|seen| {
        if seen.values.contains(&3) {
            say(HandlerOutcome::retry())
        } else {
            ack()
        }
    });
    let handler = batches.clone();
    let a = fleet
        .instance("a")
        .subscription(move |stream, _| {
            subscriber(stream, handler.clone())
                .batch(6, Duration::ZERO)
                .retry(RetryPolicy::fixed(SECOND).max_attempts(2))
                .dead_letter("dead")
                .build::<u64>()
        })
        .start()
        .await;
    let records = fleet.sim.records(STREAM, &shard(0));
    until("all is settled", async || {
        fleet.checkpoint(&shard(0)).await == records[6].sequence_number
    })
    .await;
    let whole = Vec::from_iter(0..6);
    let mut expected = vec![whole.clone(), whole];
    expected.extend([0, 1, 2, 3, 3, 4, 5, 6].map(|value| vec![value]));
    assert_eq!(batches.values(), expected);
    for seen in batches.seen() {
        let info = &seen.records[0];
        assert_eq!(info.partition_key, seen.values[0].to_string());
    }
    let letters = letters(&fleet);
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(&letters[0].payload[..], b"3");
    assert_eq!(letters[0].sequence_number, records[3].sequence_number);
    assert_eq!(letters[0].attempts, 4, "twice with others, twice alone");
    let written = fleet.store.made_on(Call::Checkpoint, &shard(0));
    let written: Vec<_> = written
        .into_iter()
        .filter_map(|made| made.checkpoint)
        .collect();
    let all: Vec<_> = records
        .into_iter()
        .map(|record| record.sequence_number)
        .collect();
    assert_eq!(written, all, "each is settled by itself");
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn records_of_a_batch_that_are_tried_alone_are_left_by_a_shutdown_and_come_again_elsewhere() {
    let fleet = fleet();
    fleet.put_all(&shard(0), 0..4);
    let batches = Batches::new(|seen| match (seen.owner.as_str(), seen.values.as_slice()) {
        ("a", [0]) => ack(),
        ("a", _) => say(HandlerOutcome::retry()),
        _ => ack(),
    });
    let subscribe = |batches: &Batches| {
        let handler = batches.clone();
        move |stream, _| {
            subscriber(stream, handler.clone())
                .batch(4, Duration::ZERO)
                .retry(RetryPolicy::fixed(5 * SECOND).max_attempts(2))
                .dead_letter("dead")
                .build::<u64>()
        }
    };
    let a = (fleet.instance("a"))
        .subscription(subscribe(&batches))
        .start()
        .await;
    until("the second one is tried alone", async || {
        batches.values().last() == Some(&vec![1])
    })
    .await;
    a.stop().await;
    let first = fleet.sim.records(STREAM, &shard(0))[0]
        .sequence_number
        .clone();
    assert_eq!(fleet.checkpoint(&shard(0)).await, first);
    let b = (fleet.instance("b"))
        .subscription(subscribe(&batches))
        .start()
        .await;
    until("the others come again", async || {
        batches.values().last() == Some(&vec![1, 2, 3])
    })
    .await;
    assert!(letters(&fleet).is_empty());
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_wants_its_record_back_at_once_for_ever_stops_nothing_else() {
    let fleet = Fleet::of_shards(2);
    fleet.put(&shard(0), 0);
    fleet.put(&shard(1), 1);
    let hurries_from = Instant::now() + 2 * SECOND;
    let act = move |seen: &Seen| Act {
        takes: if seen.at < hurries_from {
            SECOND / 10
        } else {
            Duration::ZERO
        },
        ..say(HandlerOutcome::retry_after(Duration::ZERO))
    };
    let a = fleet.instance("a").handler(act).start().await;
    let b = fleet.instance("b").handler(act).start().await;
    // The clock does not go on by itself: there is always something to do.
    for _ in 0..300 {
        advance(SECOND / 10).await;
    }
    assert_eq!(
        fleet.store.grants(),
        2,
        "neither shard is settled in time for a hand-over"
    );
    assert!(a.errors().is_empty(), "{:?}", a.errors());
    a.kill();
    b.kill();
}

#[tokio::test(start_paused = true)]
async fn attempts_of_a_batch_do_not_count_for_records_that_nobody_was_given() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&calls);
    let handler = Noting { calls: noted };
    let app =
        RustStream::new(AppInfo::new("test", "0.0.0")).with_broker(KinesisBroker::new(), |b| {
            let subscription = subscriber(KinesisStream::new(STREAM), handler)
                .batch(10, Duration::ZERO)
                .retry(RetryPolicy::fixed(SECOND).max_attempts(3))
                .dead_letter("dead");
            b.include(subscription.build::<u64>());
        });
    let app = TestApp::start(app).await.unwrap();
    let kinesis = app.broker::<KinesisBroker>();
    // Zero fails, and "no" cannot be decoded.
    let payloads = ["0", "1", "no", "0", "1"];
    kinesis
        .payloads(payloads)
        .to(STREAM)
        .publish()
        .await
        .unwrap();
    let calls = calls.lock().unwrap().clone();
    let once = [(1, vec![0, 1]), (2, vec![0, 1]), (3, vec![0, 1])];
    let alone = [(4, vec![0]), (5, vec![0]), (6, vec![0]), (4, vec![1])];
    let expected: Vec<_> = once.iter().chain(&alone).cloned().collect();
    assert_eq!(calls[..7], expected);
    assert_eq!(calls[7..], expected, "those behind begin anew, together");
}

type Calls = Arc<Mutex<Vec<(u32, Vec<u64>)>>>;

/// Notes what it is given, and fails on what begins with zero.
struct Noting {
    calls: Calls,
}

impl Handle<[u64]> for Noting {
    async fn handle(
        &self,
        values: &[u64],
        _: &(),
        ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        self.calls
            .lock()
            .unwrap()
            .push((ctx.attempt(), values.to_vec()));
        match values {
            [0, ..] => Err(HandlerOutcome::retry()),
            _ => Ok(()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn records_of_a_batch_that_are_tried_alone_are_settled_before_a_hand_over() {
    let fleet = Fleet::of_shards(2);
    fleet.sim.create_stream("dead", 1);
    fleet.put_all(&shard(0), 0..4);
    fleet.put_all(&shard(1), 10..14);
    // Together they fail; alone each takes a second.
    let batches = Batches::new(|seen| match seen.values.len() {
        1 => ack_after(SECOND),
        _ => say(HandlerOutcome::retry()),
    });
    let subscribe = |batches: &Batches| {
        let handler = batches.clone();
        move |stream, _| {
            subscriber(stream, handler.clone())
                .batch(4, Duration::ZERO)
                .retry(RetryPolicy::fixed(3 * SECOND).max_attempts(2))
                .dead_letter("dead")
                .build::<u64>()
        }
    };
    let a = (fleet.instance("a"))
        .subscription(subscribe(&batches))
        .start()
        .await;
    let b = (fleet.instance("b"))
        .subscription(subscribe(&batches))
        .start()
        .await;
    until("each has one shard", async || {
        let owners = [fleet.owner(&shard(0)).await, fleet.owner(&shard(1)).await];
        owners.contains(&"b".to_owned()) && batches.seen().len() >= 12
    })
    .await;
    sleep(30 * SECOND).await;
    let owners: Vec<_> = batches.seen().into_iter().map(|seen| seen.owner).collect();
    assert_eq!(owners, ["a"; 12], "b is given none of them again");
    a.stop().await;
    b.stop().await;
}
