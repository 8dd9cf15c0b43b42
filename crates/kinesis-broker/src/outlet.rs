//! Where the replies and the dead letters of handlers go.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::future::join_all;

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

    /// Stores the records, and takes out those that are stored. Of each partition key they are stored in this order, and
    /// none behind one that fails.
    ///
    /// Dropped, it may have stored some of them.
    pub(crate) async fn store(&self, parcels: &mut Vec<Parcel>) -> Result<(), PublishError> {
        match self {
            Self::Kinesis(publisher) => {
                let mut keys = BTreeMap::<_, Vec<usize>>::new();
                for (place, parcel) in parcels.iter().enumerate() {
                    let key = (&*parcel.to, &*parcel.partition_key);
                    keys.entry(key).or_default().push(place);
                }
                let keys = keys
                    .into_values()
                    .map(|places| store_in_turn(publisher, parcels, places));
                let ended = join_all(keys).await;
                let mut is_stored = vec![false; parcels.len()];
                for place in ended.iter().flat_map(|ended| &ended.stored) {
                    is_stored[*place] = true;
                }
                let mut is_stored = is_stored.into_iter();
                parcels.retain(|_| is_stored.next() == Some(false));
                let failures = ended.into_iter().filter_map(|ended| ended.failed);
                match failures.min_by_key(|(place, _)| *place) {
                    Some((_, error)) => Err(error),
                    None => Ok(()),
                }
            }
            Self::InProcess(stored) => {
                let mut stored = stored.lock().unwrap_or_else(PoisonError::into_inner);
                for Parcel { to, payload, .. } in parcels.drain(..) {
                    stored.entry(to).or_default().push(payload);
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

/// What became of the records of one partition key.
struct Ended {
    /// The places of those that are stored.
    stored: Vec<usize>,
    /// The place of the one that is not, and why; those behind it were not tried.
    failed: Option<(usize, PublishError)>,
}

/// Stores the records at these places one after the other, which costs nothing: a publisher has one record of a key
/// under way at a time.
async fn store_in_turn(publisher: &Publisher, parcels: &[Parcel], places: Vec<usize>) -> Ended {
    let mut stored = Vec::with_capacity(places.len());
    for place in places {
        if let Err(error) = put(publisher, &parcels[place]).await {
            let failed = Some((place, error));
            return Ended { stored, failed };
        }
        stored.push(place);
    }
    Ended {
        stored,
        failed: None,
    }
}

async fn put(publisher: &Publisher, parcel: &Parcel) -> Result<(), PublishError> {
    // Names are checked at start.
    let stream = publisher
        .stream(&parcel.to)
        .map_err(|_| PublishError::Stopped {
            stream: parcel.to.to_string(),
        })?
        .max_record_bytes(MAX_RECORD_BYTES);
    let keyed = stream.partition_key(parcel.partition_key.as_str());
    keyed.publish_bytes(parcel.payload.clone()).await?;
    Ok(())
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
