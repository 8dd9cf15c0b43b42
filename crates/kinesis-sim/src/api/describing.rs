//! The operations that describe streams: DescribeStreamSummary, DescribeStream and ListStreams. It alone knows
//! how a stream is written in an answer.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::paging::{page_size, start_after};
use super::shapes::{Shard, StreamRef};
use super::{Call, Conditions};
use crate::clock::Timestamp;
use crate::error::ServiceError;
use crate::fault::Target;
use crate::operation::Operation;
use crate::stream::{Stream, Transition};
use crate::world::World;

/// DescribeStream, Limit: 1 to 10,000, of which at most 100 are answered; ListStreams likewise.
const OLD_LIMIT_ASKED: RangeInclusive<i64> = 1..=10_000;
const OLD_LIMIT_ANSWERED: i64 = 100;

impl Transition {
    /// DescribeStreamSummary, StreamStatus.
    pub(crate) fn status(self) -> &'static str {
        match self {
            Self::Creating => "CREATING",
            Self::Updating => "UPDATING",
            Self::Deleting => "DELETING",
        }
    }
}

/// The status of a stream, as the descriptions have it.
fn status(stream: &Stream, now: Timestamp) -> &'static str {
    stream.transition(now).map_or("ACTIVE", Transition::status)
}

/// `StreamModeDetails`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct StreamModeDetails {
    pub(super) stream_mode: String,
}

impl StreamModeDetails {
    fn of(stream: &Stream) -> Self {
        let mode = if stream.on_demand {
            "ON_DEMAND"
        } else {
            "PROVISIONED"
        };
        Self {
            stream_mode: mode.to_owned(),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct DescribeStreamSummary {
    #[serde(flatten)]
    stream: StreamRef,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct DescribeStreamSummaryAnswer {
    stream_description_summary: StreamDescriptionSummary,
}

/// `StreamDescriptionSummary`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct StreamDescriptionSummary {
    stream_name: String,
    #[serde(rename = "StreamARN")]
    stream_arn: String,
    stream_status: &'static str,
    stream_mode_details: StreamModeDetails,
    retention_period_hours: u64,
    stream_creation_timestamp: Timestamp,
    enhanced_monitoring: [EnhancedMetrics; 1],
    encryption_type: &'static str,
    open_shard_count: usize,
    consumer_count: usize,
    #[serde(rename = "MaxRecordSizeInKiB")]
    max_record_size: usize,
}

/// `EnhancedMetrics`, of which a simulated stream has none.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct EnhancedMetrics {
    shard_level_metrics: [&'static str; 0],
}

/// A stream's retention, in the whole hours of the descriptions.
pub(super) fn retention_hours(stream: &Stream) -> u64 {
    stream.retention.as_secs() / 3_600
}

impl Call for DescribeStreamSummary {
    const OPERATION: Operation = Operation::DescribeStreamSummary;
    type Answer = DescribeStreamSummaryAnswer;

    fn target(&self, _world: &World) -> Target {
        Target::new(Self::OPERATION, self.stream.hint(), [])
    }

    fn run(self, world: &mut World, conditions: &Conditions) -> Result<Self::Answer, ServiceError> {
        let (stream, _) = world.stream(&self.stream.resolve()?)?;
        Ok(DescribeStreamSummaryAnswer {
            stream_description_summary: StreamDescriptionSummary {
                stream_name: stream.name.clone(),
                stream_arn: stream.arn(),
                stream_status: status(stream, conditions.now),
                stream_mode_details: StreamModeDetails::of(stream),
                retention_period_hours: retention_hours(stream),
                stream_creation_timestamp: stream.created_at,
                enhanced_monitoring: Default::default(),
                encryption_type: "NONE",
                open_shard_count: stream.open.len(),
                consumer_count: 0,
                max_record_size: stream.record_limit_kib,
            },
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct DescribeStream {
    #[serde(flatten)]
    stream: StreamRef,
    exclusive_start_shard_id: Option<String>,
    limit: Option<i64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct DescribeStreamAnswer {
    stream_description: StreamDescription,
}

/// `StreamDescription`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct StreamDescription {
    stream_name: String,
    #[serde(rename = "StreamARN")]
    stream_arn: String,
    stream_status: &'static str,
    stream_mode_details: StreamModeDetails,
    shards: Vec<Shard>,
    has_more_shards: bool,
    retention_period_hours: u64,
    stream_creation_timestamp: Timestamp,
    enhanced_monitoring: [EnhancedMetrics; 1],
    encryption_type: &'static str,
}

impl Call for DescribeStream {
    const OPERATION: Operation = Operation::DescribeStream;
    type Answer = DescribeStreamAnswer;

    fn target(&self, _world: &World) -> Target {
        Target::new(Self::OPERATION, self.stream.hint(), [])
    }

    fn run(self, world: &mut World, conditions: &Conditions) -> Result<Self::Answer, ServiceError> {
        let now = conditions.now;
        let size = page_size("limit", self.limit, &OLD_LIMIT_ASKED, OLD_LIMIT_ANSWERED)?;
        let after = self.exclusive_start_shard_id.as_deref();
        let after = after
            .map(|id| start_after("exclusiveStartShardId", id))
            .transpose()?;
        let (stream, _) = world.stream(&self.stream.resolve()?)?;
        let created = stream.transition(now) != Some(Transition::Creating);
        let mut listed = stream.listed_after(after, now).filter(|_| created);
        let shards = listed.by_ref().take(size).map(Shard::of).collect();
        let has_more_shards = listed.next().is_some();
        Ok(DescribeStreamAnswer {
            stream_description: StreamDescription {
                stream_name: stream.name.clone(),
                stream_arn: stream.arn(),
                stream_status: status(stream, now),
                stream_mode_details: StreamModeDetails::of(stream),
                shards,
                has_more_shards,
                retention_period_hours: retention_hours(stream),
                stream_creation_timestamp: stream.created_at,
                enhanced_monitoring: Default::default(),
                encryption_type: "NONE",
            },
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListStreams {
    limit: Option<i64>,
    exclusive_start_stream_name: Option<String>,
    next_token: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListStreamsAnswer {
    stream_names: Vec<String>,
    has_more_streams: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_token: Option<String>,
    stream_summaries: Vec<StreamSummary>,
}

/// `StreamSummary`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct StreamSummary {
    stream_name: String,
    #[serde(rename = "StreamARN")]
    stream_arn: String,
    stream_status: &'static str,
    stream_mode_details: StreamModeDetails,
    stream_creation_timestamp: Timestamp,
}

impl Call for ListStreams {
    const OPERATION: Operation = Operation::ListStreams;
    type Answer = ListStreamsAnswer;

    fn target(&self, _world: &World) -> Target {
        Target::new(Self::OPERATION, None, [])
    }

    fn run(self, world: &mut World, conditions: &Conditions) -> Result<Self::Answer, ServiceError> {
        let size = page_size("limit", self.limit, &OLD_LIMIT_ASKED, OLD_LIMIT_ANSWERED)?;
        // Either names the last stream of the page before.
        let after = self
            .next_token
            .or(self.exclusive_start_stream_name)
            .unwrap_or_default();
        let mut rest = world.streams.values().filter(|stream| stream.name > after);
        let page: Vec<_> = rest.by_ref().take(size).collect();
        let has_more_streams = rest.next().is_some();
        let stream_names: Vec<_> = page.iter().map(|stream| stream.name.clone()).collect();
        Ok(ListStreamsAnswer {
            has_more_streams,
            next_token: stream_names.last().filter(|_| has_more_streams).cloned(),
            stream_names,
            stream_summaries: page
                .into_iter()
                .map(|stream| StreamSummary {
                    stream_name: stream.name.clone(),
                    stream_arn: stream.arn(),
                    stream_status: status(stream, conditions.now),
                    stream_mode_details: StreamModeDetails::of(stream),
                    stream_creation_timestamp: stream.created_at,
                })
                .collect(),
        })
    }
}
