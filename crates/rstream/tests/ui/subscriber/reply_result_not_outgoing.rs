#[path = "../support/mod.rs"]
mod support;

use rstream::{HandlerOutcome, subscriber};
use support::{Change, Topic, include};

#[subscriber(Topic("inventory"), reply("receipts"))]
async fn apply(change: &Change) -> Result<u64, HandlerOutcome> {
    Ok(change.sku)
}

fn main() {
    include(apply);
}
