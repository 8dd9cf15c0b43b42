//! Stream handlers for Rust: an app, its subscriptions, and a shutdown that loses nothing.
//!
//! A handler is an `async fn` under `#[subscriber(..)]`, or a type that implements [`Handle`] given to
//! [`subscriber()`]. A [`RustStream`] puts handlers on brokers and runs them until the process is told to stop.
//! This crate knows no broker: it decodes what a broker hands over, calls the handler, and tells the broker
//! what became of it. The crate `kinesis-broker` is one broker; [`broker`] is for authors of others.
//!
//! A handler takes one message or, with [`batch`](SubscriberBuilder::batch), several at once; decoded by a [`Codec`]
//! (JSON, unless told otherwise), or as `[u8]` or `Bytes`, as they are. Its [`Context`] has the app's
//! [state](RustStream::with_state), which a macro's function takes as [`State`]. It returns what becomes of the message, a
//! [`HandlerOutcome`], and what is to be published before the message is settled: as an [`Answer`], or through an
//! [`Out`]. A [`RetryPolicy`] and a [dead letter destination](SubscriberBuilder::dead_letter) say what becomes of a
//! message that fails. What can never work is an error when the app starts. [`Running::seek`] moves a subscription
//! while it runs.
//!
//! What goes wrong while an app runs reaches [`RustStream::on_error`]; [`RustStream::run`] ends with a graceful
//! shutdown on SIGINT or SIGTERM. The macros are behind the feature `macros`, and `testing::TestApp`, which runs an
//! app in process without a network, behind the feature `testing`. The codecs `Cbor` and `MessagePack` are behind
//! `cbor` and `messagepack`.
//!
//! ```
//! use rstream::{AppInfo, Context, Handle, HandlerOutcome, RustStream, subscriber};
//! use rstream::testing::TestApp;
//!
//! # use rstream::broker::{self, BoxFuture, Broker, Connection, InProcess, Reports, Source, Subscription};
//! # #[derive(Debug)] struct Topic(&'static str);
//! # impl Source for Topic { type Broker = Lines; fn name(&self) -> &str { self.0 } }
//! # struct Lines;
//! # struct Wired(Vec<Subscription>);
//! # impl Broker for Lines {
//! #     fn start(self: Box<Self>, _: Vec<Subscription>, _: Reports) -> BoxFuture<'static, broker::Result<Box<dyn Connection>>> {
//! #         Box::pin(async { Err("in process only".into()) })
//! #     }
//! #     fn start_in_process(self: Box<Self>, all: Vec<Subscription>, _: Reports) -> broker::Result<Box<dyn InProcess>> {
//! #         Ok(Box::new(Wired(all)))
//! #     }
//! # }
//! # impl InProcess for Wired {
//! #     fn publish<'a>(&'a self, _: &'a str, payloads: Vec<bytes::Bytes>) -> BoxFuture<'a, broker::Result<()>> {
//! #         Box::pin(async move { self.0[0].handler().deliver(&payloads[0], 1, &()).await; Ok(()) })
//! #     }
//! #     fn published(&self, _: &str) -> Vec<bytes::Bytes> { Vec::new() }
//! # }
//! struct Greet;
//!
//! impl Handle<String> for Greet {
//!     async fn handle(&self, name: &String, _: &(), ctx: &mut Context<'_>) -> Result<(), HandlerOutcome> {
//!         println!("hello {name}, attempt {}", ctx.attempt());
//!         Ok(())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), rstream::AppError> {
//! let app = RustStream::new(AppInfo::new("greeter", "0.1.0"))
//!     .with_broker(Lines, |b| { b.include(subscriber(Topic("names"), Greet).build()); });
//!
//! let app = TestApp::start(app).await?;
//! let lines = app.broker::<Lines>();
//! lines.message(&"Ada").to("names").publish().await?;
//! lines.subscriber("names").assert_called_once().settled(HandlerOutcome::ack());
//! app.shutdown().await
//! # }
//! ```

mod app;
pub mod broker;
mod builder;
mod codec;
mod context;
mod delivery;
mod error;
mod handler;
mod observe;
mod outcome;
mod outgoing;
mod outs;
mod payload;
mod reply;
mod reports;
mod retry;
mod running;
mod signal;
mod state;
mod subscription;
#[cfg(feature = "testing")]
pub mod testing;

#[doc(hidden)]
pub mod __private;

pub use app::{AppInfo, RustStream, Scope};
pub use broker::OnUndecodable;
pub use builder::{Batch, Single, SubscriberBuilder, subscriber};
#[cfg(feature = "cbor")]
pub use codec::Cbor;
#[cfg(feature = "messagepack")]
pub use codec::MessagePack;
pub use codec::{Codec, DecodeFault, Json};
pub use context::Context;
pub use error::AppError;
pub use handler::{Handle, IntoSubscription};
pub use observe::Delivery;
pub use outcome::HandlerOutcome;
pub use outgoing::Outgoing;
pub use outs::{Out, Outs};
pub use payload::{DecodeError, Message};
pub use reply::{Answer, Nothing, ReplyTo, Returned, SendError};
pub use retry::RetryPolicy;
#[cfg(feature = "macros")]
pub use rstream_macros::{Outgoing, app, subscriber};
pub use running::Running;
pub use state::State;
