#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Topic, include};

#[subscriber(Topic("inventory"))]
async fn apply(_line: &dyn ToString) {}

fn main() {
    include(apply);
}
