#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::Topic;

#[subscriber(Topic("inventory"))]
pub(crate) const APPLY: u8 = 0;

fn main() {
    let _ = (APPLY, Topic(""));
}
