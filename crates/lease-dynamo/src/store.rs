//! The eight calls of a lease store, made of the decisions of the other modules.

#![deny(clippy::missing_trait_methods)]

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_types::SdkConfig;
use lease_core::{
    Checkpoint, Holder, LeaseError, LeaseKey, LeaseState, LeaseStore, Renewal, async_trait,
    check_owner, check_ttl,
};
use tokio::time::Instant;

use crate::calls::{Calls, Deleted, Written};
use crate::chance::{Chance, ambient_seed};
use crate::expressions::{self, Claim};
use crate::grants::{Acquisition, Grants};
use crate::listing::{self, Economy};
use crate::row::{Presented, Row};
use crate::rows::{self, LeaseRow};
use crate::sightings::{Attempt, Outlook, Sent, Sightings};
use crate::table;

/// How often an acquisition is tried where the row changes meanwhile. A row that changes so fast is taken.
const TRIES: usize = 4;

/// Leases on a DynamoDB table; a clone is the same instance of the store.
///
/// Make one for each process, and give clones or an [`Arc`] of it to all who use it: what it has seen of the
/// leases is what lets it take over those that expire, and it numbers the checkpoints of those that it acquired.
/// Making one neither calls DynamoDB nor fails.
///
/// Every call may be dropped at any time. It then took effect whole, will still do so, or never will, and the
/// next call on the lease finds out.
#[derive(Clone)]
pub struct DynamoLeaseStore {
    inner: Arc<Inner>,
}

struct Inner {
    calls: Calls,
    chance: Chance,
    sightings: Mutex<Sightings>,
    grants: Grants,
    economy: Mutex<Economy>,
    /// The number of the last checkpoint call. Each holder's calls are numbered in the order in which they are
    /// sent; that other holders' lie between them does no harm.
    cp_no: AtomicU64,
}

impl DynamoLeaseStore {
    /// A store on the table of this name, or ARN, in the configuration's region and account.
    ///
    /// It uses the configuration's credentials, endpoint, HTTP client, sleep, retries and time limits. Where
    /// that sets no limit for one attempt of a call it is 1.5 seconds, and 2.5 seconds for a call that
    /// answers with many items, so that an answer that never comes costs no lease.
    pub fn new(config: &SdkConfig, table: impl Into<String>) -> Self {
        Self::with(Calls::new(config, &table.into()), ambient_seed())
    }

    /// Draws its tokens and its jitter from this seed, so that a run can be repeated. Call it before anything
    /// else; without it the seed is random. No two instances on one table may have the same.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self::with(self.inner.calls.clone(), seed)
    }

    fn with(calls: Calls, seed: u64) -> Self {
        Self {
            inner: Arc::new(Inner {
                calls,
                chance: Chance::new(seed),
                sightings: Mutex::default(),
                grants: Grants::default(),
                economy: Mutex::default(),
                cp_no: AtomicU64::new(0),
            }),
        }
    }

    /// Creates the table, billed on demand, where there is none, and returns once it can be used.
    ///
    /// Any number of instances may do so at once: one creates it, and all wait. A table that is there already
    /// is left as it is, whatever its billing. Cancelled, it may have created the table.
    ///
    /// # Errors
    ///
    /// [`LeaseError::Misconfigured`], naming the table, where it has another key, or where this may not be
    /// done; [`LeaseError::Unavailable`] where it cannot be used within three minutes.
    pub async fn create_table_if_missing(&self) -> Result<(), LeaseError> {
        table::create_if_missing(&self.inner.calls).await
    }

    /// Every item of the table, of whatever stream and in no order, for whoever looks on.
    ///
    /// It is a consistent [Scan]: each item as it is when its page is read. It costs a read unit for every 4 KB
    /// of the table, about thirteen rows. The store learns nothing from it: it takes over no lease the sooner, and
    /// keeps nothing in memory. It changes nothing and may be dropped at any time.
    ///
    /// # Errors
    ///
    /// As [`read_all`](LeaseStore::read_all), but for an item that cannot be understood: that is a
    /// [`LeaseRow::Unknown`], and hides none of the others.
    ///
    /// [Scan]: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_Scan.html
    pub async fn rows(&self) -> Result<Vec<LeaseRow>, LeaseError> {
        rows::read(self.calls()).await
    }

    fn calls(&self) -> &Calls {
        &self.inner.calls
    }

    fn sightings(&self) -> MutexGuard<'_, Sightings> {
        // Every change is made whole or not at all.
        let sightings = self.inner.sightings.lock();
        sightings.unwrap_or_else(PoisonError::into_inner)
    }

    /// A call is about to be sent.
    fn send(&self) -> Sent {
        self.sightings().send(Instant::now())
    }

    /// A call of this holder's is about to be sent; the token of its acquisition, if it is known.
    fn send_as(&self, key: &LeaseKey, holder: &Holder) -> (Sent, Option<String>) {
        let mut sightings = self.sightings();
        let sent = sightings.send(Instant::now());
        let grant = sightings.own_grant(key, holder).map(str::to_owned);
        (sent, grant)
    }

    /// The answer to a call has arrived: what is known of the lease now.
    fn arrived(&self, key: &LeaseKey, row: Option<&Row>, sent: Sent) -> LeaseState {
        let mut sightings = self.sightings();
        let state = sightings.observe(key, row, sent, Instant::now());
        if let Some((holder, grant)) = sightings.grant(key)
            && self.inner.grants.is_unclaimed(key, &holder, grant)
        {
            // Nobody relies on a lease of which its owner never heard.
            return LeaseState {
                live: false,
                expires_in: None,
                ..state
            };
        }
        state
    }

    fn kept(&self, key: &LeaseKey, row: &Row, sent: Sent) {
        self.sightings().kept(key, row, sent, Instant::now());
    }

    /// Takes the lease if it is free, and answers with the row of its own acquisition.
    async fn take(
        &self,
        acquisition: &mut Acquisition<'_>,
        key: &LeaseKey,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Row>, LeaseError> {
        for tries in 0..TRIES {
            let Outlook { free, attempt } = self.outlook(acquisition, key, owner);
            if tries > 0 && !free {
                return Ok(None);
            }
            let sent = self.send();
            let claim = Claim {
                owner,
                ttl,
                grant: acquisition.token(),
                now: &self.calls().now(),
            };
            let Some(write) = expressions::acquire(claim, &attempt) else {
                let row = self.calls().get(key).await?;
                self.arrived(key, row.as_ref(), sent);
                continue;
            };
            let row = match self.calls().write(key, &write).await? {
                Written::Done(row) => row,
                // Sent again by the SDK after its answer was lost, it is refused by its own success.
                Written::Refused(Some(row)) if row.grant() == Some(claim.grant) => row,
                Written::Refused(row) => {
                    self.arrived(key, row.as_ref(), sent);
                    continue;
                }
            };
            self.kept(key, &row, sent);
            return Ok(Some(row));
        }
        Ok(None)
    }

    /// What an acquisition finds: first of all an earlier one of its owner's that nobody was granted.
    fn outlook(&self, acquisition: &mut Acquisition<'_>, key: &LeaseKey, owner: &str) -> Outlook {
        let sightings = self.sightings();
        if let Some((from, grant)) = sightings.grant(key)
            && from.owner == owner
            && acquisition.adopts(&from, grant)
        {
            return Outlook {
                free: true,
                attempt: Attempt::Unclaimed {
                    from,
                    grant: grant.to_owned(),
                },
            };
        }
        sightings.outlook(key, owner, Instant::now())
    }
}

impl fmt::Debug for DynamoLeaseStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamoLeaseStore")
            .field("table", &self.calls().table())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl LeaseStore for DynamoLeaseStore {
    async fn acquire(
        &self,
        key: &LeaseKey,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Holder>, LeaseError> {
        check_owner(owner)?;
        check_ttl(ttl)?;
        let token = self.inner.chance.token();
        let mut acquisition = self.inner.grants.begin(key, owner, token);
        let row = self.take(&mut acquisition, key, owner, ttl).await?;
        let holder = row.and_then(|row| row.holder());
        if holder.is_some() {
            acquisition.granted();
        }
        Ok(holder)
    }

    async fn renew(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        ttl: Duration,
    ) -> Result<Renewal, LeaseError> {
        check_ttl(ttl)?;
        let (sent, grant) = self.send_as(key, holder);
        let presented = Presented {
            holder,
            grant: grant.as_deref(),
        };
        let write = expressions::renew(presented, ttl, &self.calls().now());
        match self.calls().write(key, &write).await? {
            Written::Done(row) => {
                self.kept(key, &row, sent);
                Ok(match row.asker() {
                    Some(by) => Renewal::Asked { by: by.to_owned() },
                    None => Renewal::Held,
                })
            }
            Written::Refused(row) => {
                self.arrived(key, row.as_ref(), sent);
                Ok(Renewal::Lost)
            }
        }
    }

    async fn checkpoint(
        &self,
        key: &LeaseKey,
        holder: &Holder,
        at: &Checkpoint,
    ) -> Result<bool, LeaseError> {
        check_checkpoint(key, at)?;
        let cp_no = self.inner.cp_no.fetch_add(1, Ordering::Relaxed) + 1;
        let (sent, grant) = self.send_as(key, holder);
        let presented = Presented {
            holder,
            grant: grant.as_deref(),
        };
        let write = expressions::checkpoint(presented, at, cp_no, &self.calls().now());
        let row = match self.calls().write(key, &write).await? {
            Written::Done(row) => Some(row),
            Written::Refused(row) => row,
        };
        self.arrived(key, row.as_ref(), sent);
        // Refused and still the holder's: this call, or a later one, has taken effect already.
        Ok(row.is_some_and(|row| row.is_held_by(presented)))
    }

    async fn read(&self, key: &LeaseKey) -> Result<LeaseState, LeaseError> {
        let sent = self.send();
        let row = self.calls().get(key).await?;
        Ok(self.arrived(key, row.as_ref(), sent))
    }

    async fn release(&self, key: &LeaseKey, holder: &Holder) -> Result<(), LeaseError> {
        let (sent, grant) = self.send_as(key, holder);
        let write = expressions::release(Presented {
            holder,
            grant: grant.as_deref(),
        });
        let row = match self.calls().write(key, &write).await? {
            Written::Done(row) => Some(row),
            Written::Refused(row) => row,
        };
        self.arrived(key, row.as_ref(), sent);
        Ok(())
    }

    async fn read_all(&self, keys: &[LeaseKey]) -> Result<Vec<LeaseState>, LeaseError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let names = listing::by_name(keys);
        let sent = self.send();
        let seed = self.inner.chance.seed();
        let rows = listing::read(self.calls(), &self.inner.economy, &names, seed).await?;
        Ok(keys
            .iter()
            .map(|key| self.arrived(key, rows.get(key), sent))
            .collect())
    }

    async fn ask(&self, key: &LeaseKey, owner: &str) -> Result<bool, LeaseError> {
        check_owner(owner)?;
        let (sent, expired) = {
            let (mut sightings, now) = (self.sightings(), Instant::now());
            (sightings.send(now), sightings.expired(key, now))
        };
        let write = expressions::ask(owner, expired.as_ref());
        let (asked, row) = match self.calls().write(key, &write).await? {
            Written::Done(row) => (true, Some(row)),
            Written::Refused(row) => (false, row),
        };
        self.arrived(key, row.as_ref(), sent);
        Ok(asked)
    }

    async fn forget(&self, key: &LeaseKey) -> Result<bool, LeaseError> {
        let sent = self.send();
        match self.calls().delete(key, &expressions::forget()).await? {
            Deleted::Done(Some(row)) => {
                self.sightings().cleared(key, &row, sent, Instant::now());
                Ok(true)
            }
            Deleted::Done(None) => {
                self.arrived(key, None, sent);
                Ok(true)
            }
            Deleted::Refused(row) => {
                self.arrived(key, row.as_ref(), sent);
                Ok(row.is_none())
            }
        }
    }
}

/// Refuses a checkpoint that could not be read back.
fn check_checkpoint(key: &LeaseKey, at: &Checkpoint) -> Result<(), LeaseError> {
    match at.to_string().parse::<Checkpoint>() {
        Ok(_) => Ok(()),
        Err(error) => Err(LeaseError::misconfigured(format!(
            "{error}; the item {key} stays as it is"
        ))),
    }
}
