#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Topic, include};

struct Opaque;

#[subscriber(Topic("inventory"))]
async fn apply(_message: &Opaque) {}

fn main() {
    include(apply);
}
