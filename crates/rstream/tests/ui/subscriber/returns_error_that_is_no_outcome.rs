#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Change, Topic, include};

use std::io;

#[subscriber(Topic("inventory"))]
async fn apply(_change: &Change) -> Result<(), io::Error> {
    Ok(())
}

fn main() {
    include(apply);
}
