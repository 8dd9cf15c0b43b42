use rstream::Outgoing;

#[derive(Outgoing)]
#[outgoing(partition_key = sku)]
struct Change {
    sku: u64,
}

fn main() {
    let _ = Change { sku: 7 }.partition_key();
}
