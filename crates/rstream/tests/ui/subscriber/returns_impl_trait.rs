#[path = "../support/mod.rs"]
mod support;

use rstream::{HandlerOutcome, subscriber};
use support::{Change, Topic, include};

#[subscriber(Topic("inventory"))]
async fn apply(_change: &Change) -> impl Into<HandlerOutcome> {
    HandlerOutcome::ack()
}

fn main() {
    include(apply);
}
