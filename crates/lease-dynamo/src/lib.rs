//! A lease store on an Amazon DynamoDB table, for the instances of a service that share their shards.
//!
//! [`DynamoLeaseStore`] keeps one item for each shard of each stream. Every change is one conditional write, so
//! of several instances that want the same lease exactly one gets it, and what a paused or late process sends
//! changes nothing. No clocks are compared: an instance finds a lease expired once it has seen it unchanged for
//! a whole lease time by its own monotonic clock.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use aws_config::BehaviorVersion;
//! use lease_core::{LeaseError, LeaseStore};
//! use lease_dynamo::DynamoLeaseStore;
//!
//! # async fn start() -> Result<(), LeaseError> {
//! let config = aws_config::load_defaults(BehaviorVersion::latest()).await;
//! let store = DynamoLeaseStore::new(&config, "inventory-leases");
//! store.create_table_if_missing().await?;
//! let leases: Arc<dyn LeaseStore> = Arc::new(store); // for KinesisBroker::lease_store
//! # Ok(())
//! # }
//! ```
//!
//! A call that fails says on which table, what went wrong, and what to do where there is something to do. This
//! one will work once somebody is there to answer:
//!
//! ```
//! use std::time::Duration;
//!
//! use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
//! use aws_smithy_types::retry::RetryConfig;
//! use aws_types::{SdkConfig, region::Region};
//! use lease_core::{LeaseKey, LeaseStore};
//! use lease_dynamo::DynamoLeaseStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let config = SdkConfig::builder()
//!     .endpoint_url("http://127.0.0.1:1") // nobody listens there
//!     .region(Region::new("eu-central-1"))
//!     .credentials_provider(SharedCredentialsProvider::new(Credentials::for_tests()))
//!     .retry_config(RetryConfig::disabled())
//!     .build();
//! let store = DynamoLeaseStore::new(&config, "inventory-leases");
//! let key = LeaseKey::new("inventory", "shardId-000000000000");
//!
//! let error = store.acquire(&key, "host-a", Duration::from_secs(10)).await.unwrap_err();
//! assert!(error.is_retryable());
//! assert!(error.to_string().contains("UpdateItem on DynamoDB table inventory-leases: "));
//! # }
//! ```
//!
//! # The table
//!
//! One application has one table, in one region, for all its streams. Its key is the string partition key
//! `lease_key`, without a sort key; a table with another key is refused. [`create_table_if_missing`] makes it
//! with on-demand billing; any billing will do. Read it from its own region alone: a replica of a global table
//! lags behind.
//!
//! An item has these attributes. They are a public format: a tool may read them, and this crate leaves
//! attributes alone that it does not know.
//!
//! | attribute | type | meaning |
//! | --- | --- | --- |
//! | `lease_key` | S | the stream and the shard: `stream:shard` |
//! | `format` | N | the version of this format: 1 |
//! | `owner` | S | who holds the lease; absent after a release |
//! | `epoch` | N | the fencing token: one more with every acquisition |
//! | `counter` | N | one more with every acquisition and every renewal |
//! | `ttl_ms` | N | how long the lease lasts from each of them |
//! | `grant` | S | a random token of the acquisition that holds the lease; absent after a release |
//! | `cp_no` | N | the number of the holder's last checkpoint call that took effect; 0 before |
//! | `checkpoint` | S | the text of a [`Checkpoint`]; absent before the first |
//! | `asked_by` | S | who asks for the lease, or had asked when it was released |
//! | `ask_lapses` | N | the `counter` at which the ask lapses; present with `asked_by` |
//! | `acquired_at`, `renewed_at`, `checkpointed_at` | S | UTC, by the writer's wall clock, for people to read; nothing depends on them |
//!
//! An item that does not read like this, or has another `format`, is a [`LeaseError::Corrupt`] that names the
//! table and the key. No call overwrites it. To move a checkpoint by hand, change `checkpoint` while `owner` is
//! absent. Put no time to live on the table.
//!
//! [`rows`] reads the whole table for a person or a tool; the example `leases` prints it.
//!
//! # Lost answers
//!
//! A call may take effect and its answer be lost, to a broken connection, a time limit, or a future that was
//! dropped. The SDK or the caller sends it again, and it ends as the success that it was: a renewal, a release
//! or an ask changes nothing the second time; a checkpoint is recognised by its number, an acquisition by its
//! token. A grant that its owner never heard of reads as expired to this instance, and its next acquisition in
//! the same name adopts and renews it.
//!
//! # Rows deleted by hand
//!
//! A row that vanished counts as held for one lease time from the first sighting of its absence, for whoever
//! saw it, and its epoch goes on from the highest that was seen: until then [`read`] shows its last holder, live.
//! That holder's [`renew`] answers [`Renewal::Lost`]. Where [`read`] then shows the very [`Holder`] that the
//! lease was lost for, nobody else has it, and an [`acquire`] in its name through the same instance of the store
//! is granted at once. The checkpoint is gone with the row; the holder knows its own.
//!
//! # What it needs to be allowed
//!
//! ```json
//! {
//!   "Version": "2012-10-17",
//!   "Statement": [{
//!     "Effect": "Allow",
//!     "Action": [
//!       "dynamodb:UpdateItem",
//!       "dynamodb:DeleteItem",
//!       "dynamodb:GetItem",
//!       "dynamodb:BatchGetItem",
//!       "dynamodb:Scan"
//!     ],
//!     "Resource": "arn:aws:dynamodb:REGION:ACCOUNT:table/TABLE"
//!   }]
//! }
//! ```
//!
//! [`create_table_if_missing`] needs `dynamodb:DescribeTable` as well, and `dynamodb:CreateTable` where the table
//! is missing. A call that is not allowed is a [`LeaseError::Misconfigured`] that names the action.
//!
//! # What it costs
//!
//! A row takes about 310 bytes, and 370 while somebody asks for the lease, with an owner's name of some forty
//! characters. So each write costs one write unit: one for each acquisition, renewal, checkpoint, release and
//! ask; also where it is refused. A lease that is renewed every 3 seconds costs 20 a minute. [`read`] costs one
//! read unit.
//!
//! [`read_all`] reads consistently, by whichever costs less: [BatchGetItem], a hundred keys a call and a read unit
//! for each key, or a [Scan] of the table, which costs a read unit for every 4 KB, thirteen rows. What a scan
//! costs is learned from scans; one that turns out to cost more than the keys is given up there, and tried again
//! a hundred listings later. Where the table holds the rows of these shards and no more, a listing costs:
//!
//! | shards | by | calls | read units | by keys it would be |
//! | --- | --- | --- | --- | --- |
//! | 1 | BatchGetItem | 1 | 1 | 1 |
//! | 100 | Scan | 1 | 8 | 100 |
//! | 5,000 | Scan | 2 | 378 | 5,000 |
//!
//! These are computed by the service's [rules]. Of the servers that the integration tests run on, dynalite counts
//! 1 for each key, and half a unit for every 4 KB of a scan though it is consistent: 4.5 for 100 rows of 370 bytes
//! and 220.5 for 5,000, where the rules give 9 and 449. ministack counts 1 for each page, whatever its size.
//!
//! # What it rests on
//!
//! Monotonic clocks that run at the same rate on all hosts, as the two of a lease's holder and its observers are
//! never compared otherwise. A host that is suspended while its guest's clock stands still is outside that: what
//! it does next is still fenced by the epoch, but a record may be handled twice.
//!
//! [`acquire`]: lease_core::LeaseStore::acquire
//! [`create_table_if_missing`]: DynamoLeaseStore::create_table_if_missing
//! [`read`]: lease_core::LeaseStore::read
//! [`read_all`]: lease_core::LeaseStore::read_all
//! [`renew`]: lease_core::LeaseStore::renew
//! [`rows`]: DynamoLeaseStore::rows
//! [`Checkpoint`]: lease_core::Checkpoint
//! [`Holder`]: lease_core::Holder
//! [`LeaseError::Corrupt`]: lease_core::LeaseError::Corrupt
//! [`LeaseError::Misconfigured`]: lease_core::LeaseError::Misconfigured
//! [`Renewal::Lost`]: lease_core::Renewal::Lost
//! [BatchGetItem]: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html
//! [Scan]: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_Scan.html
//! [rules]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html

mod calls;
mod error;
mod expressions;
mod grants;
mod listing;
mod row;
mod rows;
mod sightings;
mod store;
mod table;

pub use crate::rows::{LeaseItem, LeaseRow};
pub use crate::store::DynamoLeaseStore;
