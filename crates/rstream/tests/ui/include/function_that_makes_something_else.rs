#[path = "../support/mod.rs"]
mod support;

use support::{Topic, include};

fn topic() -> Topic {
    Topic("inventory")
}

fn main() {
    include(topic);
}
