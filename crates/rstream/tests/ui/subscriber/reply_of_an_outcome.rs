#[path = "../support/mod.rs"]
mod support;

use rstream::{HandlerOutcome, subscriber};
use support::{Change, Topic, include};

#[subscriber(Topic("inventory"), reply("receipts"))]
async fn apply(_change: &Change) -> HandlerOutcome {
    HandlerOutcome::ack()
}

fn main() {
    include(apply);
}
