//! Shards that are moved while they are read.

mod forgotten;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use kinesis_broker::{KinesisError, KinesisStream, RecordInfo, StartPosition};
use kinesis_sim::{Fault, Operation};
use rstream::{AppError, Context, Handle, HandlerOutcome, RetryPolicy, subscriber};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{
    Batches, Call, Fleet, Instance, Recorder, STREAM, Trouble, ack, ack_after, from_the_start, say,
    shard, until, within,
};

const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// A stream that is read often, so that what is put is there at once.
fn read_often() -> KinesisStream {
    from_the_start(STREAM).poll_interval(10 * MILLI)
}

async fn until_values(fleet: &Fleet, values: &[u64]) {
    until(format_args!("{values:?} are handed over"), async || {
        let seen = fleet.seen();
        seen.len() >= values.len() && seen.iter().all(|seen| seen.done_at.is_some())
    })
    .await;
    assert_eq!(fleet.values(), values);
}

async fn until_settled(fleet: &Fleet, shard: &str) {
    let last = fleet.sim.records(STREAM, shard).pop().unwrap();
    until("all is settled", async || {
        fleet.checkpoint(shard).await == last.sequence_number
    })
    .await;
}

/// The stream and the shards that the error says were not moved.
fn not_moved(result: &Result<(), AppError>) -> Vec<String> {
    let Err(AppError::Broker { source, .. }) = result else {
        panic!("{result:?}")
    };
    let Some(KinesisError::NotMoved { stream, shards }) = source.downcast_ref() else {
        panic!("{source:?}")
    };
    assert_eq!(stream, STREAM);
    shards.clone()
}

/// Waits until an instance has one of two shards: which.
async fn until_one_is_of(fleet: &Fleet, owner: &str) -> String {
    let mut held = None;
    until(format_args!("{owner} has one"), async || {
        for shard in [shard(0), shard(1)] {
            if fleet.owner(&shard).await == owner {
                held = Some(shard);
            }
        }
        held.is_some()
    })
    .await;
    held.unwrap()
}

/// An instance beside `b`, once each of them has one of two shards: the one that `a` holds comes first.
async fn beside_another(fleet: &Fleet, a: &Instance) -> (Instance, [String; 2]) {
    assert!(a.errors().is_empty());
    let b = fleet.instance("b").start().await;
    let mut held = None;
    until("each has one", async || {
        let owners = [fleet.owner(&shard(0)).await, fleet.owner(&shard(1)).await];
        held = match [&*owners[0], &*owners[1]] {
            ["a", "b"] => Some([shard(0), shard(1)]),
            ["b", "a"] => Some([shard(1), shard(0)]),
            _ => None,
        };
        held.is_some()
    })
    .await;
    sleep(5 * SECOND).await;
    (b, held.unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_moved_to_its_oldest_records_and_all_come_again() {
    let fleet = Fleet::of_shards(2);
    fleet.put_all(&shard(0), 0..3);
    fleet.put_all(&shard(1), 10..13);
    let a = fleet.instance("a").streams([read_often()]).start().await;
    fleet.until_handled(6).await;
    a.seek(StartPosition::trim_horizon()).await.unwrap();
    fleet.until_handled(12).await;
    sleep(60 * SECOND).await;
    for (n, values) in [(0, [0, 1, 2, 0, 1, 2]), (1, [10, 11, 12, 10, 11, 12])] {
        let seen = fleet.seen_of(&shard(n));
        let told: Vec<_> = seen.iter().map(|seen| seen.value).collect();
        assert_eq!(told, values);
        assert!(seen.iter().all(|seen| (seen.attempt, seen.epoch) == (1, 1)));
        until_settled(&fleet, &shard(n)).await;
    }
    assert!(a.errors().is_empty(), "{:?}", a.errors());
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_shard_is_moved_to_a_moment_and_the_others_stay() {
    let fleet = Fleet::of_shards(2);
    fleet.put_all(&shard(0), 0..3);
    fleet.put_all(&shard(1), 10..13);
    let a = fleet.instance("a").streams([read_often()]).start().await;
    fleet.until_handled(6).await;
    sleep(10 * SECOND).await;
    let moment = fleet.sim.wall_clock();
    fleet.put_all(&shard(0), 3..5);
    fleet.until_handled(8).await;
    let to = StartPosition::at_timestamp(moment).in_shard(shard(0));
    a.seek(to).await.unwrap();
    fleet.until_handled(10).await;
    sleep(60 * SECOND).await;
    let told: Vec<_> = (fleet.seen_of(&shard(0)).iter())
        .map(|seen| seen.value)
        .collect();
    assert_eq!(told, [0, 1, 2, 3, 4, 3, 4]);
    assert_eq!(fleet.seen_of(&shard(1)).len(), 3);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn moved_to_the_tip_what_waited_is_skipped_and_what_comes_later_is_not() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..50);
    let a = fleet
        .instance("a")
        .streams([read_often()])
        .handler(|seen| ack_after(if seen.value < 50 { 3 * SECOND } else { MILLI }))
        .start()
        .await;
    until("one is in hand", async || fleet.seen().len() == 2).await;
    sleep(SECOND).await;
    a.seek(StartPosition::latest()).await.unwrap();
    fleet.put_all(&shard(0), 50..52);
    until_values(&fleet, &[0, 1, 50, 51]).await;
    sleep(60 * SECOND).await;
    assert_eq!(fleet.values(), [0, 1, 50, 51]);
    until_settled(&fleet, &shard(0)).await;
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_moved_shard_is_opened_at_once_however_seldom_it_is_read() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..3);
    let a = fleet
        .instance("a")
        .streams([from_the_start(STREAM).poll_interval(HOUR)])
        .start()
        .await;
    fleet.until_handled(3).await;
    sleep(10 * SECOND).await;
    a.seek(StartPosition::trim_horizon()).await.unwrap();
    within(SECOND, "all come again", async || {
        (fleet.values() == [0, 1, 2, 0, 1, 2]).then_some(())
    })
    .await;
    sleep(10 * SECOND).await;
    let began = Instant::now();
    a.seek(StartPosition::latest()).await.unwrap();
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_the_handler_that_runs_counts_and_then_comes_the_move() {
    let fleet = Fleet::of_shards(1);
    let first = fleet.put(&shard(0), 0);
    fleet.put_all(&shard(0), 1..10);
    let a = fleet
        .instance("a")
        .handler(|seen| match seen.value {
            0 => ack_after(20 * SECOND),
            _ => ack(),
        })
        .start()
        .await;
    until("it is in hand", async || fleet.seen().len() == 1).await;
    let began = Instant::now();
    a.seek(StartPosition::latest()).await.unwrap();
    assert!(began.elapsed() >= 19 * SECOND, "{:?}", began.elapsed());
    assert_eq!(fleet.values(), [0]);
    let written = fleet.store.made_on(Call::Checkpoint, &shard(0));
    let written: Vec<_> = written
        .into_iter()
        .filter_map(|made| made.checkpoint)
        .collect();
    assert_eq!(written.len(), 2, "{written:?}");
    assert_eq!(written[0], first);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_waits_for_its_retry_is_forgotten_and_a_move_waits_for_no_pause() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..3);
    let retries = Arc::new(AtomicBool::new(true));
    let still = Arc::clone(&retries);
    let a = fleet
        .instance("a")
        .streams([read_often()])
        .handler(move |seen| match seen.value {
            1 if still.load(Ordering::Relaxed) => say(HandlerOutcome::retry_after(60 * SECOND)),
            _ => ack(),
        })
        .start()
        .await;
    fleet.until_handled(2).await;
    retries.store(false, Ordering::Relaxed);
    let began = Instant::now();
    a.seek(StartPosition::trim_horizon()).await.unwrap();
    until_values(&fleet, &[0, 1, 0, 1, 2]).await;
    assert!(began.elapsed() < 5 * SECOND);
    assert!(fleet.seen().iter().all(|seen| seen.attempt == 1));
    sleep(90 * SECOND).await;
    assert_eq!(fleet.seen().len(), 5);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_ends_while_a_move_waits_for_another_handler_is_not_looked_at() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..2);
    let a = fleet
        .instance("a")
        .streams([read_often().concurrency(2)])
        .handler(|seen| match seen.value {
            0 => say(HandlerOutcome::retry_after(2 * SECOND)),
            _ => ack_after(20 * SECOND),
        })
        .start()
        .await;
    until("both were given", async || fleet.seen().len() == 2).await;
    a.seek(StartPosition::latest()).await.unwrap();
    assert_eq!(fleet.seen().len(), 2);
    assert!(fleet.seen()[0].at.elapsed() >= 20 * SECOND);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_move_resolves_only_once_the_store_has_it_and_nothing_is_handed_over_before() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..3);
    let a = fleet.instance("a").streams([read_often()]).start().await;
    fleet.until_handled(3).await;
    until_settled(&fleet, &shard(0)).await;
    for to in [StartPosition::trim_horizon(), StartPosition::latest()] {
        let handed_over = fleet.seen().len();
        fleet
            .store
            .always_on(Call::Checkpoint, &shard(0), Trouble::Fails);
        let mut moving = std::pin::pin!(a.seek(to));
        assert!(timeout(30 * SECOND, &mut moving).await.is_err());
        assert_eq!(fleet.seen().len(), handed_over);
        fleet.store.recover();
        let moved = timeout(5 * SECOND, &mut moving).await;
        moved.expect("it resolves").unwrap();
        sleep(5 * SECOND).await;
    }
    assert_eq!(fleet.values(), [0, 1, 2, 0, 1, 2]);
    assert!(!a.errors_of("Lease").is_empty());
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_right_after_a_move_does_not_undo_it() {
    // Whoever reads on has a start position of its own, which does not count.
    for (to, then) in [
        (StartPosition::trim_horizon(), vec![0, 1, 2]),
        (StartPosition::latest(), vec![]),
    ] {
        let fleet = Fleet::of_shards(1);
        fleet.put_all(&shard(0), 0..3);
        let a = fleet
            .instance("a")
            .streams([read_often()])
            .handler(|seen| ack_after(if seen.value == 2 { 30 * SECOND } else { MILLI }))
            .start()
            .await;
        until("the last is in hand", async || fleet.seen().len() == 3).await;
        sleep(10 * SECOND).await;
        a.seek(to).await.unwrap();
        a.kill();
        // What comes after the move is not skipped, though nobody reads.
        sleep(2 * SECOND).await;
        fleet.put(&shard(0), 9);
        let b = fleet.instance("b").start().await;
        let expected = [vec![0, 1, 2], then, vec![9]].concat();
        until_values(&fleet, &expected).await;
        sleep(30 * SECOND).await;
        assert_eq!(fleet.values(), expected);
        b.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_before_a_move_is_written_leaves_the_old_position_or_the_new_one() {
    for is_written in [false, true] {
        let fleet = Fleet::of_shards(1);
        fleet.put_all(&shard(0), 0..3);
        let a = fleet.instance("a").streams([read_often()]).start().await;
        fleet.until_handled(3).await;
        until_settled(&fleet, &shard(0)).await;
        // The call takes effect or not; its answer never comes.
        let trouble = if is_written {
            Trouble::AnswersLate(HOUR)
        } else {
            Trouble::Hangs
        };
        fleet.store.always_on(Call::Checkpoint, &shard(0), trouble);
        let moving = timeout(2 * SECOND, a.seek(StartPosition::trim_horizon()));
        assert!(moving.await.is_err());
        a.kill();
        fleet.store.recover();
        fleet.put(&shard(0), 3);
        let b = fleet.instance("b").start().await;
        until("it goes on", async || fleet.values().contains(&3)).await;
        let mut expected = vec![0, 1, 2];
        expected.extend(if is_written { 0..4 } else { 3..4 });
        assert_eq!(fleet.values(), expected);
        b.stop().await;
    }
}

/// Asks for a move at the first delivery of one value.
struct Mover {
    recorder: Recorder,
    at: u64,
    to: StartPosition,
    whole_stream: bool,
    has_moved: Arc<AtomicBool>,
    outcome: HandlerOutcome,
}

impl Handle<u64> for Mover {
    async fn handle(
        &self,
        value: &u64,
        outs: &(),
        ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        Handle::<u64>::handle(&self.recorder, value, outs, ctx).await?;
        if *value != self.at || self.has_moved.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let info = ctx.get::<RecordInfo>().expect("attached");
        if self.whole_stream {
            info.seek_stream(self.to);
        } else {
            info.seek(self.to);
        }
        Err(self.outcome.clone())
    }
}

async fn moved_by_a_handler(
    fleet: &Fleet,
    stream: KinesisStream,
    to: StartPosition,
    whole_stream: bool,
    outcome: HandlerOutcome,
) -> Instance {
    (fleet.instance("a"))
        .streams([stream])
        .subscription(move |stream, recorder| {
            let mover = Mover {
                recorder,
                at: 1,
                to,
                whole_stream,
                has_moved: Arc::default(),
                outcome: outcome.clone(),
            };
            subscriber(stream, mover)
                .retry(RetryPolicy::fixed(HOUR))
                .build::<u64>()
        })
        .start()
        .await
}

#[tokio::test(start_paused = true)]
async fn a_handler_moves_its_own_shard_and_nothing_of_the_old_position_comes_after_it() {
    for outcome in [HandlerOutcome::ack(), HandlerOutcome::retry()] {
        let fleet = Fleet::of_shards(1);
        fleet.put_all(&shard(0), 0..40);
        let to = StartPosition::trim_horizon();
        let a = moved_by_a_handler(&fleet, read_often(), to, false, outcome).await;
        fleet.until_handled(42).await;
        sleep(30 * SECOND).await;
        let expected: Vec<_> = (0..2).chain(0..40).collect();
        assert_eq!(fleet.values(), expected);
        until_settled(&fleet, &shard(0)).await;
        a.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_moves_its_shard_with_others_in_hand_and_each_key_keeps_its_order() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..40);
    let a = moved_by_a_handler(
        &fleet,
        read_often().concurrency(8),
        StartPosition::trim_horizon(),
        false,
        HandlerOutcome::ack(),
    )
    .await;
    until("all came again", async || {
        fleet.values().iter().filter(|value| **value == 39).count() >= 1
    })
    .await;
    sleep(30 * SECOND).await;
    let values = fleet.values();
    let before = values.len() - 40;
    assert!((2..=9).contains(&before), "{values:?}");
    let mut again = values[before..].to_vec();
    again.sort_unstable();
    assert_eq!(again, Vec::from_iter(0..40));
    until_settled(&fleet, &shard(0)).await;
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_moves_the_whole_stream_and_nothing_of_its_own_shard_comes_between() {
    let fleet = Fleet::of_shards(2);
    fleet.put_all(&shard(0), 0..40);
    fleet.put_all(&shard(1), 100..103);
    let a = moved_by_a_handler(
        &fleet,
        read_often(),
        StartPosition::trim_horizon(),
        true,
        HandlerOutcome::ack(),
    )
    .await;
    until("all came again", async || {
        fleet.values().iter().filter(|value| **value == 102).count() >= 1
            && fleet.values().contains(&39)
    })
    .await;
    sleep(30 * SECOND).await;
    let told = |n| {
        let seen = fleet.seen_of(&shard(n));
        seen.iter().map(|seen| seen.value).collect::<Vec<_>>()
    };
    assert_eq!(told(0), (0..2).chain(0..40).collect::<Vec<_>>());
    let other = told(1);
    assert!(other.ends_with(&[100, 101, 102]), "{other:?}");
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_is_held_elsewhere_is_not_moved_and_that_is_an_error_with_its_name() {
    let fleet = Fleet::of_shards(2);
    fleet.put_all(&shard(0), 0..3);
    fleet.put_all(&shard(1), 10..13);
    let a = fleet.instance("a").streams([read_often()]).start().await;
    fleet.until_handled(6).await;
    let (b, [of_a, of_b]) = beside_another(&fleet, &a).await;
    let to = StartPosition::trim_horizon();
    assert_eq!(
        not_moved(&a.seek(to.in_shard(&of_b)).await),
        std::slice::from_ref(&of_b)
    );
    let unknown = a.seek(to.in_shard(shard(9))).await;
    assert_eq!(not_moved(&unknown), [shard(9)]);
    assert!(unknown.unwrap_err().to_string().contains(&shard(9)));
    sleep(30 * SECOND).await;
    assert_eq!(fleet.seen().len(), 6);
    // What it holds it moves, and that alone.
    a.seek(to).await.unwrap();
    fleet.until_handled(9).await;
    sleep(30 * SECOND).await;
    assert_eq!(fleet.seen_of(&of_a).len(), 6);
    assert_eq!(fleet.seen_of(&of_b).len(), 3);
    b.stop().await;
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn who_holds_nothing_moves_nothing() {
    let fleet = Fleet::of_shards(1);
    let a = fleet.instance("a").start().await;
    let b = fleet.instance("b").start().await;
    let moved = b.seek(StartPosition::latest()).await;
    assert!(not_moved(&moved).is_empty());
    assert!(moved.unwrap_err().to_string().contains("holds no shard"));
    a.stop().await;
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_is_being_handed_over_is_moved_first_and_goes_on_there_elsewhere() {
    let fleet = Fleet::of_shards(2);
    for n in 0..2 {
        fleet.put_all(&shard(n), [10 * n as u64, 10 * n as u64 + 1]);
    }
    let a = fleet
        .instance("a")
        .handler(|_| ack_after(12 * SECOND))
        .configure(|broker| broker.hand_over_timeout(30 * SECOND))
        .start()
        .await;
    until("both are in hand", async || fleet.seen().len() == 2).await;
    let b = fleet.instance("b").start().await;
    // By now one of the two is on its way to b, behind its handler.
    sleep(6 * SECOND).await;
    a.seek(StartPosition::latest()).await.unwrap();
    let of_b = until_one_is_of(&fleet, "b").await;
    fleet.put(&of_b, 25);
    until("b reads it on", async || fleet.values().contains(&25)).await;
    let told: Vec<_> = (fleet.seen_of(&of_b).iter())
        .map(|seen| (seen.owner.clone(), seen.value % 10))
        .collect();
    assert_eq!(told, [("a".to_owned(), 0), ("b".to_owned(), 5)]);
    a.stop().await;
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_move_that_comes_upon_another_takes_its_place_and_both_resolve() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..5);
    let a = fleet
        .instance("a")
        .streams([read_often()])
        .handler(|seen| ack_after(if seen.value == 4 { 10 * SECOND } else { MILLI }))
        .start()
        .await;
    until("the last is in hand", async || fleet.seen().len() == 5).await;
    let (one, other) = tokio::join!(
        a.seek(StartPosition::latest()),
        a.seek(StartPosition::trim_horizon()),
    );
    one.unwrap();
    other.unwrap();
    until_values(&fleet, &[0, 1, 2, 3, 4, 0, 1, 2, 3, 4]).await;
    // One after the other is the last one too.
    let (one, other) = tokio::join!(
        a.seek(StartPosition::latest()),
        a.seek(StartPosition::latest()),
    );
    one.unwrap();
    other.unwrap();
    fleet.put(&shard(0), 5);
    until("what is new comes", async || fleet.values().contains(&5)).await;
    assert_eq!(fleet.seen().len(), 11);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_move_forgets_a_batch_that_gathers_and_waits_for_none() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..3);
    let batches = Batches::new(|_| ack());
    let a = fleet
        .instance("a")
        .streams([read_often()])
        .subscription(batches.up_to(5, HOUR))
        .start()
        .await;
    sleep(5 * SECOND).await;
    let began = Instant::now();
    a.seek(StartPosition::trim_horizon()).await.unwrap();
    assert!(began.elapsed() < SECOND);
    fleet.put_all(&shard(0), 3..5);
    until("it is full", async || batches.seen().len() == 1).await;
    assert_eq!(batches.values(), [[0, 1, 2, 3, 4]]);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_was_read_to_its_end_is_moved_back_while_its_last_record_is_in_hand() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..3);
    let a = fleet
        .instance("a")
        .streams([read_often()])
        .handler(|seen| ack_after(if seen.value == 2 { 10 * SECOND } else { MILLI }))
        .start()
        .await;
    until("the last is in hand", async || fleet.seen().len() == 3).await;
    let children = fleet.sim.split_shard(STREAM, &shard(0));
    fleet.put_all(&children[0], 3..5);
    sleep(5 * SECOND).await;
    let to = StartPosition::trim_horizon().in_shard(shard(0));
    a.seek(to.clone()).await.unwrap();
    until("the children are read", async || {
        fleet.values().contains(&4)
    })
    .await;
    assert_eq!(fleet.values(), [0, 1, 2, 0, 1, 2, 3, 4]);
    assert_eq!(fleet.checkpoint(&shard(0)).await, "SHARD_END");
    assert_eq!(not_moved(&a.seek(to).await), [shard(0)], "it has ended");
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_is_about_to_be_opened_is_moved_before_its_first_record() {
    let fleet = Fleet::of_shards(2);
    fleet.put_all(&shard(0), 0..3);
    fleet.put_all(&shard(1), 10..13);
    let a = fleet.instance("a").streams([read_often()]).start().await;
    fleet.until_handled(6).await;
    let (b, [of_a, of_b]) = beside_another(&fleet, &a).await;
    let slow = Fault::late_answer(4 * SECOND).on(Operation::GetShardIterator);
    fleet.sim.inject(slow.shard(&of_b));
    b.stop().await;
    until("it is being opened", async || {
        fleet.owner(&of_b).await == "a"
    })
    .await;
    let handed_over = fleet.seen().len();
    let moved = timeout(20 * SECOND, a.seek(StartPosition::trim_horizon())).await;
    moved.expect("it resolves").unwrap();
    fleet.until_handled(handed_over + 6).await;
    sleep(30 * SECOND).await;
    for id in [&of_a, &of_b] {
        assert_eq!(fleet.seen_of(id).len(), 6, "{id}");
    }
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_is_a_move_that_does_not_come_about() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..3);
    let a = fleet.instance("a").streams([read_often()]).start().await;
    fleet.until_handled(3).await;
    until_settled(&fleet, &shard(0)).await;
    fleet.store.partition("a");
    let b = fleet.instance("b").start().await;
    let mut moving = std::pin::pin!(a.seek(StartPosition::trim_horizon()));
    assert!(timeout(30 * SECOND, &mut moving).await.is_err());
    assert_eq!(fleet.owner(&shard(0)).await, "b");
    fleet.store.recover();
    let moved = timeout(30 * SECOND, &mut moving)
        .await
        .expect("it resolves");
    assert_eq!(not_moved(&moved), [shard(0)]);
    assert_eq!(fleet.values(), [0, 1, 2]);
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_moment_that_the_service_refuses_is_its_oldest_record() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..3);
    let a = fleet.instance("a").streams([read_often()]).start().await;
    fleet.until_handled(3).await;
    let future = fleet.sim.wall_clock() + HOUR;
    for moment in [SystemTime::UNIX_EPOCH, future] {
        let handed_over = fleet.seen().len();
        a.seek(StartPosition::at_timestamp(moment)).await.unwrap();
        fleet.until_handled(handed_over + 3).await;
    }
    assert_eq!(fleet.seen().len(), 9);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_move_waits_for_a_record_in_hand_though_another_is_due_again_meanwhile() {
    let fleet = Fleet::of_shards(1);
    fleet.put_key("a", 0);
    fleet.put_key("b", 1);
    let a = fleet
        .instance("a")
        .streams([read_often().concurrency(2)])
        .handler(|seen| match (seen.value, seen.attempt) {
            (0, 1) => say(HandlerOutcome::retry_after(SECOND)),
            _ => ack_after(10 * SECOND),
        })
        .start()
        .await;
    until("both were handed over", async || fleet.seen().len() == 2).await;
    let moved = timeout(20 * SECOND, a.seek(StartPosition::trim_horizon())).await;
    moved.expect("it is moved").unwrap();
    until("both come again", async || fleet.seen().len() >= 4).await;
    a.stop().await;
}
