use rstream::{AppInfo, RustStream};

#[rstream::app]
fn service() -> RustStream
where
    u8: Send,
{
    RustStream::new(AppInfo::new("app", "0.1.0"))
}
