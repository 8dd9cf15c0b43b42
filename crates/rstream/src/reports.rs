//! Where errors go that end nothing: to the app's `on_error` hooks and to tracing.

use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A hook given to `RustStream::on_error`.
pub(crate) type Hook = dyn Fn(&(dyn Error + Send + Sync + 'static)) + Send + Sync;

/// Takes the errors that a running broker meets. Cheap to clone.
#[derive(Clone, Default)]
pub struct Reports {
    hooks: Vec<Arc<Hook>>,
}

impl Reports {
    pub(crate) fn add(&mut self, hook: Arc<Hook>) {
        self.hooks.push(hook);
    }

    /// Gives `error` to every hook of the app, in the order in which they were added, and writes it as a
    /// tracing event at error level.
    ///
    /// A hook that panics is cut short; the others still run.
    pub fn report(&self, error: &(dyn Error + Send + Sync + 'static)) {
        tracing::error!("{}", Chain(error));
        for hook in &self.hooks {
            if catch_unwind(AssertUnwindSafe(|| hook(error))).is_err() {
                tracing::error!("an on_error hook panicked");
            }
        }
    }
}

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reports")
            .field("hooks", &self.hooks.len())
            .finish()
    }
}

/// An error and its sources on one line. An error whose text has its root cause in it already, as those
/// of this workspace do, stands alone; of the others no text is said twice.
pub(crate) struct Chain<'a>(pub(crate) &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = self.0.to_string();
        let sources = std::iter::successors(self.0.source(), |&error| error.source());
        let texts: Vec<String> = sources.map(|error| error.to_string()).collect();
        if texts.last().is_none_or(|root| line.contains(root)) {
            return f.write_str(&line);
        }
        for text in texts {
            if !line.contains(&text) {
                line.push_str(": ");
                line.push_str(&text);
            }
        }
        f.write_str(&line)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Mutex;

    use super::*;
    use crate::AppError;

    #[test]
    fn every_hook_sees_the_error_itself_even_after_one_panicked() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut reports = Reports::default();
        reports.add(Arc::new(|_| panic!("a hook of the user's")));
        let sink = Arc::clone(&seen);
        reports.add(Arc::new(move |error| {
            sink.lock()
                .unwrap()
                .push(error.downcast_ref::<io::Error>().map(io::Error::kind));
        }));

        reports.report(&io::Error::from(io::ErrorKind::TimedOut));

        assert_eq!(*seen.lock().unwrap(), [Some(io::ErrorKind::TimedOut)]);
    }

    #[test]
    fn an_error_that_has_its_cause_in_its_text_stands_alone() {
        let error = AppError::Signal(io::Error::other("no such signal"));
        assert_eq!(
            Chain(&error).to_string(),
            "cannot listen for signals: no such signal"
        );
    }

    #[test]
    fn a_chain_goes_down_to_the_root_and_says_no_text_twice() {
        #[derive(Debug, thiserror::Error)]
        #[error("{0}")]
        struct Outer(&'static str, #[source] Inner);
        #[derive(Debug, thiserror::Error)]
        #[error("cannot connect")]
        struct Inner(#[source] io::Error);

        let error = Outer("cannot read", Inner(io::Error::other("no route")));
        assert_eq!(
            Chain(&error).to_string(),
            "cannot read: cannot connect: no route"
        );
        let error = Outer(
            "cannot read: cannot connect",
            Inner(io::Error::other("no route")),
        );
        assert_eq!(
            Chain(&error).to_string(),
            "cannot read: cannot connect: no route"
        );
    }
}
