use rstream::RustStream;

#[rstream::app]
const fn service() -> RustStream {
    loop {}
}
