//! What the library writes to tracing, as far as it is written on the thread of one test.

use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// An event.
#[derive(Clone, Debug)]
pub(crate) struct Logged {
    pub(crate) level: Level,
    /// The message and every field, as `name=value`.
    pub(crate) text: String,
}

thread_local! {
    static LOGGED: RefCell<Option<Vec<Logged>>> = const { RefCell::new(None) };
}

/// The events of one test, from its making on.
#[derive(Debug)]
pub(crate) struct Logs(());

impl Logs {
    /// Begins to write down what is logged.
    pub(crate) fn start() -> Self {
        static INSTALLED: Once = Once::new();
        // One for the whole process: tracing remembers of each call site whether anybody listens.
        INSTALLED.call_once(|| {
            let subscriber = tracing_subscriber::registry().with(ToThread);
            tracing::subscriber::set_global_default(subscriber).expect("no test sets another");
        });
        LOGGED.set(Some(Vec::new()));
        Self(())
    }

    /// Everything so far.
    pub(crate) fn all(&self) -> Vec<Logged> {
        LOGGED.with_borrow(|logged| logged.clone().unwrap_or_default())
    }

    /// What was logged at this level and contains `part`.
    pub(crate) fn at(&self, level: Level, part: &str) -> Vec<String> {
        let all = self.all().into_iter();
        all.filter(|logged| logged.level == level && logged.text.contains(part))
            .map(|logged| logged.text)
            .collect()
    }

    /// The warnings that contain `part`.
    pub(crate) fn warnings(&self, part: &str) -> Vec<String> {
        self.at(Level::WARN, part)
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        LOGGED.set(None);
    }
}

struct ToThread;

impl<S: Subscriber> Layer<S> for ToThread {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        ["kinesis_broker", "rstream", "lease_"]
            .iter()
            .any(|ours| metadata.target().starts_with(ours))
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        LOGGED.with_borrow_mut(|logged| {
            let Some(logged) = logged else { return };
            let mut text = Text(String::new());
            event.record(&mut text);
            logged.push(Logged {
                level: *event.metadata().level(),
                text: text.0,
            });
        });
    }
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let written = match field.name() {
            "message" => write!(self.0, "{value:?} "),
            name => write!(self.0, "{name}={value:?} "),
        };
        written.expect("a String takes everything");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        write!(self.0, "{}={value} ", field.name()).expect("a String takes everything");
    }
}
