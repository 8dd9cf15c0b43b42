#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic, include};

#[subscriber(Topic("inventory"), batch("many", "50ms"))]
async fn apply(_changes: &[Change]) {}

fn main() {
    include(apply);
}
