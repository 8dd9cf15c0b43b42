use rstream::Outgoing;

#[derive(Outgoing)]
struct Change {
    sku: u64,
}

fn main() {
    let _ = Change { sku: 7 }.partition_key();
}
