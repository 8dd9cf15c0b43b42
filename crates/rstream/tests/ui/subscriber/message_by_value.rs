#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic, include};

#[subscriber(Topic("inventory"))]
async fn apply(change: Vec<Change>) {
    drop(change);
}

fn main() {
    include(apply);
}
