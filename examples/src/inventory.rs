//! The stream `inventory` from outside the service: what an operator and a producer do with it.

use std::error::Error;
use std::time::Duration;

use aws_sdk_kinesis::Client;
use aws_sdk_kinesis::primitives::Blob;
use aws_sdk_kinesis::types::{PutRecordsRequestEntry, Shard, StreamStatus};
use tokio::time::sleep;

use crate::{DemoError, StockChange, Tally};

/// The name of the stream.
const STREAM: &str = "inventory";
/// The most records that the service takes in one PutRecords call.
pub(crate) const BATCH: usize = 500;
/// How long to wait before records that the service did not take are put again.
const PUT_AGAIN: Duration = Duration::from_millis(200);

/// The stream, to be filled and resharded.
#[derive(Clone, Debug)]
pub struct Inventory {
    client: Client,
}

impl Inventory {
    /// The stream at the server that this client talks to.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Creates the stream if it is missing, and waits until it can be used.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn create(&self, shards: i32) -> Result<(), DemoError> {
        let request = self
            .client
            .create_stream()
            .stream_name(STREAM)
            .shard_count(shards);
        if let Err(error) = request.send().await {
            let is_there = (error.as_service_error())
                .is_some_and(|error| error.is_resource_in_use_exception());
            if !is_there {
                return Err(failed("create the stream", &error));
            }
        }
        self.until_active().await
    }

    /// The shards that are open.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn open_shards(&self) -> Result<Vec<Shard>, DemoError> {
        let mut shards = self.shards().await?;
        shards.retain(|shard| {
            let range = shard.sequence_number_range();
            range.is_none_or(|range| range.ending_sequence_number().is_none())
        });
        Ok(shards)
    }

    /// Splits an open shard in the middle of its hash keys, and gives its two children.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn split(&self, shard: &Shard) -> Result<[String; 2], DemoError> {
        let middle =
            middle(shard).ok_or_else(|| DemoError("a shard without hash keys".to_owned()))?;
        let request = self.client.split_shard().stream_name(STREAM);
        let request = request
            .shard_to_split(shard.shard_id())
            .new_starting_hash_key(middle);
        request
            .send()
            .await
            .map_err(|error| failed("split a shard", &error))?;
        self.until_active().await?;
        let mut children = self.shards().await?;
        children.retain(|child| child.parent_shard_id() == Some(shard.shard_id()));
        let ids: Vec<_> = children.into_iter().map(|child| child.shard_id).collect();
        ids.try_into()
            .map_err(|ids| DemoError(format!("a split made {ids:?}")))
    }

    /// Merges two adjacent open shards.
    ///
    /// # Errors
    ///
    /// What the server says.
    pub async fn merge(&self, [one, other]: &[String; 2]) -> Result<(), DemoError> {
        let request = self.client.merge_shards().stream_name(STREAM);
        let request = request.shard_to_merge(one).adjacent_shard_to_merge(other);
        request
            .send()
            .await
            .map_err(|error| failed("merge two shards", &error))?;
        self.until_active().await
    }

    /// Puts changes, at most the 500 that one PutRecords call takes, and counts each as put once the service has
    /// it. Those that it does not take at first are put again.
    ///
    /// # Errors
    ///
    /// What the server says of the whole call.
    pub async fn put(&self, changes: &[StockChange], tally: &Tally) -> Result<(), DemoError> {
        let mut entries = Vec::with_capacity(changes.len());
        for change in changes {
            let data = serde_json::to_vec(change).map_err(|error| failed("encode", &error))?;
            let entry = PutRecordsRequestEntry::builder()
                .partition_key(change.sku.to_string())
                .data(Blob::new(data))
                .build();
            entries.push(entry.map_err(|error| failed("make a record", &error))?);
        }
        while !entries.is_empty() {
            let request = self.client.put_records().stream_name(STREAM);
            let answer = request.set_records(Some(entries.clone())).send().await;
            let answer = answer.map_err(|error| failed("put records", &error))?;
            let mut stored = answer.records().iter();
            entries.retain(|_| {
                let result = stored.next();
                match result
                    .and_then(|result| Some((result.shard_id()?, result.sequence_number()?)))
                {
                    Some((shard, sequence_number)) => {
                        tally.put(shard, sequence_number);
                        false
                    }
                    None => true,
                }
            });
            if !entries.is_empty() {
                sleep(PUT_AGAIN).await;
            }
        }
        Ok(())
    }

    async fn shards(&self) -> Result<Vec<Shard>, DemoError> {
        let mut shards = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let request = self.client.list_shards();
            let request = match token.take() {
                Some(token) => request.next_token(token),
                None => request.stream_name(STREAM),
            };
            let page = request.send().await;
            let page = page.map_err(|error| failed("list the shards", &error))?;
            shards.extend(page.shards.unwrap_or_default());
            token = page.next_token;
            if token.is_none() {
                return Ok(shards);
            }
        }
    }

    async fn until_active(&self) -> Result<(), DemoError> {
        loop {
            let request = self.client.describe_stream_summary().stream_name(STREAM);
            let answer = request.send().await;
            let answer = answer.map_err(|error| failed("describe the stream", &error))?;
            let summary = answer.stream_description_summary();
            if summary.map(|summary| summary.stream_status()) == Some(&StreamStatus::Active) {
                return Ok(());
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
}

/// The hash key in the middle of a shard's range.
fn middle(shard: &Shard) -> Option<String> {
    let range = shard.hash_key_range()?;
    let first: u128 = range.starting_hash_key().parse().ok()?;
    let last: u128 = range.ending_hash_key().parse().ok()?;
    Some((first + (last - first) / 2 + 1).to_string())
}

fn failed(what: &str, error: &(dyn Error + 'static)) -> DemoError {
    let mut said = error.to_string();
    for source in std::iter::successors(error.source(), |&error| error.source()) {
        let text = source.to_string();
        if !said.contains(&text) {
            said.push_str(": ");
            said.push_str(&text);
        }
    }
    DemoError(format!("cannot {what}: {said}"))
}
