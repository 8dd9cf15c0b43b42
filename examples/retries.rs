//! What becomes of a record that fails: it is retried, and after the last attempt it lies among the dead letters, where
//! a second subscription looks at it.
//!
//! `cargo run -p examples --example retries`; `manual/retries.rs` is the same without macros.

use std::error::Error;
use std::process::ExitCode;

use examples::{Stage, StockChange};
use kinesis_broker::prelude::*;

/// Applies each change, if it can.
#[subscriber(
    KinesisStream::new("inventory"),
    retry(max_attempts = 3, first = "100ms"),
    dead_letter("inventory-failed"),
    on_undecodable(dead_letter)
)]
async fn apply(change: &StockChange, ctx: &mut Context<'_>) -> HandlerOutcome {
    match change.sku {
        // Stands for what a new attempt can help: a database that is busy.
        1 if ctx.attempt() < 3 => HandlerOutcome::retry(),
        // For what no attempt helps, though nobody knows it.
        2 => HandlerOutcome::retry(),
        // And for what no attempt can help, as the handler knows.
        3 => HandlerOutcome::dead_letter("there is no article 3"),
        _ => HandlerOutcome::ack(),
    }
}

/// Looks at what was given up. A dead letter is a line that says where it came from and why, and then the payload.
#[subscriber(KinesisStream::new("inventory-failed"))]
async fn given_up(letter: &[u8]) {
    match DeadLetter::parse(letter) {
        Some(letter) => println!("given up after {}: {}", letter.attempts, letter.reason),
        None => println!("somebody else's record"),
    }
}

fn service(broker: KinesisBroker) -> RustStream {
    RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(broker, |b| {
        b.include(apply).include(given_up);
    })
}

/// Puts a change of each kind, and something that is none.
pub(crate) async fn program(stage: &Stage) -> Result<(), Box<dyn Error>> {
    stage.create_streams(&["inventory", "inventory-failed"]);
    let running = stage.start(service(stage.broker("one"))).await?;
    stage.put(
        "inventory",
        (1..=4).map(|sku| StockChange { sku, delta: 1 }),
    )?;
    stage.kinesis().put("inventory", "5", "no JSON");
    stage.until_settled("inventory").await;
    stage.until_settled("inventory-failed").await;
    running.shutdown().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    examples::show(program).await
}
