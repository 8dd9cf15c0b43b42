#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic, include};

#[subscriber(Topic("inventory"))]
async fn apply(changes: &[Change]) {
    for _ in changes {}
}

fn main() {
    include(apply);
}
