//! What the macros' expansions call. Not for use by hand; it may change in any release.

use std::any::type_name;
use std::borrow::Cow;
use std::fmt::Display;

use crate::broker::{Reply, Subscription};
use crate::{Answer, Codec, Context, HandlerOutcome, ReplyTo, Returned, State};

/// Stands for the subscription of a handler that the macro refused, so that including it is no further error.
pub fn misused() -> Subscription {
    unreachable!("the macro gave an error")
}

/// What an `async fn` under `#[subscriber(..)]` may return.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "says nothing about what became of the message",
    note = "return `HandlerOutcome`, `()`, or `Result<(), E>` where `E: Into<HandlerOutcome>`",
    note = "a value is published where the attribute says so: `reply(\"stream\")`"
)]
pub trait IntoResult {
    /// What [`Handle::handle`](crate::Handle::handle) gives.
    fn into_result(self) -> Result<(), HandlerOutcome>;
}

impl IntoResult for () {
    fn into_result(self) -> Result<(), HandlerOutcome> {
        Ok(())
    }
}

impl IntoResult for HandlerOutcome {
    fn into_result(self) -> Result<(), HandlerOutcome> {
        Err(self)
    }
}

#[diagnostic::do_not_recommend]
impl<E: Into<HandlerOutcome>> IntoResult for Result<(), E> {
    fn into_result(self) -> Result<(), HandlerOutcome> {
        self.map_err(Into::into)
    }
}

/// What an `async fn` under `#[subscriber(.., reply(..))]` may return.
#[diagnostic::on_unimplemented(
    message = "a handler with `reply(..)` cannot return `{Self}`",
    label = "is not to be published",
    note = "return a `T`, an `Option<T>`, a `Vec<T>`, or a `Result` of one with `E: Into<HandlerOutcome>`",
    note = "`T` is a type with `#[derive(serde::Serialize, rstream::Outgoing)]` and `#[outgoing(partition_key = \"field\")]`"
)]
pub trait IntoReply {
    /// What is published.
    type Reply: Answer;

    /// What the handler says.
    fn into_reply(self) -> Result<Self::Reply, HandlerOutcome>;
}

#[diagnostic::do_not_recommend]
impl<R: Answer> IntoReply for R {
    type Reply = R;

    fn into_reply(self) -> Result<R, HandlerOutcome> {
        Ok(self)
    }
}

#[diagnostic::do_not_recommend]
impl<R: Answer, E: Into<HandlerOutcome>> IntoReply for Result<R, E> {
    type Reply = R;

    fn into_reply(self) -> Result<R, HandlerOutcome> {
        self.map_err(Into::into)
    }
}

/// The handler returns a `T`, which says whether there is something to be published.
struct Concluded<T: IntoReply>(ReplyTo<T::Reply>);

impl<T: IntoReply + 'static> Returned for Concluded<T> {
    type Reply = T;

    fn destination(&self) -> Option<&str> {
        self.0.destination()
    }

    fn collect<C: Codec>(
        &self,
        returned: T,
        codec: &C,
        replies: &mut Vec<Reply>,
    ) -> Result<(), HandlerOutcome> {
        self.0.collect(returned.into_reply()?, codec, replies)
    }
}

/// What publishes what a handler returns. Opaque, so that the builder finds no fault of its own with it.
pub fn reply<T: IntoReply + 'static>(to: impl Into<String>) -> impl Returned<Reply = T> {
    Concluded(ReplyTo::new(to.into()))
}

/// The state of a handler's parameter `State<T>`.
///
/// # Panics
///
/// Where there is none, which an app makes sure of when it starts.
#[must_use]
pub fn state<T: 'static>(ctx: &Context<'_>) -> State<T> {
    let Some(state) = ctx.state_handle() else {
        panic!(
            "there is no state of type {}: give the app one with RustStream::with_state",
            type_name::<T>()
        );
    };
    state
}

/// The field that `#[outgoing(partition_key = "field")]` names.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no partition key",
    label = "not `Display`",
    note = "name a field whose type is `Display`, or implement `rstream::Outgoing` by hand"
)]
pub trait PartitionKey {
    /// Its text.
    fn partition_key(&self) -> Cow<'_, str>;
}

#[diagnostic::do_not_recommend]
impl<T: Display + ?Sized> PartitionKey for T {
    fn partition_key(&self) -> Cow<'_, str> {
        self.to_string().into()
    }
}

#[cfg(feature = "macros")]
pub use self::main::{IntoApp, main};

#[cfg(feature = "macros")]
mod main {
    use std::env::VarError;
    use std::process::ExitCode;

    use tracing_subscriber::EnvFilter;

    use crate::RustStream;
    use crate::reports::Chain;

    /// What a function under `#[rstream::app]` may return.
    #[diagnostic::on_unimplemented(
        message = "an app function cannot return `{Self}`",
        label = "not an app",
        note = "return `RustStream`, or `Result<RustStream, E>` where `E: Into<Box<dyn Error + Send + Sync>>`"
    )]
    pub trait IntoApp {
        /// The app, or why there is none.
        fn into_app(self) -> crate::broker::Result<RustStream>;
    }

    impl IntoApp for RustStream {
        fn into_app(self) -> crate::broker::Result<RustStream> {
            Ok(self)
        }
    }

    #[diagnostic::do_not_recommend]
    impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> IntoApp for Result<RustStream, E> {
        fn into_app(self) -> crate::broker::Result<RustStream> {
            self.map_err(Into::into)
        }
    }

    const DEFAULT: &str = "info";

    /// What `RUST_LOG` asks for; `info` where it asks for nothing, or for what nobody understands.
    fn filter() -> EnvFilter {
        let asked = match std::env::var(EnvFilter::DEFAULT_ENV) {
            Ok(value) => EnvFilter::try_new(&value)
                .map_err(|error| (format!("{value:?}"), error.to_string())),
            Err(VarError::NotUnicode(value)) => {
                Err((format!("{value:?}"), "it is not Unicode".to_owned()))
            }
            Err(VarError::NotPresent) => Ok(EnvFilter::new(DEFAULT)),
        };
        asked.unwrap_or_else(|(value, error)| {
            eprintln!("warning: RUST_LOG is {value}, which is no filter: `{DEFAULT}` is taken instead: {error}");
            EnvFilter::new(DEFAULT)
        })
    }

    /// The `main` that `#[rstream::app]` writes: a runtime, tracing from `RUST_LOG` (`info` without it), the
    /// app until a signal, and an exit code of 0 or 1.
    pub fn main<A: IntoApp, F: Future<Output = A>>(app: impl FnOnce() -> F) -> ExitCode {
        // A subscriber that the program has set already stays.
        let _ = tracing_subscriber::fmt()
            .with_env_filter(filter())
            .with_writer(std::io::stderr)
            .try_init();

        let ran = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(Into::into)
            .and_then(|runtime| {
                let ran = runtime.block_on(async { Ok(app().await.into_app()?.run().await?) });
                // What still blocks a thread would hold up an exit that is due.
                runtime.shutdown_background();
                ran
            });
        match ran {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let error: Box<dyn std::error::Error + Send + Sync> = error;
                eprintln!("error: {}", Chain(&*error));
                ExitCode::FAILURE
            }
        }
    }
}
