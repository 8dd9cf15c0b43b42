#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Topic, include};

#[subscriber(Topic("inventory"))]
async fn apply(_change: &u64, _sum: rstream::State<_>) {}

fn main() {
    include(apply);
}
