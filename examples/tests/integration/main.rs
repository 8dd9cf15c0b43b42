//! The examples against real servers of Kinesis and DynamoDB; `cargo xtask integration` starts them.
#![cfg(feature = "integration")]
#![expect(clippy::unwrap_used, reason = "a failed call fails the test")]

mod demonstration;
mod processes;

use tokio::sync::{Semaphore, SemaphorePermit};

/// The servers serve a few processes at a time; more would measure the servers.
static AT_ONCE: Semaphore = Semaphore::const_new(2);

/// Waits until the servers have room for another test.
async fn room() -> SemaphorePermit<'static> {
    AT_ONCE.acquire().await.expect("it is never closed")
}

fn endpoint(variable: &str) -> String {
    std::env::var(variable).expect("run this by `cargo xtask integration`")
}
