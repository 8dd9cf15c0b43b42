#![allow(unused_imports)]

use rstream::{AppInfo, RustStream};

#[rstream::app]
fn service(&self) -> RustStream {
    RustStream::new(AppInfo::new("app", "0.1.0"))
}
