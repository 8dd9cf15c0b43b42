#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic, include};

#[subscriber(Topic("inventory"))]
async fn apply(_change: &Change, _state: &u64) {}

fn main() {
    include(apply);
}
