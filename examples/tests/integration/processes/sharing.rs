//! Processes come and go by the rules: the shards are shared evenly, and nothing is handled twice.

use super::figures::{Figure, note};
use super::log::now;
use super::process::{Process, Signal};
use super::stage::{LIMIT, Stage};

/// Three processes whose wall clocks are ahead by so many seconds: they join, one after the other, and the
/// second stops.
///
/// `is_still`: nothing else changes meanwhile, so that every share is known.
pub(super) async fn share(stage: &Stage, ahead: [i64; 3], is_still: bool) -> Vec<Process> {
    let start = |owner: &str, ahead| stage.start_with(owner, |orders| orders.ahead = ahead);
    let shared = async |among: &[&str]| {
        if is_still {
            stage.until_shared(among).await;
        } else {
            stage.until_each_has_one(among).await;
        }
    };

    let started = now();
    let one = start("one", ahead[0]);
    let first = stage
        .until("a lone process reads", LIMIT, async || {
            stage
                .lines()
                .into_iter()
                .find(|line| line.began().is_some())
        })
        .await;
    note(Figure::LoneStart, started, first.at);
    shared(&["one"]).await;

    let joining = now();
    let two = start("two", ahead[1]);
    shared(&["one", "two"]).await;
    if is_still {
        note(Figure::Joining, joining, now());
    }
    let three = start("three", ahead[2]);
    shared(&["one", "two", "three"]).await;

    let left = stage.held_by("two").await;
    let mark = stage.mark();
    two.signal(Signal::TERM);
    let ended = two.ended().await;
    assert!(ended.success(), "{ended}. {}", stage.replay());
    let elsewhere = stage.until_read_elsewhere(&left, "two", mark).await;
    let lines = stage.lines();
    let last = lines
        .iter()
        .rfind(|line| line.owner == "two" && line.settled().is_some());
    if let (Some(last), Some(all)) = (last, elsewhere.values().map(|line| line.at).max()) {
        note(Figure::StopToAll, last.at, all);
    }
    shared(&["one", "three"]).await;
    vec![one, three]
}

/// Twice, since the times are of interest.
async fn share_twice(scenario: &'static str, ahead: [i64; 3]) {
    for _ in 0..2 {
        let stage = Stage::set(scenario, 8).await;
        let producer = stage.producer();
        let processes = share(&stage, ahead, true).await;
        let twice = stage.end(producer, processes).await;
        assert!(twice.is_empty(), "{twice:#?}. {}", stage.replay());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_share_8_shards_and_a_third_joins_and_one_stops_and_nothing_is_handled_twice()
{
    share_twice("sharing", [0; 3]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wall_clocks_an_hour_ahead_and_an_hour_behind_change_nothing() {
    share_twice("clocks", [0, 3_600, -3_600]).await;
}
