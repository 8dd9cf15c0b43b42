#[path = "../support/mod.rs"]
mod support;

use rstream::{Context, subscriber};
use support::{Change, Topic, include};

#[subscriber(Topic("inventory"))]
async fn apply(_ctx: &mut Context<'_>, _change: &Change) {}

fn main() {
    include(apply);
}
