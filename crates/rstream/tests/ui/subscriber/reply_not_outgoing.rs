#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic, include};

#[subscriber(Topic("inventory"), reply("receipts"))]
async fn apply(change: &Change) -> u64 {
    change.sku
}

fn main() {
    include(apply);
}
