//! A table of leases as a person wants to see it: stream, shard, owner, epoch, how long ago it was renewed,
//! checkpoint, asked by.
//!
//! ```text
//! cargo run -p lease-dynamo --example leases -- --table inventory-leases
//! ```
//!
//! A renewal is a counter that this program sees change, by its own clock and to half a second: it compares no
//! time in the table with its own. It changes nothing in the table.

mod table;

use std::collections::HashMap;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use clap::Parser;
use lease_core::{LeaseError, LeaseKey};
use lease_dynamo::{DynamoLeaseStore, LeaseRow};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::table::{Line, render};

const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// Watches a DynamoDB table of leases for a few seconds, and prints it.
///
/// It runs on AWS, with the region and credentials of the default chain, unless it is given a server. It needs to
/// be allowed dynamodb:Scan; the whole table is read every half second.
#[derive(Clone, Debug, Parser)]
#[command(version)]
struct Args {
    /// The table of the leases.
    #[arg(long, value_name = "NAME")]
    table: String,

    /// Read from the DynamoDB server at this URL, with test credentials, in us-east-1 unless told otherwise.
    #[arg(long, value_name = "URL")]
    dynamodb: Option<String>,

    /// The region of the table, instead of the one that the default chain finds.
    #[arg(long, value_name = "REGION")]
    region: Option<String>,

    /// How long to watch for renewals; a lease is renewed every 3 seconds by default.
    #[arg(long, value_name = "SECONDS", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    watch_for: u64,
}

async fn config(args: &Args) -> SdkConfig {
    let mut loader = aws_config::defaults(BehaviorVersion::latest());
    let mut region = args.region.clone();
    if let Some(url) = &args.dynamodb {
        region.get_or_insert_with(|| "us-east-1".to_owned());
        loader = loader
            .endpoint_url(url)
            .credentials_provider(Credentials::new("test", "test", None, None, "test"));
    }
    if let Some(region) = region {
        loader = loader.region(Region::new(region));
    }
    loader.load().await
}

/// When each lease was seen renewed.
#[derive(Debug, Default)]
struct Renewals {
    leases: HashMap<LeaseKey, Seen>,
    has_looked: bool,
}

#[derive(Debug)]
struct Seen {
    counter: u64,
    /// `None` where the counter is still the one that was there at first.
    renewed: Option<Instant>,
}

impl Renewals {
    fn look(&mut self, counters: impl IntoIterator<Item = (LeaseKey, u64)>, now: Instant) {
        let is_first = !std::mem::replace(&mut self.has_looked, true);
        for (key, counter) in counters {
            let seen = self.leases.entry(key).or_insert(Seen {
                counter,
                // A row that comes while this watches has just been acquired.
                renewed: (!is_first).then_some(now),
            });
            if seen.counter != counter {
                *seen = Seen {
                    counter,
                    renewed: Some(now),
                };
            }
        }
    }

    fn age(&self, key: &LeaseKey, now: Instant) -> Option<Duration> {
        let renewed = self.leases.get(key)?.renewed?;
        Some(now.duration_since(renewed))
    }
}

/// Watches the table, and prints it as it was at the last look.
async fn watch(store: &DynamoLeaseStore, watch_for: Duration) -> Result<String, LeaseError> {
    let mut looks = interval(BETWEEN_LOOKS);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut renewals = Renewals::default();
    let mut start = None;
    loop {
        looks.tick().await;
        let rows = store.rows().await?;
        let now = Instant::now();
        let leases = rows.iter().filter_map(|row| match row {
            LeaseRow::Lease(lease) => Some((lease.key.clone(), lease.counter)),
            LeaseRow::Unknown { .. } => None,
        });
        renewals.look(leases, now);
        if now.duration_since(*start.get_or_insert(now)) < watch_for {
            continue;
        }
        let lines = rows.into_iter().map(|row| match row {
            LeaseRow::Lease(lease) => Line::Lease {
                renewed: renewals.age(&lease.key, now),
                owner: lease.owner,
                epoch: lease.epoch,
                checkpoint: lease.checkpoint,
                asked_by: lease.asked_by,
                key: lease.key,
            },
            LeaseRow::Unknown {
                lease_key, reason, ..
            } => Line::Unknown { lease_key, reason },
        });
        return Ok(render(lines.collect(), watch_for));
    }
}

async fn run(args: &Args) -> Result<String, Box<dyn Error>> {
    let config = config(args).await;
    if config.region().is_none() {
        return Err(
            "no region: give --region, or set AWS_REGION or the region of a profile".into(),
        );
    }
    let store = DynamoLeaseStore::new(&config, &args.table);
    Ok(watch(&store, Duration::from_secs(args.watch_for)).await?)
}

/// The SDK lists on lines of their own where it looked for credentials.
fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {}", on_one_line(&error.to_string()));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_is_a_counter_that_changes_and_a_row_that_comes() {
        let mut renewals = Renewals::default();
        let key = |shard: &str| LeaseKey::new("inventory", shard);
        let start = Instant::now();
        let second = Duration::from_secs(1);
        renewals.look([(key("0"), 5), (key("1"), 5)], start);
        renewals.look([(key("0"), 6), (key("1"), 5)], start + second);
        let looks = [(key("0"), 6), (key("1"), 5), (key("2"), 1)];
        renewals.look(looks, start + 2 * second);

        let ages = ["0", "1", "2"].map(|shard| renewals.age(&key(shard), start + 3 * second));
        assert_eq!(ages, [Some(2 * second), None, Some(second)]);
    }
}
