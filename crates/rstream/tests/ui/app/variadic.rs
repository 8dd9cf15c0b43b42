use rstream::{AppInfo, RustStream};

#[rstream::app]
fn service(_: ...) -> RustStream {
    RustStream::new(AppInfo::new("app", "0.1.0"))
}
