#[path = "../support/mod.rs"]
mod support;

use support::include;

struct Apply;

fn main() {
    include(Apply);
}
