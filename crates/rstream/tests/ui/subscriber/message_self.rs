#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Topic, include};

#[derive(serde::Deserialize)]
struct Change;

impl Change {
    #[subscriber(Topic("inventory"))]
    async fn apply(_changes: &Vec<Self>) {}
}

fn main() {
    include(Change::apply);
}
