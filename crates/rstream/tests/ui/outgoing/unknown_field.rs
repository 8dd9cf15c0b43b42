use rstream::Outgoing;

#[derive(Outgoing)]
#[outgoing(partition_key = "skus")]
struct Change {
    sku: u64,
    r#type: u8,
}

fn main() {
    let _ = Change { sku: 7, r#type: 1 }.partition_key();
}
