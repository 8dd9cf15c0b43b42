//! What the store makes of answers that no healthy server gives on demand: lost, late, throttled, refused
//! without an item, or not to be understood.

#![expect(clippy::unwrap_used, reason = "a failed call fails the test")]

mod errors;
mod listing;
mod lost;
mod script;
mod writes;

use lease_core::Holder;
use serde_json::{Value, json};

use crate::script::{Reply, Request, Script, held, key};

fn holder(epoch: u64) -> Holder {
    Holder {
        owner: "a".to_owned(),
        epoch,
    }
}

/// What the service answers to the acquisition of an absent row.
fn granted(request: &Request) -> Reply {
    Reply::ok(json!({"Attributes": row_of(request)}))
}

/// The row as an acquisition of an absent row leaves it.
fn row_of(request: &Request) -> Value {
    held(
        &key(0),
        request.value(":new_owner"),
        1,
        1,
        request.value(":new_grant"),
    )
}

/// Fails whatever of the SDK's attempts at one call there are.
fn lost_for_good(script: &Script) {
    for _ in 0..3 {
        script.then(|_| Reply::Lost);
    }
}
