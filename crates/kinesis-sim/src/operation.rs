//! The operations that the simulation knows, by the names that the service has for them.

use std::fmt;

/// An operation of the Kinesis API, for counting calls and aiming faults.
///
/// Its [`Display`](fmt::Display) form is the operation's name in the API reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Makes a stream.
    CreateStream,
    /// Shortens how long records are kept.
    DecreaseStreamRetentionPeriod,
    /// Removes a stream with all its records.
    DeleteStream,
    /// Describes a stream with its shards.
    DescribeStream,
    /// Describes a stream without its shards.
    DescribeStreamSummary,
    /// Reads records from a shard.
    GetRecords,
    /// Opens a shard at a position.
    GetShardIterator,
    /// Lengthens how long records are kept.
    IncreaseStreamRetentionPeriod,
    /// Lists the shards of a stream.
    ListShards,
    /// Lists the streams of the account.
    ListStreams,
    /// Merges two adjacent shards into one.
    MergeShards,
    /// Stores one record.
    PutRecord,
    /// Stores up to 500 records, each of which may fail alone.
    PutRecords,
    /// Splits a shard in two.
    SplitShard,
    /// Changes how large a record of a stream may be.
    UpdateMaxRecordSize,
    /// Splits and merges until a stream has a number of shards of one size.
    UpdateShardCount,
}

impl Operation {
    const ALL: [Self; 16] = [
        Self::CreateStream,
        Self::DecreaseStreamRetentionPeriod,
        Self::DeleteStream,
        Self::DescribeStream,
        Self::DescribeStreamSummary,
        Self::GetRecords,
        Self::GetShardIterator,
        Self::IncreaseStreamRetentionPeriod,
        Self::ListShards,
        Self::ListStreams,
        Self::MergeShards,
        Self::PutRecord,
        Self::PutRecords,
        Self::SplitShard,
        Self::UpdateMaxRecordSize,
        Self::UpdateShardCount,
    ];

    /// The operation of that name in the API reference.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|operation| operation.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::CreateStream => "CreateStream",
            Self::DecreaseStreamRetentionPeriod => "DecreaseStreamRetentionPeriod",
            Self::DeleteStream => "DeleteStream",
            Self::DescribeStream => "DescribeStream",
            Self::DescribeStreamSummary => "DescribeStreamSummary",
            Self::GetRecords => "GetRecords",
            Self::GetShardIterator => "GetShardIterator",
            Self::IncreaseStreamRetentionPeriod => "IncreaseStreamRetentionPeriod",
            Self::ListShards => "ListShards",
            Self::ListStreams => "ListStreams",
            Self::MergeShards => "MergeShards",
            Self::PutRecord => "PutRecord",
            Self::PutRecords => "PutRecords",
            Self::SplitShard => "SplitShard",
            Self::UpdateMaxRecordSize => "UpdateMaxRecordSize",
            Self::UpdateShardCount => "UpdateShardCount",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
