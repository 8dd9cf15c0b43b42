#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic, include};

#[subscriber(Topic("inventory"))]
async fn apply(_change: &Change) {}

fn main() {
    include(apply);
    let _subscription = subscriber(Topic("elsewhere"), apply).build::<Change>();
}
