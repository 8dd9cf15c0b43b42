#![deny(dead_code)]

#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic};

#[subscriber(Topic("inventory"))]
async fn apply(_change: &Change) {}

fn main() {}
