//! The two forms of one program: a handler under the macro, and a handler by hand.

use rstream::testing::TestApp;
use rstream::{AppInfo, HandlerOutcome, RustStream};
use serde::{Deserialize, Serialize};

use crate::support::{Memory, Topic};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct StockChange {
    sku: u64,
    delta: i64,
}

mod with_the_macro {
    use super::*;
    use rstream::subscriber;

    /// Applies each stock change.
    #[subscriber(Topic::new("inventory"))]
    async fn apply(change: &StockChange) -> HandlerOutcome {
        tracing::info!(change.sku, change.delta, "stock changed");
        HandlerOutcome::ack()
    }

    pub(super) fn service(broker: Memory) -> RustStream {
        RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(broker, |b| {
            b.include(apply);
        })
    }
}

mod by_hand {
    use std::future::ready;

    use super::*;
    use rstream::{Context, Handle, subscriber};

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

    pub(super) fn service(broker: Memory) -> RustStream {
        RustStream::new(AppInfo::new("inventory", "0.1.0")).with_broker(broker, |b| {
            b.include(subscriber(Topic::new("inventory"), Apply).build());
        })
    }
}

async fn handles_a_stock_change(service: RustStream) {
    let change = StockChange { sku: 7, delta: -2 };
    let app = TestApp::start(service).await.unwrap();
    let broker = app.broker::<Memory>();

    let message = broker.message(&change).to("inventory");
    message.publish().await.unwrap();

    broker
        .subscriber("inventory")
        .assert_called_once()
        .with(&change)
        .settled(HandlerOutcome::ack());
    assert_eq!(
        broker.subscriber("inventory").received::<StockChange>(),
        [change]
    );
    app.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_service_with_the_macro_handles_a_stock_change() {
    handles_a_stock_change(with_the_macro::service(Memory::default())).await;
}

#[tokio::test]
async fn a_service_by_hand_handles_a_stock_change() {
    handles_a_stock_change(by_hand::service(Memory::default())).await;
}

#[tokio::test]
async fn both_services_start_and_shut_down() {
    for service in [with_the_macro::service, by_hand::service] {
        let running = service(Memory::default()).start().await.unwrap();
        running.shutdown().await.unwrap();
    }
}
