#[path = "../support/mod.rs"]
mod support;

use rstream::{State, subscriber};
use support::{Change, Topic, include};

use std::cell::Cell;

#[subscriber(Topic("inventory"))]
async fn apply(_change: &Change, _sum: State<Cell<u64>>) {}

fn main() {
    include(apply);
}
