//! A shared or boxed store is a store: every call goes on to the one inside.

#![deny(clippy::missing_trait_methods)]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Checkpoint, Holder, LeaseError, LeaseKey, LeaseState, LeaseStore, Renewal};

macro_rules! forward {
    ($pointer:ident) => {
        #[async_trait]
        impl<T: LeaseStore + ?Sized> LeaseStore for $pointer<T> {
            async fn acquire(
                &self,
                key: &LeaseKey,
                owner: &str,
                ttl: Duration,
            ) -> Result<Option<Holder>, LeaseError> {
                (**self).acquire(key, owner, ttl).await
            }

            async fn renew(
                &self,
                key: &LeaseKey,
                holder: &Holder,
                ttl: Duration,
            ) -> Result<Renewal, LeaseError> {
                (**self).renew(key, holder, ttl).await
            }

            async fn checkpoint(
                &self,
                key: &LeaseKey,
                holder: &Holder,
                at: &Checkpoint,
            ) -> Result<bool, LeaseError> {
                (**self).checkpoint(key, holder, at).await
            }

            async fn read(&self, key: &LeaseKey) -> Result<LeaseState, LeaseError> {
                (**self).read(key).await
            }

            async fn release(&self, key: &LeaseKey, holder: &Holder) -> Result<(), LeaseError> {
                (**self).release(key, holder).await
            }

            async fn read_all(&self, keys: &[LeaseKey]) -> Result<Vec<LeaseState>, LeaseError> {
                (**self).read_all(keys).await
            }

            async fn ask(&self, key: &LeaseKey, owner: &str) -> Result<bool, LeaseError> {
                (**self).ask(key, owner).await
            }

            async fn forget(&self, key: &LeaseKey) -> Result<bool, LeaseError> {
                (**self).forget(key).await
            }
        }
    };
}

forward!(Arc);
forward!(Box);
