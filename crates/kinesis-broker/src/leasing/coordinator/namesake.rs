//! Whether another live instance bears this one's name.

use tokio::time::{Duration, Instant};

use crate::leasing::balance::{Claim, Shard};
use crate::leasing::{LEASE, LIST_EVERY};

/// How long a lease in this instance's name may be live without a reader here: it can be one of a process
/// that died, or one whose grant this instance never heard of, and then it ends within one lease.
const ALIVE_AFTER: Duration = LEASE.saturating_add(LIST_EVERY);

/// Leases in this instance's name that it knows nothing of.
#[derive(Debug, Default)]
pub(super) struct Namesake {
    seen_since: Option<Instant>,
    is_warned_of: bool,
}

impl Namesake {
    /// Looks through a listing, and warns, once, of an instance that goes on living under the name.
    ///
    /// Nothing is corrupted by it, since a lease belongs to an owner and an epoch; but the two count as one
    /// instance in the balance, and get one share between them.
    pub(super) fn look_for(&mut self, me: &str, now: Instant, shards: &[Shard<'_>]) {
        let theirs = Claim::Held { owner: me };
        let Some(shard) = shards.iter().find(|shard| shard.claim == theirs) else {
            self.seen_since = None;
            return;
        };
        let since = *self.seen_since.get_or_insert(now);
        if now >= since + ALIVE_AFTER && !self.is_warned_of {
            self.is_warned_of = true;
            tracing::warn!(
                owner = me,
                stream = shard.key.stream(),
                shard = shard.key.shard(),
                "another live instance has this instance's owner id: give each a name of its own, or none"
            );
        }
    }
}
