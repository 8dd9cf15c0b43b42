//! The lease store that several consumers of one Kinesis data stream share.
//!
//! Kinesis keeps no record of who reads a shard or how far a reader got. A [`LeaseStore`] keeps
//! both: for every shard, named by a [`LeaseKey`], who may read it ([`Holder`]) and after which
//! record the next reader goes on ([`Checkpoint`]). This crate is the contract: the trait, its
//! types, and, behind the feature `conformance`, the suite that every store must pass. Stores are
//! crates of their own: `lease-memory` within one process, `lease-dynamo` on a DynamoDB table.
//!
//! A lease is lent for a time and renewed; a holder that stops renewing loses it to whoever
//! acquires it next. Each acquisition raises the *epoch* of its key by one. Whoever holds a lease
//! presents its epoch with every call, so that a process that was paused, or an acknowledgement
//! that comes too late, changes nothing.
//!
//! # Example
//!
//! Any store will do; the one behind `store` may be a table on the other side of a network.
//!
//! ```
//! use std::time::Duration;
//!
//! use lease_core::{Checkpoint, LeaseError, LeaseKey, LeaseStore, Renewal};
//!
//! /// Takes the shard if it is free, notes one record as handled, and lets the shard go.
//! async fn visit(store: &dyn LeaseStore, owner: &str) -> Result<(), LeaseError> {
//!     let key = LeaseKey::new("inventory", "shardId-000000000000");
//!     let ttl = Duration::from_secs(10);
//!
//!     let Some(holder) = store.acquire(&key, owner, ttl).await? else {
//!         return Ok(()); // somebody else reads it
//!     };
//!     let resume_after = store.read(&key).await?.checkpoint;
//!     println!("reading {key} after {resume_after:?}");
//!
//!     let handled = Checkpoint::at("49590338271490256608559692538361571095921575989136588898");
//!     if store.checkpoint(&key, &holder, &handled).await?
//!         && store.renew(&key, &holder, ttl).await? != Renewal::Lost
//!     {
//!         store.release(&key, &holder).await?;
//!     }
//!     Ok(())
//! }
//!
//! # // A stand-in for a real store: the only row it knows is always free.
//! # #[derive(Debug)]
//! # struct Toy;
//! # #[lease_core::async_trait]
//! # impl LeaseStore for Toy {
//! #     async fn acquire(&self, _: &LeaseKey, owner: &str, _: Duration) -> Result<Option<lease_core::Holder>, LeaseError> {
//! #         Ok(Some(lease_core::Holder { owner: owner.to_owned(), epoch: 1 }))
//! #     }
//! #     async fn renew(&self, _: &LeaseKey, _: &lease_core::Holder, _: Duration) -> Result<Renewal, LeaseError> { Ok(Renewal::Held) }
//! #     async fn checkpoint(&self, _: &LeaseKey, _: &lease_core::Holder, _: &Checkpoint) -> Result<bool, LeaseError> { Ok(true) }
//! #     async fn read(&self, _: &LeaseKey) -> Result<lease_core::LeaseState, LeaseError> { Ok(lease_core::LeaseState::default()) }
//! #     async fn release(&self, _: &LeaseKey, _: &lease_core::Holder) -> Result<(), LeaseError> { Ok(()) }
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), LeaseError> {
//! visit(&Toy, "host-a").await
//! # }
//! ```

mod checkpoint;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod forward;
mod key;
mod state;
mod store;

pub use async_trait::async_trait;

pub use crate::checkpoint::{Checkpoint, ParseCheckpointError, SHARD_END};
pub use crate::error::LeaseError;
pub use crate::key::LeaseKey;
pub use crate::state::{Holder, LeaseState, Renewal};
pub use crate::store::{LeaseStore, check_owner, check_ttl};
