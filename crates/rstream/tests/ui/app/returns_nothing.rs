#[rstream::app]
fn service() {}
