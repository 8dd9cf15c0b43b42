//! The macros of [`rstream`](https://docs.rs/rstream), which exports them under its feature `macros`: use them
//! from there.
//!
//! [`derive@Outgoing`] takes the partition key of a value to be published from one of its fields.
//! [`macro@subscriber`] makes a subscription of an `async fn`, [`macro@app`] makes a program of a function that
//! returns the app:
//!
//! ```
//! use rstream::{AppInfo, Context, HandlerOutcome, RustStream, subscriber};
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
//! /// Greets everybody who has a name.
//! #[subscriber(Topic("names"))]
//! async fn greet(name: &String, ctx: &mut Context<'_>) -> HandlerOutcome {
//!     if name.is_empty() {
//!         return HandlerOutcome::drop();
//!     }
//!     println!("hello {name}, attempt {}", ctx.attempt());
//!     HandlerOutcome::ack()
//! }
//!
//! # mod program {
//! # use super::*;
//! #[rstream::app]
//! fn greeter() -> RustStream {
//! # super::greeter()
//! # }
//! # }
//! # fn greeter() -> RustStream {
//!     RustStream::new(AppInfo::new("greeter", "0.1.0"))
//!         .with_broker(Lines, |b| { b.include(greet); })
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), rstream::AppError> {
//! let app = TestApp::start(greeter()).await?;
//! let lines = app.broker::<Lines>();
//! lines.message(&"Ada").to("names").publish().await?;
//! lines.subscriber("names").assert_called_once().settled(HandlerOutcome::ack());
//! # app.shutdown().await
//! # }
//! ```

mod expand;
mod model;
mod outgoing;
mod parse;
mod validate;

use proc_macro::TokenStream;

/// Makes a subscription of an `async fn`: `#[subscriber(source)]`.
///
/// The source is any expression that gives one, such as `KinesisStream::new("inventory")`; it is evaluated when the
/// handler is included. After it may come, in any order and each once,
///
/// - `batch(500, "50ms")`: a batch a call, of up to so many messages, which wait for one another for up to so long;
/// - `retry(max_attempts = 5, first = "100ms", cap = "5s", factor = 2.0, jitter = 0.5)`, any of these, or an
///   expression that gives a `RetryPolicy`: when a message that failed is handed over again;
/// - `dead_letter("stream")`: where messages go that failed for the last time;
/// - `on_undecodable(drop)`, `(retry)` or `(dead_letter)`: what becomes of what cannot be decoded;
/// - `codec(Cbor)`: what decodes messages, and writes replies, instead of `Json`;
/// - `reply("stream")`: where what the function returns is published, before its message is settled;
/// - `crate = path`, where `rstream` goes by another path than `::rstream`.
///
/// Times are `"50ms"`, `"2s"`, `"1m"`, `"1h"`, or an expression that gives a `Duration`. What each does is said at the
/// method of its name on `SubscriberBuilder`.
///
/// The function takes its message as `&T`, which payloads are decoded into, or as `&[u8]` or `&Bytes`, which is the
/// payload as it is; with `batch(..)`, as `&[T]` or `&[Bytes]`. After it come, if it likes, the delivery's
/// `&mut Context<'_>` and any number of the app's states, `State<T>`. Each may be any pattern. The message stays
/// borrowed across every await. It returns
///
/// - nothing, and the message is settled;
/// - `HandlerOutcome`, and that is done with it; or
/// - `Result<(), E>` with `E: Into<HandlerOutcome>`, and an `Ok` settles it.
///
/// With `reply(..)` it returns what is published, a `T: Serialize + Outgoing`, an `Option` or a `Vec` of it, or a
/// `Result` of one of these.
///
/// Its future is `Send`, as brokers move it between threads.
///
/// What goes by the function's name is then a function that takes nothing and returns the `Subscription`, with the
/// visibility, the documentation and the lints' levels of the one written: pass it to `include` by its name, from
/// wherever it is visible. Other attributes, `#[tracing::instrument]` among them, stay with the function written,
/// which only the subscription (and its own body) can call: a test of it goes through `TestApp`. It may stand in a
/// module, in a function, or in an `impl`, where it can use neither `self` nor `Self`.
///
/// [The crate's page](crate) has an example.
#[proc_macro_attribute]
pub fn subscriber(arguments: TokenStream, item: TokenStream) -> TokenStream {
    validate::subscriber(arguments.into(), item.into())
        .map_or_else(expand::misuse, expand::subscriber)
        .into()
}

/// Writes `main` for a function that makes the app: `#[rstream::app]`.
///
/// The function is `fn` or `async fn`, has any name (`main` too) and no parameters, and returns `RustStream`, or
/// `Result<RustStream, E>` with `E: Into<Box<dyn Error + Send + Sync>>`. In the attribute may stand `crate = path`,
/// where `rstream` goes by another path than `::rstream`.
///
/// `main` starts a tokio runtime of several threads; writes tracing events to the standard error, those that
/// `RUST_LOG` asks for, or those from `info` up where it is unset or, as a line there then says, is no filter; calls
/// the function; and runs the app until SIGINT or SIGTERM. The exit code is 0 after a graceful shutdown, and
/// otherwise 1, with the error on the standard error.
///
/// [The crate's page](crate) has an example.
#[proc_macro_attribute]
pub fn app(arguments: TokenStream, item: TokenStream) -> TokenStream {
    validate::app(arguments.into(), item.into())
        .map_or_else(expand::misuse, expand::app)
        .into()
}

/// Implements `rstream::Outgoing` for a struct: `#[derive(Outgoing)]` with `#[outgoing(partition_key = "field")]`.
///
/// The field is named as in the struct, or, of a tuple, by its number, and its type is `Display`; a type parameter in it
/// is bound so. In the attribute may also stand `crate = path`, where `rstream` goes by another path than `::rstream`.
///
/// ```
/// use rstream::Outgoing;
///
/// #[derive(Outgoing)]
/// #[outgoing(partition_key = "sku")]
/// struct StockChange {
///     sku: u64,
///     delta: i64,
/// }
///
/// assert_eq!(StockChange { sku: 7, delta: -3 }.partition_key(), "7");
/// ```
#[proc_macro_derive(Outgoing, attributes(outgoing))]
pub fn outgoing(item: TokenStream) -> TokenStream {
    outgoing::validate(item.into())
        .map_or_else(outgoing::misuse, outgoing::expand)
        .into()
}
