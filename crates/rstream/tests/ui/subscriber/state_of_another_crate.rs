#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic, include};

struct State<T>(T);

#[subscriber(Topic("inventory"))]
async fn apply(_change: &Change, _sum: State<u64>) {}

fn main() {
    include(apply);
}
