#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, include};

#[subscriber("inventory")]
async fn apply(_change: &Change) {}

fn main() {
    include(apply);
}
