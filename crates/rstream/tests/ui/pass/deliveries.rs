//! Everything that an attribute can say about deliveries, in one place.
#![deny(warnings, clippy::all, clippy::pedantic)]

use std::borrow::Cow;
use std::time::Duration;

use rstream::broker::{
    BoxFuture, Broker, Connection, InProcess, Reports, Result, Source, Subscription,
};
use rstream::{Cbor, Context, HandlerOutcome, Outgoing, RetryPolicy, State, subscriber};

#[derive(Debug)]
struct Topic(&'static str);

impl Source for Topic {
    type Broker = Memory;

    fn name(&self) -> &str {
        self.0
    }
}

struct Memory;

impl Broker for Memory {
    fn start(
        self: Box<Self>,
        _: Vec<Subscription>,
        _: Reports,
    ) -> BoxFuture<'static, Result<Box<dyn Connection>>> {
        Box::pin(async { Err("never".into()) })
    }

    fn start_in_process(
        self: Box<Self>,
        _: Vec<Subscription>,
        _: Reports,
    ) -> Result<Box<dyn InProcess>> {
        Err("never".into())
    }
}

#[derive(serde::Deserialize)]
struct Change {
    sku: u64,
}

#[derive(serde::Serialize)]
struct Receipt(u64);

impl Outgoing for Receipt {
    fn partition_key(&self) -> Cow<'_, str> {
        self.0.to_string().into()
    }
}

struct Limit(u64);

/// All of it.
#[subscriber(
    Topic("inventory"),
    reply("receipts"),
    codec(Cbor),
    on_undecodable(dead_letter),
    dead_letter("failed"),
    retry(
        max_attempts = 5,
        first = "100ms",
        cap = "1m",
        factor = 1.5,
        jitter = 0.25
    ),
    batch(500, "50ms")
)]
async fn all(
    changes: &[Change],
    limit: State<Limit>,
    ctx: &mut Context<'_>,
    _: State<String>,
) -> std::result::Result<Vec<Receipt>, HandlerOutcome> {
    if changes.iter().any(|change| change.sku > limit.0) {
        return Err(HandlerOutcome::dead_letter(format!(
            "attempt {}",
            ctx.attempt()
        )));
    }
    Ok(changes.iter().map(|change| Receipt(change.sku)).collect())
}

const RECORDS: usize = 10;

fn policy() -> RetryPolicy {
    RetryPolicy::fixed(Duration::ZERO)
}

/// The same by expressions, and on bytes.
#[subscriber(
    Topic("raw"),
    retry(policy()),
    batch(RECORDS * 2, Duration::from_secs(1)),
    dead_letter(["failed", "too"].concat()),
    on_undecodable(retry),
)]
async fn raw(payloads: &[bytes::Bytes]) {
    assert!(!payloads.is_empty());
}

/// A function of an option's name may give the source, by a path.
fn retry(name: &'static str) -> Topic {
    Topic(name)
}

#[subscriber(self::retry("topic"), on_undecodable(drop))]
async fn slice(payload: &[u8]) -> HandlerOutcome {
    if payload.is_empty() {
        HandlerOutcome::drop()
    } else {
        HandlerOutcome::ack()
    }
}

fn main() {
    for subscription in [all(), raw(), slice()] {
        println!("{subscription:?}");
    }
}
