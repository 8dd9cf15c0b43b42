#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic, include};

#[subscriber(Topic("inventory"), retry(cap = "5s", max_attempts = 5, cap = "6s"))]
async fn apply(_change: &Change) {}

fn main() {
    include(apply);
}
