#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Topic, include};

#[subscriber(Topic("inventory"))]
async fn apply(Some(_line): &Option<String>) {}

fn main() {
    include(apply);
}
