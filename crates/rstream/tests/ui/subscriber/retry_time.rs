#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic, include};

#[subscriber(Topic("inventory"), retry(first = 100, cap = "5 s"))]
async fn apply(_change: &Change) {}

fn main() {
    include(apply);
}
