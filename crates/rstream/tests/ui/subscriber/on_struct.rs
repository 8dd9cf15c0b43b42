#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::Topic;

#[subscriber(Topic("inventory"))]
struct Apply;

fn main() {
    let _ = (Apply, Topic(""));
}
