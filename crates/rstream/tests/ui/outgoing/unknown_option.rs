use rstream::Outgoing;

#[derive(Outgoing)]
#[outgoing(key = "sku")]
struct Change {
    sku: u64,
}

#[derive(Outgoing)]
#[outgoing(partition_key = "sku", crate = "rstream")]
struct Order {
    sku: u64,
}

fn main() {
    let _ = Change { sku: 7 }.partition_key();
    let _ = Order { sku: 7 }.partition_key();
}
