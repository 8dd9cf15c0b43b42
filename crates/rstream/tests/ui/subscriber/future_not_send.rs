#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic, include};

use std::rc::Rc;

#[subscriber(Topic("inventory"))]
async fn apply(change: &Change) {
    let shared = Rc::new(change.sku);
    std::future::ready(()).await;
    drop(shared);
}

fn main() {
    include(apply);
}
