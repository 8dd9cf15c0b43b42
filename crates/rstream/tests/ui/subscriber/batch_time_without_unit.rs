#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic, include};

#[subscriber(Topic("inventory"), batch(500, "50"))]
async fn apply(_changes: &[Change]) {}

fn main() {
    include(apply);
}
