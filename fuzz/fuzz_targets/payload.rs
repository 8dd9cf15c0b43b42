//! A record's payload, on its way to a handler.

#![no_main]

use std::sync::{Arc, Mutex, OnceLock};

use futures_util::FutureExt;
use libfuzzer_sys::fuzz_target;
use rstream::broker::{Handler, Verdict};
use rstream::{Context, Handle, HandlerOutcome, IntoSubscription, subscriber};
use serde::Deserialize;

/// Of several shapes, so that there is something to go wrong.
#[derive(Clone, Debug, Deserialize, PartialEq)]
struct Change {
    sku: u64,
    delta: i64,
    note: Option<String>,
    #[serde(default)]
    tags: Vec<Tag>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Tag {
    Plain,
    Weighted { weight: f64 },
    Named(String, u8),
}

type Seen = Arc<Mutex<Option<Change>>>;

struct Keep(Seen);

impl Handle<Change> for Keep {
    async fn handle(
        &self,
        change: &Change,
        _outs: &(),
        _ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        *self.0.lock().unwrap() = Some(change.clone());
        Ok(())
    }
}

fn handler() -> &'static (Handler, Seen) {
    static HANDLER: OnceLock<(Handler, Seen)> = OnceLock::new();
    HANDLER.get_or_init(|| {
        let seen = Seen::default();
        let source = kinesis_broker::KinesisStream::new("inventory");
        let subscriber = subscriber(source, Keep(Arc::clone(&seen))).build();
        (subscriber.into_subscription().handler().clone(), seen)
    })
}

fuzz_target!(|payload: &[u8]| {
    let (handler, seen) = handler();
    let delivered = handler.deliver(payload, 1, &()).now_or_never();
    let seen = seen.lock().unwrap().take();
    match delivered.expect("this handler waits for nothing") {
        Verdict::Outcome(outcome) => {
            assert_eq!(outcome, HandlerOutcome::ack());
            assert!(seen.is_some());
        }
        Verdict::Undecodable(error) => {
            assert_eq!(seen, None);
            assert!(["syntax", "data", "eof"].contains(&error.category()));
            // Its text is made of the type, the category and two numbers.
            let told = format!(
                "cannot decode a {} from JSON: {} error at line {}, column {}",
                handler.message_type(),
                error.category(),
                error.line(),
                error.column()
            );
            assert_eq!(error.to_string(), told);
            assert!(error.line() <= payload.len() + 1 && error.column() <= payload.len() + 1);
        }
        verdict => panic!("{verdict:?}"),
    }
});
