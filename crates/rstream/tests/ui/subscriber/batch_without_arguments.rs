#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic, include};

#[subscriber(Topic("inventory"), batch)]
async fn apply(_changes: &[Change]) {}

fn main() {
    include(apply);
}
