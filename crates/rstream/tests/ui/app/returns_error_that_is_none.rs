use rstream::RustStream;

#[rstream::app]
async fn service() -> Result<RustStream, u8> {
    Err(1)
}
