use rstream::Outgoing;

#[derive(Outgoing)]
#[outgoing(partition_key = "2")]
struct Change(u64, i64);

fn main() {
    let _ = Change(7, -3).partition_key();
}
