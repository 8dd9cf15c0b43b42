#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, include};

#[subscriber(batch(500, "50ms"))]
async fn apply(_changes: &[Change]) {}

fn main() {
    include(apply);
}
