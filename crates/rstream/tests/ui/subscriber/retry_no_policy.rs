#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic, include};

const LIMIT: u32 = 5;

#[subscriber(Topic("inventory"), retry(LIMIT))]
async fn apply(_change: &Change) {}

fn main() {
    include(apply);
}
