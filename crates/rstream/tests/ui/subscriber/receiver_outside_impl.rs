#![allow(unused_imports)]

#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic, include};

#[subscriber(Topic("inventory"))]
async fn apply(&self, _change: &Change) {}

fn main() {
    include(apply);
}
