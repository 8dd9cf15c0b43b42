#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Topic, include};

#[subscriber(Topic("inventory"))]
async fn apply<const N: usize>(_message: &[u8; N]) {}

fn main() {
    include(apply);
}
