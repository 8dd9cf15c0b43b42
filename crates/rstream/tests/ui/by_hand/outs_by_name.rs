#[path = "../support/mod.rs"]
mod support;

use rstream::{Context, Handle, HandlerOutcome, subscriber};
use support::{Change, Topic};

struct Apply;

impl Handle<Change> for Apply {
    async fn handle(&self, _: &Change, _: &(), _: &mut Context<'_>) -> Result<(), HandlerOutcome> {
        Ok(())
    }
}

fn main() {
    let _subscription = subscriber(Topic("inventory"), Apply)
        .outs("receipts")
        .build();
}
