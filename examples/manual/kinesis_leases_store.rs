//! The service of `kinesis_leases_store.rs`, without macros: the handler is a type.

use std::future::{Future, ready};
use std::process::ExitCode;
use std::sync::Arc;

use examples::StockChange;
use kinesis_broker::prelude::*;

struct Apply;

impl Handle<StockChange> for Apply {
    fn handle(
        &self,
        change: &StockChange,
        _outs: &(),
        _ctx: &mut Context<'_>,
    ) -> impl Future<Output = Result<(), HandlerOutcome>> {
        tracing::info!(change.sku, change.delta, "stock changed");
        ready(Ok(()))
    }
}

pub(crate) fn service(broker: KinesisBroker, leases: Arc<dyn LeaseStore>) -> RustStream {
    RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(
        broker.lease_store(leases),
        |b| {
            b.include(subscriber(KinesisStream::new("inventory"), Apply).build());
        },
    )
}

#[tokio::main]
async fn main() -> ExitCode {
    examples::main(service).await
}
