#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic, include};

use std::task::Context;

#[subscriber(Topic("inventory"))]
async fn apply(_change: &Change, _ctx: &mut Context<'_>) {}

fn main() {
    include(apply);
}
