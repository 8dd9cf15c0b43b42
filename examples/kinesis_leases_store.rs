//! A service whose instances share the shards of a stream through a lease store.
//!
//! `cargo run -p examples --example kinesis_leases_store` runs two instances of it on embedded parts;
//! `--help` lists what else it can do. `manual/kinesis_leases_store.rs` is the same service without macros.

use std::process::ExitCode;
use std::sync::Arc;

use examples::StockChange;
use kinesis_broker::prelude::*;

/// Applies each stock change. Every instance of the service runs this handler; the lease store
/// decides which instance reads which shard.
#[subscriber(KinesisStream::new("inventory"))]
async fn apply(change: &StockChange) -> HandlerOutcome {
    tracing::info!(change.sku, change.delta, "stock changed");
    HandlerOutcome::ack()
}

pub(crate) fn service(broker: KinesisBroker, leases: Arc<dyn LeaseStore>) -> RustStream {
    RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(
        broker.lease_store(leases),
        |b| {
            b.include(apply);
        },
    )
}

#[tokio::main]
async fn main() -> ExitCode {
    examples::main(service).await
}
