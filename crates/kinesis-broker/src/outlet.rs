//! Where the replies and the dead letters of handlers go.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::publisher::{PublishError, Publisher};
use crate::{KinesisError, KinesisStream};

/// The largest record that any stream takes, in bytes: 10 MiB ([UpdateMaxRecordSize]). The stream's own limit is for
/// the service to tell.
///
/// [UpdateMaxRecordSize]: https://docs.aws.amazon.com/kinesis/latest/APIReference/API_UpdateMaxRecordSize.html
const MAX_RECORD_BYTES: usize = 10 * 1024 * 1024;

/// A record to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parcel {
    pub(crate) to: Arc<str>,
    pub(crate) partition_key: String,
    pub(crate) payload: Bytes,
}

/// Streams to store records in. Cheap to clone.
#[derive(Clone)]
pub(crate) enum Outlet {
    Kinesis(Arc<Publisher>),
    /// In a test.
    InProcess(Arc<Mutex<BTreeMap<Arc<str>, Vec<Bytes>>>>),
}

impl Outlet {
    pub(crate) fn in_process() -> Self {
        Self::InProcess(Arc::default())
    }

    /// Stores the records, those of one partition key in this order; the first failure ends it.
    ///
    /// Dropped, it may have stored some of them.
    pub(crate) async fn store(&self, parcels: &[Parcel]) -> Result<(), PublishError> {
        match self {
            Self::Kinesis(publisher) => {
                let mut under_way = Vec::with_capacity(parcels.len());
                for Parcel {
                    to,
                    partition_key,
                    payload,
                } in parcels
                {
                    let stream = match publisher.stream(to) {
                        Ok(stream) => stream.max_record_bytes(MAX_RECORD_BYTES),
                        // Names are checked at start.
                        Err(_) => {
                            return Err(PublishError::Stopped {
                                stream: to.to_string(),
                            });
                        }
                    };
                    let keyed = stream.partition_key(partition_key.as_str());
                    under_way.push(keyed.publish_bytes(payload.clone()));
                }
                for publish in under_way {
                    publish.await?;
                }
                Ok(())
            }
            Self::InProcess(stored) => {
                let mut stored = stored.lock().unwrap_or_else(PoisonError::into_inner);
                for Parcel { to, payload, .. } in parcels {
                    stored
                        .entry(Arc::clone(to))
                        .or_default()
                        .push(payload.clone());
                }
                Ok(())
            }
        }
    }

    /// What was stored in a stream, in a test.
    pub(crate) fn stored(&self, stream: &str) -> Vec<Bytes> {
        match self {
            Self::Kinesis(_) => Vec::new(),
            Self::InProcess(stored) => {
                let stored = stored.lock().unwrap_or_else(PoisonError::into_inner);
                stored.get(stream).cloned().unwrap_or_default()
            }
        }
    }
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").finish_non_exhaustive()
    }
}

/// Whether there can be a stream of this name.
pub(crate) fn check(stream: &str) -> Result<(), KinesisError> {
    KinesisStream::new(stream).check()
}
