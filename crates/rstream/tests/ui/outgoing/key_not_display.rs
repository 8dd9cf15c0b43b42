use rstream::Outgoing;

struct Sku(u64);

#[derive(Outgoing)]
#[outgoing(partition_key = "sku")]
struct Change {
    sku: Sku,
}

#[derive(Outgoing)]
#[outgoing(partition_key = "sku")]
struct Order {
    sku: Option<u64>,
}

fn main() {
    let _ = Change { sku: Sku(7) }.partition_key();
    let _ = Order { sku: Some(7) }.partition_key();
}
