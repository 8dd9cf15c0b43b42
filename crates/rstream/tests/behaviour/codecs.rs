//! What decodes messages, and that nothing does where the handler takes bytes.

use bytes::Bytes;
use rstream::broker::{Handler, Verdict};
use rstream::testing::TestApp;
use rstream::{
    AppInfo, Cbor, Codec, Context, DecodeError, DecodeFault, Handle, HandlerOutcome,
    IntoSubscription, Json, MessagePack, RustStream, subscriber,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::support::{Memory, Topic, said};

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Change {
    sku: u64,
    name: String,
}

fn change() -> Change {
    Change {
        sku: 7,
        name: "bolt".to_owned(),
    }
}

#[subscriber(Topic::new("cbor"), codec(Cbor))]
async fn cbor(change: &Change) -> HandlerOutcome {
    assert_eq!(change.sku, 7);
    HandlerOutcome::ack()
}

struct Takes;

impl Handle<Change> for Takes {
    async fn handle(
        &self,
        change: &Change,
        _: &(),
        _: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        assert_eq!(change.name, "bolt");
        Ok(())
    }
}

async fn verdict(handler: &Handler, payload: impl Into<Bytes>) -> Verdict {
    handler.deliver(&payload.into(), 1, &()).await.verdict
}

async fn refused(handler: &Handler, payload: impl Into<Bytes>) -> DecodeError {
    match verdict(handler, payload).await {
        Verdict::Undecodable(error) => error,
        verdict => panic!("{verdict:?}"),
    }
}

#[tokio::test]
async fn a_subscription_chooses_its_codec_in_both_forms() {
    let by_hand = subscriber(Topic::new("messagepack"), Takes).codec(MessagePack);
    let (cbor, messagepack) = (cbor.into_subscription(), by_hand.build());

    let payload = Cbor.encode(&change()).unwrap();
    assert_eq!(
        verdict(cbor.handler(), payload.clone()).await,
        said(HandlerOutcome::ack())
    );
    let error = refused(messagepack.handler(), payload).await;
    assert_eq!(error.codec(), "MessagePack");

    let payload = MessagePack.encode(&change()).unwrap();
    assert_eq!(
        verdict(messagepack.handler(), payload).await,
        said(HandlerOutcome::ack())
    );
    let as_array = MessagePack.encode(&(7, "bolt")).unwrap();
    assert_eq!(
        verdict(messagepack.handler(), as_array).await,
        said(HandlerOutcome::ack())
    );
}

/// The faults that a codec finds in what is cut short, of another shape, and followed by something else.
fn faults(codec: &impl Codec) -> [DecodeFault; 3] {
    let payload = codec.encode(&change()).unwrap();
    let cut = codec.decode::<Change>(&payload[..payload.len() - 1]);
    let other = codec.encode(&(7, "4111-1111")).unwrap();
    let other = codec.decode::<u64>(&other);
    let longer = codec.decode::<Change>(&[&payload[..], b"\x01"].concat());
    [cut.unwrap_err(), other.unwrap_err(), longer.unwrap_err()]
}

#[test]
fn each_codec_tells_kind_and_place_of_a_fault_and_quotes_nothing() {
    let [cut, other, longer] = faults(&Json);
    assert_eq!(cut.to_string(), "eof error at line 1, column 22");
    assert_eq!(other.to_string(), "data error at line 1, column 0");
    assert_eq!(longer.to_string(), "syntax error at line 1, column 24");

    let [cut, other, longer] = faults(&Cbor);
    assert_eq!(cut.to_string(), "eof error at byte 15");
    assert_eq!(other.to_string(), "data error");
    assert_eq!(longer.to_string(), "syntax error at byte 16");

    let [cut, other, longer] = faults(&MessagePack);
    assert_eq!(cut.to_string(), "eof error at byte 15");
    assert_eq!(other.to_string(), "data error at byte 1");
    assert_eq!(longer.to_string(), "syntax error at byte 16");
}

#[tokio::test]
async fn an_error_names_type_codec_and_place() {
    let subscription = cbor.into_subscription();
    let error = refused(subscription.handler(), b"\x01".as_slice()).await;
    assert_eq!(
        error.to_string(),
        "cannot decode a behaviour::codecs::Change from CBOR: data error"
    );
    let error = refused(subscription.handler(), b"\xa1".as_slice()).await;
    assert_eq!(
        (error.offset(), error.line(), error.column()),
        (Some(1), 0, 0)
    );
}

/// JSON behind a byte.
#[derive(Clone)]
struct Versioned(u8);

impl Codec for Versioned {
    fn name(&self) -> &'static str {
        "versioned JSON"
    }

    fn decode<T: DeserializeOwned>(&self, payload: &[u8]) -> Result<T, DecodeFault> {
        match payload.split_first() {
            Some((version, json)) if *version == self.0 => Json.decode(json),
            _ => Err(DecodeFault::new("version").at_byte(0)),
        }
    }

    fn encode<T: Serialize + ?Sized>(
        &self,
        value: &T,
    ) -> Result<Vec<u8>, Box<dyn std::error::Error + Send + Sync>> {
        Ok([vec![self.0], Json.encode(value)?].concat())
    }
}

#[tokio::test]
async fn a_codec_may_be_a_users_own_and_have_a_value() {
    let subscription = subscriber(Topic::new("own"), Takes)
        .codec(Versioned(3))
        .build();
    let payload = br#"3{"sku":7,"name":"bolt"}"#;
    let error = refused(subscription.handler(), payload.as_slice()).await;
    assert_eq!(error.category(), "version");
    let payload = Versioned(3).encode(&change()).unwrap();
    assert_eq!(
        verdict(subscription.handler(), payload).await,
        said(HandlerOutcome::ack())
    );
}

#[tokio::test]
async fn a_test_app_speaks_the_codec_of_each_subscription() {
    let app = RustStream::new(AppInfo::new("codecs", "0.1.0"));
    let app = app.with_broker(Memory::default(), |b| {
        b.include(cbor)
            .include(
                subscriber(Topic::new("messagepack"), Takes)
                    .codec(MessagePack)
                    .build(),
            )
            .include(
                subscriber(Topic::new("own"), Takes)
                    .codec(Versioned(9))
                    .build(),
            )
            .include(subscriber(Topic::new("json"), Takes).build());
    });
    let app = TestApp::start(app).await.unwrap();
    let broker = app.broker::<Memory>();
    for name in ["cbor", "messagepack", "own", "json"] {
        broker.message(&change()).to(name).publish().await.unwrap();
        let calls = broker.subscriber(name);
        assert_eq!(calls.received::<Change>(), [change()], "{name}");
        let calls = calls.assert_called_once().with(&change());
        calls.settled(HandlerOutcome::ack());
    }
    assert_eq!(broker.subscriber("own").received::<Bytes>()[0][0], 9);
}

#[subscriber(Topic::new("bytes"))]
async fn bytes(payload: &Bytes) -> HandlerOutcome {
    HandlerOutcome::ack_until(payload.as_ptr().addr())
}

#[subscriber(Topic::new("slice"), codec(Cbor))]
async fn slice(payload: &[u8]) -> HandlerOutcome {
    HandlerOutcome::ack_until(payload.as_ptr().addr())
}

struct Raw;

impl Handle<[u8]> for Raw {
    async fn handle(
        &self,
        payload: &[u8],
        _: &(),
        _: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        Err(HandlerOutcome::ack_until(payload.as_ptr().addr()))
    }
}

#[tokio::test]
async fn bytes_are_handed_over_as_they_are_and_where_they_are() {
    let payload = Bytes::from_static(b"\xff{no");
    let here = said(HandlerOutcome::ack_until(payload.as_ptr().addr()));
    for subscription in [
        bytes.into_subscription(),
        slice.into_subscription(),
        subscriber(Topic::new("raw"), Raw).build(),
    ] {
        assert_eq!(verdict(subscription.handler(), payload.clone()).await, here);
    }
}

#[tokio::test]
async fn a_test_app_shows_bytes_as_they_are() {
    let app = RustStream::new(AppInfo::new("bytes", "0.1.0"));
    let app = app.with_broker(Memory::default(), |b| {
        b.include(bytes);
    });
    let app = TestApp::start(app).await.unwrap();
    let broker = app.broker::<Memory>();
    broker.payload("{no").to("bytes").publish().await.unwrap();
    let calls = broker.subscriber("bytes");
    assert_eq!(calls.received::<Bytes>(), ["{no"]);
    calls.assert_called_once().with_payload("{no");
}
