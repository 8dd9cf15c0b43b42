//! How often each operation was called. It alone knows what counts as a call of a stream and of a shard.

use std::collections::BTreeMap;

use crate::fault::Target;
use crate::operation::Operation;

/// Counts of calls by operation, stream and shard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    operations: BTreeMap<Operation, OperationCalls>,
}

#[derive(Clone, Debug, Default)]
struct OperationCalls {
    total: u64,
    streams: BTreeMap<String, StreamCalls>,
}

#[derive(Clone, Debug, Default)]
struct StreamCalls {
    total: u64,
    shards: BTreeMap<String, u64>,
}

impl Calls {
    pub(crate) fn count(&mut self, call: &Target) {
        let operation = self.operations.entry(call.operation).or_default();
        operation.total += 1;
        let Some(stream) = &call.stream else { return };
        let stream = entry(&mut operation.streams, stream);
        stream.total += 1;
        for shard in &call.shards {
            *entry(&mut stream.shards, shard) += 1;
        }
    }

    pub(crate) fn of(&self, operation: Operation) -> u64 {
        self.operations
            .get(&operation)
            .map_or(0, |operation| operation.total)
    }

    pub(crate) fn of_stream(&self, operation: Operation, stream: &str) -> u64 {
        self.stream(operation, stream)
            .map_or(0, |stream| stream.total)
    }

    /// Calls of a shard, over all streams that have one of that id.
    pub(crate) fn of_shard(&self, operation: Operation, shard: &str) -> u64 {
        let streams = self
            .operations
            .get(&operation)
            .into_iter()
            .flat_map(|of| of.streams.values());
        streams.filter_map(|stream| stream.shards.get(shard)).sum()
    }

    pub(crate) fn of_stream_shard(&self, operation: Operation, stream: &str, shard: &str) -> u64 {
        let stream = self.stream(operation, stream);
        stream
            .and_then(|stream| stream.shards.get(shard))
            .copied()
            .unwrap_or(0)
    }

    fn stream(&self, operation: Operation, stream: &str) -> Option<&StreamCalls> {
        self.operations.get(&operation)?.streams.get(stream)
    }
}

/// The entry of a key, which is copied only when there is none yet.
fn entry<'a, V: Default>(map: &'a mut BTreeMap<String, V>, key: &str) -> &'a mut V {
    if !map.contains_key(key) {
        map.insert(key.to_owned(), V::default());
    }
    map.get_mut(key)
        .expect("the key was there or has been inserted")
}
