//! The program of `batches.rs`, without macros: a handler of batches handles `[T]`.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use examples::{Stage, StockChange};
use kinesis_broker::prelude::*;

/// What the warehouse takes in one call.
const ROOM: usize = 300;

struct Apply;

impl Handle<[StockChange]> for Apply {
    async fn handle(
        &self,
        changes: &[StockChange],
        _outs: &(),
        ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        let applied = changes.len().min(ROOM);
        let (given, attempt) = (changes.len(), ctx.attempt());
        println!("given {given} changes, attempt {attempt}: {applied} applied");
        if applied < given {
            return Err(HandlerOutcome::ack_until(applied));
        }
        Ok(())
    }
}

fn service(broker: KinesisBroker) -> RustStream {
    let inventory = KinesisStream::new("inventory").start_at(StartPosition::trim_horizon());
    let apply = subscriber(inventory, Apply).batch(500, Duration::from_millis(50));
    RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(broker, |b| {
        b.include(apply.build());
    })
}

/// Puts 1,200 changes of 50 articles, and then has them handled.
pub(crate) async fn program(stage: &Stage) -> Result<(), Box<dyn Error>> {
    stage.create_streams(&["inventory"]);
    let changes = (0..1_200).map(|n| StockChange {
        sku: n % 50,
        delta: 1,
    });
    stage.put("inventory", changes)?;
    let running = stage.start(service(stage.broker("one"))).await?;
    stage.until_settled("inventory").await;
    running.shutdown().await?;
    stage.say(format!(
        "{} checkpoints for 1,200 changes",
        stage.checkpoints()
    ));
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    examples::show(program).await
}
