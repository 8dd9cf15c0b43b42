#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic, include};

#[subscriber(Topic("inventory"), retry(max_attempts = "5"))]
async fn apply(_change: &Change) {}

fn main() {
    include(apply);
}
