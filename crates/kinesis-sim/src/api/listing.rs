//! ListShards. It alone knows which shards a filter selects, and which page a token stands for.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::paging::{page_size, start_after};
use super::shapes::{Shard, StreamRef};
use super::{Call, Conditions};
use crate::clock::Timestamp;
use crate::error::ServiceError;
use crate::fault::Target;
use crate::operation::Operation;
use crate::shard::{self, ShardId};
use crate::stream::{ACCOUNT, Stream, Transition};
use crate::token::{PAGE_TOKEN_LIFETIME, ShardPage, ShardSelection};
use crate::world::World;

/// ListShards, MaxResults: 1 to 10,000, of which at most 1,000 are answered.
const SHARDS_ASKED: RangeInclusive<i64> = 1..=10_000;
const SHARDS_ANSWERED: i64 = 1_000;
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListShards {
    #[serde(flatten)]
    stream: StreamRef,
    next_token: Option<String>,
    exclusive_start_shard_id: Option<String>,
    max_results: Option<i64>,
    stream_creation_timestamp: Option<f64>,
    shard_filter: Option<ShardFilter>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ShardFilter {
    r#type: Option<String>,
    shard_id: Option<String>,
    timestamp: Option<f64>,
}

impl ShardFilter {
    /// What the filter selects, and the shard after which it begins.
    fn read(&self) -> Result<(ShardSelection, Option<ShardId>), ServiceError> {
        let kind = self
            .r#type
            .as_deref()
            .ok_or_else(|| ServiceError::missing("shardFilter.type"))?;
        let wants_shard = kind == "AFTER_SHARD_ID";
        let wants_time = matches!(kind, "AT_TIMESTAMP" | "FROM_TIMESTAMP");
        let fits = wants_shard == self.shard_id.is_some() && wants_time == self.timestamp.is_some();
        let time = Timestamp::from_seconds(self.timestamp.unwrap_or_default());
        let selection = match kind {
            "AFTER_SHARD_ID" | "FROM_TRIM_HORIZON" => ShardSelection::All,
            "AT_TRIM_HORIZON" => ShardSelection::AtTrimHorizon,
            "AT_LATEST" => ShardSelection::AtLatest,
            "AT_TIMESTAMP" => ShardSelection::At(time),
            "FROM_TIMESTAMP" => ShardSelection::From(time),
            _ => {
                let rule = "satisfy enum value set: [AFTER_SHARD_ID, AT_TRIM_HORIZON, FROM_TRIM_HORIZON, \
                            AT_LATEST, AT_TIMESTAMP, FROM_TIMESTAMP]";
                return Err(ServiceError::constraint("shardFilter.type", kind, rule));
            }
        };
        if !fits {
            return Err(ServiceError::invalid_argument(format!(
                "A ShardFilter has a ShardId with the type AFTER_SHARD_ID alone, and a Timestamp with the \
                 types AT_TIMESTAMP and FROM_TIMESTAMP alone; its type is {kind}."
            )));
        }
        let after = self
            .shard_id
            .as_deref()
            .map(|id| start_after("shardFilter.shardId", id))
            .transpose()?;
        Ok((selection, after))
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListShardsAnswer {
    shards: Vec<Shard>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_token: Option<String>,
}

impl ListShards {
    /// Which page of which stream is wanted.
    fn page(&self, world: &mut World, now: Timestamp) -> Result<ShardPage, ServiceError> {
        let Some(token) = &self.next_token else {
            return self.first_page(world);
        };
        if self.stream.name.is_some()
            || self.exclusive_start_shard_id.is_some()
            || self.stream_creation_timestamp.is_some()
        {
            return Err(ServiceError::invalid_argument(
                "NextToken cannot be provided together with StreamName, StreamCreationTimestamp or \
                 ExclusiveStartShardId.",
            ));
        }
        let page = ShardPage::decode(token)
            .ok_or_else(|| ServiceError::invalid_argument("NextToken is invalid."))?;
        if now.since(page.issued_at) > PAGE_TOKEN_LIFETIME {
            return Err(ServiceError::expired_next_token("NextToken has expired."));
        }
        if self.stream.arn.is_some() && self.stream.resolve()? != page.stream {
            return Err(ServiceError::invalid_argument(
                "NextToken is of another stream than StreamARN.",
            ));
        }
        Ok(page)
    }

    fn first_page(&self, world: &mut World) -> Result<ShardPage, ServiceError> {
        if self.stream.name.is_none() && self.stream.arn.is_none() {
            return Err(ServiceError::invalid_argument(
                "Either NextToken or StreamName or StreamARN must be provided.",
            ));
        }
        let (stream, _) = world.stream(&self.stream.resolve()?)?;
        let created_at = self.stream_creation_timestamp.map(Timestamp::from_seconds);
        if created_at.is_some_and(|time| time.seconds() != stream.created_at.seconds()) {
            return Err(ServiceError::not_found(format!(
                "Stream {} under account {ACCOUNT} created at that time not found.",
                stream.name
            )));
        }
        let (selection, filtered) = match &self.shard_filter {
            Some(filter) => filter.read()?,
            None => (ShardSelection::All, None),
        };
        let exclusive = self.exclusive_start_shard_id.as_deref();
        let exclusive = exclusive
            .map(|id| start_after("exclusiveStartShardId", id))
            .transpose()?;
        Ok(ShardPage {
            stream: stream.name.clone(),
            incarnation: stream.incarnation,
            after: filtered.max(exclusive),
            selection,
            issued_at: stream.created_at,
        })
    }
}

fn is_selected(
    stream: &Stream,
    shard: &shard::Shard,
    selection: ShardSelection,
    now: Timestamp,
) -> bool {
    let ends_at = |time| {
        shard
            .closing
            .as_ref()
            .is_none_or(|closing| closing.at >= time)
    };
    match selection {
        ShardSelection::All => true,
        ShardSelection::AtTrimHorizon => stream.is_oldest(shard, now),
        ShardSelection::AtLatest => shard.is_open(),
        ShardSelection::At(time) => shard.opened_at.to_millis_precision() <= time && ends_at(time),
        ShardSelection::From(time) => ends_at(time),
    }
}

impl Call for ListShards {
    const OPERATION: Operation = Operation::ListShards;
    type Answer = ListShardsAnswer;

    fn target(&self, _world: &World) -> Target {
        let page = self.next_token.as_deref().and_then(ShardPage::decode);
        let stream = page.map(|page| page.stream).or_else(|| self.stream.hint());
        Target::new(Self::OPERATION, stream, [])
    }

    fn run(self, world: &mut World, conditions: &Conditions) -> Result<Self::Answer, ServiceError> {
        let now = conditions.now;
        let size = page_size(
            "maxResults",
            self.max_results,
            &SHARDS_ASKED,
            SHARDS_ANSWERED,
        )?;
        let page = self.page(world, now)?;
        let quotas = world.settings.quotas;
        let (stream, _) = world.stream(&page.stream)?;
        if stream.incarnation != page.incarnation {
            return Err(ServiceError::invalid_argument(
                "NextToken is of a stream that was deleted.",
            ));
        }
        if stream.transition(now) == Some(Transition::Creating) {
            return Err(ServiceError::in_use(format!(
                "Stream {} under account {ACCOUNT} not ACTIVE, instead in state CREATING",
                stream.name
            )));
        }
        if quotas && !stream.listings.accept(1, now) {
            return Err(ServiceError::limit_exceeded(format!(
                "Rate exceeded for stream {} under account {ACCOUNT}.",
                stream.name
            )));
        }
        let mut selected = stream
            .listed_after(page.after, now)
            .filter(|shard| is_selected(stream, shard, page.selection, now));
        let listed: Vec<_> = selected.by_ref().take(size).collect();
        let has_more = selected.next().is_some();
        let next = listed.last().filter(|_| has_more);
        let next_token = next.map(|last| {
            ShardPage {
                after: Some(last.id),
                issued_at: now,
                ..page
            }
            .encode()
        });
        Ok(ListShardsAnswer {
            shards: listed.into_iter().map(Shard::of).collect(),
            next_token,
        })
    }
}
