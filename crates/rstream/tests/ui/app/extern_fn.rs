use rstream::{AppInfo, RustStream};

#[rstream::app]
extern "C" fn service() -> RustStream {
    RustStream::new(AppInfo::new("app", "0.1.0"))
}
