//! Handlers of batches: what they are given, what their outcome covers, and what cannot be one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rstream::broker::{DeliveredBatch, Verdict};
use rstream::testing::TestApp;
use rstream::{AppInfo, Context, Handle, HandlerOutcome, IntoSubscription, RustStream, subscriber};
use serde::Deserialize;

use crate::support::{Memory, Topic, deliver, deliver_batch, said};

/// Acks what is in front of the first number above 100, and all where there is none.
#[subscriber(Topic::new("numbers"), batch(3, "50ms"))]
async fn up_to_a_hundred(numbers: &[u64], ctx: &mut Context<'_>) -> HandlerOutcome {
    assert!(!numbers.is_empty() && ctx.attempt() > 0);
    match numbers.iter().position(|number| *number > 100) {
        Some(_) if ctx.attempt() > 1 => HandlerOutcome::drop(),
        Some(at) => HandlerOutcome::ack_until(at),
        None => HandlerOutcome::ack(),
    }
}

struct ByHand;

impl Handle<[u64]> for ByHand {
    async fn handle(
        &self,
        numbers: &[u64],
        _: &(),
        _: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        assert_ne!(numbers, [13], "thirteen");
        Err(HandlerOutcome::ack_until(numbers.len()))
    }
}

fn given(batch: &DeliveredBatch) -> (usize, Option<Verdict>) {
    (batch.given, batch.verdict.clone())
}

#[tokio::test]
async fn a_batch_is_one_call_with_one_outcome_in_both_forms() {
    let batch = deliver_batch(up_to_a_hundred, &["1", "200", "3"]).await;
    assert_eq!(given(&batch), (3, Some(said(HandlerOutcome::ack_until(1)))));

    let by_hand = subscriber(Topic::new("numbers"), ByHand).batch(500, Duration::ZERO);
    let batch = deliver_batch(by_hand.build(), &["1", "2"]).await;
    assert_eq!(given(&batch), (2, Some(said(HandlerOutcome::ack_until(2)))));
    assert_eq!((batch.undecodable, batch.replies), (None, vec![]));
}

#[test]
fn the_broker_is_told_the_limits() {
    let by_hand = subscriber(Topic::new("numbers"), ByHand).batch(500, Duration::ZERO);
    for (subscription, records, wait) in [
        (up_to_a_hundred.into_subscription(), 3, 50),
        (by_hand.build(), 500, 0),
    ] {
        let limits = subscription.policy().batch.unwrap();
        assert_eq!(limits.max_records.get(), records);
        assert_eq!(limits.max_wait, Duration::from_millis(wait));
        assert_eq!(subscription.handler().message_type(), "u64");
    }
}

#[tokio::test]
async fn decoding_stops_at_what_cannot_be_decoded_and_those_before_it_are_handled() {
    let batch = deliver_batch(up_to_a_hundred, &["1", "2", "\"4111\"", "nor this"]).await;
    assert_eq!(given(&batch), (2, Some(said(HandlerOutcome::ack()))));
    let error = batch.undecodable.unwrap();
    assert_eq!((error.type_name(), error.category()), ("u64", "data"));

    let batch = deliver_batch(up_to_a_hundred, &["nor this", "1"]).await;
    assert_eq!(given(&batch), (0, None));
    assert_eq!(batch.undecodable.unwrap().category(), "syntax");

    assert_eq!(given(&deliver_batch(up_to_a_hundred, &[]).await), (0, None));
}

#[tokio::test]
async fn a_panic_is_the_whole_batchs() {
    let by_hand = subscriber(Topic::new("numbers"), ByHand).batch(500, Duration::ZERO);
    let batch = deliver_batch(by_hand.build(), &["13"]).await;
    let Some(Verdict::Panicked(message)) = batch.verdict else {
        panic!("{batch:?}");
    };
    assert!(message.contains("thirteen"), "{message}");
    assert_eq!(batch.given, 1);
}

/// Panics where it is decoded from 13.
#[derive(Debug, PartialEq)]
struct Picky(u64);

impl<'de> Deserialize<'de> for Picky {
    fn deserialize<D: serde::Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(decoder)?;
        assert_ne!(number, 13, "not this one");
        Ok(Self(number))
    }
}

#[subscriber(Topic::new("picky"), batch(5, "0ms"))]
async fn picky(numbers: &[Picky]) {
    assert!(!numbers.contains(&Picky(13)));
}

#[tokio::test]
async fn a_message_whose_decoding_panics_fails_alone_after_those_before_it() {
    let before = deliver_batch(picky, &["1", "2", "13", "4"]).await;
    assert_eq!(given(&before), (2, Some(said(HandlerOutcome::ack()))));
    assert_eq!(before.undecodable, None);

    let alone = deliver_batch(picky, &["13", "4"]).await;
    assert_eq!(alone.given, 1);
    assert!(matches!(alone.verdict, Some(Verdict::Panicked(_))));
}

#[tokio::test]
async fn one_message_is_a_batch_of_one_and_several_are_one_for_a_handler_of_one() {
    #[subscriber(Topic::new("numbers"))]
    async fn single(number: &u64) -> HandlerOutcome {
        match number {
            1 => HandlerOutcome::drop(),
            _ => HandlerOutcome::ack(),
        }
    }

    assert_eq!(
        deliver(up_to_a_hundred, "1").await,
        said(HandlerOutcome::ack())
    );
    assert!(matches!(
        deliver(up_to_a_hundred, "no").await,
        Verdict::Undecodable(_)
    ));
    let batch = deliver_batch(single, &["1", "2"]).await;
    assert_eq!(given(&batch), (1, Some(said(HandlerOutcome::drop()))));
    let batch = deliver_batch(single, &["no", "2"]).await;
    assert_eq!(
        (given(&batch), batch.undecodable.is_some()),
        ((0, None), true)
    );
}

#[tokio::test]
async fn a_test_app_publishes_batches_and_shows_them() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let app = RustStream::new(AppInfo::new("numbers", "0.1.0"))
        .with_broker(Memory::default(), |b| {
            b.include(up_to_a_hundred);
        })
        .on_delivery(move |delivery| {
            let undecodable = matches!(delivery.verdict(), Verdict::Undecodable(_));
            let payloads: Vec<Bytes> = delivery.payloads().to_vec();
            assert_eq!(delivery.payload(), payloads[0]);
            sink.lock().unwrap().push((undecodable, payloads.len()));
        });
    let app = TestApp::start(app).await.unwrap();
    let broker = app.broker::<Memory>();

    let numbers = broker.messages(&[1, 2, 3, 4, 200]).to("numbers");
    numbers.publish().await.unwrap();

    let calls = broker.subscriber("numbers");
    // 4 of the second batch is acked alone, and 200 is handed over again.
    let batches: Vec<Vec<u64>> = vec![vec![1, 2, 3], vec![4, 200], vec![200], vec![200]];
    assert_eq!(calls.batches::<u64>(), batches);
    assert_eq!(calls.received::<u64>(), [1, 2, 3, 4, 200, 200, 200]);
    let calls = calls.assert_called(4);
    calls.clone().with(&2).settled(HandlerOutcome::ack());
    calls.clone().with(&4).settled(HandlerOutcome::ack_until(1));
    calls.with(&200).settled(HandlerOutcome::drop());

    let broken = broker.payloads(["5", "no", "6"]).to("numbers");
    broken.publish().await.unwrap();
    assert_eq!(
        seen.lock().unwrap()[4..],
        [(false, 1), (true, 1), (false, 1)]
    );
}

#[subscriber(Topic::new("raw"), batch(10, "1s"))]
async fn raw(payloads: &[Bytes]) -> HandlerOutcome {
    HandlerOutcome::ack_until(payloads.concat().len())
}

#[tokio::test]
async fn a_batch_of_payloads_is_not_decoded() {
    let batch = deliver_batch(raw, &["{", "", "\u{7f}no"]).await;
    assert_eq!(given(&batch), (3, Some(said(HandlerOutcome::ack_until(4)))));
}
