//! The program of `codecs.rs`, without macros. One handler serves both codecs: which one decodes is the subscription's
//! business.

use std::error::Error;
use std::process::ExitCode;

use examples::{Stage, StockChange};
use kinesis_broker::prelude::*;
use rstream::{Cbor, Codec, MessagePack};

struct Apply(&'static str);

impl Handle<StockChange> for Apply {
    async fn handle(
        &self,
        change: &StockChange,
        _outs: &(),
        _ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        println!("from {}: {change:?}", self.0);
        Ok(())
    }
}

/// Is given payloads as they are: neither decoded nor copied.
struct AsItIs;

impl Handle<[u8]> for AsItIs {
    async fn handle(
        &self,
        photograph: &[u8],
        _outs: &(),
        _ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        println!("a photograph of {} bytes", photograph.len());
        Ok(())
    }
}

fn service(broker: KinesisBroker) -> RustStream {
    let cbor = subscriber(KinesisStream::new("inventory-cbor"), Apply("CBOR"));
    let messagepack = subscriber(
        KinesisStream::new("inventory-messagepack"),
        Apply("MessagePack"),
    );
    let photographs = subscriber(KinesisStream::new("photographs"), AsItIs);
    RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(broker, |b| {
        b.include(cbor.codec(Cbor).build())
            .include(messagepack.codec(MessagePack).build())
            .include(photographs.build());
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
