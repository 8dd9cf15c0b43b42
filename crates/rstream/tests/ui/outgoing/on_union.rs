use rstream::Outgoing;

#[derive(Outgoing)]
#[outgoing(partition_key = "sku")]
union Key {
    sku: u64,
    shelf: u32,
}

fn main() {
    let _ = Key { sku: 7 }.partition_key();
}
