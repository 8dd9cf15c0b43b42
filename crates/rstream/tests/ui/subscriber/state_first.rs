#[path = "../support/mod.rs"]
mod support;

use rstream::{State, subscriber};
use support::{Change, Topic, include};

#[subscriber(Topic("inventory"))]
async fn apply(_sum: State<u64>, _change: &Change) {}

fn main() {
    include(apply);
}
