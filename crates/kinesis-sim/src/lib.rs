//! An in-process Amazon Kinesis Data Streams, for tests and demos.
//!
//! The genuine `aws-sdk-kinesis` client talks to it through the SDK's own HTTP-client hook, so its
//! serialisation, its errors, its retries and its time-outs are what runs, while no socket is opened and no
//! account is needed. Time is tokio's clock, which a test can pause; chance comes from a seed, so a run
//! repeats. Resharding, throttling, expiry, retention and outages happen on demand.
//!
//! ```
//! use aws_sdk_kinesis::{Client, primitives::Blob, types::ShardIteratorType};
//! use kinesis_sim::{Fault, KinesisSim, Operation};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let sim = KinesisSim::new();
//! sim.create_stream("inventory", 1);
//! sim.inject(Fault::internal().on(Operation::PutRecord));
//!
//! let client = Client::new(&sim.sdk_config());
//! client
//!     .put_record()
//!     .stream_name("inventory")
//!     .partition_key("sku-1")
//!     .data(Blob::new("one more"))
//!     .send()
//!     .await?;
//! // The SDK has tried again by itself.
//! assert_eq!(sim.calls(Operation::PutRecord), 2);
//!
//! let opened = client
//!     .get_shard_iterator()
//!     .stream_name("inventory")
//!     .shard_id("shardId-000000000000")
//!     .shard_iterator_type(ShardIteratorType::TrimHorizon)
//!     .send()
//!     .await?;
//! let read = client.get_records().set_shard_iterator(opened.shard_iterator).send().await?;
//! assert_eq!(read.records()[0].data().as_ref(), b"one more");
//! # Ok(())
//! # }
//! ```
//!
//! # What it does
//!
//! Every operation of [`Operation`] behaves as the API reference of Kinesis says, quotas included; any other
//! answers UnknownOperationException. Where the reference is silent, the messages and choices are those that
//! the service is known to make.
//!
//! A run repeats from its seed as far as its callers do. The SDK's own retries wait for a time drawn from
//! ambient randomness, so a test that compares runs switches them off.
//!
//! # Where it differs from the service
//!
//! - A stream changes at once. It is UPDATING afterwards for as long as [`KinesisSimBuilder::transition`]
//!   says, where the service changes it at the end of that time.
//! - The read of a closed shard's last record already lacks a `NextShardIterator`; the service may give one
//!   more that reads nothing.
//! - An iterator of a stream that was deleted and created again answers ResourceNotFoundException.
//! - Signatures aren't verified; their dates are, where [`KinesisSimBuilder::clock_skew_limit`] is set.
//! - A PutRecords fault that is aimed at a shard refuses the whole call, except for [`Fault::partial`].
//! - Consumers with enhanced fan-out, encryption, tags, policies and the scaling of on-demand streams don't
//!   exist.

mod api;
mod builder;
mod calls;
mod clock;
mod error;
mod fault;
mod hash_key;
mod http;
mod operation;
mod quota;
mod reshard;
mod sequence;
mod shard;
mod sim;
mod stream;
mod token;
mod view;
mod world;

pub use builder::KinesisSimBuilder;
pub use fault::Fault;
pub use operation::Operation;
pub use sim::KinesisSim;
pub use view::{SimRecord, SimShard, Stored};
