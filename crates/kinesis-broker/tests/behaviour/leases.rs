//! Rules 1, 2, 4, 5 and 9 of the leases: who may read a shard, until when, and what a loss means.

use std::time::Duration;

use kinesis_broker::KinesisStream;
use kinesis_sim::Operation;
use lease_core::{Checkpoint, Holder, LeaseKey, LeaseStore as _};
use tokio::time::{Instant, sleep};

use crate::support::{
    Call, Fleet, Logs, Outcome, STREAM, Trouble, ack, ack_after, from_the_start, shard, until,
    within,
};

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(10);

/// Somebody else's lease, whatever the row says, as after a person's intervention.
async fn usurp(fleet: &Fleet, shard: &str, ttl: Duration) -> Holder {
    let row = fleet.store.row(&fleet.key(shard));
    if let Some(holder) = fleet.state(shard).await.holder {
        fleet.store.inner.release(&row, &holder).await.unwrap();
    }
    let granted = fleet.store.inner.acquire(&row, "x", ttl).await.unwrap();
    granted.expect("it was released")
}

#[tokio::test(start_paused = true)]
async fn a_shard_is_acquired_and_its_state_read_once_more_before_it_is_opened() {
    let fleet = Fleet::of_shards(1);
    fleet
        .store
        .trouble(Call::Acquire, Trouble::AnswersLate(2 * SECOND), 1);
    let (instance, ()) = tokio::join!(fleet.instance("a").start(), async {
        until("a acquires", async || {
            !fleet.store.made_of(Call::Acquire).is_empty()
        })
        .await;
        sleep(SECOND).await;
        assert_eq!(fleet.sim.calls(Operation::GetShardIterator), 0);
    });
    assert_eq!(fleet.sim.calls(Operation::GetShardIterator), 1);
    let made = fleet.store.made();
    let acquired = made.iter().position(|made| made.call == Call::Acquire);
    let again = made.iter().rposition(|made| made.call == Call::ReadAll);
    assert!(acquired.unwrap() < again.unwrap(), "{made:?}");
    instance.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_was_finished_while_it_was_being_acquired_is_given_back_unread() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 1);
    fleet
        .store
        .trouble(Call::Acquire, Trouble::Late(2 * SECOND), 1);
    let (instance, ()) = tokio::join!(fleet.instance("a").start(), async {
        let key = fleet.key(&shard(0));
        until("a acquires", async || {
            !fleet.store.made_of(Call::Acquire).is_empty()
        })
        .await;
        let holder = usurp(&fleet, &shard(0), LEASE).await;
        let end = Checkpoint::shard_end();
        assert!(
            fleet
                .store
                .inner
                .checkpoint(&key, &holder, &end)
                .await
                .unwrap()
        );
        fleet.store.inner.release(&key, &holder).await.unwrap();
    });
    assert_eq!(fleet.store.grants(), 1);
    assert_eq!(fleet.store.made_of(Call::Release).len(), 1);
    assert_eq!(fleet.state(&shard(0)).await.holder, None);
    assert_eq!(fleet.sim.calls(Operation::GetShardIterator), 0);
    assert_eq!(fleet.values(), [] as [u64; 0]);
    instance.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_child_whose_parent_was_leased_while_it_was_being_acquired_is_given_back_until_its_turn()
{
    let fleet = Fleet::of_shards(1);
    let [left, right] = fleet.sim.split_shard(STREAM, &shard(0));
    fleet
        .store
        .trouble_on(Call::Acquire, &left, Trouble::Late(2 * SECOND), 1);
    let tip = [KinesisStream::new(STREAM)];
    let (instance, parent) = tokio::join!(fleet.instance("a").streams(tip).start(), async {
        until("a acquires", async || {
            !fleet.store.made_on(Call::Acquire, &left).is_empty()
        })
        .await;
        usurp(&fleet, &shard(0), 60 * SECOND).await
    });
    until("it is given back", async || {
        !fleet.store.made_on(Call::Release, &left).is_empty()
    })
    .await;
    assert_eq!(fleet.sim.calls_of(Operation::GetShardIterator, &left), 0);
    assert_eq!(fleet.owner(&right).await, "a");

    sleep(20 * SECOND).await;
    assert_eq!(fleet.sim.calls_of(Operation::GetShardIterator, &left), 0);
    let (store, key) = (&fleet.store.inner, fleet.key(&shard(0)));
    let end = Checkpoint::shard_end();
    assert!(store.checkpoint(&key, &parent, &end).await.unwrap());
    store.release(&key, &parent).await.unwrap();
    until("it is the child's turn", async || {
        fleet.owner(&left).await == "a"
    })
    .await;
    instance.stop().await;
}

#[tokio::test(start_paused = true)]
async fn two_brokers_of_one_name_never_share_a_shard() {
    let fleet = Fleet::of_shards(4);
    let mut put = 0;
    let mut put_on = |fleet: &Fleet| {
        fleet.put(&shard(put as usize % 4), put);
        put += 1;
        put as usize
    };
    let (first, second) = tokio::join!(
        fleet.instance("a").named("first").start(),
        fleet.instance("a").named("second").start()
    );
    for _ in 0..60 {
        put_on(&fleet);
        sleep(SECOND).await;
    }
    first.stop().await;
    let count = put_on(&fleet);
    fleet.until_handled(count).await;
    assert_eq!(fleet.repeated(), [] as [u64; 0]);
    fleet.check_history();
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_live_lease_is_left_to_its_holder_also_by_a_namesake() {
    let fleet = Fleet::of_shards(2);
    let first = fleet.instance("a").named("first").start().await;
    let second = fleet.instance("a").named("second").start().await;
    sleep(60 * SECOND).await;
    let asked = fleet.store.made_of(Call::Ask);
    assert!(asked.is_empty(), "{asked:?}");
    assert!(fleet.store.made_by(Call::Acquire, "second").is_empty());
    first.kill();
    until("the namesake has all", async || {
        let granted = fleet.store.made_by(Call::Acquire, "second");
        let granted = granted.iter().filter(|made| made.outcome == Outcome::Yes);
        granted.count() == 2
    })
    .await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn instances_of_one_name_that_see_each_others_leases_say_so_once_each() {
    let logs = Logs::start();
    let fleet = Fleet::of_shards(4);
    // What the first cannot acquire at its first listing the second has by then.
    for n in [2, 3] {
        fleet
            .store
            .trouble_on(Call::Acquire, &shard(n), Trouble::Fails, 1);
    }
    let first = fleet.instance("a").named("first").start().await;
    let second = fleet.instance("a").named("second").start().await;
    assert!(!fleet.store.made_by(Call::Acquire, "second").is_empty());
    sleep(60 * SECOND).await;

    let warnings = logs.warnings("another live instance has this instance's owner id");
    assert_eq!(warnings.len(), 2, "{warnings:#?}");
    first.stop().await;
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_died_is_not_taken_for_a_namesake_by_its_next_run() {
    let logs = Logs::start();
    let fleet = Fleet::of_shards(2);
    fleet.instance("a").named("first").start().await.kill();
    let again = fleet.instance("a").named("again").start().await;
    until("it has what it had", async || {
        fleet.store.made_by(Call::Renew, "again").len() >= 4
    })
    .await;
    sleep(30 * SECOND).await;
    assert_eq!(logs.warnings("owner id"), [] as [String; 0]);
    again.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_shard_is_not_acquired_again_while_a_handler_of_its_earlier_lease_runs() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 1);
    let instance = fleet
        .instance("a")
        .handler(|seen| match seen.epoch {
            1 => ack_after(50 * SECOND),
            _ => ack(),
        })
        .start()
        .await;
    until("it is handed over", async || fleet.seen().len() == 1).await;
    usurp(&fleet, &shard(0), 15 * SECOND).await;
    until("it is handed over again", async || fleet.seen().len() == 2).await;

    let seen = fleet.seen();
    let done = seen[0].done_at.expect("the first handler has returned");
    let acquired = fleet.store.made_of(Call::Acquire);
    assert_eq!(acquired.len(), 2, "{acquired:?}");
    assert!(acquired[1].at >= done);
    // It was free for long by then.
    assert!(done - acquired[0].at > 45 * SECOND);
    instance.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_late_acknowledgement_of_a_lease_that_its_own_name_lost_and_regained_changes_nothing() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 1..=3);
    let early = fleet
        .instance("a")
        .named("early")
        .handler(|_| ack_after(40 * SECOND))
        .start()
        .await;
    until("it is handed over", async || fleet.seen().len() == 1).await;
    fleet.store.partition("early");
    let late = fleet.instance("a").named("late").start().await;
    fleet.until_handled(3).await;
    let checkpoint = fleet.checkpoint(&shard(0)).await;
    assert_eq!(checkpoint, fleet.seen()[3].sequence_number);

    fleet.store.recover();
    until("the first handler has returned", async || {
        fleet.seen()[0].done_at.is_some()
    })
    .await;
    sleep(30 * SECOND).await;
    assert_eq!(fleet.values(), [1, 1, 2, 3]);
    assert_eq!(fleet.checkpoint(&shard(0)).await, checkpoint);
    assert!(fleet.store.made_by(Call::Checkpoint, "early").is_empty());
    let holder = fleet.state(&shard(0)).await.holder.unwrap();
    assert_eq!((holder.owner.as_str(), holder.epoch), ("a", 2));
    early.stop().await;
    late.stop().await;
}

#[tokio::test(start_paused = true)]
async fn past_the_deadline_nothing_is_handed_over_or_checkpointed_whatever_is_queued() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..30);
    fleet.store.always_of(Call::Renew, "a", Trouble::Fails);
    let instance = fleet
        .instance("a")
        .handler(|_| ack_after(Duration::from_millis(900)))
        .start()
        .await;
    let deadline = fleet.store.made_of(Call::Acquire)[0].at + LEASE;
    sleep(40 * SECOND).await;
    let seen = fleet.seen();
    assert!(seen.iter().all(|seen| seen.at < deadline), "{seen:?}");
    // Reading went on until then.
    assert!(seen.last().unwrap().at + SECOND >= deadline);
    let written = fleet.store.made_of(Call::Checkpoint);
    assert!(written.iter().all(|made| made.at < deadline), "{written:?}");

    // Nobody took the lease: once it is renewed everything goes on where it was.
    fleet.store.recover();
    fleet.until_handled(30).await;
    assert_eq!(fleet.values(), (0..30).collect::<Vec<_>>());
    assert_eq!(fleet.store.grants(), 1);
    instance.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_deadline_counts_from_the_moment_at_which_the_renewal_was_sent() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..300);
    let late = Trouble::AnswersLate(Duration::from_millis(2_800));
    fleet.store.trouble(Call::Renew, late, 1);
    fleet.store.always_of(Call::Renew, "a", Trouble::Fails);
    let instance = fleet
        .instance("a")
        .handler(|_| ack_after(Duration::from_millis(100)))
        .start()
        .await;
    sleep(30 * SECOND).await;
    let renewed = &fleet.store.made_of(Call::Renew)[0];
    assert_eq!(renewed.outcome, Outcome::Yes);
    let last = fleet.seen().last().unwrap().at;
    assert!(last < renewed.at + LEASE);
    assert!(last + SECOND > renewed.at + LEASE);
    instance.kill();
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_is_answered_past_its_deadline_is_held_but_not_read_until_it_is_renewed() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 1);
    fleet
        .store
        .trouble(Call::Acquire, Trouble::Freezes(11 * SECOND), 1);
    fleet.store.trouble(Call::Renew, Trouble::Fails, 4);
    let instance = fleet.instance("a").start().await;
    until("it is handled", async || fleet.seen().len() == 1).await;
    let renewals = fleet.store.made_of(Call::Renew);
    let first = renewals.iter().find(|made| made.outcome == Outcome::Yes);
    assert!(fleet.seen()[0].at >= first.expect("it was renewed").at);
    assert_eq!(fleet.store.made_of(Call::Acquire).len(), 1);
    instance.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_cut_off_past_its_lease_hands_over_nothing_more_and_changes_nothing() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..100);
    let slow = |_: &_| ack_after(SECOND);
    let first = fleet.instance("a").handler(slow).start().await;
    sleep(5 * SECOND).await;
    let second = fleet.instance("b").handler(slow).start().await;
    let cut = Instant::now();
    fleet.store.partition("a");
    until("b reads", async || {
        fleet.seen().iter().any(|seen| seen.owner == "b")
    })
    .await;
    let taken = Instant::now();
    assert!(taken - cut <= 16 * SECOND);
    fleet.store.recover();
    sleep(20 * SECOND).await;

    let by_a = |at: Instant| {
        let mut seen = fleet.seen();
        seen.retain(|seen| seen.owner == "a" && seen.at >= at);
        seen
    };
    assert!(by_a(taken).is_empty(), "{:?}", by_a(taken));
    let epoch = fleet.state(&shard(0)).await.epoch;
    assert_eq!(epoch, 2);
    for made in fleet.store.made() {
        let accepted = made.owner == "a" && made.epoch == 1 && made.outcome == Outcome::Yes;
        let changes = matches!(made.call, Call::Renew | Call::Checkpoint);
        assert!(!(accepted && changes && made.at >= taken), "{made:?}");
    }
    fleet.check_history();
    first.kill();
    second.kill();
}

#[tokio::test(start_paused = true)]
async fn a_process_that_stood_still_past_its_lease_wakes_to_one_reader() {
    for skip in 0..6 {
        let fleet = Fleet::of_shards(2);
        for n in 0..100 {
            fleet.put(&shard(n as usize % 2), n);
        }
        let slow = |_: &_| ack_after(Duration::from_millis(500));
        let first = fleet.instance("a").handler(slow).start().await;
        let second = fleet.instance("b").handler(slow).start().await;
        let call = [Call::Renew, Call::Checkpoint][skip % 2];
        let freeze = Trouble::Freezes(15 * SECOND);
        fleet.store.trouble_after(skip, call, freeze);
        fleet.until_handled(100).await;
        fleet.check_history();
        fleet.check_nothing_is_lost();
        first.kill();
        second.kill();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_stops_its_reader_at_once_and_its_running_handler_has_no_effect() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..50);
    let instance = fleet
        .instance("a")
        .handler(|seen| match (seen.epoch, seen.value) {
            (1, 2) => ack_after(8 * SECOND),
            _ => ack(),
        })
        .start()
        .await;
    until("a slow handler runs", async || fleet.seen().len() == 3).await;
    let before = fleet.checkpoint(&shard(0)).await;
    usurp(&fleet, &shard(0), 30 * SECOND).await;
    sleep(25 * SECOND).await;

    // The handler returned, and neither its record nor anything queued behind it went any further.
    assert_eq!(fleet.values(), [0, 1, 2]);
    assert!(fleet.seen()[2].done_at.is_some());
    assert_eq!(fleet.checkpoint(&shard(0)).await, before);
    assert_eq!(fleet.store.made_of(Call::Checkpoint).len(), 2);
    assert!(fleet.store.made_of(Call::Release).is_empty());

    // The other is gone, and what it did not settle is read from the checkpoint.
    fleet.until_handled(51).await;
    assert_eq!(fleet.repeated(), [2]);
    instance.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_checkpoint_stops_its_reader_without_a_renewal() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..50);
    fleet.store.always_of(Call::Renew, "a", Trouble::Hangs);
    let instance = fleet
        .instance("a")
        .handler(|_| ack_after(SECOND))
        .start()
        .await;
    until("some are handled", async || fleet.seen().len() == 3).await;
    usurp(&fleet, &shard(0), 30 * SECOND).await;
    sleep(5 * SECOND).await;
    assert_eq!(fleet.values(), [0, 1, 2]);
    let written = fleet.store.made_of(Call::Checkpoint);
    assert_eq!(written.last().unwrap().outcome, Outcome::No);
    assert_eq!(written.len(), 3);
    instance.kill();
}

#[tokio::test(start_paused = true)]
async fn a_loss_ends_the_wait_for_a_retry() {
    let fleet = Fleet::of_shards(1);
    fleet.put(&shard(0), 0);
    let instance = fleet
        .instance("a")
        .handler(|seen| match seen.epoch {
            1 => crate::support::say(rstream::HandlerOutcome::retry_after(600 * SECOND)),
            _ => ack(),
        })
        .start()
        .await;
    until("it is to be tried again", async || fleet.seen().len() == 1).await;
    usurp(&fleet, &shard(0), 15 * SECOND).await;
    until("it is read anew", async || fleet.seen().len() == 2).await;
    assert_eq!(fleet.seen()[1].attempt, 1);
    instance.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_vanished_row_is_acquired_anew_and_reading_goes_on_where_it_was() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..3);
    let instance = fleet.instance("a").start().await;
    fleet.until_handled(3).await;
    let checkpoint = fleet.checkpoint(&shard(0)).await;

    fleet.store.vanish(&fleet.key(&shard(0)));
    assert_eq!(fleet.checkpoint(&shard(0)).await, "");
    within(5 * SECOND, "the settled position is back", async || {
        (fleet.checkpoint(&shard(0)).await == checkpoint).then_some(())
    })
    .await;
    assert_eq!(fleet.owner(&shard(0)).await, "a");
    fleet.put_all(&shard(0), 3..6);
    fleet.until_handled(6).await;
    assert_eq!(fleet.values(), [0, 1, 2, 3, 4, 5]);
    instance.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_vanished_row_gets_back_the_checkpoint_that_its_reader_opened_at() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..3);
    let instance = fleet.instance("a").start().await;
    fleet.until_handled(3).await;
    let checkpoint = fleet.checkpoint(&shard(0)).await;
    instance.stop().await;

    let instance = fleet.instance("a").start().await;
    fleet.store.vanish(&fleet.key(&shard(0)));
    within(5 * SECOND, "the settled position is back", async || {
        (fleet.checkpoint(&shard(0)).await == checkpoint).then_some(())
    })
    .await;
    instance.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_row_that_vanishes_beside_a_running_handler_costs_its_record_nothing() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..3);
    let instance = fleet
        .instance("a")
        .handler(|seen| match seen.value {
            1 => ack_after(30 * SECOND),
            _ => ack(),
        })
        .start()
        .await;
    until("the slow one runs", async || fleet.seen().len() == 2).await;
    fleet.store.vanish(&fleet.key(&shard(0)));
    fleet.until_handled(3).await;
    assert_eq!(fleet.values(), [0, 1, 2]);
    let last = fleet.seen().pop().unwrap().sequence_number;
    until("it is checkpointed", async || {
        fleet.checkpoint(&shard(0)).await == last
    })
    .await;
    instance.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_vanished_row_that_another_has_acquired_is_lost() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..3);
    let instance = fleet.instance("a").start().await;
    fleet.until_handled(3).await;
    fleet.store.vanish(&fleet.key(&shard(0)));
    usurp(&fleet, &shard(0), 40 * SECOND).await;
    sleep(5 * SECOND).await;
    fleet.put_all(&shard(0), 3..6);
    sleep(30 * SECOND).await;
    assert_eq!(fleet.values(), [0, 1, 2]);
    assert_eq!(fleet.owner(&shard(0)).await, "x");
    instance.stop().await;
}

#[tokio::test(start_paused = true)]
async fn reading_goes_on_while_renewals_fail_within_the_deadline() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..100);
    fleet.store.trouble(Call::Renew, Trouble::Hangs, 1);
    fleet.store.trouble(Call::Renew, Trouble::Fails, 3);
    let instance = fleet
        .instance("a")
        .handler(|_| ack_after(Duration::from_millis(200)))
        .start()
        .await;
    fleet.until_handled(100).await;
    assert_eq!(fleet.values(), (0..100).collect::<Vec<_>>());
    let seen = fleet.seen();
    for pair in seen.windows(2) {
        assert!(pair[1].at - pair[0].at < SECOND, "{pair:?}");
    }
    assert_eq!(fleet.store.grants(), 1);
    let errors = instance.errors_of("Lease");
    assert_eq!(errors.len(), 1, "once for the streak: {errors:?}");
    instance.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_checkpoint_is_sent_again_without_another_acknowledgement() {
    for trouble in [Trouble::Fails, Trouble::LosesAnswer, Trouble::Hangs] {
        let fleet = Fleet::of_shards(1);
        fleet.put(&shard(0), 0);
        fleet.store.trouble(Call::Checkpoint, trouble, 2);
        let instance = fleet.instance("a").start().await;
        within(10 * SECOND, "it is accepted", async || {
            let made = fleet.store.made_of(Call::Checkpoint);
            (made.last()?.outcome == Outcome::Yes).then_some(())
        })
        .await;
        let last = fleet.seen()[0].sequence_number.clone();
        assert_eq!(fleet.checkpoint(&shard(0)).await, last);
        assert_eq!(fleet.store.made_of(Call::Checkpoint).len(), 3);
        assert_eq!(instance.errors_of("Lease").len(), 2);
        instance.stop().await;
        assert_eq!(fleet.values(), [0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_checkpoint_is_sent_again_beside_a_slow_handler_of_the_next_record() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..2);
    fleet.store.trouble(Call::Checkpoint, Trouble::Fails, 2);
    let instance = fleet
        .instance("a")
        .handler(|seen| ack_after(60 * SECOND * u32::try_from(seen.value).unwrap()))
        .start()
        .await;
    until("the slow one runs", async || fleet.seen().len() == 2).await;
    let first = fleet.seen()[0].sequence_number.clone();
    within(10 * SECOND, "the first is written", async || {
        (fleet.checkpoint(&shard(0)).await == first).then_some(())
    })
    .await;
    assert!(fleet.seen()[1].done_at.is_none());
    instance.kill();
}

#[tokio::test(start_paused = true)]
async fn reading_goes_on_while_checkpoints_fail_and_one_write_catches_up() {
    let fleet = Fleet::of_shards(1);
    fleet.put_all(&shard(0), 0..20);
    fleet.store.always_of(Call::Checkpoint, "a", Trouble::Fails);
    let instance = fleet.instance("a").start().await;
    fleet.until_handled(20).await;
    fleet.store.recover();
    let last = fleet.seen().pop().unwrap().sequence_number;
    within(5 * SECOND, "the last is written", async || {
        (fleet.checkpoint(&shard(0)).await == last).then_some(())
    })
    .await;
    assert_eq!(fleet.values(), (0..20).collect::<Vec<_>>());
    instance.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_same_shard_id_on_two_streams_is_two_leases() {
    let fleet = Fleet::empty();
    let streams = ["orders", "returns"];
    for stream in streams {
        fleet.sim.create_stream(stream, 1);
        fleet.sim.put_to_shard(stream, &shard(0), "key", "1");
    }
    let instance = fleet
        .instance("a")
        .streams(streams.map(from_the_start))
        .start()
        .await;
    until("both are handled", async || fleet.seen().len() == 2).await;
    for stream in streams {
        let key = LeaseKey::new(stream, shard(0));
        let state = fleet.store.state(&key).await;
        assert!(state.live);
        let seen = fleet.seen();
        let seen = seen.iter().find(|seen| seen.stream == stream).unwrap();
        let written = state.checkpoint.unwrap().to_string();
        assert_eq!(written, seen.sequence_number);
    }
    // The loss of the one is none of the other.
    let key = LeaseKey::new("orders", shard(0));
    let holder = fleet.store.state(&key).await.holder.unwrap();
    fleet.store.inner.release(&key, &holder).await.unwrap();
    fleet
        .store
        .inner
        .acquire(&key, "x", 60 * SECOND)
        .await
        .unwrap()
        .unwrap();
    sleep(5 * SECOND).await;
    for stream in streams {
        fleet.sim.put_to_shard(stream, &shard(0), "key", "2");
    }
    sleep(10 * SECOND).await;
    let seen = fleet.seen();
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[2].stream, "returns");
    instance.stop().await;
}
