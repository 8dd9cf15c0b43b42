//! A process is stopped for longer than a lease, and goes on: it hands over nothing more of what it lost, and
//! changes no row.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::crashes::{Last, assert_is_after, take_down};
use super::log::Line;
use super::process::{Process, Signal};
use super::stage::{LIMIT, Stage};
use super::table::Rows;

const PAUSE: Duration = Duration::from_secs(25);
/// Long enough for a handler to be running when its process is stopped.
const SLOW: Duration = Duration::from_millis(60);

/// Pauses one of two processes, and lets it go on.
pub(super) async fn pause(stage: &Stage, is_still: bool) -> (Vec<Process>, Last) {
    let start = |owner| stage.start_with(owner, |orders| orders.handler = SLOW);
    let (one, two) = (start("one"), start("two"));
    stage.until_each_has_one(&["one", "two"]).await;

    one.signal(Signal::STOP);
    let until = Instant::now() + PAUSE;
    let lost = stage.rows().await;
    let mut last = Last::new();
    let is_taken = async || {
        let rows = stage.rows().await;
        take_down(&mut last, "one", &rows);
        (!rows.values().any(|row| row.is_of("one"))).then_some(())
    };
    stage
        .until("the shards of the paused one are taken", LIMIT, is_taken)
        .await;
    sleep_until(until).await;

    let (mark, mut before) = (stage.mark(), stage.rows().await);
    one.signal(Signal::CONT);
    let comes_back = async || {
        let rows = stage.rows().await;
        if let Some(wrong) = went_back(&before, &rows) {
            panic!("{wrong}. {}", stage.replay());
        }
        let is_back = rows.values().any(|row| row.is_of("one"));
        before = rows;
        is_back.then_some(())
    };
    stage
        .until("the woken process gets a share again", LIMIT, comes_back)
        .await;
    if is_still {
        stage.until_shared(&["one", "two"]).await;
    }
    // What it might still do, it does by its next renewal.
    sleep(Duration::from_secs(4)).await;

    let lines = stage.since(mark);
    let stale: Vec<_> = lines.iter().filter(|line| is_stale(line, &lost)).collect();
    assert!(stale.is_empty(), "{stale:#?}. {}", stage.replay());
    (vec![one, two], last)
}

/// Whether the woken process hands over a record of a lease that it had lost.
fn is_stale(line: &Line, lost: &Rows) -> bool {
    let handled = line.began().filter(|_| line.owner == "one");
    handled.is_some_and(|handled| {
        let row = lost.get(&handled.shard);
        row.is_some_and(|row| row.is_of("one") && handled.epoch <= row.epoch)
    })
}

/// What no write of a stale holder may do to a row.
fn went_back(before: &Rows, after: &Rows) -> Option<String> {
    for (shard, was) in before {
        let Some(is) = after.get(shard) else {
            continue;
        };
        if is.epoch < was.epoch {
            return Some(format!("the epoch of {shard} went back: {was:?}, {is:?}"));
        }
        if was.is_finished() && !is.is_finished() {
            return Some(format!("{shard} was finished: {was:?}, {is:?}"));
        }
        if let (Some(was), Some(is)) = (&was.checkpoint, &is.checkpoint)
            && is != lease_core::SHARD_END
            && super::log::is_after(was, is)
        {
            return Some(format!("the checkpoint of {shard} went back: {was}, {is}"));
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_paused_past_its_leases_hands_over_nothing_more_of_them_and_changes_no_row() {
    let stage = Stage::set("pauses", 6).await;
    let producer = stage.producer();
    let (processes, last) = pause(&stage, true).await;
    let twice = stage.end(producer, processes).await;
    assert_is_after(&twice, &last, &stage);
}
