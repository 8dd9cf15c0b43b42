//! The programs that show one thing each, in both forms, on the paused clock: what each does is what it is there to
//! show.

mod aggregated;
mod batches;
mod codecs;
mod concurrency;
mod fencing;
mod replay;
mod replies;
mod retries;
mod state;

use std::error::Error;
use std::time::Duration;

use examples::{Call, Stage, StockChange};
use rstream::HandlerOutcome;
use rstream::broker::Verdict;
use tokio::time::timeout;

/// On a paused clock nothing but a program that never ends takes as long.
const FOR_EVER: Duration = Duration::from_secs(600);

/// Runs a program to its end, and gives the stage that it leaves behind.
async fn played(program: impl AsyncFnOnce(&Stage) -> Result<(), Box<dyn Error>>) -> Stage {
    let stage = Stage::new();
    let ended = timeout(FOR_EVER, program(&stage)).await;
    ended.expect("the program ends").expect("nothing fails");
    stage
}

fn change(call: &Call) -> StockChange {
    serde_json::from_slice(&call.payloads[0]).expect("it is a change")
}

fn said(call: &Call) -> HandlerOutcome {
    match &call.verdict {
        Verdict::Outcome(outcome) => outcome.clone(),
        verdict => panic!("{verdict:?}"),
    }
}
