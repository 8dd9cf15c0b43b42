#[path = "../support/mod.rs"]
mod support;

use rstream::subscriber;
use support::{Topic, include};

struct Inventory;

impl Inventory {
    #[subscriber(Topic("inventory"))]
    async fn apply(_change: &u64, _inventory: rstream::State<Self>) {}
}

fn main() {
    include(Inventory::apply);
}
