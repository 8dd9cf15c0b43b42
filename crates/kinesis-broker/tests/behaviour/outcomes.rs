//! DESIGN §7: what an outcome does, and what a handler is told about the record.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use kinesis_broker::{KinesisBroker, KinesisError, RecordInfo};
use rstream::{AppInfo, Context, Handle, HandlerOutcome, RustStream, subscriber};
use tokio::time::{Instant, sleep};
use tracing::Level;

use crate::support::{
    Call, Fleet, Logs, STREAM, Seen, Trouble, ack, from_the_start, panics, say, shard, until,
    within,
};

const SECOND: Duration = Duration::from_secs(1);

/// The times between the attempts of one record.
fn pauses(seen: &[Seen], value: u64) -> Vec<Duration> {
    let of_record = seen.iter().filter(|seen| seen.value == value);
    let at: Vec<_> = of_record.map(|seen| seen.at).collect();
    at.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[tokio::test(start_paused = true)]
async fn an_acknowledged_record_is_settled_and_comes_no_more() {
    let fleet = Fleet::of_shards(1);
    let put = fleet.put(&shard(0), 1);
    let instance = fleet.instance("a").start().await;
    until("it is settled", async || {
        fleet.checkpoint(&shard(0)).await == put
    })
    .await;
    sleep(600 * SECOND).await;
    assert_eq!(fleet.values(), [1]);
    assert!(instance.errors().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_retry_comes_before_any_later_record_of_its_shard_while_other_shards_go_on() {
    let fleet = Fleet::of_shards(2);
    for n in 0..3 {
        fleet.put(&shard(0), n);
    }
    let _instance = fleet
        .instance("a")
        .handler(|seen| match (seen.value, seen.attempt) {
            (1, ..8) => say(HandlerOutcome::retry()),
            _ => ack(),
        })
        .start()
        .await;
    until("it is tried again", async || {
        fleet.seen_of(&shard(0)).len() == 5
    })
    .await;
    assert_eq!(
        fleet.checkpoint(&shard(0)).await,
        fleet.seen()[0].sequence_number
    );
    for n in 10..15 {
        fleet.put(&shard(1), n);
    }
    until("the other shard is read", async || {
        fleet.seen_of(&shard(1)).len() == 5
    })
    .await;
    assert!(fleet.seen_of(&shard(0)).len() < 9);
    until("it is settled", async || fleet.values().contains(&2)).await;
    let seen = fleet.seen_of(&shard(0));
    let deliveries: Vec<_> = seen.iter().map(|seen| (seen.value, seen.attempt)).collect();
    let expected: Vec<_> = [(0, 1)]
        .into_iter()
        .chain((1..=8).map(|attempt| (1, attempt)))
        .chain([(2, 1)])
        .collect();
    assert_eq!(deliveries, expected);
}

#[tokio::test(start_paused = true)]
async fn retries_back_off_from_100_ms_up_to_5_s_with_jitter() {
    let fleet = Fleet::of_shards(2);
    for n in 0..2 {
        fleet.put(&shard(n), n as u64);
    }
    let _instance = fleet
        .instance("a")
        .handler(|seen| match seen.attempt {
            ..16 => say(HandlerOutcome::retry()),
            _ => ack(),
        })
        .start()
        .await;
    until("both are settled", async || fleet.seen().len() == 32).await;
    let seen = fleet.seen();
    let [one, other] = [0, 1].map(|value| pauses(&seen, value));
    for pauses in [&one, &other] {
        assert!((100..=201).contains(&pauses[0].as_millis()), "{pauses:?}");
        assert!(
            pauses[10..].iter().all(|pause| *pause >= 2 * SECOND),
            "{pauses:?}"
        );
        assert!(
            pauses.iter().all(|pause| pause.as_millis() <= 5_001),
            "{pauses:?}"
        );
    }
    // Each reader has its own, so that many that fail together do not come back together.
    assert_ne!(one, other);

    // A record that settled starts the next one's back-off anew.
    fleet.put(&shard(0), 2);
    until("the next is tried again", async || {
        fleet.values().iter().filter(|value| **value == 2).count() == 2
    })
    .await;
    assert!(pauses(&fleet.seen(), 2)[0].as_millis() <= 201);
}

#[tokio::test(start_paused = true)]
async fn retry_after_waits_just_so_long() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 1);
    let waits = [0, 40, 1_500, 60_000].map(Duration::from_millis);
    let _instance = fleet
        .instance("a")
        .handler(move |seen| match waits.get(seen.attempt as usize - 1) {
            Some(wait) => say(HandlerOutcome::retry_after(*wait)),
            None => ack(),
        })
        .start()
        .await;
    until("it is settled", async || fleet.seen().len() == 5).await;
    let pauses = pauses(&fleet.seen(), 1);
    for (pause, wait) in pauses.iter().zip(waits) {
        assert!(
            *pause >= wait && *pause <= wait + Duration::from_millis(2),
            "{pauses:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_retry_with_the_attempt_counted() {
    let logs = Logs::start();
    let fleet = Fleet::of_shards(1);
    let put = fleet.put(&shard(0), 1);
    fleet.put(&shard(0), 2);
    let _instance = fleet
        .instance("a")
        .handler(|seen| match (seen.value, seen.attempt) {
            (1, ..4) => panics(),
            _ => ack(),
        })
        .start()
        .await;
    until("both are settled", async || fleet.values().contains(&2)).await;
    let seen = fleet.seen();
    let deliveries: Vec<_> = seen.iter().map(|seen| (seen.value, seen.attempt)).collect();
    assert_eq!(deliveries, [(1, 1), (1, 2), (1, 3), (1, 4), (2, 1)]);
    assert!(
        pauses(&seen, 1)
            .iter()
            .all(|pause| pause.as_millis() >= 100)
    );
    let said = logs.at(Level::ERROR, "panicked");
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(
        said[0].contains(&put) && said[0].contains(&shard(0)),
        "{said:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dropped_record_is_settled_and_warned_of_by_stream_shard_and_sequence_number() {
    let logs = Logs::start();
    let fleet = Fleet::of_shards(1);
    let put = fleet.put(&shard(0), 1);
    let instance = fleet
        .instance("a")
        .handler(|_| say(HandlerOutcome::drop()))
        .start()
        .await;
    until("it is settled", async || {
        fleet.checkpoint(&shard(0)).await == put
    })
    .await;
    sleep(60 * SECOND).await;
    assert_eq!(fleet.values(), [1]);
    let warnings = logs.warnings("dropped");
    assert_eq!(warnings.len(), 1);
    for named in [
        format!("stream={STREAM} "),
        format!("shard={} ", shard(0)),
        format!("sequence_number={put} "),
    ] {
        assert!(warnings[0].contains(&named), "{warnings:?}");
    }
    assert!(instance.errors().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_record_is_an_error_that_says_where_and_nothing_of_the_payload() {
    let logs = Logs::start();
    let fleet = Fleet::of_shards(1);
    let payload = "{\n \"card\": \"4111-1111\", \"Zanzibar\"";
    let bad = fleet.sim.put_to_shard(STREAM, &shard(0), "a-key", payload);
    let wrong_type = fleet
        .sim
        .put_to_shard(STREAM, &shard(0), "a-key", "\"Timbuktu\"");
    let put = fleet.put(&shard(0), 7);
    let instance = fleet.instance("a").start().await;
    until("the next is settled", async || {
        fleet.checkpoint(&shard(0)).await == put
    })
    .await;
    sleep(60 * SECOND).await;
    assert_eq!(fleet.values(), [7], "the handler is not called with them");
    // Each is settled for itself.
    let checkpoints = fleet.store.made_on(Call::Checkpoint, &shard(0)).into_iter();
    let checkpoints: Vec<_> = checkpoints.filter_map(|made| made.checkpoint).collect();
    let settled = [&bad.sequence_number, &wrong_type.sequence_number, &put];
    assert_eq!(checkpoints.iter().collect::<Vec<_>>(), settled);

    let errors = instance.errors();
    let texts: Vec<_> = errors.iter().map(|error| error.text.as_str()).collect();
    let [first, second] = texts[..] else {
        panic!("{texts:?}")
    };
    assert_eq!(errors[0].kind, "Undecodable");
    for part in [
        STREAM,
        &shard(0),
        &bad.sequence_number,
        "u64",
        "line 1, column 0",
    ] {
        assert!(first.contains(part), "{first} lacks {part}");
    }
    assert!(
        second.contains("data error at line 1, column 10"),
        "{second}"
    );

    let at_error_level = logs.at(Level::ERROR, "");
    assert_eq!(at_error_level.len(), 2, "{at_error_level:?}");
    let everything = format!("{:?}{texts:?}", logs.all());
    for secret in ["4111", "Zanzibar", "Timbuktu", "card"] {
        assert!(!everything.contains(secret), "{secret} in {everything}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_interrupts_the_wait_before_a_retry_and_leaves_the_record_unsettled() {
    let fleet = Fleet::of_shards(1);
    let first = fleet.put(&shard(0), 1);
    fleet.put(&shard(0), 2);
    let instance = fleet
        .instance("a")
        .handler(|seen| match seen.value {
            2 => say(HandlerOutcome::retry_after(3_600 * SECOND)),
            _ => ack(),
        })
        .start()
        .await;
    until("it waits", async || fleet.values() == [1, 2]).await;
    let stopped = Instant::now();
    instance.stop().await;
    assert!(stopped.elapsed() < SECOND, "{:?}", stopped.elapsed());
    let state = fleet.state(&shard(0)).await;
    assert_eq!(state.holder, None);
    assert_eq!(fleet.checkpoint(&shard(0)).await, first);

    let _again = fleet.instance("a").start().await;
    until("it is given again", async || fleet.values() == [1, 2, 2]).await;
    assert_eq!(fleet.seen()[2].attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_the_lease_interrupts_the_wait_before_a_retry() {
    let logs = Logs::start();
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 1);
    let _first = fleet
        .instance("a")
        .handler(|_| say(HandlerOutcome::retry_after(300 * SECOND)))
        .start()
        .await;
    until("it waits", async || fleet.values() == [1]).await;
    // Nobody renews for a while, so the store gives it away.
    fleet
        .store
        .always_on(Call::Renew, &shard(0), Trouble::Fails);
    let _second = fleet.instance("b").start().await;
    until("b has it", async || fleet.owner(&shard(0)).await == "b").await;
    fleet.store.recover();
    within(10 * SECOND, "a ends its reader", async || {
        let lost = logs.warnings("lost to another instance");
        (!lost.is_empty()).then_some(())
    })
    .await;
    sleep(600 * SECOND).await;
    let owners: Vec<_> = fleet.seen().into_iter().map(|seen| seen.owner).collect();
    assert_eq!(owners, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn the_record_info_says_what_the_service_says_of_the_record() {
    #[derive(Clone, Default)]
    struct Keep(Arc<Mutex<Vec<RecordInfo>>>);

    impl Handle<u64> for Keep {
        async fn handle(
            &self,
            _: &u64,
            _: &(),
            ctx: &mut Context<'_>,
        ) -> Result<(), HandlerOutcome> {
            let info = ctx.get::<RecordInfo>().cloned();
            self.0.lock().unwrap().extend(info);
            Ok(())
        }
    }

    let fleet = Fleet::of_shards(2);
    sleep(Duration::from_millis(1_234)).await;
    for n in 0..3 {
        fleet.put(&shard(1), n);
        sleep(Duration::from_millis(321)).await;
    }
    let kept = Keep::default();
    let broker = KinesisBroker::from_config(&fleet.sim.sdk_config())
        .lease_store(Arc::clone(&fleet.store) as _)
        .owner_id("me");
    let app = RustStream::new(AppInfo::new("test", "0.0.0")).with_broker(broker, |b| {
        b.include(subscriber(from_the_start(STREAM), kept.clone()).build());
    });
    let running = app.start().await.unwrap();
    until("they are handled", async || {
        kept.0.lock().unwrap().len() == 3
    })
    .await;

    let infos = kept.0.lock().unwrap().clone();
    let stored = fleet.sim.records(STREAM, &shard(1));
    for (info, stored) in infos.iter().zip(stored) {
        assert_eq!(info.stream, STREAM);
        assert_eq!(info.shard, shard(1));
        assert_eq!(info.sequence_number, stored.sequence_number);
        assert_eq!(info.partition_key, stored.partition_key);
        assert_eq!(info.arrived_at, stored.arrived_at);
        assert!(info.arrived_at > SystemTime::UNIX_EPOCH + 1_767_225_601 * SECOND);
        assert_eq!(info.millis_behind, 0, "one read brought them all");
        let holder = fleet.state(&shard(1)).await.holder.unwrap();
        assert_eq!(info.holder, holder);
        assert_eq!((holder.owner.as_str(), holder.epoch), ("me", 1));
    }
    running.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_error_hook_is_given_the_broker_error_itself() {
    let fleet = Fleet::of_shards(1);
    let bad = fleet.sim.put_to_shard(STREAM, &shard(0), "key", "nonsense");
    let reported = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&reported);
    let broker = KinesisBroker::from_config(&fleet.sim.sdk_config());
    struct Never;
    impl Handle<u64> for Never {
        async fn handle(&self, _: &u64, _: &(), _: &mut Context<'_>) -> Result<(), HandlerOutcome> {
            panic!("nothing can be decoded")
        }
    }
    let app = RustStream::new(AppInfo::new("test", "0.0.0"))
        .with_broker(broker, |b| {
            b.include(subscriber(from_the_start(STREAM), Never).build());
        })
        .on_error(move |error| {
            let Some(KinesisError::Undecodable {
                sequence_number,
                source,
                ..
            }) = error.downcast_ref()
            else {
                panic!("{error}")
            };
            let place = (source.category(), source.line(), source.column());
            let said = (sequence_number.clone(), source.type_name(), place);
            sink.lock().unwrap().push(said);
        });
    let running = app.start().await.unwrap();
    until("it is reported", async || {
        !reported.lock().unwrap().is_empty()
    })
    .await;
    let said = reported.lock().unwrap().clone();
    assert_eq!(said, [(bad.sequence_number, "u64", ("syntax", 1, 2))]);
    running.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_retried_again_and_again_is_warned_of_at_every_doubling() {
    let logs = Logs::start();
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 1);
    let _instance = fleet
        .instance("a")
        .handler(|seen| match seen.attempt {
            1..=20 => say(HandlerOutcome::retry()),
            _ => ack(),
        })
        .start()
        .await;
    until("it settles", async || fleet.seen().len() == 21).await;
    let warnings = logs.warnings("retried again and again");
    assert_eq!(warnings.len(), 2, "{warnings:#?}");
    assert!(warnings.iter().all(|text| text.contains(&shard(0))));
}
