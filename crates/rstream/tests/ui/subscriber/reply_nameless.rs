#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Receipt, Topic, include};

#[subscriber(Topic("inventory"), reply(""))]
async fn apply(change: &Change) -> Receipt {
    Receipt { sku: change.sku }
}

fn main() {
    include(apply);
}
