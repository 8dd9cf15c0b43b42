#![allow(unused_imports)]

#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic, include};

struct Service;

impl Service {
    #[subscriber(Topic("inventory"))]
    async fn apply(&self, _change: &Change) {}
}

fn main() {
    include(Service::apply);
}
