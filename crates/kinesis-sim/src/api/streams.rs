//! The operations that make, change and remove whole streams: CreateStream, DeleteStream, the two of retention,
//! and UpdateMaxRecordSize. It alone knows what a stream may be made into.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Deserialize;

use super::describing::{StreamModeDetails, retention_hours};
use super::shapes::{StreamRef, check_name};
use super::{Call, Conditions};
use crate::clock::Timestamp;
use crate::error::ServiceError;
use crate::fault::Target;
use crate::operation::Operation;
use crate::stream::{DEFAULT_RECORD_KIB, Transition};
use crate::world::World;

/// CreateStream, on-demand mode: a new stream has four shards.
const ON_DEMAND_SHARDS: i64 = 4;
/// "Quotas and limits": shards of an account in us-east-1, unless it asks for more.
const ACCOUNT_SHARDS: usize = 20_000;
/// UpdateMaxRecordSize: 1 to 10 MiB.
const RECORD_KIB: RangeInclusive<i64> = 1_024..=10_240;
/// DecreaseStreamRetentionPeriod: at least a day; IncreaseStreamRetentionPeriod: at most a year.
const RETENTION_HOURS: RangeInclusive<i64> = 24..=8_760;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct CreateStream {
    stream_name: Option<String>,
    shard_count: Option<i64>,
    stream_mode_details: Option<StreamModeDetails>,
    #[serde(rename = "MaxRecordSizeInKiB")]
    max_record_size: Option<i64>,
}

impl Call for CreateStream {
    const OPERATION: Operation = Operation::CreateStream;
    type Answer = ();

    fn target(&self, _world: &World) -> Target {
        Target::new(Self::OPERATION, self.stream_name.clone(), [])
    }

    fn run(self, world: &mut World, conditions: &Conditions) -> Result<(), ServiceError> {
        let name = self
            .stream_name
            .ok_or_else(|| ServiceError::missing("streamName"))?;
        check_name("streamName", &name)?;
        let on_demand = match self
            .stream_mode_details
            .as_ref()
            .map(|mode| mode.stream_mode.as_str())
        {
            None | Some("PROVISIONED") => false,
            Some("ON_DEMAND") => true,
            Some(mode) => {
                let rule = "satisfy enum value set: [PROVISIONED, ON_DEMAND]";
                return Err(ServiceError::constraint(
                    "streamModeDetails.streamMode",
                    mode,
                    rule,
                ));
            }
        };
        let default = on_demand.then_some(ON_DEMAND_SHARDS);
        let shard_count = self.shard_count.or(default).ok_or_else(|| {
            ServiceError::invalid_argument(
                "ShardCount is required for a stream in provisioned mode.",
            )
        })?;
        let shard_count = usize::try_from(shard_count)
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(|| {
                ServiceError::constraint(
                    "shardCount",
                    shard_count,
                    "have value greater than or equal to 1",
                )
            })?;
        let record_limit_kib =
            record_limit(self.max_record_size.unwrap_or(DEFAULT_RECORD_KIB as i64))?;
        let in_use: usize = world.streams.values().map(|stream| stream.open.len()).sum();
        if world.settings.quotas && in_use + shard_count > ACCOUNT_SHARDS {
            return Err(ServiceError::limit_exceeded(format!(
                "This request would exceed the shard limit of {ACCOUNT_SHARDS} of the account. Shards in \
                 use: {in_use}"
            )));
        }
        let until = conditions.now.plus(world.settings.transition);
        let stream = world.create_stream(&name, shard_count, conditions.now)?;
        stream.on_demand = on_demand;
        stream.record_limit_kib = record_limit_kib;
        stream.begin(Transition::Creating, until);
        Ok(())
    }
}

fn record_limit(kib: i64) -> Result<usize, ServiceError> {
    let within = Some(kib).filter(|kib| RECORD_KIB.contains(kib));
    within
        .and_then(|kib| usize::try_from(kib).ok())
        .ok_or_else(|| {
            ServiceError::constraint(
                "maxRecordSizeInKiB",
                kib,
                "have value between 1024 and 10240",
            )
        })
}

#[derive(Debug, Deserialize)]
pub(super) struct DeleteStream {
    #[serde(flatten)]
    stream: StreamRef,
}

impl Call for DeleteStream {
    const OPERATION: Operation = Operation::DeleteStream;
    type Answer = ();

    fn target(&self, _world: &World) -> Target {
        Target::new(Self::OPERATION, self.stream.hint(), [])
    }

    fn run(self, world: &mut World, conditions: &Conditions) -> Result<(), ServiceError> {
        let until = conditions.now.plus(world.settings.transition);
        let (stream, _) = world.active_stream(&self.stream.resolve()?, conditions.now)?;
        stream.begin(Transition::Deleting, until);
        Ok(())
    }
}

/// The input that both operations of retention share.
#[derive(Debug, Deserialize)]
struct Retention {
    #[serde(flatten)]
    stream: StreamRef,
    #[serde(rename = "RetentionPeriodHours")]
    hours: Option<i64>,
}

impl Retention {
    fn set(
        self,
        world: &mut World,
        now: Timestamp,
        wrong_way: impl Fn(i64, i64) -> Option<&'static str>,
    ) -> Result<(), ServiceError> {
        let name = self.stream.resolve()?;
        let hours = self
            .hours
            .ok_or_else(|| ServiceError::missing("retentionPeriodHours"))?;
        let (shortest, longest) = RETENTION_HOURS.into_inner();
        let (stream, _) = world.active_stream(&name, now)?;
        let current = retention_hours(stream) as i64;
        let refusal = if hours < shortest {
            format!(
                "Minimum allowed retention period is {shortest} hours. \
                 Requested retention period ({hours} hours) is too short."
            )
        } else if hours > longest {
            format!(
                "Maximum allowed retention period is {longest} hours. \
                 Requested retention period ({hours} hours) is too long."
            )
        } else if let Some(wrong) = wrong_way(hours, current) {
            format!(
                "Requested retention period ({hours} hours) for stream {name} \
                 must be {wrong} than the existing retention period ({current} hours)."
            )
        } else {
            stream.retain(Duration::from_secs(hours.unsigned_abs() * 3_600), now);
            return Ok(());
        };
        Err(ServiceError::invalid_argument(refusal))
    }
}

#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct IncreaseRetention(Retention);

impl Call for IncreaseRetention {
    const OPERATION: Operation = Operation::IncreaseStreamRetentionPeriod;
    type Answer = ();

    fn target(&self, _world: &World) -> Target {
        Target::new(Self::OPERATION, self.0.stream.hint(), [])
    }

    fn run(self, world: &mut World, conditions: &Conditions) -> Result<(), ServiceError> {
        self.0.set(world, conditions.now, |hours, current| {
            (hours <= current).then_some("longer")
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct DecreaseRetention(Retention);

impl Call for DecreaseRetention {
    const OPERATION: Operation = Operation::DecreaseStreamRetentionPeriod;
    type Answer = ();

    fn target(&self, _world: &World) -> Target {
        Target::new(Self::OPERATION, self.0.stream.hint(), [])
    }

    fn run(self, world: &mut World, conditions: &Conditions) -> Result<(), ServiceError> {
        self.0.set(world, conditions.now, |hours, current| {
            (hours >= current).then_some("shorter")
        })
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct UpdateMaxRecordSize {
    #[serde(flatten)]
    stream: StreamRef,
    #[serde(rename = "MaxRecordSizeInKiB")]
    kib: Option<i64>,
}

impl Call for UpdateMaxRecordSize {
    const OPERATION: Operation = Operation::UpdateMaxRecordSize;
    type Answer = ();

    fn target(&self, _world: &World) -> Target {
        Target::new(Self::OPERATION, self.stream.hint(), [])
    }

    fn run(self, world: &mut World, conditions: &Conditions) -> Result<(), ServiceError> {
        let name = self.stream.resolve()?;
        let limit = record_limit(
            self.kib
                .ok_or_else(|| ServiceError::missing("maxRecordSizeInKiB"))?,
        )?;
        let (stream, _) = world.active_stream(&name, conditions.now)?;
        stream.record_limit_kib = limit;
        Ok(())
    }
}
