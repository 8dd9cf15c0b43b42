//! The handle that a test holds. It alone knows what a test may do to the service behind the SDK's back.

use std::fmt;
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_smithy_async::rt::sleep::TokioSleep;
use aws_smithy_async::time::TimeSource;
use aws_smithy_runtime_api::client::behavior_version::BehaviorVersion;
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_types::SdkConfig;
use aws_types::region::Region;
use bytes::Bytes;

use crate::builder::KinesisSimBuilder;
use crate::clock::Timestamp;
use crate::error::ServiceError;
use crate::fault::Fault;
use crate::hash_key;
use crate::http::SimHttpClient;
use crate::operation::Operation;
use crate::sequence::SequenceNumber;
use crate::shard::ShardId;
use crate::stream::{REGION, Stream};
use crate::view::{SimRecord, SimShard, Stored};
use crate::world::{SharedWorld, World};

/// An in-process Kinesis: one account in one region, with its streams, faults and call counts.
///
/// Clones share one service. The methods here act at once and past the quotas, the faults and the call
/// counts, which are for what comes through the SDK.
///
/// # Panics
///
/// A method that names a stream or shard that isn't there panics, since the test that calls it is wrong. So
/// does one that asks for what the service would refuse. The message is the service's.
#[derive(Clone)]
pub struct KinesisSim {
    world: SharedWorld,
}

impl Default for KinesisSim {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for KinesisSim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let world = self.world.lock();
        let streams: Vec<_> = world.streams.keys().collect();
        f.debug_struct("KinesisSim")
            .field("streams", &streams)
            .finish_non_exhaustive()
    }
}

/// The simulation's wall clock as the SDK's, so that requests are signed at its time.
#[derive(Clone, Debug)]
struct SimTime(SharedWorld);

impl TimeSource for SimTime {
    fn now(&self) -> SystemTime {
        self.0.lock().now().system_time()
    }
}

#[track_caller]
fn granted<T>(outcome: Result<T, ServiceError>) -> T {
    match outcome {
        Ok(granted) => granted,
        Err(ServiceError { code, message, .. }) => panic!("{code}: {message}"),
    }
}

impl KinesisSim {
    /// A service with the defaults: no streams, quotas on, no latency, seed 0.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A service set up otherwise.
    ///
    /// ```
    /// use std::time::Duration;
    /// use kinesis_sim::KinesisSim;
    ///
    /// let sim = KinesisSim::builder().seed(7).quotas(false).latency(Duration::from_millis(20)).build();
    /// ```
    pub fn builder() -> KinesisSimBuilder {
        KinesisSimBuilder::default()
    }

    pub(crate) fn of(world: World) -> Self {
        Self {
            world: SharedWorld::new(world),
        }
    }

    /// Switches the service's quotas off.
    #[must_use]
    pub fn without_quotas(self) -> Self {
        self.world.lock().settings.quotas = false;
        self
    }

    /// The HTTP client through which an SDK client reaches this service.
    #[must_use]
    pub fn http_client(&self) -> SharedHttpClient {
        SharedHttpClient::new(SimHttpClient::new(self.world.clone()))
    }

    /// All that an SDK client needs: region, credentials, this service's HTTP client and clock, and tokio's
    /// sleep.
    #[must_use]
    pub fn sdk_config(&self) -> SdkConfig {
        let credentials = Credentials::new("simulated", "simulated", None, None, "kinesis-sim");
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static(REGION))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .http_client(self.http_client())
            .sleep_impl(TokioSleep::new())
            .time_source(SimTime(self.world.clone()))
            .build()
    }

    /// The service's time of day: its base plus what has passed on tokio's clock.
    #[must_use]
    pub fn wall_clock(&self) -> SystemTime {
        self.world.lock().now().system_time()
    }

    /// Creates a stream of so many shards, ACTIVE at once.
    #[track_caller]
    pub fn create_stream(&self, name: &str, shard_count: usize) {
        let mut world = self.world.lock();
        let now = world.now();
        granted(world.create_stream(name, shard_count, now));
    }

    /// Deletes a stream, gone at once.
    #[track_caller]
    pub fn delete_stream(&self, name: &str) {
        self.on_stream(name, |_, _| ());
        self.world.lock().streams.remove(name);
    }

    /// Stores a record in the shard that its partition key hashes to.
    #[track_caller]
    pub fn put(&self, stream: &str, partition_key: &str, data: impl AsRef<[u8]>) -> Stored {
        let hash_key = hash_key::of_partition_key(partition_key);
        self.store(stream, hash_key, partition_key, data.as_ref())
    }

    /// Stores a record in an open shard, as an ExplicitHashKey does.
    #[track_caller]
    pub fn put_to_shard(
        &self,
        stream: &str,
        shard: &str,
        partition_key: &str,
        data: impl AsRef<[u8]>,
    ) -> Stored {
        let hash_key = self.on_shard(stream, shard, |shard| shard.hash_keys.start);
        let stored = self.store(stream, hash_key, partition_key, data.as_ref());
        assert_eq!(
            stored.shard, shard,
            "{shard} is closed, and takes no records"
        );
        stored
    }

    fn store(&self, stream: &str, hash_key: u128, partition_key: &str, data: &[u8]) -> Stored {
        let mut world = self.world.lock();
        let now = world.now();
        let (stream, sequencer) = granted(world.stream(stream));
        let shard = stream.owner_of(hash_key);
        let data = Bytes::copy_from_slice(data);
        let sequence_number = stream.store(shard, partition_key, data, sequencer, now);
        Stored {
            shard: shard.to_string(),
            sequence_number: sequence_number.to_string(),
        }
    }

    /// A partition key that hashes to the shard; the same one at each call.
    #[track_caller]
    #[must_use]
    pub fn partition_key_for(&self, stream: &str, shard: &str) -> String {
        let keys = self.on_shard(stream, shard, |shard| shard.hash_keys);
        let hits = |key: &String| {
            let hash_key = hash_key::of_partition_key(key);
            (keys.start..=keys.end).contains(&hash_key)
        };
        let key = (0..10_000_000_u64)
            .map(|number| format!("key-{number}"))
            .find(hits);
        key.unwrap_or_else(|| panic!("{shard} of {stream} is too narrow to find a key for it"))
    }

    /// Splits a shard in the middle, and gives the ids of its two children, the lower hash keys first.
    #[track_caller]
    pub fn split_shard(&self, stream: &str, shard: &str) -> [String; 2] {
        let mut world = self.world.lock();
        let now = world.now();
        let (stream, sequencer) = granted(world.stream(stream));
        granted(stream.split(shard, None, sequencer, now)).map(|child| child.to_string())
    }

    /// Merges two adjacent shards, and gives the id of their child.
    #[track_caller]
    pub fn merge_shards(&self, stream: &str, shard: &str, adjacent: &str) -> String {
        let mut world = self.world.lock();
        let now = world.now();
        let (stream, sequencer) = granted(world.stream(stream));
        granted(stream.merge(shard, adjacent, sequencer, now)).to_string()
    }

    /// The shards that are still listed, in the order in which they were made.
    #[track_caller]
    #[must_use]
    pub fn shards(&self, stream: &str) -> Vec<SimShard> {
        self.on_stream(stream, |stream, now| {
            stream.listed_after(None, now).map(SimShard::from).collect()
        })
    }

    /// What a shard stores and retention hasn't taken, oldest first.
    #[track_caller]
    #[must_use]
    pub fn records(&self, stream: &str, shard: &str) -> Vec<SimRecord> {
        self.on_shard(stream, shard, |shard| {
            shard.records().map(SimRecord::from).collect()
        })
    }

    /// Lets every record that a shard stores pass out of retention now. A closed shard is listed no more.
    #[track_caller]
    pub fn trim(&self, stream: &str, shard: &str) {
        self.on_shard(stream, shard, |shard| shard.trim(None));
    }

    /// Lets a shard's records up to and including this one pass out of retention now.
    #[track_caller]
    pub fn trim_through(&self, stream: &str, shard: &str, sequence_number: &str) {
        let through = SequenceNumber::parse(sequence_number);
        let through = through
            .unwrap_or_else(|| panic!("{sequence_number} is no sequence number of this service"));
        self.on_shard(stream, shard, |shard| shard.trim(Some(through)));
    }

    /// Sets how long a stream keeps its records, to any length. 24 hours unless it is set.
    #[track_caller]
    pub fn set_retention(&self, stream: &str, retention: Duration) {
        self.on_stream(stream, |stream, now| stream.retain(retention, now));
    }

    /// Makes every shard iterator issued so far answer ExpiredIteratorException.
    pub fn expire_iterators(&self) {
        self.world.lock().iterators.expire_all();
    }

    /// How often the operation was called through the SDK. Attempts that a fault or a quota struck count, and
    /// so does each retry of the SDK's own.
    #[must_use]
    pub fn calls(&self, operation: Operation) -> u64 {
        self.world.lock().calls.of(operation)
    }

    /// How often the operation was called on shards of this id, whatever the stream.
    #[must_use]
    pub fn calls_of(&self, operation: Operation, shard: &str) -> u64 {
        self.world.lock().calls.of_shard(operation, shard)
    }

    /// How often the operation was called on this stream.
    #[must_use]
    pub fn calls_on(&self, operation: Operation, stream: &str) -> u64 {
        self.world.lock().calls.of_stream(operation, stream)
    }

    /// How often the operation was called on this shard of this stream.
    #[must_use]
    pub fn calls_on_shard(&self, operation: Operation, stream: &str, shard: &str) -> u64 {
        self.world
            .lock()
            .calls
            .of_stream_shard(operation, stream, shard)
    }

    /// Makes something go wrong with calls from now on. Faults add to one another: delays add up, and of the
    /// others that would strike one call, the one injected first does.
    pub fn inject(&self, fault: Fault) {
        let mut world = self.world.lock();
        let now = world.now();
        world.faults.inject(fault, now);
    }

    /// Takes every fault back. Calls that are waiting or hanging already stay so.
    pub fn clear_faults(&self) {
        self.world.lock().faults.clear();
    }

    /// How often faults have struck so far.
    #[must_use]
    pub fn faults_struck(&self) -> u64 {
        self.world.lock().faults.struck()
    }

    /// Resets the connection of every call, without effect, until [`recover`](Self::recover).
    pub fn outage(&self) {
        self.world.lock().outage = true;
    }

    /// Ends an outage.
    pub fn recover(&self) {
        self.world.lock().outage = false;
    }

    #[track_caller]
    fn on_stream<T>(&self, name: &str, act: impl FnOnce(&mut Stream, Timestamp) -> T) -> T {
        let mut world = self.world.lock();
        let now = world.now();
        let (stream, _) = granted(world.stream(name));
        act(stream, now)
    }

    /// Acts on a shard that may have expired.
    #[track_caller]
    fn on_shard<T>(
        &self,
        stream: &str,
        id: &str,
        act: impl FnOnce(&mut crate::shard::Shard) -> T,
    ) -> T {
        self.on_stream(stream, |stream, now| {
            let horizon = stream.horizon(now);
            let shard = ShardId::parse(id).and_then(|id| stream.shards.get_mut(id.0));
            let Some(shard) = shard else {
                panic!("{} has no shard {id}", stream.name)
            };
            shard.drop_expired(horizon);
            act(shard)
        })
    }
}
