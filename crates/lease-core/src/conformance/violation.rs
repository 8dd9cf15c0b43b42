//! What a case found wrong with a store.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::LeaseError;

/// A promise of the contract that the store did not keep.
///
/// Its text names the case and says what was expected and what came; so does its `Debug` form, which
/// is what a test that returns it prints.
pub struct Violation {
    case: Option<&'static str>,
    what: String,
    source: Option<LeaseError>,
}

impl Violation {
    pub(super) fn new(what: String) -> Self {
        Self {
            case: None,
            what,
            source: None,
        }
    }

    pub(super) fn failed(call: &str, source: LeaseError) -> Self {
        Self {
            source: Some(source),
            ..Self::new(format!("{call} failed"))
        }
    }

    pub(super) fn in_case(self, name: &'static str) -> Self {
        Self {
            case: Some(name),
            ..self
        }
    }

    pub(super) fn and(self, more: &str) -> Self {
        Self {
            what: self.what + more,
            ..self
        }
    }

    pub(super) fn undecided(self, attempts: u32, ttl: Duration) -> Self {
        Self {
            what: format!(
                "{} (inconclusive: each of {attempts} attempts met a failing call or outlasted its lease \
                 of {ttl:?}; a longer ttl may help)",
                self.what
            ),
            ..self
        }
    }

    pub(super) fn is_transient(&self) -> bool {
        self.source.as_ref().is_some_and(LeaseError::is_retryable)
    }

    /// The case that found it, where it was run as a [`Case`](super::Case).
    #[must_use]
    pub fn case(&self) -> Option<&'static str> {
        self.case
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(case) = self.case {
            write!(f, "{case}: ")?;
        }
        f.write_str(&self.what)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for Violation {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

/// Ends the case with a [`Violation`] unless the condition holds.
macro_rules! ensure {
    ($holds:expr, $($what:tt)+) => {
        if !$holds {
            return Err($crate::conformance::Violation::new(format!($($what)+)));
        }
    };
}

/// Ends the case with a [`Violation`] unless what came is what was expected.
macro_rules! ensure_eq {
    ($came:expr, $expected:expr, $($what:tt)+) => {
        match (&$came, &$expected) {
            (came, expected) => {
                if came != expected {
                    let what = format!($($what)+);
                    return Err($crate::conformance::Violation::new(format!(
                        "{what}: expected {expected:?}, got {came:?}"
                    )));
                }
            }
        }
    };
}

pub(super) use {ensure, ensure_eq};
