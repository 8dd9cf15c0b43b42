//! The program of `retries.rs`, without macros.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use examples::{Stage, StockChange};
use kinesis_broker::prelude::*;
use rstream::OnUndecodable;

/// Applies each change, if it can.
struct Apply;

impl Handle<StockChange> for Apply {
    async fn handle(
        &self,
        change: &StockChange,
        _outs: &(),
        ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        match change.sku {
            // Stands for what a new attempt can help: a database that is busy.
            1 if ctx.attempt() < 3 => Err(HandlerOutcome::retry()),
            // For what no attempt helps, though nobody knows it.
            2 => Err(HandlerOutcome::retry()),
            // And for what no attempt can help, as the handler knows.
            3 => Err(HandlerOutcome::dead_letter("there is no article 3")),
            _ => Ok(()),
        }
    }
}

/// Looks at what was given up. A dead letter is a line that says where it came from and why, and then the payload.
struct GivenUp;

impl Handle<[u8]> for GivenUp {
    async fn handle(
        &self,
        letter: &[u8],
        _outs: &(),
        _ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        match DeadLetter::parse(letter) {
            Some(letter) => println!("given up after {}: {}", letter.attempts, letter.reason),
            None => println!("somebody else's record"),
        }
        Ok(())
    }
}

fn service(broker: KinesisBroker) -> RustStream {
    let policy = RetryPolicy::exponential()
        .first(Duration::from_millis(100))
        .max_attempts(3);
    let apply = subscriber(KinesisStream::new("inventory"), Apply)
        .retry(policy)
        .dead_letter("inventory-failed")
        .on_undecodable(OnUndecodable::DeadLetter);
    let given_up = subscriber(KinesisStream::new("inventory-failed"), GivenUp);
    RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(broker, |b| {
        b.include(apply.build()).include(given_up.build());
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
