#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic, include};

#[subscriber(Topic("inventory"))]
async fn apply(change: &Change) -> bool {
    change.sku == 0
}

fn main() {
    include(apply);
}
