use rstream::Outgoing;

#[derive(Outgoing)]
#[outgoing(partition_key = "sku")]
struct Change {
    sku: u64,
    #[outgoing(partition_key)]
    shelf: u32,
}

fn main() {
    let _ = Change { sku: 7, shelf: 1 }.partition_key();
}
