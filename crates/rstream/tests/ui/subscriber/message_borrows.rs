#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Topic, include};

use std::borrow::Cow;

#[subscriber(Topic("inventory"))]
async fn apply(_line: &Cow<'_, str>) {}

fn main() {
    include(apply);
}
