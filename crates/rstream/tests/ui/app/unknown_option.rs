use rstream::{AppInfo, RustStream};

#[rstream::app(threads = 4)]
fn service() -> RustStream {
    RustStream::new(AppInfo::new("app", "0.1.0"))
}
