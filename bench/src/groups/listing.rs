//! What a listing takes, and which calls it makes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_kinesis::config::SharedHttpClient;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use kinesis_sim::{KinesisSim, Operation};
use rstream::Running;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep};

use super::Effort;
use crate::clock::Stopwatch;
use crate::library::{Handler, Service};
use crate::plain;
use crate::spread::{Spread, grouped};
use crate::store::{Asked, WatchedStore};
use crate::table::Table;
use crate::workload::{Kind, STREAM, Tally};

const NOTE: &str = "The CPU of one listing, from its first call of ListShards until nothing is left to \
    do: shards listed, lease states read, lineage and balance drawn. Beside it, ListShards alone in a plain loop. Calls \
    are those of one listing: ListShards gives 1,000 shards a page, and the lease states of all shards are one call of \
    the store (`read_all`; on DynamoDB that is a BatchGetItem a hundred shards, or a scan where that costs less). \
    Renewals are those of 100 ms, of all instances: their mean, and the most that came.";

const COLUMNS: &[&str] = &[
    "shards",
    "instances",
    "plain ListShards, CPU ms",
    "library's listing, CPU ms",
    "ListShards calls",
    "read_all calls",
    "single reads",
    "renewals in 100 ms, mean / most",
];

const LISTED_EVERY: Duration = Duration::from_secs(3);
/// Until the members have shared the shards, and nothing moves any more.
const SETTLING: Duration = Duration::from_secs(90);
const WINDOW: Duration = Duration::from_millis(100);

pub(super) fn run(effort: Effort) -> anyhow::Result<Table> {
    let mut table = Table::new("A listing", NOTE, COLUMNS);
    let cases = [
        (1, 1),
        (100, 1),
        (1_000, 1),
        (5_000, 1),
        (5_000, 2),
        (5_000, 10),
    ];
    for (shards, instances) in cases {
        let instances = effort.of(instances, instances.min(2));
        let shards = effort.of(shards, shards.min(20));
        table.push(row(shards, instances, effort.of(20, 2))?);
    }
    Ok(table)
}

/// The listings of a process, as they come one after the other.
#[derive(Clone, Debug, Default)]
struct Listings(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    under_way: Option<Stopwatch>,
    millis: Vec<f64>,
}

impl Listings {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begins(&self) {
        self.seen().under_way.get_or_insert_with(Stopwatch::start);
    }

    /// Nothing is left to do on the runtime's thread.
    fn ends(&self) {
        let mut seen = self.seen();
        if let Some(watch) = seen.under_way.take() {
            let millis = watch.taken().cpu * 1e3;
            seen.millis.push(millis);
        }
    }

    fn take(&self) -> Vec<f64> {
        std::mem::take(&mut *self.seen()).millis
    }

    fn runtime(&self) -> std::io::Result<Runtime> {
        let listings = self.clone();
        Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .on_thread_park(move || listings.ends())
            .build()
    }
}

/// An HTTP client that notices when shards are listed.
#[derive(Clone, Debug)]
struct Noticing<T> {
    inner: T,
    listings: Listings,
}

impl HttpClient for Noticing<SharedHttpClient> {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(Noticing {
            inner: self.inner.http_connector(settings, components),
            listings: self.listings.clone(),
        })
    }
}

impl HttpConnector for Noticing<SharedHttpConnector> {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        if target.ends_with("ListShards") {
            self.listings.begins();
        }
        self.inner.call(request)
    }
}

fn row(shards: usize, instances: usize, listings: usize) -> anyhow::Result<[String; 8]> {
    let seen = Listings::default();
    seen.runtime()?.block_on(async {
        let sim = KinesisSim::new().without_quotas();
        sim.create_stream(STREAM, shards);
        let plain = plain_listings(&sim, listings).await?;

        let store = WatchedStore::default();
        let mut running = Vec::new();
        for number in 0..instances {
            running.push(start(&sim, &store, &seen, number as u64).await?);
            // Their listings do not fall together.
            sleep(LISTED_EVERY / instances as u32 + Duration::from_millis(7)).await;
        }
        if instances > 1 {
            sleep(SETTLING).await;
        }
        let calls = sim.calls(Operation::ListShards);
        store.take_asked();
        seen.take();
        let from = Instant::now();
        sleep(LISTED_EVERY * listings as u32).await;
        let millis = seen.take();
        let asked = store.take_asked();
        let calls = sim.calls(Operation::ListShards) - calls;
        for running in running {
            running.shutdown().await?;
        }
        let each = |count: usize| grouped(count as f64 / millis.len() as f64, 1);
        Ok([
            grouped(shards as f64, 0),
            instances.to_string(),
            plain.to_string(),
            Spread::of(millis.iter().copied()).to_string(),
            each(usize::try_from(calls)?),
            each(asked.listings),
            each(asked.reads),
            in_windows(&asked, from),
        ])
    })
}

async fn plain_listings(sim: &KinesisSim, times: usize) -> anyhow::Result<Spread> {
    let client = plain::client(sim);
    let mut millis = Vec::new();
    for _ in 0..times {
        let watch = Stopwatch::start();
        plain::list(&client).await?;
        millis.push(watch.taken().cpu * 1e3);
    }
    Ok(Spread::of(millis))
}

async fn start(
    sim: &KinesisSim,
    store: &WatchedStore,
    listings: &Listings,
    number: u64,
) -> anyhow::Result<Running> {
    let handler = Handler::Count(Kind::Json, Arc::new(Tally::of(1)));
    let service = Service::new(handler);
    let service = Service {
        // Reads are no part of a listing.
        stream: service.stream.poll_interval(Duration::from_secs(3_600)),
        store: Some(Arc::new(store.clone())),
        http_client: Some(SharedHttpClient::new(Noticing {
            inner: sim.http_client(),
            listings: listings.clone(),
        })),
        number,
        ..service
    };
    Ok(service.start(sim).await?)
}

/// How many renewals came in a window, in the mean and at most.
fn in_windows(asked: &Asked, from: Instant) -> String {
    let mut windows: BTreeMap<u128, usize> = BTreeMap::new();
    for renewal in &asked.renewals {
        let window = (*renewal - from).as_nanos() / WINDOW.as_nanos();
        *windows.entry(window).or_default() += 1;
    }
    let (Some(last), Some(most)) = (windows.keys().last(), windows.values().max()) else {
        return "none".to_owned();
    };
    let mean = asked.renewals.len() as f64 / (*last + 1) as f64;
    format!("{} / {most}", grouped(mean, 1))
}
