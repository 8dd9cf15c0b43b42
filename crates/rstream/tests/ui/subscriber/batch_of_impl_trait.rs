#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Topic, include};

#[subscriber(Topic("inventory"), batch(500, "50ms"))]
async fn apply(_messages: &[impl Sized]) {}

fn main() {
    include(apply);
}
