//! The service's quotas. It alone knows how much a second a shard or an account may do, and how an
//! overdraft is paid off.
//!
//! The numbers are those of the Developer Guide's page "Quotas and limits", and of each operation's page.

use std::collections::VecDeque;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::operation::Operation;

const SECOND: Duration = Duration::from_secs(1);
const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// GetRecords: five transactions a second per shard.
const READS_PER_SECOND: usize = 5;
/// GetRecords: 2 MiB a second per shard.
const READ_BYTES_PER_SECOND: u64 = 2 * 1024 * 1024;
/// GetShardIterator: five transactions a second per open shard.
const ITERATORS_PER_SECOND: usize = 5;
/// PutRecords: 1,000 records a second per shard.
const WRITTEN_RECORDS_PER_SECOND: u64 = 1_000;
/// PutRecords: 1 MiB a second per shard.
const WRITTEN_BYTES_PER_SECOND: u64 = 1024 * 1024;
/// ListShards: 1,000 transactions a second per stream.
const LISTINGS_PER_SECOND: u64 = 1_000;

/// How many calls of an operation an account may make in a second, where its page sets a limit.
pub(crate) fn account_limit(operation: Operation) -> Option<usize> {
    match operation {
        Operation::CreateStream
        | Operation::DeleteStream
        | Operation::ListStreams
        | Operation::MergeShards
        | Operation::SplitShard => Some(5),
        Operation::DescribeStream | Operation::UpdateShardCount => Some(10),
        Operation::DescribeStreamSummary => Some(20),
        _ => None,
    }
}

/// So many calls in any one second. A refused call doesn't count.
#[derive(Clone, Debug)]
pub(crate) struct CallRate {
    limit: usize,
    accepted: VecDeque<Timestamp>,
}

impl CallRate {
    pub(crate) fn per_second(limit: usize) -> Self {
        Self {
            limit,
            accepted: VecDeque::new(),
        }
    }

    /// Counts a call in, or says that there is no room for it yet.
    pub(crate) fn accept(&mut self, now: Timestamp) -> bool {
        while self
            .accepted
            .front()
            .is_some_and(|then| now.since(*then) >= SECOND)
        {
            self.accepted.pop_front();
        }
        let room = self.accepted.len() < self.limit;
        if room {
            self.accepted.push_back(now);
        }
        room
    }
}

/// A second's worth of something, which refills continuously.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    per_second: u64,
    /// In billionths, so that a refill of any length is exact. Below zero is debt.
    level: i128,
    at: Timestamp,
}

impl Bucket {
    fn full(per_second: u64, now: Timestamp) -> Self {
        Self {
            per_second,
            level: i128::from(per_second) * NANOS_PER_SECOND,
            at: now,
        }
    }

    pub(crate) fn of_listings(now: Timestamp) -> Self {
        Self::full(LISTINGS_PER_SECOND, now)
    }

    /// Whether `amount` may be taken. What exceeds a whole second's worth may be taken from a full bucket.
    fn holds(&mut self, amount: u64, now: Timestamp) -> bool {
        let capacity = i128::from(self.per_second) * NANOS_PER_SECOND;
        let nanos = i128::try_from(now.since(self.at).as_nanos()).unwrap_or(i128::MAX);
        let refill = nanos.saturating_mul(i128::from(self.per_second));
        self.level = self.level.saturating_add(refill).min(capacity);
        self.at = now;
        self.level >= i128::from(amount.min(self.per_second)) * NANOS_PER_SECOND
    }

    fn take(&mut self, amount: u64) {
        self.level -= i128::from(amount) * NANOS_PER_SECOND;
    }

    pub(crate) fn accept(&mut self, amount: u64, now: Timestamp) -> bool {
        let room = self.holds(amount, now);
        if room {
            self.take(amount);
        }
        room
    }
}

/// What has been used of one shard's quotas.
#[derive(Clone, Debug)]
pub(crate) struct ShardQuota {
    reads: CallRate,
    iterators: CallRate,
    read_bytes: ReadBytes,
    written_records: Bucket,
    written_bytes: Bucket,
}

impl ShardQuota {
    pub(crate) fn unused(now: Timestamp) -> Self {
        Self {
            reads: CallRate::per_second(READS_PER_SECOND),
            iterators: CallRate::per_second(ITERATORS_PER_SECOND),
            read_bytes: ReadBytes {
                paid_at: now,
                blocked_until: now,
            },
            written_records: Bucket::full(WRITTEN_RECORDS_PER_SECOND, now),
            written_bytes: Bucket::full(WRITTEN_BYTES_PER_SECOND, now),
        }
    }

    pub(crate) fn accept_iterator(&mut self, now: Timestamp) -> bool {
        self.iterators.accept(now)
    }

    pub(crate) fn accept_read(&mut self, now: Timestamp) -> bool {
        now >= self.read_bytes.blocked_until && self.reads.accept(now)
    }

    /// Charges for an answer that an accepted read was given.
    pub(crate) fn charge_read(&mut self, bytes: usize, now: Timestamp) {
        self.read_bytes.charge(bytes as u64, now);
    }

    pub(crate) fn accept_write(&mut self, bytes: usize, now: Timestamp) -> bool {
        let bytes = bytes as u64;
        let room = self.written_records.holds(1, now) && self.written_bytes.holds(bytes, now);
        if room {
            self.written_records.take(1);
            self.written_bytes.take(bytes);
        }
        room
    }
}

/// The bytes that a shard handed out and that its 2 MiB a second haven't paid for yet.
#[derive(Clone, Copy, Debug)]
struct ReadBytes {
    paid_at: Timestamp,
    blocked_until: Timestamp,
}

impl ReadBytes {
    /// GetRecords: an answer of 10 MiB blocks the shard for five seconds. So more than a second's worth has
    /// to be paid off in full, while answers that add up to less block nothing.
    fn charge(&mut self, bytes: u64, now: Timestamp) {
        let nanos =
            u128::from(bytes) * NANOS_PER_SECOND as u128 / u128::from(READ_BYTES_PER_SECOND);
        let cost = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.paid_at = self.paid_at.max(now).plus(cost);
        if self.paid_at.since(now) > SECOND {
            self.blocked_until = self.paid_at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: f64 = 1_767_225_600.0;

    #[test]
    fn a_call_rate_has_room_again_a_second_after_its_oldest_call() {
        let noon = Timestamp::from_seconds(NOON);
        let mut rate = CallRate::per_second(2);
        assert!(rate.accept(noon));
        assert!(rate.accept(noon.plus(Duration::from_millis(600))));
        assert!(!rate.accept(noon.plus(Duration::from_millis(999))));
        assert!(rate.accept(noon.plus(Duration::from_millis(1_000))));
        assert!(!rate.accept(noon.plus(Duration::from_millis(1_000))));
    }

    #[test]
    fn a_bucket_refills_to_a_second_and_no_further() {
        let noon = Timestamp::from_seconds(NOON);
        let mut bucket = Bucket::full(10, noon);
        assert!(bucket.accept(10, noon));
        assert!(!bucket.accept(1, noon.plus(Duration::from_millis(99))));
        assert!(bucket.accept(1, noon.plus(Duration::from_millis(100))));
        assert!(bucket.accept(10, noon.plus(Duration::from_secs(3_600))));
        assert!(!bucket.accept(1, noon.plus(Duration::from_secs(3_600))));
    }

    #[test]
    fn ten_mebibytes_block_reads_for_five_seconds() {
        let noon = Timestamp::from_seconds(NOON);
        let mut quota = ShardQuota::unused(noon);
        assert!(quota.accept_read(noon));
        quota.charge_read(10 * 1024 * 1024, noon);
        assert!(!quota.accept_read(noon.plus(Duration::from_millis(4_999))));
        assert!(quota.accept_read(noon.plus(Duration::from_secs(5))));
    }

    #[test]
    fn a_second_of_even_reads_at_the_full_rate_blocks_nothing() {
        let noon = Timestamp::from_seconds(NOON);
        let mut quota = ShardQuota::unused(noon);
        for read in 0..50 {
            let now = noon.plus(Duration::from_millis(200 * read));
            assert!(quota.accept_read(now), "read {read}");
            quota.charge_read(READ_BYTES_PER_SECOND as usize / 5, now);
        }
    }
}
