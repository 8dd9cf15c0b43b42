//! The API as the SDK speaks it. It alone knows which operation a request is for, and which module serves it.

mod describing;
mod listing;
mod paging;
mod reading;
mod resharding;
mod shapes;
mod streams;
mod writing;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clock::Timestamp;
use crate::error::ServiceError;
use crate::fault::{PartialFailure, Target};
use crate::operation::Operation;
use crate::world::World;

/// What a call meets besides the state of the world.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    pub(crate) now: Timestamp,
    pub(crate) partial: Option<PartialFailure>,
}

/// The input of one operation, and what the operation does.
trait Call: DeserializeOwned + Send + 'static {
    const OPERATION: Operation;
    /// The operation's output; `()` for those that answer nothing.
    type Answer: Serialize;

    /// The stream and the shards that the call is about.
    fn target(&self, world: &World) -> Target;

    fn run(self, world: &mut World, conditions: &Conditions) -> Result<Self::Answer, ServiceError>;
}

/// A request whose operation is known only at run time.
pub(crate) trait Request: Send {
    fn operation(&self) -> Operation;
    fn target(&self, world: &World) -> Target;
    /// Lets the request take effect, and gives the body of its answer.
    fn run(
        self: Box<Self>,
        world: &mut World,
        conditions: &Conditions,
    ) -> Result<Vec<u8>, ServiceError>;
}

impl<C: Call> Request for C {
    fn operation(&self) -> Operation {
        C::OPERATION
    }

    fn target(&self, world: &World) -> Target {
        Call::target(self, world)
    }

    fn run(
        self: Box<Self>,
        world: &mut World,
        conditions: &Conditions,
    ) -> Result<Vec<u8>, ServiceError> {
        let answer = Call::run(*self, world, conditions)?;
        let body = serde_json::to_vec(&answer)
            .map_err(|error| ServiceError::internal(error.to_string()))?;
        // An operation without an output answers with an empty body.
        Ok(if body == b"null" { Vec::new() } else { body })
    }
}

/// Reads the body of a request for `operation`.
pub(crate) fn parse(operation: Operation, body: &[u8]) -> Result<Box<dyn Request>, ServiceError> {
    match operation {
        Operation::CreateStream => input::<streams::CreateStream>(body),
        Operation::DecreaseStreamRetentionPeriod => input::<streams::DecreaseRetention>(body),
        Operation::DeleteStream => input::<streams::DeleteStream>(body),
        Operation::DescribeStream => input::<describing::DescribeStream>(body),
        Operation::DescribeStreamSummary => input::<describing::DescribeStreamSummary>(body),
        Operation::GetRecords => input::<reading::GetRecords>(body),
        Operation::GetShardIterator => input::<reading::GetShardIterator>(body),
        Operation::IncreaseStreamRetentionPeriod => input::<streams::IncreaseRetention>(body),
        Operation::ListShards => input::<listing::ListShards>(body),
        Operation::ListStreams => input::<describing::ListStreams>(body),
        Operation::MergeShards => input::<resharding::MergeShards>(body),
        Operation::PutRecord => input::<writing::PutRecord>(body),
        Operation::PutRecords => input::<writing::PutRecords>(body),
        Operation::SplitShard => input::<resharding::SplitShard>(body),
        Operation::UpdateMaxRecordSize => input::<streams::UpdateMaxRecordSize>(body),
        Operation::UpdateShardCount => input::<resharding::UpdateShardCount>(body),
    }
}

fn input<C: Call>(body: &[u8]) -> Result<Box<dyn Request>, ServiceError> {
    let call: C = serde_json::from_slice(body)
        .map_err(|error| ServiceError::serialization(error.to_string()))?;
    Ok(Box::new(call))
}
