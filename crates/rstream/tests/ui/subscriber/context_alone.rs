#[path = "../support/mod.rs"]
mod support;

use rstream::{Context, subscriber};
use support::{Topic, include};

#[subscriber(Topic("inventory"))]
async fn apply(_ctx: &mut Context<'_>) {}

fn main() {
    include(apply);
}
