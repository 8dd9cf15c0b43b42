#[path = "../support/mod.rs"]
mod support;

use rstream::{Context, Handle, HandlerOutcome, subscriber};
use support::{Change, Receipt, Topic};

struct Apply;

impl Handle<Change, Receipt> for Apply {
    async fn handle(
        &self,
        _: &Change,
        _: &(),
        _: &mut Context<'_>,
    ) -> Result<Receipt, HandlerOutcome> {
        Ok(Receipt { sku: 1 })
    }
}

fn main() {
    let _subscription = subscriber(Topic("inventory"), Apply).build();
}
