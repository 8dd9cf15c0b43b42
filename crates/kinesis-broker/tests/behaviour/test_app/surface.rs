//! What a handler can be given and can say, in a `TestApp`.

use kinesis_broker::{BatchInfo, DeadLetter};
use rstream::{OnUndecodable, Out, RetryPolicy, State};
use tokio::time::Instant;

use super::*;
use crate::support::Receipt;

const SECOND: Duration = Duration::from_secs(1);

async fn start(include: impl FnOnce(&mut rstream::Scope<'_, KinesisBroker>)) -> TestApp {
    let app = RustStream::new(AppInfo::new("test", "0.0.0"));
    let app = app.with_broker(KinesisBroker::new(), include);
    TestApp::start(app).await.unwrap()
}

async fn publish_all(app: &TestApp, values: &[u64]) {
    let kinesis = app.broker::<KinesisBroker>();
    let messages = kinesis.messages(values);
    messages.to("inventory").publish().await.unwrap();
}

fn letters(app: &TestApp) -> Vec<DeadLetter> {
    let kinesis = app.broker::<KinesisBroker>();
    let payloads = kinesis.published_payloads("dead").into_iter();
    payloads
        .map(|payload| DeadLetter::parse(&payload).unwrap())
        .collect()
}

mod batches {
    use super::*;

    /// The attempt and the records of each call.
    type Calls = Arc<Mutex<Vec<(u32, Vec<String>)>>>;

    /// Handles two of each batch, and notes which records it was told of.
    #[derive(Clone, Default)]
    struct TwoByTwo(Calls);

    impl Handle<[u64]> for TwoByTwo {
        async fn handle(
            &self,
            values: &[u64],
            _: &(),
            ctx: &mut Context<'_>,
        ) -> Result<(), HandlerOutcome> {
            let batch = ctx.get::<BatchInfo>().expect("attached");
            assert_eq!(batch.records().len(), values.len());
            let numbers = batch.records().iter();
            let numbers = numbers.map(|info| info.sequence_number.clone()).collect();
            self.0.lock().unwrap().push((ctx.attempt(), numbers));
            Err(HandlerOutcome::ack_until(2))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn messages_come_in_batches_as_full_as_they_can_be_and_what_is_left_of_one_comes_again() {
        let handler = TwoByTwo::default();
        let app = start(|b| {
            let stream = KinesisStream::new("inventory");
            let builder = subscriber(stream, handler.clone()).batch(3, Duration::from_secs(60));
            b.include(builder.retry(RetryPolicy::fixed(5 * SECOND)).build());
        })
        .await;
        let began = Instant::now();
        publish_all(&app, &[1, 2, 3, 4, 5, 6, 7]).await;
        let inventory = app.broker::<KinesisBroker>().subscriber("inventory");
        let expected = [vec![1, 2, 3], vec![3], vec![4, 5, 6], vec![6], vec![7]];
        assert_eq!(inventory.batches::<u64>(), expected);
        inventory
            .assert_called(5)
            .with(&3)
            .settled(HandlerOutcome::ack_until(2));
        let given = handler.0.lock().unwrap().clone();
        let attempts: Vec<_> = given.iter().map(|(attempt, _)| *attempt).collect();
        assert_eq!(attempts, [1, 2, 1, 2, 1]);
        assert_eq!(given[1].1, given[0].1[2..], "the same record");
        assert_eq!(began.elapsed().as_secs(), 10, "the pauses are the policy's");
    }

    /// Sums a batch up.
    #[subscriber(KinesisStream::new("inventory"), batch(2, "1s"))]
    async fn sum(values: &[u64], sums: State<Mutex<Vec<u64>>>) -> HandlerOutcome {
        sums.lock().unwrap().push(values.iter().sum());
        HandlerOutcome::ack()
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_and_a_state_are_parameters_under_the_macro() {
        let app = RustStream::new(AppInfo::new("test", "0.0.0"))
            .with_state(Mutex::new(Vec::<u64>::new()))
            .with_broker(KinesisBroker::new(), |b| {
                b.include(sum);
                b.include(subscriber(KinesisStream::new("sums"), Sums).build());
            });
        let app = TestApp::start(app).await.unwrap();
        publish_all(&app, &[1, 2, 4]).await;
        let kinesis = app.broker::<KinesisBroker>();
        let sums = kinesis.message(&[3, 4]).to("sums");
        sums.publish().await.unwrap();
        let calls = kinesis.subscriber("sums").assert_called_once();
        calls.settled(HandlerOutcome::ack());
    }

    /// Acknowledges the sums that there are by now, and drops any other.
    struct Sums;

    impl Handle<Vec<u64>> for Sums {
        async fn handle(
            &self,
            expected: &Vec<u64>,
            _: &(),
            ctx: &mut Context<'_>,
        ) -> Result<(), HandlerOutcome> {
            let sums = ctx.state::<Mutex<Vec<u64>>>().expect("it was given");
            if *sums.lock().unwrap() == *expected {
                Ok(())
            } else {
                Err(HandlerOutcome::drop())
            }
        }
    }

    #[tokio::test]
    async fn an_app_without_the_state_does_not_start_and_the_type_is_named() {
        let app =
            RustStream::new(AppInfo::new("test", "0.0.0")).with_broker(KinesisBroker::new(), |b| {
                b.include(sum);
            });
        let error = TestApp::start(app).await.unwrap_err().to_string();
        assert!(
            error.contains("Mutex<") && error.contains("inventory"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn batches_with_concurrency_are_an_error_at_start() {
        let app =
            RustStream::new(AppInfo::new("test", "0.0.0")).with_broker(KinesisBroker::new(), |b| {
                let stream = KinesisStream::new("inventory").concurrency(2);
                let builder = subscriber(stream, TwoByTwo::default()).batch(2, SECOND);
                b.include(builder.build());
            });
        let error = TestApp::start(app).await.unwrap_err();
        let AppError::Broker { source, .. } = &error else {
            panic!("{error:?}")
        };
        assert!(
            matches!(
                source.downcast_ref(),
                Some(KinesisError::Setting {
                    setting: "concurrency",
                    value: 2,
                    ..
                })
            ),
            "{source:?}"
        );
    }
}

mod replies {
    use super::*;

    /// Returns a receipt for each value, at the second attempt on it.
    #[subscriber(KinesisStream::new("inventory"), reply("receipts"))]
    async fn apply(value: &u64, ctx: &mut Context<'_>) -> Result<Receipt, HandlerOutcome> {
        if ctx.attempt() == 1 {
            return Err(HandlerOutcome::retry());
        }
        Ok(Receipt {
            key: "k".to_owned(),
            value: *value,
            attempt: ctx.attempt(),
        })
    }

    /// Sends a receipt and a note, and then is not content with the first attempt.
    struct Apply;

    impl Handle<u64, (), (Out<Receipt>, Out<String>)> for Apply {
        async fn handle(
            &self,
            value: &u64,
            (receipts, notes): &(Out<Receipt>, Out<String>),
            ctx: &mut Context<'_>,
        ) -> Result<(), HandlerOutcome> {
            receipts.send(&Receipt {
                key: "k".to_owned(),
                value: *value,
                attempt: ctx.attempt(),
            })?;
            notes.send_keyed("notes", &format!("{value}"))?;
            match ctx.attempt() {
                1 => Err(HandlerOutcome::retry()),
                _ => Ok(()),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_handler_publishes_is_seen_once_it_has_settled_its_message() {
        for by_hand in [false, true] {
            let app = start(|b| {
                if by_hand {
                    let outs = (Out::to("receipts"), Out::to("notes"));
                    let stream = KinesisStream::new("inventory");
                    b.include(subscriber(stream, Apply).outs(outs).build());
                } else {
                    b.include(apply);
                }
            })
            .await;
            publish_all(&app, &[7, 8]).await;
            let kinesis = app.broker::<KinesisBroker>();
            let receipts = kinesis.published::<Receipt>("receipts");
            let told: Vec<_> = (receipts.iter())
                .map(|receipt| (receipt.value, receipt.attempt))
                .collect();
            assert_eq!(told, [(7, 2), (8, 2)]);
            let notes: &[&str] = if by_hand { &["7", "8"] } else { &[] };
            assert_eq!(kinesis.published::<String>("notes"), notes);
        }
    }

    #[tokio::test]
    async fn a_destination_that_can_be_no_stream_is_an_error_at_start() {
        let app =
            RustStream::new(AppInfo::new("test", "0.0.0")).with_broker(KinesisBroker::new(), |b| {
                let outs = (Out::to("receipts"), Out::to("no stream"));
                let stream = KinesisStream::new("inventory");
                b.include(subscriber(stream, Apply).outs(outs).build());
            });
        let error = TestApp::start(app).await.unwrap_err();
        let AppError::Broker { source, .. } = &error else {
            panic!("{error:?}")
        };
        assert!(
            matches!(
                source.downcast_ref(),
                Some(KinesisError::StreamName { name, .. }) if name == "no stream"
            ),
            "{source:?}"
        );
    }
}

mod dead_letters {
    use super::*;

    /// Gives up 1 by its word, fails on 2, and handles the rest.
    #[subscriber(
        KinesisStream::new("inventory"),
        retry(first = "1m", cap = "1m", jitter = 0.0, max_attempts = 3),
        dead_letter("dead"),
        on_undecodable(dead_letter)
    )]
    async fn apply(value: &u64) -> HandlerOutcome {
        match value {
            1 => HandlerOutcome::dead_letter("no such sku"),
            2 => HandlerOutcome::retry(),
            _ => HandlerOutcome::ack(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_given_up_is_seen_with_its_payload_its_attempts_and_the_reason() {
        let app = start(|b| {
            b.include(apply);
        })
        .await;
        let kinesis = app.broker::<KinesisBroker>();
        let began = Instant::now();
        let payloads = kinesis.payloads([" 1", "2 ", "3", "no number"]);
        payloads.to("inventory").publish().await.unwrap();
        assert_eq!(
            began.elapsed().as_secs(),
            120,
            "the pauses are the policy's"
        );
        kinesis.subscriber("inventory").assert_called(5);
        let told: Vec<_> = (letters(&app).into_iter())
            .map(|letter| {
                assert_eq!(letter.stream, "inventory");
                let payload = String::from_utf8(letter.payload.to_vec()).unwrap();
                (
                    payload,
                    letter.sequence_number,
                    letter.attempts,
                    letter.reason,
                )
            })
            .collect();
        let expected = [
            (" 1", "1", 1, "no such sku"),
            ("2 ", "2", 3, "the handler asked for a retry"),
        ];
        let expected = expected.map(|(payload, number, attempts, reason)| {
            (
                payload.to_owned(),
                number.to_owned(),
                attempts,
                reason.to_owned(),
            )
        });
        assert_eq!(told[..2], expected);
        let undecodable = &told[2];
        assert_eq!(
            (&*undecodable.0, &*undecodable.1, undecodable.2),
            ("no number", "4", 1)
        );
        assert!(undecodable.3.contains("u64"), "{undecodable:?}");
        assert_eq!(told.len(), 3);
    }

    /// Fails until the sixth attempt.
    struct Late;

    impl Handle<u64> for Late {
        async fn handle(
            &self,
            _: &u64,
            _: &(),
            ctx: &mut Context<'_>,
        ) -> Result<(), HandlerOutcome> {
            match ctx.attempt() {
                ..6 => Err(HandlerOutcome::retry()),
                _ => Ok(()),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_place_for_it_a_message_is_retried_and_that_is_reported() {
        let reported = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&reported);
        let app = RustStream::new(AppInfo::new("test", "0.0.0"))
            .with_broker(KinesisBroker::new(), |b| {
                let builder = subscriber(KinesisStream::new("inventory"), Late);
                let policy = RetryPolicy::fixed(SECOND).max_attempts(3);
                b.include(builder.retry(policy).build());
            })
            .on_error(move |error| {
                let Some(KinesisError::NoDeadLetters { attempts, .. }) = error.downcast_ref()
                else {
                    panic!("{error}")
                };
                sink.lock().unwrap().push(*attempts);
            });
        let app = TestApp::start(app).await.unwrap();
        publish_all(&app, &[1]).await;
        let inventory = app.broker::<KinesisBroker>().subscriber("inventory");
        inventory.assert_called(6).settled(HandlerOutcome::ack());
        assert_eq!(*reported.lock().unwrap(), [3, 4]);
    }
}

/// Takes bytes as they are, and asks for a move, which a test app has no use for.
struct Raw(Arc<Mutex<Vec<Vec<u8>>>>);

impl Handle<[u8]> for Raw {
    async fn handle(
        &self,
        bytes: &[u8],
        _: &(),
        ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        let info = ctx.get::<RecordInfo>().expect("attached");
        info.seek(StartPosition::trim_horizon());
        info.seek_stream(StartPosition::latest());
        self.0.lock().unwrap().push(bytes.to_vec());
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_come_as_they_are_with_no_decoding_and_a_move_does_nothing() {
    let given = Arc::default();
    let raw = Raw(Arc::clone(&given));
    let app = start(|b| {
        let stream = KinesisStream::new("inventory");
        let builder = subscriber(stream, raw).on_undecodable(OnUndecodable::Retry);
        b.include(builder.build::<[u8]>());
    })
    .await;
    let kinesis = app.broker::<KinesisBroker>();
    let payloads: [&[u8]; 3] = [b"\xff\x00", b"", b"{"];
    kinesis
        .payloads(payloads)
        .to("inventory")
        .publish()
        .await
        .unwrap();
    let inventory = kinesis.subscriber("inventory");
    inventory
        .assert_called(3)
        .with_payload(b"\xff\x00")
        .settled(HandlerOutcome::ack());
    assert_eq!(*given.lock().unwrap(), payloads);
}
