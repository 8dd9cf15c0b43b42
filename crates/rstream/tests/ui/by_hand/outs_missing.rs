#[path = "../support/mod.rs"]
mod support;

use rstream::{Context, Handle, HandlerOutcome, Out, subscriber};
use support::{Change, Receipt, Topic};

struct Apply;

impl Handle<Change, (), Out<Receipt>> for Apply {
    async fn handle(
        &self,
        _: &Change,
        _: &Out<Receipt>,
        _: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        Ok(())
    }
}

fn main() {
    let _subscription = subscriber(Topic("inventory"), Apply).build();
}
