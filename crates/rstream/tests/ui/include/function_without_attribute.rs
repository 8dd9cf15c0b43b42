#[path = "../support/mod.rs"]
mod support;

use support::{Change, include};

async fn apply(_change: &Change) {}

fn main() {
    include(apply);
}
