#![allow(unused_imports)]

#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::Topic;

struct Service;

impl Service {
    #[subscriber(Topic("inventory"))]
    async fn apply(self) {}
}

fn main() {
    let _ = Service;
}
