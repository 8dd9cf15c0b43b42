#![deny(deprecated)]

#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic, include};

#[deprecated(note = "include `apply_all`")]
#[subscriber(Topic("inventory"))]
async fn apply(_change: &Change) {}

fn main() {
    include(apply);
}
