//! Amazon Kinesis Data Streams for [`rstream`]: every record of every shard, at least once, in order per
//! partition key, through crashes, deploys, resharding and outages.
//!
//! Kinesis keeps no record of who reads a shard or how far a reader got. A [`KinesisBroker`] keeps both in a
//! [`LeaseStore`]: an instance acquires a shard before it reads it, renews its lease while it reads, and
//! writes a checkpoint with every acknowledgement, or at an interval. Several instances on one store share the shards; what an
//! instance that stops or dies has left is read on by the others.
//!
//! ```
//! use kinesis_broker::prelude::*;
//! use rstream::testing::TestApp;
//!
//! #[subscriber(KinesisStream::new("inventory"))]
//! async fn apply(change: &i64) -> HandlerOutcome {
//!     println!("{change}");
//!     HandlerOutcome::ack()
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), rstream::AppError> {
//! let app = RustStream::new(AppInfo::new("inventory", "0.1.0"))
//!     .with_broker(KinesisBroker::new(), |b| { b.include(apply); });
//!
//! let app = TestApp::start(app).await?;
//! let kinesis = app.broker::<KinesisBroker>();
//! kinesis.message(&-3).to("inventory").publish().await?;
//! kinesis.subscriber("inventory").assert_called_once().with(&-3).settled(HandlerOutcome::ack());
//! # app.shutdown().await
//! # }
//! ```
//!
//! # Where to look
//!
//! - From where a shard is read that has no checkpoint, the tip or TRIM_HORIZON: [`StartPosition`].
//! - Several instances: the same store for each, through [`KinesisBroker::lease_store`]. One process can share a
//!   `MemoryLeaseStore` among its instances; processes share a `DynamoLeaseStore` of the crate `lease-dynamo`.
//! - Several records of a shard at once, in order per partition key: [`KinesisStream::concurrency`]. When positions are
//!   written: [`KinesisStream::checkpointing`]. How much is read ahead: [`KinesisStream::prefetch`].
//! - Batches, codecs, retries, dead letters, replies: [`SubscriberBuilder`](rstream::SubscriberBuilder); what lies among
//!   the dead letters is a [`DeadLetter`].
//! - Once more from another place: [`Running::seek`](rstream::Running::seek) and [`RecordInfo::seek`] while it runs,
//!   [`KinesisStream::generation`] for a whole fleet.
//! - Records out: [`KinesisPublisher`].
//! - What goes wrong while it runs: a [`KinesisError`] in [`RustStream::on_error`](rstream::RustStream::on_error).
//! - Stopping: [`Running::shutdown`](rstream::Running::shutdown), and [`KinesisBroker::shutdown_timeout`].
//!
//! # Aggregated records
//!
//! What the vendor's producer library packs into one record is unpacked: each of its records is handed over by itself,
//! with a [`sub_sequence_number`](RecordInfo::sub_sequence_number), and settled by itself; a reader that resumes inside
//! skips exactly what is settled. One whose hash key is not the shard's is passed over, and counted, and said in a
//! warning the first time: that library finds out and sends it again, while another producer may not (see
//! `docs/aggregation.md`). A damaged one is handed over as the record that it is.
//!
//! # What is counted
//!
//! By the [`metrics`] facade, for whichever recorder the service installs:
//!
//! | counter | labels | what it counts |
//! | --- | --- | --- |
//! | `kinesis_records_dropped_total` | `stream`; `by`: `handler` or `undecodable` | records that were settled without having been handled |
//! | `kinesis_records_skipped_total` | `stream` | records inside aggregated ones that are not their shard's |
//! | `kinesis_dead_letters_total` | `stream`: the one that they were read from | records that were stored among the dead letters |
//! | `kinesis_records_published_total` | `stream` | records that were stored |
//! | `kinesis_bytes_published_total` | `stream` | their bytes, partition keys included |
//! | `kinesis_publish_retries_total` | `stream` | records that were put once more |
//! | `kinesis_records_unpublished_total` | `stream` | records that the service refused, or that were given up |

mod backoff;
#[doc(hidden)]
pub mod benching;
mod broker;
mod connect;
mod dead_letter;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod leasing;
mod outlet;
mod publisher;
mod reading;
#[cfg(any(test, feature = "sabotage"))]
#[doc(hidden)]
pub mod sabotage;
#[cfg(not(any(test, feature = "sabotage")))]
mod sabotage;
mod service;
mod stream;
mod testing;

pub use broker::KinesisBroker;
pub use dead_letter::DeadLetter;
pub use error::{KinesisError, ServiceError, ServiceErrorKind};
pub use lease_core::{Holder, LeaseError, LeaseStore};
pub use publisher::{
    Keyed, KeyedPublisher, KinesisPublisher, Publish, PublishError, Published, Publisher,
    StreamPublisher, Unstored,
};
pub use reading::feed::Prefetch;
pub use reading::record::{BatchInfo, RecordInfo};
pub use stream::{Checkpointing, KinesisStream, ShardPosition, StartPosition};

/// Everything that a service is written with.
///
/// `rstream` has to be a dependency of its own, since the macros' expansions name it.
pub mod prelude {
    pub use lease_core::LeaseStore;
    pub use rstream::{
        AppInfo, Context, Handle, HandlerOutcome, OnUndecodable, Out, Outgoing, RetryPolicy,
        RustStream, State, subscriber,
    };

    pub use crate::{
        BatchInfo, Checkpointing, DeadLetter, KinesisBroker, KinesisError, KinesisPublisher,
        KinesisStream, Prefetch, PublishError, RecordInfo, StartPosition, StreamPublisher,
    };
}
