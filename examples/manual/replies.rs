//! A handler with two outputs, without macros. What it sends belongs to the record that it was given: it is stored before
//! that record is settled, and thrown away where the record is to be retried.

use std::error::Error;
use std::process::ExitCode;

use examples::{Stage, StockChange};
use kinesis_broker::prelude::*;
use serde::Serialize;

/// Says that a change was applied.
#[derive(Debug, Outgoing, Serialize)]
#[outgoing(partition_key = "sku")]
struct Receipt {
    sku: u64,
    delta: i64,
}

/// Says that many were taken at once.
#[derive(Debug, Serialize)]
struct Alarm {
    taken: i64,
}

struct Apply;

type Outputs = (Out<Receipt>, Out<Alarm>);

impl Handle<StockChange, (), Outputs> for Apply {
    async fn handle(
        &self,
        change: &StockChange,
        (receipts, alarms): &Outputs,
        _ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        let StockChange { sku, delta } = *change;
        if delta == 0 {
            return Err(HandlerOutcome::drop());
        }
        receipts.send(&Receipt { sku, delta })?;
        if delta < -10 {
            // An `Alarm` has no partition key of its own.
            alarms.send_keyed(sku.to_string(), &Alarm { taken: -delta })?;
        }
        Ok(())
    }
}

fn service(broker: KinesisBroker) -> RustStream {
    let apply = subscriber(KinesisStream::new("inventory"), Apply)
        .outs((Out::to("receipts"), Out::to("alarms")));
    RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(broker, |b| {
        b.include(apply.build());
    })
}

/// Puts three changes, one of which changes nothing.
pub(crate) async fn program(stage: &Stage) -> Result<(), Box<dyn Error>> {
    stage.create_streams(&["inventory", "receipts", "alarms"]);
    let running = stage.start(service(stage.broker("one"))).await?;
    let changes = [(7, 10), (8, 0), (7, -12)];
    stage.put(
        "inventory",
        changes.map(|(sku, delta)| StockChange { sku, delta }),
    )?;
    stage.until_settled("inventory").await;
    running.shutdown().await?;
    stage.say_records("receipts");
    stage.say_records("alarms");
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    examples::show(program).await
}
