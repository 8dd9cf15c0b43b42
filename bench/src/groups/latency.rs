//! How long a record takes from its put to its handler.

use std::sync::Arc;
use std::time::Duration;

use kinesis_sim::KinesisSim;
use tokio::time::sleep;

use super::Effort;
use crate::latencies::{Latencies, permille};
use crate::library::{Handler, Service};
use crate::measure::{Side, paused_runtime};
use crate::plain;
use crate::spread::{alternate, spread};
use crate::table::Table;
use crate::workload::{STREAM, StockChange};

const NOTE: &str = "Records put one by one into 4 shards, at random moments drawn alike for both sides, read over a \
    line on which a call takes 10 ms; on a clock that jumps over pauses, so that no figure depends on what else the \
    machine does. The plain loop pauses as long as the library after a read that brought nothing, and reads five \
    times a second where there are records.";

const COLUMNS: &[&str] = &[
    "records",
    "poll_interval",
    "plain SDK, p50 ms",
    "library, p50 ms",
    "ratio of p50",
    "plain SDK, p99 ms",
    "library, p99 ms",
    "ratio of p99",
];

const SHARDS: usize = 4;
const CALL_TAKES: Duration = Duration::from_millis(10);

/// How records come, and how a reader looks for them.
struct Case {
    label: &'static str,
    /// The mean time between two puts into the stream.
    apart: Duration,
    pause: Duration,
}

const CASES: &[Case] = &[
    Case {
        label: "one every 5 s a shard",
        apart: Duration::from_millis(1_250),
        pause: Duration::from_secs(1),
    },
    Case {
        label: "one every 5 s a shard",
        apart: Duration::from_millis(1_250),
        pause: Duration::from_millis(200),
    },
    Case {
        label: "100 a second and shard",
        apart: Duration::from_micros(2_500),
        pause: Duration::from_secs(1),
    },
];

pub(super) fn run(effort: Effort) -> anyhow::Result<Table> {
    let mut table = Table::new("From put to handler", NOTE, COLUMNS);
    for case in CASES {
        let mut turns = 0;
        let pairs = alternate(effort.repetitions, |side| {
            // Both sides of a pair get the same records.
            let seed = turns / 2;
            turns += 1;
            case.latencies(side, effort.of(2_000, 8), seed)
        })?;
        let percentile = |place| {
            let of_side = |ages: &[Duration]| permille(ages, place);
            let plain = spread(&pairs, |pair| of_side(&pair.plain)).decimals(0);
            let library = spread(&pairs, |pair| of_side(&pair.library)).decimals(0);
            let ratio = spread(&pairs, |pair| of_side(&pair.library) / of_side(&pair.plain));
            [plain.middle(), library.middle(), ratio.to_string()]
        };
        let [[p50, library_p50, p50_ratio], [p99, library_p99, p99_ratio]] =
            [500, 990].map(percentile);
        table.push([
            case.label.to_owned(),
            format!("{:?}", case.pause),
            p50,
            library_p50,
            p50_ratio,
            p99,
            library_p99,
            p99_ratio,
        ]);
    }
    Ok(table)
}

impl Case {
    /// The ages of so many records, the youngest first.
    fn latencies(&self, side: Side, records: usize, seed: u64) -> anyhow::Result<Vec<Duration>> {
        paused_runtime()?.block_on(async {
            let sim = KinesisSim::builder()
                .quotas(false)
                .latency(CALL_TAKES)
                .build();
            sim.create_stream(STREAM, SHARDS);
            let latencies = Arc::new(Latencies::of(records));
            match side {
                Side::Plain => {
                    let ages = Arc::clone(&latencies);
                    let handle = move |record: &aws_sdk_kinesis::types::Record| {
                        let change: Option<StockChange> =
                            serde_json::from_slice(record.data().as_ref()).ok();
                        ages.handled(change.map_or(0, |change| change.delta));
                    };
                    let reading = plain::follow(&sim, self.pause, handle).await?;
                    self.put(&sim, records, seed, &latencies).await;
                    let ages = latencies.sorted().await;
                    drop(reading);
                    Ok(ages)
                }
                Side::Library => {
                    let service = Service::new(Handler::Time(Arc::clone(&latencies)));
                    let service = Service {
                        stream: service.stream.poll_interval(self.pause),
                        ..service
                    };
                    let running = service.start(&sim).await?;
                    self.put(&sim, records, seed, &latencies).await;
                    let ages = latencies.sorted().await;
                    running.shutdown().await?;
                    Ok(ages)
                }
            }
        })
    }

    async fn put(&self, sim: &KinesisSim, records: usize, seed: u64, latencies: &Latencies) {
        let mut chance = fastrand::Rng::with_seed(seed);
        for number in 0..records {
            sleep(self.apart.mul_f64(2.0 * chance.f64())).await;
            let now = latencies.now();
            let payload = format!(r#"{{"sku":{number},"delta":{now},"note":""}}"#);
            sim.put(STREAM, &format!("sku-{}", chance.u64(..)), payload);
        }
    }
}
