#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic, include};

#[subscriber(Topic("inventory"))]
async fn apply<'a>(_change: &'a Change) {}

fn main() {
    include(apply);
}
