use rstream::Outgoing;

#[derive(Outgoing)]
#[outgoing(partition_key = "sku")]
enum Change {
    In { sku: u64 },
    Out { sku: u64 },
}

fn main() {
    let _ = Change::In { sku: 7 }.partition_key();
    let _ = Change::Out { sku: 7 };
}
