#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, include};

#[subscriber]
async fn apply(_change: &Change) {}

fn main() {
    include(apply);
}
