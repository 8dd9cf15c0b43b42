//! The table, or Kinesis, is out of reach for longer than a lease: reading pauses, and goes on by itself where
//! it was.

use std::time::Duration;

use tokio::time::sleep;

use super::figures::{Figure, note, say};
use super::log::{self, Event, Line, Twice, now};
use super::process::Process;
use super::proxy::{Proxy, Way};
use super::stage::{LIMIT, Stage};
use super::table;

const OUTAGE: Duration = Duration::from_secs(60);
/// A lease.
const LEASE: Duration = Duration::from_secs(10);

/// Two processes that share the shards, on a table or a Kinesis behind a proxy.
async fn two_behind(stage: &Stage, [dynamodb, kinesis]: [Option<&Proxy>; 2]) -> Vec<Process> {
    let start = |owner| {
        stage.start_with(owner, |orders| {
            if let Some(proxy) = dynamodb {
                orders.dynamodb = proxy.url().to_owned();
            }
            if let Some(proxy) = kinesis {
                orders.kinesis = proxy.url().to_owned();
            }
        })
    };
    let processes = vec![start("one"), start("two")];
    stage.until_shared(&["one", "two"]).await;
    stage.until_read_by_holders().await;
    processes
}

/// Waits until a record of every open shard is begun after the mark.
async fn until_all_read(stage: &Stage, figure: Figure, mark: usize, from: u64) {
    let open = stage.open_shards().await;
    stage
        .until("every shard is read again", LIMIT, async || {
            let lines = stage.since(mark);
            let first = log::first_begun(&lines, |_| true);
            if !open
                .iter()
                .all(|shard| first.contains_key(shard.shard_id()))
            {
                return None;
            }
            for line in first.values() {
                note(figure, from, line.at);
            }
            Some(())
        })
        .await;
}

/// Nothing is handled again but what no handler had settled.
fn assert_unsettled(twice: &[Twice], stage: &Stage) {
    let settled: Vec<_> = twice.iter().filter(|twice| twice.is_settled).collect();
    assert!(settled.is_empty(), "{settled:#?}. {}", stage.replay());
}

/// Stops the table's server for a minute while two processes read.
async fn table_stops(stage: &Stage, are_rows_kept: bool) {
    let proxy = Proxy::before(&stage.orders.dynamodb).await;
    let producer = stage.producer();
    let mut processes = two_behind(stage, [Some(&proxy), None]).await;

    let mark = stage.mark();
    proxy.set(Way::Refused);
    let stopped = now();
    if !are_rows_kept {
        table::delete_rows(&stage.dynamodb, &stage.orders.table, &stage.orders.stream).await;
    }
    sleep(OUTAGE).await;
    let meanwhile = stage.since(mark);
    let (mark, back) = (stage.mark(), now());
    proxy.set(Way::Open);
    until_all_read(stage, Figure::TableBack, mark, back).await;
    for process in &mut processes {
        process.check_alive();
    }

    let begun = meanwhile.iter().filter(|line| line.began().is_some());
    let last = begun.map(|line| line.at).max().unwrap_or(stopped);
    let read_on = Duration::from_micros(last - stopped);
    say(&format!(
        "outages: reading went on for {read_on:?} without the table"
    ));
    // Renewals are three seconds apart, so at least this much of each lease was left.
    assert!(read_on > LEASE / 2, "{read_on:?}. {}", stage.replay());
    assert!(read_on <= LEASE, "{read_on:?}. {}", stage.replay());
    assert_named(&meanwhile, stage);

    let twice = stage.end(producer, processes).await;
    assert_unsettled(&twice, stage);
}

/// Every shard was reported, by its name and its stream's.
fn assert_named(lines: &[Line], stage: &Stage) {
    let mut named = 0;
    for line in lines {
        let Event::Reported { text, lease } = &line.event else {
            continue;
        };
        if let Some((stream, shard)) = lease {
            assert!(text.contains(stream) && text.contains(shard), "{text}");
            named += 1;
        }
    }
    assert!(named > 0, "no error names a shard. {}", stage.replay());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_stops_for_a_minute_pauses_reading_which_then_goes_on_where_it_was() {
    let stage = Stage::set("table-stops", 4).await;
    table_stops(&stage, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_comes_back_without_its_rows_is_filled_by_those_who_held_them() {
    let stage = Stage::set("table-empty", 4).await;
    table_stops(&stage, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_lost_after_the_write_lose_no_lease_and_repeat_nothing() {
    let stage = Stage::set("answers-lost", 4).await;
    let proxy = Proxy::before(&stage.orders.dynamodb).await;
    proxy.set(Way::LosesOneOf(4));
    let producer = stage.producer();
    let processes = two_behind(&stage, [Some(&proxy), None]).await;

    let epochs = async || {
        let rows = stage.rows().await.into_iter();
        rows.map(|(shard, row)| (shard, row.owner, row.epoch))
            .collect::<Vec<_>>()
    };
    let before = epochs().await;
    let lost = proxy.lost();
    stage
        .until("many answers are lost", LIMIT, async || {
            (proxy.lost() > lost + 200).then_some(())
        })
        .await;
    assert_eq!(
        epochs().await,
        before,
        "no lease was lost. {}",
        stage.replay()
    );
    let twice = stage.end(producer, processes).await;
    assert!(twice.is_empty(), "{twice:#?}. {}", stage.replay());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kinesis_that_cannot_be_reached_for_a_minute_is_read_on_at_the_same_records() {
    let stage = Stage::set("kinesis-gone", 4).await;
    let proxy = Proxy::before(&stage.orders.kinesis).await;
    let producer = stage.producer();
    let mut processes = two_behind(&stage, [None, Some(&proxy)]).await;
    let before = stage.rows().await;

    proxy.set(Way::Silent);
    sleep(OUTAGE).await;
    let (mark, back) = (stage.mark(), now());
    proxy.set(Way::Open);
    until_all_read(&stage, Figure::KinesisBack, mark, back).await;
    for process in &mut processes {
        process.check_alive();
    }

    for (shard, row) in stage.rows().await {
        let was = &before[&shard];
        assert_eq!(
            (&row.owner, row.epoch),
            (&was.owner, was.epoch),
            "{shard} was kept"
        );
    }
    let twice = stage.end(producer, processes).await;
    assert!(twice.is_empty(), "{twice:#?}. {}", stage.replay());
}
