#[rstream::app]
fn service() -> u8 {
    0
}
