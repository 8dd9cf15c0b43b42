#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Receipt, Topic, include};

#[subscriber(Topic("inventory"), reply("receipts"))]
async fn apply(change: &Change) -> Result<Receipt, String> {
    Ok(Receipt { sku: change.sku })
}

fn main() {
    include(apply);
}
