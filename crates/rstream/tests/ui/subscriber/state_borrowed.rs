#[path = "../support/mod.rs"]
mod support;

use rstream::{State, subscriber};
use support::{Change, Topic, include};

#[subscriber(Topic("inventory"))]
async fn apply(_change: &Change, _sum: &State<u64>) {}

fn main() {
    include(apply);
}
