use rstream::Outgoing;

#[derive(Outgoing)]
#[outgoing(partition_key = "sku")]
struct Closed;

fn main() {
    let _ = Closed.partition_key();
}
