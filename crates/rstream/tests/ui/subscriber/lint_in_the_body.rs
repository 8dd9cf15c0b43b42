#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic, include};

#[subscriber(Topic("inventory"))]
#[deny(unused_variables)]
async fn apply(change: &Change) {}

fn main() {
    include(apply);
}
