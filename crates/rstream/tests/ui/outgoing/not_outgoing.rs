use rstream::Outgoing;

struct Change {
    sku: u64,
}

fn published(_: &impl Outgoing) {}

fn main() {
    published(&Change { sku: 7 });
    published(&7);
}
