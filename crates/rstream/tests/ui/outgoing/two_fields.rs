use rstream::Outgoing;

#[derive(Outgoing)]
#[outgoing(partition_key = "sku", partition_key = "shelf")]
struct Change {
    sku: u64,
    shelf: u32,
}

fn main() {
    let _ = Change { sku: 7, shelf: 1 }.partition_key();
}
