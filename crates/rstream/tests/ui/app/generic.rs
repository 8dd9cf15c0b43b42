use rstream::{AppInfo, RustStream};

#[rstream::app]
fn service<T>() -> RustStream {
    RustStream::new(AppInfo::new("app", "0.1.0"))
}
