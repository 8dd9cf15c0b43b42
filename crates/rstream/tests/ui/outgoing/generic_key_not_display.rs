use rstream::Outgoing;

#[derive(Outgoing)]
#[outgoing(partition_key = "key")]
struct Change<K> {
    key: K,
}

fn published(_: &impl Outgoing) {}

fn main() {
    published(&Change { key: "sku-7" });
    published(&Change { key: Some("sku-7") });
}
