//! The one source of randomness: the tokens of acquisitions, and the jitter of pauses.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Draws from one seed, so that a run can be repeated.
#[derive(Debug)]
pub(crate) struct Chance(Mutex<fastrand::Rng>);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    /// A token that no other acquisition bears.
    pub(crate) fn token(&self) -> String {
        format!("{:016x}", self.lock().u64(..))
    }

    /// A seed for jitter.
    pub(crate) fn seed(&self) -> u64 {
        self.lock().u64(..)
    }

    fn lock(&self) -> MutexGuard<'_, fastrand::Rng> {
        // A generator is sound wherever it stopped.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A seed that is another one in every run.
pub(crate) fn ambient_seed() -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where randomness comes in; a seed replaces it"
    )]
    let mut rng = fastrand::Rng::new();
    rng.u64(..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_run_of_tokens() {
        let tokens = |seed| {
            let chance = Chance::new(seed);
            [(); 3].map(|()| chance.token())
        };
        assert_eq!(tokens(1), tokens(1));
        assert_ne!(tokens(1), tokens(2));
        assert_eq!(tokens(1)[0].len(), 16);
        assert_ne!(tokens(1)[0], tokens(1)[1]);
    }
}
