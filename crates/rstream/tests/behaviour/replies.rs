//! What handlers want published: what they return, and what they send.

use std::borrow::Cow;

use rstream::broker::{Delivered, Reply};
use rstream::testing::TestApp;
use rstream::{
    AppInfo, Cbor, Codec, Context, Handle, HandlerOutcome, IntoSubscription, Out, Outgoing,
    RustStream, subscriber,
};
use serde::{Deserialize, Serialize, Serializer};

use crate::support::{Memory, Topic, deliver_batch, delivered, said};

#[derive(Debug, Deserialize, Outgoing, PartialEq, Serialize)]
#[outgoing(partition_key = "sku")]
struct Receipt {
    sku: u64,
    #[serde(serialize_with = "even")]
    sold: u64,
}

/// What is odd cannot be written.
fn even<S: Serializer>(number: &u64, to: S) -> Result<S::Ok, S::Error> {
    if number.is_multiple_of(2) {
        to.serialize_u64(*number)
    } else {
        Err(serde::ser::Error::custom(format!("{number} is odd")))
    }
}

fn receipt(sold: u64) -> Receipt {
    Receipt { sku: 7, sold }
}

#[subscriber(Topic::new("sales"), reply("receipts"))]
async fn always(sold: &u64) -> Receipt {
    receipt(*sold)
}

struct Refused;

impl From<Refused> for HandlerOutcome {
    fn from(_: Refused) -> Self {
        Self::retry()
    }
}

type Sold = Result<Option<Receipt>, Refused>;

#[subscriber(Topic::new("sales"), reply(String::from("receipts")))]
async fn sometimes(sold: &u64, _: &mut Context<'_>) -> Sold {
    match sold {
        0 => Ok(None),
        100.. => Err(Refused),
        sold => Ok(Some(receipt(*sold))),
    }
}

#[subscriber(Topic::new("sales"), batch(5, "0ms"), reply("receipts"), codec(Cbor))]
async fn each(sold: &[u64]) -> Vec<Receipt> {
    sold.iter().copied().map(receipt).collect()
}

struct Returns;

impl Handle<u64, Receipt> for Returns {
    async fn handle(
        &self,
        sold: &u64,
        _: &(),
        _: &mut Context<'_>,
    ) -> Result<Receipt, HandlerOutcome> {
        match sold {
            0 => Err(HandlerOutcome::drop()),
            sold => Ok(receipt(*sold)),
        }
    }
}

fn texts(replies: &[Reply]) -> Vec<(&str, &str, &str)> {
    let texts = replies.iter().map(|reply| {
        let payload = str::from_utf8(&reply.payload).unwrap();
        (&*reply.to, reply.partition_key.as_str(), payload)
    });
    texts.collect()
}

const TWO: [(&str, &str, &str); 1] = [("receipts", "7", r#"{"sku":7,"sold":2}"#)];

#[tokio::test]
async fn what_a_handler_returns_is_published_in_both_forms() {
    let by_hand = || {
        subscriber(Topic::new("sales"), Returns)
            .reply("receipts")
            .build()
    };
    let ack = said(HandlerOutcome::ack());
    for subscription in [
        always.into_subscription(),
        sometimes.into_subscription(),
        by_hand(),
    ] {
        assert_eq!(subscription.policy().reply_to, ["receipts"]);
        let Delivered {
            verdict, replies, ..
        } = delivered(subscription, "2").await;
        assert_eq!((verdict, texts(&replies)), (ack.clone(), TWO.to_vec()));
    }
    let dropped = delivered(by_hand(), "0").await;
    assert_eq!(dropped.verdict, said(HandlerOutcome::drop()));
    assert_eq!(dropped.replies, []);
}

#[tokio::test]
async fn an_option_may_be_no_reply_and_an_error_is_its_outcome() {
    let none = delivered(sometimes, "0").await;
    assert_eq!(
        (none.verdict, none.replies),
        (said(HandlerOutcome::ack()), vec![])
    );
    let refused = delivered(sometimes, "100").await;
    assert_eq!(refused.verdict, said(HandlerOutcome::retry()));
}

#[tokio::test]
async fn replies_to_a_batch_are_in_order_and_in_the_subscriptions_codec() {
    let batch = deliver_batch(each, &["\x02", "\x04"]).await;
    assert_eq!(batch.given, 2);
    let decoded = batch
        .replies
        .iter()
        .map(|reply| Cbor.decode(&reply.payload).unwrap());
    assert_eq!(decoded.collect::<Vec<Receipt>>(), [receipt(2), receipt(4)]);
}

#[tokio::test]
async fn a_reply_that_cannot_be_written_is_a_dead_letter_that_quotes_nothing() {
    let odd = delivered(always, "4111").await;
    assert_eq!(
        odd.verdict,
        said(HandlerOutcome::dead_letter(
            "a behaviour::replies::Receipt for \"receipts\" cannot be encoded"
        ))
    );
    assert_eq!(odd.replies, []);
}

/// Sends to both outputs, and then ends as the number says.
struct Sends;

impl Handle<u64, (), (Out<Receipt>, Out<String>)> for Sends {
    async fn handle(
        &self,
        number: &u64,
        (receipts, audit): &(Out<Receipt>, Out<String>),
        _: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        audit.send_keyed("key", &format!("sold {number}"))?;
        tokio::task::yield_now().await;
        receipts.send(&receipt(*number))?;
        match number {
            2 => Ok(()),
            4 => Err(HandlerOutcome::ack()),
            6 => Err(HandlerOutcome::drop()),
            8 => Err(HandlerOutcome::ack_until(1)),
            10 => Err(HandlerOutcome::ack_until(0)),
            12 => Err(HandlerOutcome::retry()),
            14 => Err(HandlerOutcome::dead_letter("fourteen")),
            _ => panic!("no such number"),
        }
    }
}

fn sends() -> rstream::broker::Subscription {
    let outs = (Out::to("receipts"), Out::to("audit"));
    subscriber(Topic::new("sales"), Sends).outs(outs).build()
}

#[tokio::test]
async fn what_a_handler_sends_is_published_in_order_where_it_settles_its_message() {
    assert_eq!(sends().policy().reply_to, ["receipts", "audit"]);
    for number in [2, 4, 6, 8] {
        let replies = delivered(sends(), &number.to_string()).await.replies;
        let audit = format!(r#""sold {number}""#);
        let receipt = format!(r#"{{"sku":7,"sold":{number}}}"#);
        assert_eq!(
            texts(&replies),
            [("audit", "key", &*audit), ("receipts", "7", &*receipt)]
        );
    }
}

#[tokio::test]
async fn what_a_handler_sends_is_thrown_away_where_it_settles_nothing() {
    for number in [10, 12, 14, 16] {
        assert_eq!(delivered(sends(), &number.to_string()).await.replies, []);
    }
}

#[tokio::test]
async fn what_cannot_be_sent_is_an_outcome_and_takes_what_was_sent_with_it() {
    let odd = delivered(sends(), "3").await;
    let reason = "a behaviour::replies::Receipt for \"receipts\" cannot be encoded";
    assert_eq!(odd.verdict, said(HandlerOutcome::dead_letter(reason)));
    assert_eq!(odd.replies, []);
}

/// Sends the number, waits for the other delivery, and returns it.
struct Both(tokio::sync::Barrier);

#[derive(Serialize)]
struct Number(u64);

impl Outgoing for Number {
    fn partition_key(&self) -> Cow<'_, str> {
        self.0.to_string().into()
    }
}

impl Handle<u64, Number, Out<Number>> for Both {
    async fn handle(
        &self,
        number: &u64,
        out: &Out<Number>,
        _: &mut Context<'_>,
    ) -> Result<Number, HandlerOutcome> {
        out.send(&Number(*number))?;
        self.0.wait().await;
        out.send(&Number(number + 1))?;
        Ok(Number(number + 2))
    }
}

#[tokio::test]
async fn deliveries_share_no_outputs_and_what_is_returned_comes_last() {
    let subscription = subscriber(Topic::new("numbers"), Both(tokio::sync::Barrier::new(2)))
        .outs(Out::to("sent"))
        .reply("returned")
        .build();
    let handler = subscription.handler();
    let (ten, twenty) = ("10".into(), "20".into());

    let (ten, twenty) = tokio::join!(
        handler.deliver(&ten, 1, &()),
        handler.deliver(&twenty, 1, &())
    );

    assert_eq!(
        texts(&ten.replies),
        [
            ("sent", "10", "10"),
            ("sent", "11", "11"),
            ("returned", "12", "12")
        ]
    );
    assert_eq!(
        texts(&twenty.replies),
        [
            ("sent", "20", "20"),
            ("sent", "21", "21"),
            ("returned", "22", "22")
        ]
    );
}

#[tokio::test]
async fn a_reply_without_a_destination_is_an_error_at_start() {
    let nameless = (Out::to("receipts"), Out::to(""));
    let app = RustStream::new(AppInfo::new("sales", "0.1.0")).with_broker(Memory::default(), |b| {
        b.include(
            subscriber(Topic::new("sales"), Sends)
                .outs(nameless)
                .build(),
        );
    });
    let error = app.start().await.unwrap_err().to_string();
    assert!(
        error.ends_with("a reply goes to a destination without a name"),
        "{error}"
    );
}

#[tokio::test]
async fn a_test_app_shows_what_was_published() {
    let app = RustStream::new(AppInfo::new("sales", "0.1.0")).with_broker(Memory::default(), |b| {
        b.include(each);
    });
    let app = TestApp::start(app).await.unwrap();
    let broker = app.broker::<Memory>();

    let sales = broker.messages(&[2_u64, 4]).to("sales");
    sales.publish().await.unwrap();

    assert_eq!(
        broker.published::<Receipt>("receipts"),
        [receipt(2), receipt(4)]
    );
    assert_eq!(broker.published_payloads("receipts").len(), 2);
    assert_eq!(broker.published::<Receipt>("elsewhere"), []);
}
