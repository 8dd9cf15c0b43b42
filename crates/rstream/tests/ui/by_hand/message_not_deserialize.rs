#[path = "../support/mod.rs"]
mod support;

use rstream::{Context, Handle, HandlerOutcome, subscriber};
use support::Topic;

struct Apply;

struct Opaque;

impl Handle<Opaque> for Apply {
    async fn handle(&self, _: &Opaque, _: &(), _: &mut Context<'_>) -> Result<(), HandlerOutcome> {
        Ok(())
    }
}

fn main() {
    let _subscription = subscriber(Topic("inventory"), Apply).build();
}
