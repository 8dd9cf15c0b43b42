#![allow(unused_imports)]

#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic};

trait Service {
    #[subscriber(Topic("inventory"))]
    async fn apply(&self, change: &Change);
}

fn main() {}
