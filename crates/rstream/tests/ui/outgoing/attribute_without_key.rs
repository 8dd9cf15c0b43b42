use rstream::Outgoing;

#[derive(Outgoing)]
#[outgoing(crate = ::rstream)]
struct Change {
    sku: u64,
}

fn main() {
    let _ = Change { sku: 7 }.partition_key();
}
