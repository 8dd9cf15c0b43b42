use rstream::{AppInfo, RustStream};

#[rstream::app]
fn service(_name: &str) -> RustStream {
    RustStream::new(AppInfo::new("app", "0.1.0"))
}
