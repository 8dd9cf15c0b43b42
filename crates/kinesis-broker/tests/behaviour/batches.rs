//! Handlers of batches: what makes one, what an outcome covers, and what becomes of one that gathers.

use std::time::Duration;

use kinesis_broker::{DeadLetter, KinesisStream, Prefetch};
use rstream::{HandlerOutcome, OnUndecodable, RetryPolicy, subscriber};
use tokio::time::{Instant, sleep};

use crate::support::{
    Act, Batches, Call, Fleet, Instance, Logs, STREAM, SeenBatch, Trouble, ack, ack_after,
    from_the_start, panics, say, shard, until, within,
};

const SECOND: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);

fn always(_: &SeenBatch) -> Act {
    ack()
}

/// A stream that is read often, so that what is put is there at once.
fn read_often() -> KinesisStream {
    from_the_start(STREAM).poll_interval(10 * MILLI)
}

async fn until_handed_over(batches: &Batches, count: usize) {
    until(format_args!("{count} batches"), async || {
        let seen = batches.seen();
        seen.iter().filter(|seen| seen.done_at.is_some()).count() >= count
    })
    .await;
}

async fn until_checkpoint(fleet: &Fleet, shard: &str, at: &str) {
    until(format_args!("the checkpoint is {at}"), async || {
        fleet.checkpoint(shard).await == at
    })
    .await;
}

fn sequence_numbers(fleet: &Fleet, shard: &str) -> Vec<String> {
    let records = fleet.sim.records(STREAM, shard).into_iter();
    records.map(|record| record.sequence_number).collect()
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_handed_over_when_it_is_full_and_all_come_in_order() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..25);
    let batches = Batches::new(always);
    let began = Instant::now();
    let a = fleet
        .instance("a")
        .subscription(batches.up_to(10, 5 * SECOND))
        .start()
        .await;
    until_handed_over(&batches, 3).await;
    let expected = [0..10, 10..20, 20..25].map(Vec::from_iter);
    assert_eq!(batches.values(), expected);
    let at: Vec<_> = (batches.seen().iter())
        .map(|seen| (seen.at - began).as_secs())
        .collect();
    assert_eq!(at, [0, 0, 5], "the last one waited for others");
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_not_full_goes_once_its_first_record_has_waited_for_so_long() {
    let fleet = Fleet::of_shards(1);
    let batches = Batches::new(always);
    let a = fleet
        .instance("a")
        .streams([read_often()])
        .subscription(batches.up_to(10, 2 * SECOND))
        .start()
        .await;
    sleep(10 * SECOND).await;
    assert!(batches.seen().is_empty(), "nothing is no batch");
    let put = Instant::now();
    fleet.put(&shard(0), 0);
    sleep(1_500 * MILLI).await;
    fleet.put(&shard(0), 1);
    until_handed_over(&batches, 1).await;
    fleet.put(&shard(0), 2);
    until_handed_over(&batches, 2).await;
    assert_eq!(batches.values(), [vec![0, 1], vec![2]]);
    let waited = batches.seen()[0].at - put;
    assert!(
        (2 * SECOND..2_400 * MILLI).contains(&waited),
        "the second one begins no wait anew: {waited:?}"
    );
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_a_wait_a_batch_is_what_is_there() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..7);
    let batches = Batches::new(always);
    let began = Instant::now();
    let a = fleet
        .instance("a")
        .streams([read_often()])
        .subscription(batches.up_to(5, Duration::ZERO))
        .start()
        .await;
    until_handed_over(&batches, 2).await;
    fleet.put(&shard(0), 7);
    until_handed_over(&batches, 3).await;
    assert_eq!(batches.values(), [vec![0, 1, 2, 3, 4], vec![5, 6], vec![7]]);
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_of_one_shard_and_tells_of_each_record_and_no_shard_waits_for_another() {
    let fleet = Fleet::of_shards(2);
    fleet.put_all(&shard(0), 0..6);
    fleet.put_all(&shard(1), 10..16);
    let batches = Batches::new(|_| ack_after(SECOND));
    let began = Instant::now();
    let a = fleet
        .instance("a")
        .subscription(batches.up_to(3, Duration::ZERO))
        .start()
        .await;
    until_handed_over(&batches, 4).await;
    assert!(began.elapsed() < 3 * SECOND, "both shards at once");
    for n in 0..2 {
        let of_shard = |seen: &SeenBatch| seen.records[0].shard == shard(n);
        let seen: Vec<_> = batches.seen().into_iter().filter(of_shard).collect();
        let values: Vec<_> = seen.iter().map(|seen| seen.values.clone()).collect();
        let first = 10 * n as u64;
        let expected = [first..first + 3, first + 3..first + 6].map(Vec::from_iter);
        assert_eq!(values, expected);
        assert!(
            seen[0].done_at.unwrap() <= seen[1].at,
            "one after the other"
        );
        let records: Vec<_> = seen.iter().flat_map(|seen| &seen.records).collect();
        let told: Vec<_> = (records.iter())
            .map(|info| info.sequence_number.clone())
            .collect();
        assert_eq!(told, sequence_numbers(&fleet, &shard(n)));
        for (info, value) in records.iter().zip(values.concat()) {
            assert_eq!((&*info.stream, &info.shard), (STREAM, &shard(n)));
            assert_eq!(info.partition_key, value.to_string());
            assert_eq!((&*info.holder.owner, info.holder.epoch), ("a", 1));
        }
    }
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn one_acknowledgement_is_one_checkpoint_at_the_last_record_of_the_batch() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..30);
    let batches = Batches::new(always);
    let a = fleet
        .instance("a")
        .subscription(batches.up_to(10, SECOND))
        .start()
        .await;
    let all = sequence_numbers(&fleet, &shard(0));
    until_checkpoint(&fleet, &shard(0), &all[29]).await;
    let written = fleet.store.made_on(Call::Checkpoint, &shard(0));
    let written: Vec<_> = written
        .into_iter()
        .filter_map(|made| made.checkpoint)
        .collect();
    assert_eq!(written, [9, 19, 29].map(|n| all[n].clone()));
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_handled_in_part_is_settled_so_far_and_its_rest_comes_again() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..7);
    let batches = Batches::new(|seen| match (seen.values[0], seen.attempt) {
        (0, 1) => say(HandlerOutcome::ack_until(2)),
        (2, 2) => say(HandlerOutcome::ack_until(0)),
        _ => ack(),
    });
    let handler = batches.clone();
    let a = fleet
        .instance("a")
        .subscription(move |stream, _| {
            subscriber(stream, handler.clone())
                .batch(5, Duration::ZERO)
                .retry(
                    RetryPolicy::exponential()
                        .first(10 * SECOND)
                        .cap(HOUR)
                        .jitter(0.0),
                )
                .build::<u64>()
        })
        .start()
        .await;
    until_handed_over(&batches, 1).await;
    let all = sequence_numbers(&fleet, &shard(0));
    until_checkpoint(&fleet, &shard(0), &all[1]).await;
    until_handed_over(&batches, 2).await;
    assert_eq!(fleet.checkpoint(&shard(0)).await, all[1]);
    until_checkpoint(&fleet, &shard(0), &all[6]).await;
    let seen = batches.seen();
    let what: Vec<_> = (seen.iter())
        .map(|seen| (seen.values.clone(), seen.attempt))
        .collect();
    assert_eq!(
        what,
        [
            (vec![0, 1, 2, 3, 4], 1),
            (vec![2, 3, 4], 2),
            (vec![2, 3, 4], 3),
            (vec![5, 6], 1),
        ]
    );
    let pauses: Vec<_> = (seen.windows(2).take(2))
        .map(|pair| (pair[1].at - pair[0].at).as_secs())
        .collect();
    assert_eq!(pauses, [10, 20], "the first attempt on the rest has failed");
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn to_handle_more_than_was_given_is_to_handle_all_with_a_warning() {
    let logs = Logs::start();
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..4);
    let batches = Batches::new(|seen| {
        say(HandlerOutcome::ack_until(match seen.values[0] {
            0 => 2,
            _ => 9,
        }))
    });
    let a = fleet
        .instance("a")
        .subscription(batches.up_to(2, Duration::ZERO))
        .start()
        .await;
    let all = sequence_numbers(&fleet, &shard(0));
    until_checkpoint(&fleet, &shard(0), &all[3]).await;
    assert_eq!(batches.values(), [[0, 1], [2, 3]]);
    let warnings = logs.warnings("more records than it was given");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("handled=9"), "{warnings:?}");
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_retry_or_a_panic_brings_the_whole_batch_again_before_anything_later() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..6);
    let batches = Batches::new(|seen| match seen.attempt {
        1 => say(HandlerOutcome::retry()),
        2 => panics(),
        3 => say(HandlerOutcome::retry_after(7 * SECOND)),
        _ => ack(),
    });
    let a = fleet
        .instance("a")
        .subscription(batches.up_to(3, Duration::ZERO))
        .start()
        .await;
    until_handed_over(&batches, 3).await;
    assert!(
        fleet.store.made_of(Call::Checkpoint).is_empty(),
        "nothing is settled"
    );
    until_handed_over(&batches, 8).await;
    let seen = batches.seen();
    let attempts: Vec<_> = seen
        .iter()
        .map(|seen| (seen.values[0], seen.attempt))
        .collect();
    let expected = [0, 3].map(|first| [1, 2, 3, 4].map(|attempt| (first, attempt)));
    assert_eq!(attempts, expected.concat());
    assert!(seen.iter().all(|seen| seen.values.len() == 3));
    assert_eq!((seen[3].at - seen[2].at).as_secs(), 7);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_dropped_is_settled_with_a_warning_for_each_record() {
    let logs = Logs::start();
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..3);
    let batches = Batches::new(|_| say(HandlerOutcome::drop()));
    let a = fleet
        .instance("a")
        .subscription(batches.up_to(3, HOUR))
        .start()
        .await;
    let all = sequence_numbers(&fleet, &shard(0));
    until_checkpoint(&fleet, &shard(0), &all[2]).await;
    let warnings = logs.warnings("the handler dropped a record");
    assert_eq!(warnings.len(), 3);
    for (warning, number) in warnings.iter().zip(&all) {
        assert!(warning.contains(number), "{warning}");
    }
    a.stop().await;
}

/// Puts 0, 1, something else, 3 and 4, to be read in batches of up to five.
async fn with_one_that_cannot_be_decoded(what: OnUndecodable) -> (Fleet, Batches, Instance) {
    let fleet = Fleet::of_shards(1);
    fleet.sim.create_stream("dead", 1);
    fleet.put_all(&shard(0), 0..2);
    fleet.sim.put_to_shard(STREAM, &shard(0), "k", "no number");
    fleet.put_all(&shard(0), 3..5);
    let batches = Batches::new(always);
    let handler = batches.clone();
    let a = fleet
        .instance("a")
        .subscription(move |stream, _| {
            subscriber(stream, handler.clone())
                .batch(5, Duration::ZERO)
                .retry(RetryPolicy::fixed(SECOND).max_attempts(4))
                .dead_letter("dead")
                .on_undecodable(what)
                .build::<u64>()
        })
        .start()
        .await;
    (fleet, batches, a)
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_decoded_ends_the_batch_before_it_and_is_dropped() {
    let (fleet, batches, a) = with_one_that_cannot_be_decoded(OnUndecodable::Drop).await;
    let all = sequence_numbers(&fleet, &shard(0));
    until_checkpoint(&fleet, &shard(0), &all[4]).await;
    assert_eq!(batches.values(), [[0, 1], [3, 4]]);
    let told: Vec<_> = batches.seen()[1].records[..2]
        .iter()
        .map(|info| info.sequence_number.clone())
        .collect();
    assert_eq!(told, all[3..], "each is told of with its own value");
    let errors = a.errors_of("Undecodable");
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].text.contains(&all[2]) && errors[0].text.contains("was dropped"));
    assert!(fleet.stored("dead").is_empty());
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_decoded_is_a_dead_letter_between_two_batches() {
    let (fleet, batches, a) = with_one_that_cannot_be_decoded(OnUndecodable::DeadLetter).await;
    let all = sequence_numbers(&fleet, &shard(0));
    until_checkpoint(&fleet, &shard(0), &all[4]).await;
    assert_eq!(batches.values(), [[0, 1], [3, 4]]);
    let dead = fleet.stored("dead");
    assert_eq!(dead.len(), 1);
    let letter = DeadLetter::parse(&dead[0].data).unwrap();
    assert_eq!(
        (&letter.payload[..], letter.attempts),
        (&b"no number"[..], 1)
    );
    assert_eq!(letter.sequence_number, all[2]);
    assert!(!letter.reason.contains("no number"), "{letter:?}");
    let errors = a.errors_of("Undecodable");
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(
        errors[0].text.contains("goes to the dead letters"),
        "{errors:?}"
    );
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_decoded_is_retried_alone_up_to_its_last_attempt() {
    let (fleet, batches, a) = with_one_that_cannot_be_decoded(OnUndecodable::Retry).await;
    let all = sequence_numbers(&fleet, &shard(0));
    until_checkpoint(&fleet, &shard(0), &all[1]).await;
    until("it was tried twice", async || {
        a.errors_of("Undecodable").len() == 2
    })
    .await;
    assert_eq!(batches.values(), [[0, 1]], "those behind it wait");
    assert_eq!(fleet.checkpoint(&shard(0)).await, all[1]);
    until_checkpoint(&fleet, &shard(0), &all[4]).await;
    assert_eq!(batches.values(), [[0, 1], [3, 4]]);
    let errors = a.errors_of("Undecodable");
    assert_eq!(errors.len(), 4, "{errors:?}");
    let pauses = errors
        .windows(2)
        .map(|pair| (pair[1].at - pair[0].at).as_millis());
    assert_eq!(
        pauses.map(|pause| pause / 1_000).collect::<Vec<_>>(),
        [1, 1, 1]
    );
    let letter = DeadLetter::parse(&fleet.stored("dead")[0].data).unwrap();
    assert_eq!(letter.attempts, 4);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_shard_hands_a_batch_over_at_once() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..3);
    let batches = Batches::new(always);
    let a = fleet
        .instance("a")
        .subscription(batches.up_to(10, HOUR))
        .start()
        .await;
    sleep(30 * SECOND).await;
    assert!(batches.seen().is_empty(), "it gathers");
    let children = fleet.sim.split_shard(STREAM, &shard(0));
    fleet.put_all(&children[0], 3..13);
    within(5 * SECOND, "the children are read", async || {
        (batches.values() == [Vec::from_iter(0..3), Vec::from_iter(3..13)]).then_some(())
    })
    .await;
    assert_eq!(fleet.checkpoint(&shard(0)).await, "SHARD_END");
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_gathers_keeps_neither_a_hand_over_nor_a_shutdown_waiting_and_nothing_is_lost_or_repeated()
 {
    let fleet = Fleet::of_shards(2);
    fleet.put_all(&shard(0), 0..3);
    fleet.put_all(&shard(1), 3..6);
    let gathers = Batches::new(always);
    let takes_all = Batches::new(always);
    let a = fleet
        .instance("a")
        .subscription(gathers.up_to(10, HOUR))
        .start()
        .await;
    sleep(5 * SECOND).await;
    let b = fleet
        .instance("b")
        .subscription(takes_all.up_to(10, Duration::ZERO))
        .start()
        .await;
    within(15 * SECOND, "b has one shard", async || {
        (takes_all.values().concat().len() == 3).then_some(())
    })
    .await;
    let began = Instant::now();
    a.stop().await;
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
    assert!(gathers.seen().is_empty());
    until("b has both", async || takes_all.sorted().len() >= 6).await;
    sleep(60 * SECOND).await;
    assert_eq!(takes_all.sorted(), Vec::from_iter(0..6));
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_in_hand_is_settled_before_a_hand_over_and_its_rest_too() {
    let fleet = Fleet::of_shards(2);
    fleet.put_all(&shard(0), 0..8);
    fleet.put_all(&shard(1), 8..16);
    // The first attempt on each handles half of it.
    let act = |seen: &SeenBatch| match seen.attempt {
        1 if seen.owner == "a" => Act {
            takes: 8 * SECOND,
            ..say(HandlerOutcome::ack_until(2))
        },
        _ => ack(),
    };
    let batches = Batches::new(act);
    let subscribe = |batches: &Batches| {
        let handler = batches.clone();
        move |stream, _| {
            subscriber(stream, handler.clone())
                .batch(4, Duration::ZERO)
                .retry(RetryPolicy::fixed(SECOND))
                .build::<u64>()
        }
    };
    let a = (fleet.instance("a"))
        .subscription(subscribe(&batches))
        .start()
        .await;
    until("both are in hand", async || batches.seen().len() == 2).await;
    let b = (fleet.instance("b"))
        .subscription(subscribe(&batches))
        .start()
        .await;
    until("all is handled", async || {
        let mut values = batches.sorted();
        values.dedup();
        values.len() == 16 && batches.seen().iter().all(|seen| seen.done_at.is_some())
    })
    .await;
    sleep(30 * SECOND).await;
    let first: Vec<_> = (batches.seen().into_iter())
        .filter(|seen| seen.attempt == 1)
        .flat_map(|seen| seen.values)
        .collect();
    assert_eq!(first.len(), 16, "nothing comes anew: {:?}", batches.seen());
    assert!(batches.seen().iter().any(|seen| seen.owner == "b"));
    a.stop().await;
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_settles_the_batch_in_hand_and_no_retry_of_it_keeps_it_waiting() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..8);
    let batches = Batches::new(|seen| match seen.owner.as_str() {
        "a" => Act {
            takes: 3 * SECOND,
            ..say(HandlerOutcome::ack_until(1))
        },
        _ => ack(),
    });
    let a = fleet
        .instance("a")
        .subscription(batches.up_to(4, Duration::ZERO))
        .start()
        .await;
    until("it is in hand", async || batches.seen().len() == 1).await;
    let began = Instant::now();
    a.stop().await;
    assert!(began.elapsed() < 4 * SECOND, "{:?}", began.elapsed());
    let all = sequence_numbers(&fleet, &shard(0));
    assert_eq!(fleet.checkpoint(&shard(0)).await, all[0]);
    let b = fleet
        .instance("b")
        .subscription(batches.up_to(10, Duration::ZERO))
        .start()
        .await;
    until_handed_over(&batches, 2).await;
    assert_eq!(batches.values()[1], Vec::from_iter(1..8));
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_forgets_what_gathers_and_a_batch_in_hand_has_no_effect() {
    let fleet = Fleet::of_shards(2);
    fleet.put_all(&shard(0), 0..10);
    fleet.put_all(&shard(1), 10..13);
    let (of_a, of_b) = (
        Batches::new(|_| ack_after(60 * SECOND)),
        Batches::new(always),
    );
    let a = fleet
        .instance("a")
        .subscription(of_a.up_to(10, 30 * SECOND))
        .start()
        .await;
    until("one is in hand", async || of_a.seen().len() == 1).await;
    fleet.store.partition("a");
    let b = fleet
        .instance("b")
        .subscription(of_b.up_to(10, Duration::ZERO))
        .start()
        .await;
    within(40 * SECOND, "b handles all", async || {
        (of_b.sorted() == Vec::from_iter(0..13)).then_some(())
    })
    .await;
    fleet.store.recover();
    sleep(120 * SECOND).await;
    let first = Vec::from_iter(0..10);
    assert_eq!(of_a.values().first(), Some(&first));
    let mut later = of_a.values().split_off(1).concat();
    later.extend(of_b.values().concat());
    later.sort_unstable();
    assert_eq!(
        later,
        Vec::from_iter(0..13),
        "nothing twice but what a had in hand"
    );
    for n in 0..2 {
        let last = sequence_numbers(&fleet, &shard(n)).pop().unwrap();
        assert_eq!(fleet.checkpoint(&shard(n)).await, last);
    }
    a.kill();
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_may_gather_for_longer_than_a_lease_lasts() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..2);
    let batches = Batches::new(always);
    let a = fleet
        .instance("a")
        .subscription(batches.up_to(10, 90 * SECOND))
        .start()
        .await;
    until_handed_over(&batches, 1).await;
    assert_eq!(batches.values(), [[0, 1]]);
    assert_eq!(fleet.store.grants(), 1);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_due_while_the_lease_cannot_be_renewed_waits_for_the_store() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..2);
    let batches = Batches::new(always);
    let a = fleet
        .instance("a")
        .subscription(batches.up_to(10, 15 * SECOND))
        .start()
        .await;
    sleep(SECOND).await;
    fleet.store.outage(Trouble::Fails);
    sleep(60 * SECOND).await;
    assert!(batches.seen().is_empty(), "nobody relies on the lease");
    fleet.store.recover();
    until_handed_over(&batches, 1).await;
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_due_while_a_checkpoint_is_sent_again_waits_for_it() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..4);
    let batches = Batches::new(always);
    fleet.store.trouble(Call::Checkpoint, Trouble::Fails, 1);
    let slow = Trouble::AnswersLate(2 * SECOND);
    fleet.store.trouble(Call::Checkpoint, slow, 1);
    let a = fleet
        .instance("a")
        .subscription(batches.up_to(3, SECOND))
        .start()
        .await;
    until_handed_over(&batches, 2).await;
    assert_eq!(batches.values(), [vec![0, 1, 2], vec![3]]);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_gathers_no_more_than_may_be_held_and_is_handed_over_then() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..10);
    let batches = Batches::new(always);
    let a = fleet
        .instance("a")
        .streams([read_often().prefetch(Prefetch::default().records(20))])
        .subscription(batches.up_to(1_000, HOUR))
        .start()
        .await;
    sleep(10 * SECOND).await;
    assert!(batches.seen().is_empty(), "it gathers");
    fleet.put_all(&shard(0), 10..20);
    within(SECOND, "there is no room for more", async || {
        (batches.values() == [Vec::from_iter(0..20)]).then_some(())
    })
    .await;
    let last = sequence_numbers(&fleet, &shard(0)).pop().unwrap();
    until_checkpoint(&fleet, &shard(0), &last).await;
    fleet.put_all(&shard(0), 20..50);
    within(SECOND, "the room is there again", async || {
        (batches.values()[1..] == [Vec::from_iter(20..50)]).then_some(())
    })
    .await;
    a.stop().await;
}
