//! What payloads are decoded by: JSON unless a subscription names another codec; bytes are handed over as they are.
//!
//! `cargo run -p examples --example codecs`; `manual/codecs.rs` is the same without macros. CBOR and MessagePack are
//! the features `cbor` and `messagepack` of `rstream`.

use std::error::Error;
use std::process::ExitCode;

use examples::{Stage, StockChange};
use kinesis_broker::prelude::*;
use rstream::{Cbor, Codec, MessagePack};

#[subscriber(KinesisStream::new("inventory-cbor"), codec(Cbor))]
async fn from_cbor(change: &StockChange) {
    println!("from CBOR: {change:?}");
}

#[subscriber(KinesisStream::new("inventory-messagepack"), codec(MessagePack))]
async fn from_messagepack(change: &StockChange) {
    println!("from MessagePack: {change:?}");
}

/// Neither decoded nor copied; a `&Bytes` does as well, and can be kept.
#[subscriber(KinesisStream::new("photographs"))]
async fn as_it_is(photograph: &[u8]) {
    println!("a photograph of {} bytes", photograph.len());
}

fn service(broker: KinesisBroker) -> RustStream {
    RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(broker, |b| {
        b.include(from_cbor)
            .include(from_messagepack)
            .include(as_it_is);
    })
}

/// Puts a record into each stream.
pub(crate) async fn program(stage: &Stage) -> Result<(), Box<dyn Error>> {
    let streams = ["inventory-cbor", "inventory-messagepack", "photographs"];
    stage.create_streams(&streams);
    let running = stage.start(service(stage.broker("one"))).await?;
    let change = StockChange { sku: 7, delta: -2 };
    let payloads = [
        Cbor.encode(&change).map_err(|error| error.to_string())?,
        MessagePack
            .encode(&change)
            .map_err(|error| error.to_string())?,
        vec![0xff, 0xd8, 0xff, 0xe0],
    ];
    for (stream, payload) in streams.iter().zip(payloads) {
        stage.kinesis().put(stream, "sku-7", payload);
    }
    for stream in streams {
        stage.until_settled(stream).await;
    }
    running.shutdown().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    examples::show(program).await
}
