//! What can go wrong with a call to a store, by what it means to the caller.

use std::error::Error;

type Source = Box<dyn Error + Send + Sync>;

/// Why a call to a lease store failed.
///
/// A call that failed says nothing about the lease: it may or may not have taken effect. A lease
/// that is held by somebody else, or was lost, is no error but an answer of the call.
///
/// Authors of stores build one with the constructor of its meaning, from an error or from a text:
///
/// ```
/// use std::io;
///
/// use lease_core::LeaseError;
///
/// let down = LeaseError::unavailable(io::Error::other("connection reset"));
/// assert!(down.is_retryable());
/// assert_eq!(down.to_string(), "the lease store is unavailable: connection reset");
///
/// let wrong = LeaseError::misconfigured("the table \"leases\" has no partition key lease_key");
/// assert!(!wrong.is_retryable());
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The store did not answer, or answered that it cannot now. The call may have taken effect.
    #[error("the lease store is unavailable: {source}")]
    Unavailable {
        /// What the store's client said.
        source: Source,
    },
    /// The store takes no more calls for the moment. Slow down and try again.
    #[error("the lease store throttles: {source}")]
    Throttled {
        /// What the store's client said.
        source: Source,
    },
    /// The store holds a row that it cannot understand, and leaves it as it is. A person has to look.
    #[error("the lease store holds what it cannot understand: {source}")]
    Corrupt {
        /// Which row, and what is wrong with it.
        source: Source,
    },
    /// The call, or the store, was set up in a way that can never work.
    #[error("the lease store is misconfigured: {source}")]
    Misconfigured {
        /// Which value is wrong, and what to set instead.
        source: Source,
    },
}

impl LeaseError {
    /// The store did not answer, or cannot now.
    #[must_use]
    pub fn unavailable(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Unavailable {
            source: source.into(),
        }
    }

    /// The store takes no more calls for the moment.
    #[must_use]
    pub fn throttled(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Throttled {
            source: source.into(),
        }
    }

    /// The store holds a row that it cannot understand.
    #[must_use]
    pub fn corrupt(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Corrupt {
            source: source.into(),
        }
    }

    /// The call, or the store, was set up in a way that can never work.
    #[must_use]
    pub fn misconfigured(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Misconfigured {
            source: source.into(),
        }
    }

    /// Whether the same call can succeed later without anybody changing anything.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::Throttled { .. } => true,
            Self::Corrupt { .. } | Self::Misconfigured { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn every_meaning_keeps_its_source_and_says_whether_a_retry_can_help() {
        let cause = || io::Error::other("row 7");
        let table = [
            (LeaseError::unavailable(cause()), true),
            (LeaseError::throttled(cause()), true),
            (LeaseError::corrupt(cause()), false),
            (LeaseError::misconfigured(cause()), false),
        ];
        for (error, retryable) in table {
            assert!(error.to_string().ends_with(": row 7"), "{error}");
            assert_eq!(error.is_retryable(), retryable, "{error}");
            let source = error.source().and_then(|s| s.downcast_ref::<io::Error>());
            assert_eq!(source.unwrap().to_string(), "row 7");
        }
    }

    #[test]
    fn a_text_is_a_source_as_well() {
        let owned = LeaseError::corrupt(format!("row {}", 7));
        let borrowed = LeaseError::corrupt("row 7");
        assert_eq!(owned.to_string(), borrowed.to_string());
    }
}
