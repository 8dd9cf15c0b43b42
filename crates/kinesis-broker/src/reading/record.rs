//! A record: from what the service answers to what a handler can ask about it.

use std::time::{Duration, SystemTime};

use aws_sdk_kinesis::primitives::DateTime;
use aws_sdk_kinesis::types::Record;
use bytes::Bytes;
use lease_core::{Checkpoint, Holder};

use crate::StartPosition;
use crate::reading::aggregate::UserRecord;
use crate::reading::seek::Seeker;

/// Where a record comes from; a handler finds it in [`Context::get`](rstream::Context::get).
///
/// ```
/// use kinesis_broker::prelude::*;
///
/// #[subscriber(KinesisStream::new("inventory"))]
/// async fn apply(change: &i64, ctx: &mut Context<'_>) -> HandlerOutcome {
///     let Some(info) = ctx.get::<RecordInfo>() else { return HandlerOutcome::retry() };
///     println!("{} {} by {}: {change}", info.shard, info.sequence_number, info.holder.owner);
///     HandlerOutcome::ack()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordInfo {
    /// The stream's name.
    pub stream: String,
    /// The shard's id.
    pub shard: String,
    /// The record's sequence number: growing with time, and unique within its shard together with
    /// [`sub_sequence_number`](Self::sub_sequence_number).
    pub sequence_number: String,
    /// Its place, from 0, inside the aggregated record that has the sequence number; `None` where it was put alone.
    pub sub_sequence_number: Option<u64>,
    /// The key that the producer gave it; empty where the producer of a stream that distributes records
    /// by itself gave none.
    pub partition_key: String,
    /// When the service stored it, by the service's clock (`ApproximateArrivalTimestamp`, to the
    /// millisecond); the Unix epoch where the service did not say.
    pub arrived_at: SystemTime,
    /// How far the read that brought it was behind the tip of the shard, in milliseconds
    /// (`MillisBehindLatest`).
    pub millis_behind: u64,
    /// The lease under which it is handled. Its epoch is a fencing token: it grows with every change of
    /// owner, so a downstream store can refuse a write that carries an older one.
    pub holder: Holder,
    pub(crate) seeker: Seeker,
}

impl Default for RecordInfo {
    /// A record of nowhere, for unit tests that call a handler by hand: set the fields that matter.
    fn default() -> Self {
        Self::of_shard("", "")
    }
}

impl RecordInfo {
    /// Moves the shard that the record is of to `position`, once the handler has returned: what was read and not
    /// handed over is forgotten, the move is written to the lease store, and then the shard is read on from there.
    ///
    /// The handler's outcome counts as ever, but for a record that is to be retried, which is forgotten too. Other
    /// shards are not moved. Where the shard has gone to another instance before the move is written, it does not come
    /// about. In rstream's `TestApp` it does nothing.
    ///
    /// See [`StartPosition::in_shard`] for moves from outside.
    pub fn seek(&self, position: StartPosition) {
        self.seeker.shard(position);
    }

    /// As [`seek`](Self::seek), for all shards of the stream that this instance holds.
    pub fn seek_stream(&self, position: StartPosition) {
        self.seeker.stream(&self.stream, &self.shard, position);
    }

    /// What is the same for all records of one shard; under nobody's lease yet.
    pub(crate) fn of_shard(stream: &str, shard: &str) -> Self {
        Self {
            stream: stream.to_owned(),
            shard: shard.to_owned(),
            sequence_number: String::new(),
            sub_sequence_number: None,
            partition_key: String::new(),
            arrived_at: SystemTime::UNIX_EPOCH,
            millis_behind: 0,
            holder: Holder {
                owner: String::new(),
                epoch: 0,
            },
            seeker: Seeker::default(),
        }
    }

    /// Tells of `item` from now on; gives its payload.
    pub(crate) fn turn_to(&mut self, item: Item) -> Bytes {
        self.sequence_number = item.sequence_number;
        self.sub_sequence_number = item.sub_sequence_number;
        self.partition_key = item.partition_key;
        self.arrived_at = item.arrived_at;
        self.millis_behind = item.millis_behind;
        item.payload
    }
}

/// Where the records of a batch come from; a handler of batches finds it in
/// [`Context::get`](rstream::Context::get).
///
/// ```
/// use kinesis_broker::prelude::*;
/// use kinesis_broker::BatchInfo;
///
/// #[subscriber(KinesisStream::new("inventory"), batch(500, "50ms"))]
/// async fn apply(changes: &[i64], ctx: &mut Context<'_>) -> HandlerOutcome {
///     let Some(batch) = ctx.get::<BatchInfo>() else { return HandlerOutcome::retry() };
///     for (change, info) in changes.iter().zip(batch.records()) {
///         println!("{}: {change}", info.sequence_number);
///     }
///     HandlerOutcome::ack()
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchInfo {
    pub(crate) records: Vec<RecordInfo>,
}

impl BatchInfo {
    /// One for each record, in their order; all are of one shard.
    ///
    /// Where a record behind them cannot be decoded there are more of these than the handler was given records: the
    /// first ones, as many as there are records, are theirs. `zip` them, and do not take the last.
    #[must_use]
    pub fn records(&self) -> &[RecordInfo] {
        &self.records
    }
}

/// A record on its way from the wire to a handler.
#[derive(Debug)]
pub(crate) struct Item {
    sequence_number: String,
    sub_sequence_number: Option<u64>,
    pub(crate) partition_key: String,
    arrived_at: SystemTime,
    payload: Bytes,
    millis_behind: u64,
    /// How many of the bytes that were read are done with once it is in a handler; `None` where it is not the last of
    /// its record.
    pub(crate) frees: Option<usize>,
}

impl Item {
    /// What the service answered, in a read that was so far behind the tip. Nothing of the payload is copied.
    pub(crate) fn of(record: Record, millis_behind: u64) -> Self {
        let frees = size(&record);
        Self {
            sequence_number: record.sequence_number,
            sub_sequence_number: None,
            partition_key: record.partition_key.unwrap_or_default(),
            arrived_at: record
                .approximate_arrival_timestamp
                .and_then(to_the_millisecond)
                .unwrap_or(SystemTime::UNIX_EPOCH),
            payload: record.data.into_bytes(),
            millis_behind,
            frees: Some(frees),
        }
    }

    /// The checkpoint of a shard that was read up to it.
    pub(crate) fn position(&self) -> Checkpoint {
        Checkpoint::from_shared(self.sequence_number.as_str().into())
    }

    pub(crate) fn payload(&self) -> &Bytes {
        &self.payload
    }

    pub(crate) fn sequence_number(&self) -> &str {
        &self.sequence_number
    }

    /// One of the records that were packed into this one, and its position.
    pub(crate) fn part(&self, user: UserRecord) -> (Self, Checkpoint) {
        let is_last = user.checkpoint.sub_sequence().is_none();
        let part = Self {
            sequence_number: self.sequence_number.clone(),
            sub_sequence_number: Some(user.sub_sequence),
            partition_key: user.partition_key.as_ref().to_owned(),
            arrived_at: self.arrived_at,
            payload: user.data,
            millis_behind: self.millis_behind,
            frees: self.frees.filter(|_| is_last),
        };
        (part, user.checkpoint)
    }
}

/// What a record counts for: the service counts its key too.
pub(crate) fn size(record: &Record) -> usize {
    record.data.as_ref().len() + record.partition_key.as_ref().map_or(0, String::len)
}

/// On the wire it is a binary fraction of seconds, which is off by some nanoseconds. The service stores nothing from
/// before the Unix epoch.
fn to_the_millisecond(at: DateTime) -> Option<SystemTime> {
    let seconds = Duration::from_secs(u64::try_from(at.secs()).ok()?);
    let millis = (at.subsec_nanos() + 500_000) / 1_000_000;
    SystemTime::UNIX_EPOCH.checked_add(seconds + Duration::from_millis(millis.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_off_by_nanoseconds_is_the_millisecond_that_was_meant() {
        let meant = Duration::from_millis(1_767_225_601_234);
        for nanos in [233_999_967, 234_000_000, 234_000_206] {
            let at = to_the_millisecond(DateTime::from_secs_and_nanos(1_767_225_601, nanos));
            assert_eq!(at, Some(SystemTime::UNIX_EPOCH + meant));
        }
        let just_before = DateTime::from_secs_and_nanos(1_767_225_600, 999_999_900);
        let meant = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_601);
        assert_eq!(to_the_millisecond(just_before), Some(meant));
    }

    #[test]
    fn a_time_that_no_service_gives_is_none() {
        for seconds in [-1, i64::MIN] {
            assert_eq!(to_the_millisecond(DateTime::from_secs(seconds)), None);
        }
        let end = DateTime::from_secs_and_nanos(i64::MAX, 999_999_999);
        assert_eq!(to_the_millisecond(end), None);
    }
}
