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
//! | `owner` | S | who holds the lease; absent after a release, not empty |
//! | `epoch` | N | the fencing token: one more with every acquisition |
//! | `counter` | N | one more with every acquisition and every renewal |
//! | `ttl_ms` | N | how long the lease lasts from each of them, in milliseconds; not 0 |
//! | `grant` | S | a random token of the acquisition that holds the lease; it comes and goes with `owner` |
//! | `cp_no` | N | the number of the holder's last checkpoint call that took effect; 0 before |
//! | `checkpoint` | S | the text of a [`Checkpoint`]; absent before the first |
//! | `asked_by` | S | who asks for the lease, or had asked when it was released; absent otherwise, not empty |
//! | `ask_lapses` | N | the `counter` at which the ask lapses; means nothing without `asked_by` |
//! | `acquired_at`, `renewed_at`, `checkpointed_at` | S | UTC, by the writer's wall clock, for people to read; nothing depends on them |
//!
//! Numbers are whole, from 0 to 2<sup>64</sup> - 1. To move a checkpoint by hand, change `checkpoint` while
//! `owner` is absent; to free a lease by hand, remove `owner` and `grant` together. Put no time to live on the
//! table.
//!
//! # Items that cannot be understood
//!
//! An item that does not read like this, or has another `format`, is a [`LeaseError::Corrupt`] that names the
//! table and the key, from every call that comes upon it. No call overwrites it or deletes it: what an item must
//! be is part of the condition of every write, so that the service refuses to write a damaged one, which is then
//! told for what it is. It stays as it is until a person corrects it, or deletes it while nobody reads the shard.
//!
//! Two kinds of damage are excepted, since no condition can tell them: a number with a fraction, and a
//! `checkpoint` of which only the end is wrong, since it begins with a digit, or with `AT_TIMESTAMP:` and one of
//! `-./0123456789`. Reads and refused calls leave such an item alone like any other. A
//! call that would have been accepted takes effect, and then answers `Corrupt` and says so: of what is damaged it
//! overwrites what it sets anyway, a holder's next checkpoint `checkpoint` and `cp_no`, an acquisition or renewal
//! `counter` and `ttl_ms`, and so on, and leaves the rest; where nothing else is wrong the item then reads again.
//! [`forget`] deletes such an item where it is finished.
//!
//! [`checkpoint`] itself refuses a position that could not be read back, such as `Checkpoint::at("LATEST")`, as
//! [`LeaseError::Misconfigured`], and sends nothing.
//!
//! [`rows`] reads the whole table for a person or a tool; the example `leases` prints it.
//!
//! # Lost answers
//!
//! A call may take effect and its answer be lost, to a broken connection, a time limit, or a future that was
//! dropped. The SDK or the caller sends it again, and it ends as the success that it was: a renewal, a release
//! or an ask changes nothing the second time; a checkpoint is recognised by its number, an acquisition by its
//! token. A grant that its owner never heard of reads as expired to this instance, and its next acquisition in
//! the same name adopts and renews it. So does one that was told to be refused, and of which a first attempt that
//! the network had held up landed after all.
//!
//! Each instance of the store numbers its own checkpoint calls, and knows the tokens of its own acquisitions. So a
//! [`Holder`] is to be presented to the instance that acquired it, or a clone; another instance renews and
//! releases it as well, but a checkpoint that it numbers lower than the last one is taken for one that came late.
//!
//! # Rows deleted by hand
//!
//! A row that vanished counts as held for two lease times from the first sighting of its absence, for whoever
//! saw it, and its epoch goes on from the highest that was seen: until then [`read`] shows its last holder, live.
//! That holder's [`renew`] answers [`Renewal::Lost`]. Where [`read`] then shows the very [`Holder`] that the
//! lease was lost for, nobody else is known to have it. An [`acquire`] in its name through the same instance of
//! the store is granted at once, as long as its lease would last: for its `ttl`, counted from when this instance
//! sent the last acquisition or renewal that succeeded. Nobody can have taken the lease over in that time.
//! Later somebody may have, unseen, before the row vanished; so the holder waits too, but for one lease time only
//! from the first sighting of the absence. The checkpoint is gone with the row, and the holder alone knows its own:
//! it comes before anybody else, who would have to begin the shard anew, unless it saw the absence a whole lease time
//! later than they did.
//!
//! The row of a finished shard is no loss: whoever saw it finished and released, or has cleared it away by
//! [`forget`], finds the shard as one that nobody ever leased.
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
//! is missing. A call that is not allowed is a [`LeaseError::Misconfigured`] that names the action. Without
//! `dynamodb:Scan` [`rows`] is not to be had, and [`read_all`] reads by keys, at the cost of the last column below.
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
//! a hundred listings later. So is one that fails where the keys can be read. Where the table holds the rows of
//! these shards and no more, a listing costs:
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
//! In memory an instance keeps what it saw of each shard, about half a kilobyte. Past 65,536 shards it forgets
//! those that are finished and released. It forgets no other, since a row may vanish at any time, and then is held
//! for a while and has an epoch to go on from.
//!
//! # What it rests on
//!
//! Monotonic clocks that run at the same rate on all hosts, as the two of a lease's holder and its observers are
//! never compared otherwise. A host that is suspended while its guest's clock stands still is outside that: what
//! it does next is still fenced by the epoch, but a record may be handled twice.
//!
//! [`acquire`]: lease_core::LeaseStore::acquire
//! [`checkpoint`]: lease_core::LeaseStore::checkpoint
//! [`create_table_if_missing`]: DynamoLeaseStore::create_table_if_missing
//! [`forget`]: lease_core::LeaseStore::forget
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
mod chance;
mod error;
mod expressions;
#[doc(hidden)]
pub mod fuzzing;
mod grants;
mod listing;
mod names;
mod row;
mod rows;
mod sightings;
mod store;
mod table;

pub use crate::rows::{LeaseItem, LeaseRow};
pub use crate::store::DynamoLeaseStore;
