//! SplitShard, MergeShards and UpdateShardCount. It alone knows when a stream may be resharded.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::shapes::StreamRef;
use super::writing::explicit_hash_key;
use super::{Call, Conditions};
use crate::error::ServiceError;
use crate::fault::Target;
use crate::operation::Operation;
use crate::stream::{Stream, Transition};
use crate::world::World;

/// UpdateShardCount: a stream may not be scaled to more shards than this.
const MOST_SHARDS: usize = 10_000;
/// UpdateShardCount: ten times per rolling 24 hours per stream.
const UPDATES_A_DAY: usize = 10;
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// SplitShard and MergeShards are for streams in provisioned mode.
fn check_mode(stream: &Stream) -> Result<(), ServiceError> {
    if stream.on_demand {
        Err(ServiceError::validation(format!(
            "Stream {} is in on-demand mode, which does not support this operation.",
            stream.name
        )))
    } else {
        Ok(())
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SplitShard {
    #[serde(flatten)]
    stream: StreamRef,
    shard_to_split: Option<String>,
    new_starting_hash_key: Option<String>,
}

impl Call for SplitShard {
    const OPERATION: Operation = Operation::SplitShard;
    type Answer = ();

    fn target(&self, _world: &World) -> Target {
        Target::new(
            Self::OPERATION,
            self.stream.hint(),
            self.shard_to_split.clone(),
        )
    }

    fn run(self, world: &mut World, conditions: &Conditions) -> Result<(), ServiceError> {
        let now = conditions.now;
        let shard = self
            .shard_to_split
            .ok_or_else(|| ServiceError::missing("shardToSplit"))?;
        let middle = self.new_starting_hash_key;
        let middle = middle.ok_or_else(|| ServiceError::missing("newStartingHashKey"))?;
        let middle = explicit_hash_key(&middle)?;
        let until = now.plus(world.settings.transition);
        let (stream, sequencer) = world.active_stream(&self.stream.resolve()?, now)?;
        check_mode(stream)?;
        stream.split(&shard, Some(middle), sequencer, now)?;
        stream.begin(Transition::Updating, until);
        Ok(())
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct MergeShards {
    #[serde(flatten)]
    stream: StreamRef,
    shard_to_merge: Option<String>,
    adjacent_shard_to_merge: Option<String>,
}

impl Call for MergeShards {
    const OPERATION: Operation = Operation::MergeShards;
    type Answer = ();

    fn target(&self, _world: &World) -> Target {
        let shards = [&self.shard_to_merge, &self.adjacent_shard_to_merge];
        let shards = shards.into_iter().flatten().cloned();
        Target::new(Self::OPERATION, self.stream.hint(), shards)
    }

    fn run(self, world: &mut World, conditions: &Conditions) -> Result<(), ServiceError> {
        let now = conditions.now;
        let shard = self
            .shard_to_merge
            .ok_or_else(|| ServiceError::missing("shardToMerge"))?;
        let adjacent = self.adjacent_shard_to_merge;
        let adjacent = adjacent.ok_or_else(|| ServiceError::missing("adjacentShardToMerge"))?;
        let until = now.plus(world.settings.transition);
        let (stream, sequencer) = world.active_stream(&self.stream.resolve()?, now)?;
        check_mode(stream)?;
        stream.merge(&shard, &adjacent, sequencer, now)?;
        stream.begin(Transition::Updating, until);
        Ok(())
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct UpdateShardCount {
    #[serde(flatten)]
    stream: StreamRef,
    target_shard_count: Option<i64>,
    scaling_type: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct UpdateShardCountAnswer {
    stream_name: String,
    current_shard_count: usize,
    target_shard_count: usize,
    #[serde(rename = "StreamARN")]
    stream_arn: String,
}

impl UpdateShardCount {
    fn wanted(&self) -> Result<usize, ServiceError> {
        let scaling = self.scaling_type.as_deref();
        let scaling = scaling.ok_or_else(|| ServiceError::missing("scalingType"))?;
        if scaling != "UNIFORM_SCALING" {
            let rule = "satisfy enum value set: [UNIFORM_SCALING]";
            return Err(ServiceError::constraint("scalingType", scaling, rule));
        }
        let target = self
            .target_shard_count
            .ok_or_else(|| ServiceError::missing("targetShardCount"))?;
        usize::try_from(target)
            .ok()
            .filter(|target| *target > 0)
            .ok_or_else(|| {
                ServiceError::constraint(
                    "targetShardCount",
                    target,
                    "have value greater than or equal to 1",
                )
            })
    }
}

/// UpdateShardCount: not over double, nor below half, nor beyond the limit of a stream.
fn check_target(current: usize, target: usize) -> Result<(), ServiceError> {
    let counts = format!("Current open shard count: {current} Target shard count: {target}");
    if target > MOST_SHARDS {
        Err(ServiceError::limit_exceeded(format!(
            "Target shard count or number of open shards cannot be greater than {MOST_SHARDS}. {counts}"
        )))
    } else if target > current * 2 {
        Err(ServiceError::invalid_argument(format!(
            "UpdateShardCount cannot scale up over double your current open shard count. {counts}"
        )))
    } else if target * 2 < current {
        Err(ServiceError::invalid_argument(format!(
            "UpdateShardCount cannot scale down below half your current open shard count. {counts}"
        )))
    } else {
        Ok(())
    }
}

impl Call for UpdateShardCount {
    const OPERATION: Operation = Operation::UpdateShardCount;
    type Answer = UpdateShardCountAnswer;

    fn target(&self, _world: &World) -> Target {
        Target::new(Self::OPERATION, self.stream.hint(), [])
    }

    fn run(self, world: &mut World, conditions: &Conditions) -> Result<Self::Answer, ServiceError> {
        let now = conditions.now;
        let target = self.wanted()?;
        let name = self.stream.resolve()?;
        let until = now.plus(world.settings.transition);
        let quotas = world.settings.quotas;
        let (stream, sequencer) = world.active_stream(&name, now)?;
        check_mode(stream)?;
        let current = stream.open.len();
        check_target(current, target)?;
        stream.count_updates.retain(|then| now.since(*then) < DAY);
        if quotas && stream.count_updates.len() >= UPDATES_A_DAY {
            return Err(ServiceError::limit_exceeded(format!(
                "UpdateShardCount was called {UPDATES_A_DAY} times for stream {name} within 24 hours."
            )));
        }
        stream.count_updates.push(now);
        stream.scale(target, sequencer, now);
        stream.begin(Transition::Updating, until);
        Ok(UpdateShardCountAnswer {
            stream_arn: stream.arn(),
            stream_name: name,
            current_shard_count: current,
            target_shard_count: target,
        })
    }
}
