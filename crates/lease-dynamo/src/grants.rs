//! The tokens of this instance's acquisitions that nobody was granted: their answers were lost, or they were
//! refused, and a first attempt that the network held up lands after all.
//!
//! A row that bears such a token is held by this instance, which does not know it. Nobody relies on that lease
//! yet, so it may be adopted.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lease_core::{Holder, LeaseKey};

/// So many unclaimed acquisitions of one lease are remembered, the last ones.
const PER_KEY: usize = 8;
/// Past so many leases with unclaimed acquisitions all are forgotten: each then expires instead.
const KEYS: usize = 65_536;

#[derive(Debug, Default)]
pub(crate) struct Grants {
    unclaimed: Mutex<HashMap<LeaseKey, VecDeque<Grant>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Grant {
    owner: String,
    token: String,
}

impl Grants {
    /// An acquisition is about to be sent.
    pub(crate) fn begin<'a>(
        &'a self,
        key: &'a LeaseKey,
        owner: &str,
        token: String,
    ) -> Acquisition<'a> {
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

    /// Whether this holder is an acquisition of this instance's that nobody was granted.
    pub(crate) fn is_unclaimed(&self, key: &LeaseKey, holder: &Holder, token: &str) -> bool {
        self.lock().get(key).is_some_and(|grants| {
            grants
                .iter()
                .any(|grant| grant.token == token && grant.owner == holder.owner)
        })
    }

    fn abandon(&self, key: &LeaseKey, grant: Grant) {
        let mut unclaimed = self.lock();
        if unclaimed.len() >= KEYS && !unclaimed.contains_key(key) {
            unclaimed.clear();
        }
        let grants = unclaimed.entry(key.clone()).or_default();
        if grants.len() == PER_KEY {
            grants.pop_front();
        }
        grants.push_back(grant);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<LeaseKey, VecDeque<Grant>>> {
        // Every change is made whole or not at all.
        self.unclaimed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// An acquisition under way. Dropped without a grant, it is remembered as unclaimed.
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

    /// Whether that holder is an acquisition that nobody was granted, and is this one's to adopt from now on. Of
    /// two that would adopt it at once one does.
    pub(crate) fn adopts(&mut self, holder: &Holder, token: &str) -> bool {
        let grant = Grant {
            owner: holder.owner.clone(),
            token: token.to_owned(),
        };
        let mut unclaimed = self.grants.lock();
        let Some(grants) = unclaimed.get_mut(self.key) else {
            return false;
        };
        let before = grants.len();
        grants.retain(|other| *other != grant);
        let adopted = grants.len() < before;
        if adopted {
            self.under_way.push(grant);
        }
        adopted
    }

    /// Its caller is told that it holds the lease: no earlier acquisition can hold it any more.
    pub(crate) fn granted(mut self) {
        self.under_way.clear();
        self.grants.lock().remove(self.key);
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

    fn begin<'a>(grants: &'a Grants, key: &'a LeaseKey, token: &str) -> Acquisition<'a> {
        grants.begin(key, "a", token.to_owned())
    }

    #[test]
    fn an_acquisition_without_a_grant_is_remembered_for_its_owner_alone() {
        let (grants, key) = (Grants::default(), key());
        let acquisition = begin(&grants, &key, "t");
        let is_unclaimed = |owner, token| grants.is_unclaimed(&key, &holder(owner), token);
        assert!(!is_unclaimed("a", "t"), "under way");

        drop(acquisition);

        assert!(is_unclaimed("a", "t"));
        assert!(!is_unclaimed("b", "t"));
        assert!(!is_unclaimed("a", "another"));
        assert!(!grants.is_unclaimed(&LeaseKey::new("s", "1"), &holder("a"), "t"));

        begin(&grants, &key, "u").granted();
        assert!(!is_unclaimed("a", "t"), "no row bears it any more");
    }

    #[test]
    fn a_granted_acquisition_is_not_remembered() {
        let (grants, key) = (Grants::default(), key());
        begin(&grants, &key, "t").granted();
        assert!(!grants.is_unclaimed(&key, &holder("a"), "t"));
    }

    #[test]
    fn an_unclaimed_acquisition_is_adopted_once_unless_that_goes_unclaimed_too() {
        let (grants, key) = (Grants::default(), key());
        drop(begin(&grants, &key, "lost"));
        let mut first = begin(&grants, &key, "1");
        let mut second = begin(&grants, &key, "2");
        assert!(first.adopts(&holder("a"), "lost"));
        assert!(!second.adopts(&holder("a"), "lost"));
        assert!(!grants.is_unclaimed(&key, &holder("a"), "lost"));

        drop(first);
        assert!(second.adopts(&holder("a"), "lost"));
        second.granted();
        assert!(!grants.is_unclaimed(&key, &holder("a"), "lost"));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (grants, key) = (Grants::default(), key());
        for number in 0..=PER_KEY {
            drop(begin(&grants, &key, &number.to_string()));
        }
        assert!(!grants.is_unclaimed(&key, &holder("a"), "0"));
        assert_eq!(grants.lock()[&key].len(), PER_KEY);

        for number in 0..KEYS {
            drop(begin(&grants, &LeaseKey::new("s", number.to_string()), "t"));
        }
        assert!(grants.lock().len() <= KEYS);
    }
}
