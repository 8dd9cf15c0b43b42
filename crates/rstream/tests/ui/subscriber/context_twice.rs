#[path = "../support/mod.rs"]
mod support;

use rstream::{Context, subscriber};
use support::{Change, Topic, include};

#[subscriber(Topic("inventory"))]
async fn apply(_change: &Change, _ctx: &mut Context<'_>, _again: &mut Context<'_>) {}

fn main() {
    include(apply);
}
