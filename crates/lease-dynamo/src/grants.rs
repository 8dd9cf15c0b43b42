//! The tokens of this instance's acquisitions: which of them ended without an answer.
//!
//! A row that bears such a token is held by this instance, which does not know it. Nobody relies on that lease
//! yet, so it may be adopted.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lease_core::{Holder, LeaseKey};

/// So many unanswered acquisitions of one lease are remembered, the last ones.
const PER_KEY: usize = 8;
/// Past so many leases with unanswered acquisitions all are forgotten: each then expires instead.
const KEYS: usize = 65_536;

/// Hands out tokens.
#[derive(Debug)]
pub(crate) struct Grants(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    rng: fastrand::Rng,
    unanswered: HashMap<LeaseKey, VecDeque<Grant>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Grant {
    owner: String,
    token: String,
}

impl Grants {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Mutex::new(Inner {
            rng: fastrand::Rng::with_seed(seed),
            unanswered: HashMap::new(),
        }))
    }

    /// An acquisition is about to be sent.
    pub(crate) fn begin<'a>(&'a self, key: &'a LeaseKey, owner: &str) -> Acquisition<'a> {
        let token = format!("{:016x}", self.lock().rng.u64(..));
        Acquisition {
            grants: self,
            key,
            under_way: vec![Grant {
                owner: owner.to_owned(),
                token: token.clone(),
            }],
            token,
        }
    }

    /// Whether this holder is an acquisition of this instance's that ended without an answer.
    pub(crate) fn is_unanswered(&self, key: &LeaseKey, holder: &Holder, token: &str) -> bool {
        self.lock().unanswered.get(key).is_some_and(|grants| {
            grants
                .iter()
                .any(|grant| grant.token == token && grant.owner == holder.owner)
        })
    }

    /// The lease is held, and its holder knows: no earlier acquisition can hold it any more.
    pub(crate) fn settle(&self, key: &LeaseKey) {
        self.lock().unanswered.remove(key);
    }

    /// A number for jitter.
    pub(crate) fn jitter(&self) -> u64 {
        self.lock().rng.u64(..)
    }

    fn abandon(&self, key: &LeaseKey, grant: Grant) {
        let unanswered = &mut self.lock().unanswered;
        if unanswered.len() >= KEYS && !unanswered.contains_key(key) {
            unanswered.clear();
        }
        let grants = unanswered.entry(key.clone()).or_default();
        if grants.len() == PER_KEY {
            grants.pop_front();
        }
        grants.push_back(grant);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change is made whole or not at all.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An acquisition under way. Dropped without an answer, it is remembered as unanswered.
#[derive(Debug)]
pub(crate) struct Acquisition<'a> {
    grants: &'a Grants,
    key: &'a LeaseKey,
    token: String,
    /// Its own, and what it adopts.
    under_way: Vec<Grant>,
}

impl Acquisition<'_> {
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Whether that holder is an acquisition that ended without an answer, and is this one's to adopt from now
    /// on. Of two that would adopt it at once one does.
    pub(crate) fn adopts(&mut self, holder: &Holder, token: &str) -> bool {
        let grant = Grant {
            owner: holder.owner.clone(),
            token: token.to_owned(),
        };
        let mut inner = self.grants.lock();
        let Some(grants) = inner.unanswered.get_mut(self.key) else {
            return false;
        };
        let unanswered = grants.len();
        grants.retain(|other| *other != grant);
        let adopted = grants.len() < unanswered;
        if adopted {
            self.under_way.push(grant);
        }
        adopted
    }

    /// It was granted or refused, and its caller is told so.
    pub(crate) fn answered(mut self) {
        self.under_way.clear();
    }
}

impl Drop for Acquisition<'_> {
    fn drop(&mut self) {
        for grant in self.under_way.drain(..) {
            self.grants.abandon(self.key, grant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> LeaseKey {
        LeaseKey::new("inventory", "0")
    }

    fn holder(owner: &str) -> Holder {
        Holder {
            owner: owner.to_owned(),
            epoch: 1,
        }
    }

    #[test]
    fn an_acquisition_without_an_answer_is_remembered_for_its_owner_alone() {
        let grants = Grants::new(7);
        let key = key();
        let acquisition = grants.begin(&key, "a");
        let token = acquisition.token().to_owned();
        assert!(
            !grants.is_unanswered(&key, &holder("a"), &token),
            "under way"
        );

        drop(acquisition);

        assert!(grants.is_unanswered(&key, &holder("a"), &token));
        assert!(!grants.is_unanswered(&key, &holder("b"), &token));
        assert!(!grants.is_unanswered(&key, &holder("a"), "another"));
        assert!(!grants.is_unanswered(&LeaseKey::new("s", "1"), &holder("a"), &token));

        grants.settle(&key);
        assert!(!grants.is_unanswered(&key, &holder("a"), &token));
    }

    #[test]
    fn an_answered_acquisition_is_not_remembered() {
        let grants = Grants::new(7);
        let key = key();
        let acquisition = grants.begin(&key, "a");
        let token = acquisition.token().to_owned();
        acquisition.answered();
        assert!(!grants.is_unanswered(&key, &holder("a"), &token));
    }

    #[test]
    fn an_unanswered_acquisition_is_adopted_once_unless_that_goes_unanswered_too() {
        let grants = Grants::new(7);
        let key = key();
        let lost = grants.begin(&key, "a").token().to_owned();
        let mut first = grants.begin(&key, "a");
        let mut second = grants.begin(&key, "a");
        assert!(first.adopts(&holder("a"), &lost));
        assert!(!second.adopts(&holder("a"), &lost));
        assert!(!grants.is_unanswered(&key, &holder("a"), &lost));

        drop(first);
        assert!(second.adopts(&holder("a"), &lost));
        second.answered();
        assert!(!grants.is_unanswered(&key, &holder("a"), &lost));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let grants = Grants::new(7);
        let key = key();
        let first = grants.begin(&key, "a").token().to_owned();
        for _ in 0..PER_KEY {
            drop(grants.begin(&key, "a"));
        }
        assert!(!grants.is_unanswered(&key, &holder("a"), &first));
        assert_eq!(grants.lock().unanswered[&key].len(), PER_KEY);

        for number in 0..KEYS {
            drop(grants.begin(&LeaseKey::new("s", number.to_string()), "a"));
        }
        assert!(grants.lock().unanswered.len() <= KEYS);
    }

    #[test]
    fn one_seed_gives_one_run_of_tokens() {
        let key = key();
        let tokens = |seed| {
            let grants = Grants::new(seed);
            let tokens = (0..3).map(|_| grants.begin(&key, "a").token().to_owned());
            tokens.collect::<Vec<_>>()
        };
        assert_eq!(tokens(1), tokens(1));
        assert_ne!(tokens(1), tokens(2));
        assert_eq!(tokens(1)[0].len(), 16);
        assert_ne!(tokens(1)[0], tokens(1)[1]);
    }
}
