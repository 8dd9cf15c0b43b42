//! What lies among the dead letters, and that a record is settled only once it lies there.

use std::time::Duration;

use kinesis_broker::{DeadLetter, KinesisStream};
use kinesis_sim::{Fault, Operation};
use rstream::broker::Subscription;
use rstream::{HandlerOutcome, OnUndecodable, RetryPolicy, subscriber};
use tokio::time::{Instant, sleep};

use crate::support::{
    Act, Call, Counters, Fleet, Logs, Outcome, Recorder, STREAM, Seen, Trouble, ack,
    from_the_start, say, shard, until, within,
};

const SECOND: Duration = Duration::from_secs(1);
const REASON: &str = "no such \"sku\"\n";

fn to_dead(stream: KinesisStream, handler: Recorder) -> Subscription {
    subscriber(stream, handler)
        .retry(RetryPolicy::fixed(SECOND).max_attempts(3))
        .dead_letter("dead")
        .on_undecodable(OnUndecodable::DeadLetter)
        .build::<u64>()
}

/// Gives up what is 0, and handles the rest.
fn gives_up_zero(seen: &Seen) -> Act {
    match seen.value {
        0 => say(HandlerOutcome::dead_letter(REASON)),
        _ => ack(),
    }
}

fn letters(fleet: &Fleet) -> Vec<DeadLetter> {
    let stored = fleet.stored("dead").into_iter();
    stored
        .map(|record| DeadLetter::parse(&record.data).unwrap())
        .collect()
}

fn fleet() -> Fleet {
    let fleet = Fleet::of_shards(1);
    fleet.sim.create_stream("dead", 2);
    fleet
}

async fn until_settled(fleet: &Fleet, at: &str) {
    until("all is settled", async || {
        fleet.checkpoint(&shard(0)).await == at
    })
    .await;
}

fn accepted_checkpoints(fleet: &Fleet) -> usize {
    let written = fleet.store.made_on(Call::Checkpoint, &shard(0));
    let accepted = written.iter().filter(|made| made.outcome == Outcome::Yes);
    accepted.count()
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_gives_up_lies_there_untouched_with_where_it_came_from_and_why() {
    let counters = Counters::default();
    let _counting = metrics::set_default_local_recorder(&counters);
    let fleet = fleet();
    // Not at a whole second.
    sleep(Duration::from_millis(1_234)).await;
    let put = fleet
        .sim
        .put_to_shard(STREAM, &shard(0), "sku-7", " 0 \n")
        .sequence_number;
    let last = fleet.put(&shard(0), 1);
    let a = fleet
        .instance("a")
        .subscription(to_dead)
        .handler(gives_up_zero)
        .start()
        .await;
    until_settled(&fleet, &last).await;
    let original = &fleet.sim.records(STREAM, &shard(0))[0];
    let stored = fleet.stored("dead");
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0].partition_key, "sku-7");
    let letter = DeadLetter::parse(&stored[0].data).unwrap();
    assert_eq!(&letter.payload[..], b" 0 \n");
    assert_eq!((&*letter.stream, &letter.shard), (STREAM, &shard(0)));
    assert_eq!(letter.sequence_number, put);
    assert_eq!(letter.sub_sequence_number, None);
    assert_eq!(letter.partition_key, "sku-7");
    assert_eq!(letter.arrived_at, original.arrived_at);
    assert_eq!((letter.attempts, &*letter.reason), (1, REASON));
    assert!(!letter.payload_follows);
    assert_eq!(fleet.values(), [0, 1], "at once, and the next one comes");
    assert!(
        (counters.all()).contains(&("kinesis_dead_letters_total stream=inventory".to_owned(), 1)),
        "{:?}",
        counters.all()
    );
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_record_is_settled_only_once_its_dead_letter_is_stored() {
    let fleet = fleet();
    fleet.put(&shard(0), 0);
    let last = fleet.put(&shard(0), 1);
    // It is stored at once, and that is known later.
    fleet
        .sim
        .inject(Fault::late_answer(5 * SECOND).on(Operation::PutRecords));
    let began = Instant::now();
    let a = fleet
        .instance("a")
        .subscription(to_dead)
        .handler(gives_up_zero)
        .start()
        .await;
    until("it is stored", async || fleet.stored("dead").len() == 1).await;
    assert!(fleet.store.made_of(Call::Checkpoint).is_empty());
    until_settled(&fleet, &last).await;
    let written = &fleet.store.made_of(Call::Checkpoint)[0];
    assert_eq!((written.at - began).as_secs(), 5);
    assert_eq!(letters(&fleet).len(), 1);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_the_service_can_store_later_is_put_again_without_a_word() {
    let fleet = fleet();
    fleet.put(&shard(0), 0);
    let last = fleet.put(&shard(0), 1);
    for fault in [
        Fault::throttle().times(4),
        Fault::partial(1).times(3),
        Fault::internal().times(3),
        Fault::reset(),
    ] {
        fleet.sim.inject(fault.on(Operation::PutRecords));
    }
    let a = fleet
        .instance("a")
        .subscription(to_dead)
        .handler(gives_up_zero)
        .start()
        .await;
    until("all of them have struck", async || {
        fleet.sim.faults_struck() >= 11
    })
    .await;
    until_settled(&fleet, &last).await;
    assert_eq!(letters(&fleet).len(), 1);
    assert!(a.errors().is_empty(), "{:?}", a.errors());
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_stream_of_the_dead_letters_the_record_waits_and_that_is_said_once() {
    let fleet = Fleet::of_shards(1);
    let first = fleet.put(&shard(0), 5);
    fleet.put(&shard(0), 0);
    let last = fleet.put(&shard(0), 1);
    let a = fleet
        .instance("a")
        .subscription(to_dead)
        .handler(gives_up_zero)
        .start()
        .await;
    sleep(300 * SECOND).await;
    let errors = a.errors_of("NotStored");
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(a.errors().len(), 1);
    for part in ["inventory", &shard(0), "dead", "PutRecords"] {
        assert!(errors[0].text.contains(part), "{errors:?}");
    }
    assert_eq!(fleet.checkpoint(&shard(0)).await, first);
    assert_eq!(fleet.values(), [5, 0], "once, and nothing goes past it");
    fleet.sim.create_stream("dead", 1);
    within(11 * SECOND, "it goes on", async || {
        (fleet.checkpoint(&shard(0)).await == last).then_some(())
    })
    .await;
    assert_eq!(letters(&fleet).len(), 1);
    assert_eq!(fleet.values(), [5, 0, 1]);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_record_that_cannot_be_stored_is_said_by_itself() {
    let fleet = fleet();
    fleet.put_all(&shard(0), [0, 0]);
    let a = fleet
        .instance("a")
        .subscription(to_dead)
        .handler(gives_up_zero)
        .start()
        .await;
    fleet.until_handled(2).await;
    fleet
        .sim
        .inject(Fault::access_denied().on(Operation::PutRecords).times(6));
    let numbers = [0, 0].map(|value| fleet.put(&shard(0), value));
    until("both are stored", async || fleet.stored("dead").len() == 4).await;
    let errors = a.errors_of("NotStored");
    assert_eq!(errors.len(), 1, "one alone was refused: {errors:?}");
    assert!(errors[0].text.contains(&numbers[0]));
    fleet
        .sim
        .inject(Fault::access_denied().on(Operation::PutRecords));
    let third = fleet.put(&shard(0), 0);
    until("it is stored", async || fleet.stored("dead").len() == 5).await;
    let errors = a.errors_of("NotStored");
    assert_eq!(errors.len(), 2);
    assert!(errors[1].text.contains(&third));
    a.stop().await;
}

/// What a record may be at most together with its key, unless the stream is told otherwise.
const LIMIT: usize = 1024 * 1024;

#[tokio::test(start_paused = true)]
async fn a_payload_that_leaves_no_room_for_where_it_came_from_follows_in_a_record_of_its_own() {
    let fleet = fleet();
    let payload = "x".repeat(LIMIT - 1);
    fleet.sim.put_to_shard(STREAM, &shard(0), "k", &payload);
    let last = fleet.put(&shard(0), 1);
    let a = fleet.instance("a").subscription(to_dead).start().await;
    until_settled(&fleet, &last).await;
    let stored = fleet.stored("dead");
    assert_eq!(stored.len(), 2);
    let letter = DeadLetter::parse(&stored[0].data).unwrap();
    assert!(
        letter.payload_follows && letter.payload.is_empty(),
        "{letter:?}"
    );
    assert_eq!(letter.partition_key, "k");
    assert!(stored[1].data == payload.as_bytes());
    assert!(stored.iter().all(|record| record.partition_key == "k"));
    assert!(a.errors_of("NotStored").is_empty());
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_payload_that_the_stream_does_not_take_is_held_and_where_it_came_from_is_stored_once() {
    let fleet = fleet();
    let payload = "x".repeat(LIMIT);
    // The stream's own limit was raised, that of the dead letters' was not.
    let client = aws_sdk_kinesis::Client::new(&fleet.sim.sdk_config());
    let arn = client.describe_stream_summary().stream_name(STREAM).send();
    let arn = arn
        .await
        .unwrap()
        .stream_description_summary
        .unwrap()
        .stream_arn;
    let raise = client.update_max_record_size().stream_arn(&arn);
    let raise = raise.max_record_size_in_kib(2_048).send();
    raise.await.unwrap();
    sleep(60 * SECOND).await;
    fleet.sim.put_to_shard(STREAM, &shard(0), "k", &payload);
    let a = fleet.instance("a").subscription(to_dead).start().await;
    sleep(10 * SECOND).await;
    assert_eq!(fleet.stored("dead").len(), 1);
    assert_eq!(a.errors_of("NotStored").len(), 1, "{:?}", a.errors());
    assert_eq!(fleet.checkpoint(&shard(0)).await, "");
    a.kill();
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_between_dead_letter_and_checkpoint_loses_nothing() {
    let fleet = fleet();
    let put = fleet.put(&shard(0), 0);
    fleet.store.always_of(Call::Checkpoint, "a", Trouble::Hangs);
    let a = fleet
        .instance("a")
        .subscription(to_dead)
        .handler(gives_up_zero)
        .start()
        .await;
    until("it is stored, and that is not written", async || {
        fleet.stored("dead").len() == 1 && !fleet.store.made_of(Call::Checkpoint).is_empty()
    })
    .await;
    a.kill();
    let b = fleet
        .instance("b")
        .subscription(to_dead)
        .handler(gives_up_zero)
        .start()
        .await;
    until_settled(&fleet, &put).await;
    let letters = letters(&fleet);
    assert_eq!(letters.len(), 2, "at least once");
    assert_eq!(letters[0], letters[1]);
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_before_the_dead_letter_is_stored_loses_nothing() {
    let fleet = fleet();
    let put = fleet.put(&shard(0), 0);
    fleet.sim.inject(Fault::hang().on(Operation::PutRecords));
    let a = fleet
        .instance("a")
        .subscription(to_dead)
        .handler(gives_up_zero)
        .start()
        .await;
    until("it is on its way", async || fleet.sim.faults_struck() == 1).await;
    a.kill();
    assert_eq!(accepted_checkpoints(&fleet), 0);
    let b = fleet
        .instance("b")
        .subscription(to_dead)
        .handler(gives_up_zero)
        .start()
        .await;
    until_settled(&fleet, &put).await;
    assert!(!letters(&fleet).is_empty());
    assert_eq!(fleet.values(), [0, 0]);
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_ends_the_wait_for_the_dead_letters() {
    let logs = Logs::start();
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 0);
    let last = fleet.put(&shard(0), 1);
    let a = fleet
        .instance("a")
        .subscription(to_dead)
        .handler(gives_up_zero)
        .start()
        .await;
    until("it waits", async || a.errors_of("NotStored").len() == 1).await;
    fleet.store.partition("a");
    let b = fleet.instance("b").start().await;
    until_settled(&fleet, &last).await;
    fleet.store.recover();
    // Only once the wait has ended can a take the shard anew.
    b.stop().await;
    let again = fleet.put(&shard(0), 2);
    until_settled(&fleet, &again).await;
    assert_eq!(fleet.seen().last().unwrap().owner, "a");
    fleet.sim.create_stream("dead", 1);
    sleep(60 * SECOND).await;
    assert!(letters(&fleet).is_empty(), "it was b's to settle");
    assert_eq!(logs.warnings("was stored among the dead letters").len(), 0);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_a_shutdown_leaves_what_waits_for_the_dead_letters_unsettled() {
    let fleet = Fleet::of_shards(1);
    let first = fleet.put(&shard(0), 5);
    fleet.put(&shard(0), 0);
    let a = fleet
        .instance("a")
        .subscription(to_dead)
        .handler(gives_up_zero)
        .configure(|broker| broker.shutdown_timeout(7 * SECOND))
        .start()
        .await;
    until("it waits", async || a.errors_of("NotStored").len() == 1).await;
    let reported = a.reported();
    let began = Instant::now();
    a.stop().await;
    assert_eq!(began.elapsed().as_secs(), 7);
    let is_told = reported
        .lock()
        .unwrap()
        .iter()
        .any(|error| error.kind == "Unsettled");
    assert!(is_told);
    assert_eq!(fleet.checkpoint(&shard(0)).await, first);
    let b = fleet.instance("b").start().await;
    fleet.until_handled(3).await;
    assert_eq!(fleet.values(), [5, 0, 0]);
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn with_concurrency_other_keys_go_on_while_a_dead_letter_waits() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 0);
    fleet.put_all(&shard(0), 1..10);
    let a = fleet
        .instance("a")
        .streams([from_the_start(STREAM).concurrency(2)])
        .subscription(to_dead)
        .handler(gives_up_zero)
        .start()
        .await;
    fleet.until_handled(10).await;
    sleep(30 * SECOND).await;
    assert_eq!(fleet.checkpoint(&shard(0)).await, "");
    fleet.sim.create_stream("dead", 1);
    let last = fleet.stored(STREAM).pop().unwrap().sequence_number;
    until_settled(&fleet, &last).await;
    assert_eq!(letters(&fleet).len(), 1);
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_dead_letters_of_one_key_stay_in_order() {
    let fleet = fleet();
    for value in 0..20_u64 {
        let payload = format!("0{}", " ".repeat(value as usize));
        fleet.sim.put_to_shard(STREAM, &shard(0), "k", payload);
    }
    fleet.sim.inject(
        Fault::throttle()
            .on(Operation::PutRecords)
            .rate(0.4)
            .times(15),
    );
    let a = fleet
        .instance("a")
        .streams([from_the_start(STREAM).concurrency(4)])
        .subscription(to_dead)
        .handler(gives_up_zero)
        .start()
        .await;
    let last = fleet.stored(STREAM).pop().unwrap().sequence_number;
    until_settled(&fleet, &last).await;
    let lengths: Vec<_> = letters(&fleet)
        .iter()
        .map(|letter| letter.payload.len())
        .collect();
    assert_eq!(lengths, Vec::from_iter(1..=20));
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_is_declined_while_a_dead_letter_waits_and_goes_through_once_it_is_stored() {
    let fleet = Fleet::of_shards(2);
    for n in 0..2 {
        fleet.put_all(&shard(n), [0, 1]);
    }
    let a = fleet
        .instance("a")
        .subscription(to_dead)
        .handler(gives_up_zero)
        .start()
        .await;
    until("both wait", async || a.errors_of("NotStored").len() == 2).await;
    let b = fleet
        .instance("b")
        .subscription(to_dead)
        .handler(gives_up_zero)
        .start()
        .await;
    sleep(25 * SECOND).await;
    for n in 0..2 {
        assert_eq!(fleet.owner(&shard(n)).await, "a");
    }
    assert_eq!(fleet.values(), [0, 0]);
    fleet.sim.create_stream("dead", 1);
    until("b has one", async || {
        [fleet.owner(&shard(0)).await, fleet.owner(&shard(1)).await].contains(&"b".to_owned())
    })
    .await;
    fleet.until_handled(4).await;
    let mut values = fleet.values();
    values.sort_unstable();
    assert_eq!(values, [0, 0, 1, 1], "nothing twice");
    assert_eq!(letters(&fleet).len(), 2);
    a.stop().await;
    b.stop().await;
}
