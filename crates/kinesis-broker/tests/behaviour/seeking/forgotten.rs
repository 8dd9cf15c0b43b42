//! What a move forgets, what it does not, and how it ends on the way to another instance.

use kinesis_broker::Checkpointing;

use super::*;
use crate::support::Act;

#[tokio::test(start_paused = true)]
async fn a_move_is_written_at_once_whatever_the_pace_of_checkpoints() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..3);
    let a = fleet
        .instance("a")
        .streams([read_often().checkpointing(Checkpointing::Interval(HOUR))])
        .start()
        .await;
    fleet.until_handled(3).await;
    for (to, values) in [
        (StartPosition::trim_horizon(), vec![0, 1, 2, 0, 1, 2]),
        (StartPosition::latest(), vec![0, 1, 2, 0, 1, 2]),
    ] {
        sleep(5 * SECOND).await;
        let began = Instant::now();
        a.seek(to).await.unwrap();
        assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
        until_values(&fleet, &values).await;
    }
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn of_a_batch_in_hand_what_is_handled_is_settled_and_the_rest_forgotten_by_a_move() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..8);
    let batches = Batches::new(|seen| match seen.values[0] {
        0 => Act {
            takes: 10 * SECOND,
            ..say(HandlerOutcome::ack_until(2))
        },
        _ => ack(),
    });
    let a = fleet
        .instance("a")
        .streams([read_often()])
        .subscription(batches.up_to(4, Duration::ZERO))
        .start()
        .await;
    until("it is in hand", async || batches.seen().len() == 1).await;
    sleep(SECOND).await;
    a.seek(StartPosition::latest()).await.unwrap();
    fleet.put(&shard(0), 8);
    until("what is new comes", async || batches.seen().len() == 2).await;
    sleep(30 * SECOND).await;
    assert_eq!(batches.values(), [vec![0, 1, 2, 3], vec![8]]);
    assert_eq!(batches.seen()[1].attempt, 1);
    let records = fleet.sim.records(STREAM, &shard(0));
    let written = fleet.store.made_on(Call::Checkpoint, &shard(0));
    let written: Vec<_> = written
        .into_iter()
        .filter_map(|made| made.checkpoint)
        .collect();
    assert_eq!(written.len(), 3, "{written:?}");
    assert_eq!(written[0], records[1].sequence_number);
    assert_eq!(written[2], records[8].sequence_number);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_move_that_is_written_on_the_way_to_another_instance_has_come_about() {
    let fleet = Fleet::of_shards(2);
    for n in 0..2 {
        fleet.put_all(&shard(n), [10 * n as u64, 10 * n as u64 + 1]);
    }
    let a = fleet
        .instance("a")
        .streams([read_often()])
        .configure(|broker| broker.hand_over_timeout(60 * SECOND))
        .handler(|seen| match seen.value % 10 {
            0 => ack(),
            _ => say(HandlerOutcome::retry_after(HOUR)),
        })
        .start()
        .await;
    fleet.until_handled(4).await;
    let b = fleet.instance("b").streams([read_often()]).start().await;
    // One of the two waits for its retry before it can go.
    sleep(8 * SECOND).await;
    assert_eq!(fleet.seen().len(), 4);
    a.seek(StartPosition::trim_horizon()).await.unwrap();
    until("b reads one from its oldest record", async || {
        let of_b = fleet.seen().into_iter().filter(|seen| seen.owner == "b");
        let values: Vec<_> = of_b.map(|seen| seen.value % 10).collect();
        values == [0, 1]
    })
    .await;
    a.stop().await;
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_record_that_waits_for_the_one_before_it_of_its_key_is_forgotten_by_a_move() {
    let fleet = Fleet::of_shards(1);
    for value in 0..3 {
        fleet.put_key("k", value);
    }
    let a = fleet
        .instance("a")
        .streams([read_often().concurrency(2)])
        .handler(|_| ack_after(10 * SECOND))
        .start()
        .await;
    until("the first is in hand", async || fleet.seen().len() == 1).await;
    sleep(SECOND).await;
    a.seek(StartPosition::latest()).await.unwrap();
    fleet.put_key("k", 3);
    until_values(&fleet, &[0, 3]).await;
    sleep(30 * SECOND).await;
    assert_eq!(fleet.values(), [0, 3]);
    a.stop().await;
}

/// An instance that has a record in hand, which anybody else is done with at once.
async fn in_hand_for_an_hour(fleet: &Fleet) -> Instance {
    fleet.put(&shard(0), 0);
    let a = fleet
        .instance("a")
        .handler(|seen| ack_after(if seen.owner == "a" { HOUR } else { MILLI }))
        .start()
        .await;
    until("it is in hand", async || fleet.seen().len() == 1).await;
    a
}

#[tokio::test(start_paused = true)]
async fn a_shard_whose_lease_is_lost_is_not_moved_though_a_handler_of_it_still_runs() {
    let fleet = Fleet::of_shards(1);
    let a = in_hand_for_an_hour(&fleet).await;
    fleet.store.partition("a");
    let b = fleet.instance("b").start().await;
    until("b has it", async || fleet.owner(&shard(0)).await == "b").await;
    fleet.store.recover();
    sleep(10 * SECOND).await;
    let moved = timeout(5 * SECOND, a.seek(StartPosition::trim_horizon())).await;
    assert!(not_moved(&moved.expect("it resolves")).is_empty());
    a.kill();
    b.stop().await;
}

/// Asks for a move to the tip, and for a retry.
struct GivesUp(Recorder);

impl Handle<u64> for GivesUp {
    async fn handle(
        &self,
        value: &u64,
        outs: &(),
        ctx: &mut Context<'_>,
    ) -> Result<(), HandlerOutcome> {
        Handle::<u64>::handle(&self.0, value, outs, ctx).await?;
        let info = ctx.get::<RecordInfo>().expect("attached");
        info.seek(StartPosition::latest());
        Err(HandlerOutcome::retry())
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_moves_to_the_tip_keeps_no_hand_over_waiting() {
    let fleet = Fleet::of_shards(2);
    for n in 0..2 {
        fleet.put(&shard(n), 0);
    }
    let a = fleet
        .instance("a")
        .handler(|_| ack_after(8 * SECOND))
        .streams([read_often()])
        .subscription(|stream, recorder| {
            let gives_up = subscriber(stream, GivesUp(recorder));
            gives_up.retry(RetryPolicy::fixed(HOUR)).build::<u64>()
        })
        .start()
        .await;
    until("both are in hand", async || fleet.seen().len() == 2).await;
    let began = Instant::now();
    let b = fleet.instance("b").start().await;
    let of_b = until_one_is_of(&fleet, "b").await;
    assert!(began.elapsed() < 10 * SECOND, "{:?}", began.elapsed());
    fleet.put(&of_b, 1);
    until("b reads it on", async || fleet.values().contains(&1)).await;
    let by_b = fleet.seen().into_iter().filter(|seen| seen.owner == "b");
    assert_eq!(
        by_b.map(|seen| seen.value).collect::<Vec<_>>(),
        [1],
        "the move came about"
    );
    a.stop().await;
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn told_to_stop_before_the_tip_is_known_a_shard_is_written_there_and_nothing_comes_again() {
    let fleet = Fleet::of_shards(1);
    fleet.put_key("stuck", 0);
    for value in 1..4 {
        fleet.put_key("k", value);
    }
    let a = fleet
        .instance("a")
        .handler(|seen| match seen.value {
            0 => say(HandlerOutcome::retry_after(HOUR)),
            _ => ack(),
        })
        .streams([read_often().concurrency(2)])
        .start()
        .await;
    fleet.until_handled(3).await;
    let slow = Fault::delay(5 * SECOND).on(Operation::GetShardIterator);
    fleet.sim.inject(slow);
    let moved = timeout(SECOND, a.seek(StartPosition::latest())).await;
    assert!(moved.is_err(), "it is on its way: {moved:?}");
    a.stop().await;
    let b = fleet.instance("b").start().await;
    fleet.put_key("k", 4);
    until("what is new comes", async || fleet.values().contains(&4)).await;
    assert_eq!(fleet.values(), [0, 1, 2, 3, 4]);
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn who_asked_for_a_move_of_a_shard_that_is_lost_meanwhile_hears_so_at_once() {
    let fleet = Fleet::of_shards(1);
    let a = in_hand_for_an_hour(&fleet).await;
    let lost = async {
        sleep(SECOND).await;
        fleet.store.partition("a");
        let b = fleet.instance("b").start().await;
        until("b has it", async || fleet.owner(&shard(0)).await == "b").await;
        fleet.store.recover();
        b
    };
    let both = async { tokio::join!(a.seek(StartPosition::trim_horizon()), lost) };
    let (moved, b) = timeout(120 * SECOND, both).await.expect("it resolves");
    assert_eq!(not_moved(&moved), [shard(0)]);
    a.kill();
    b.stop().await;
}
