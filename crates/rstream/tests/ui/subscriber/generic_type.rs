#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Topic, include};

#[subscriber(Topic("inventory"))]
async fn apply<T>(_message: &T) {}

fn main() {
    include(apply);
}
