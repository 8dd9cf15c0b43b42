//! A whole program: it ends by the signal that its broker sends it.

use rstream::broker::{
    BoxFuture, Broker, Connection, InProcess, Reports, Result, Source, Subscription,
};
use rstream::{AppInfo, RustStream, subscriber};

#[derive(Debug)]
struct Topic;

impl Source for Topic {
    type Broker = Brief;

    fn name(&self) -> &str {
        "topic"
    }
}

struct Brief;

impl Broker for Brief {
    fn start(
        self: Box<Self>,
        _: Vec<Subscription>,
        _: Reports,
    ) -> BoxFuture<'static, Result<Box<dyn Connection>>> {
        let id = std::process::id().to_string();
        let sent = std::process::Command::new("kill").args(["-TERM", &id]).status();
        Box::pin(async move {
            assert!(sent?.success());
            Ok(self as Box<dyn Connection>)
        })
    }

    fn start_in_process(
        self: Box<Self>,
        _: Vec<Subscription>,
        _: Reports,
    ) -> Result<Box<dyn InProcess>> {
        unimplemented!()
    }
}

impl Connection for Brief {
    fn shutdown(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

#[subscriber(Topic)]
async fn apply(_: &u64) {}

/// The app, by a name of its own, which stays callable.
#[rstream::app]
fn service() -> RustStream {
    RustStream::new(AppInfo::new("app", "0.1.0")).with_broker(Brief, |b| {
        b.include(apply);
    })
}

#[allow(dead_code)]
fn also_called_elsewhere() -> RustStream {
    service()
}
