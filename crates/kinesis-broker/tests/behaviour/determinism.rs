//! One seed gives one history: a run takes no time and no chance but what it is given.

use std::fmt::Write as _;
use std::time::Duration;

use kinesis_sim::{Fault, KinesisSim, Operation};
use tokio::time::{Instant, sleep};

use crate::support::{
    Call, Fleet, Instance, Logs, STREAM, Trouble, ack, ack_after, from_the_start, say, until,
};

const SECOND: Duration = Duration::from_secs(1);
const OTHER: &str = "orders";

/// Everything that a minute of mishaps and the quiet after it have brought, as text.
fn history(seed: u64) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    // The SDK draws from the thread's generator.
    fastrand::seed(seed);
    let logs = Logs::start();
    let mut history = runtime.block_on(run(seed));
    for logged in logs.all() {
        writeln!(history, "{} {}", logged.level, logged.text).unwrap();
    }
    history
}

async fn run(seed: u64) -> String {
    let began = Instant::now();
    let mut rng = fastrand::Rng::with_seed(seed);
    let sim = KinesisSim::builder()
        .seed(rng.u64(..))
        .latency_between(Duration::from_millis(1), Duration::from_millis(30))
        .build();
    sim.create_stream(STREAM, 4);
    sim.create_stream(OTHER, 2);
    let fleet = Fleet::on(sim);
    let reads = Fault::throttle().on(Operation::GetRecords);
    fleet.sim.inject(reads.rate(0.05));
    fleet.sim.inject(Fault::reset().rate(0.02));

    let mut instances = Vec::new();
    let mut stopped = Vec::new();
    let mut put = 0;
    for step in 0..60 {
        for _ in 0..rng.usize(0..6) {
            fleet.put_key(&rng.u8(0..40).to_string(), put);
            fleet.sim.put(OTHER, &put.to_string(), put.to_string());
            put += 1;
        }
        match rng.u8(0..16) {
            0..=3 if instances.len() < 3 => {
                let instance = start(&fleet, &format!("i{step}"), rng.u64(..)).await;
                instances.push(instance);
            }
            4 if instances.len() > 1 => {
                let instance = instances.swap_remove(rng.usize(..instances.len()));
                stopped.push(instance.reported());
                instance.kill();
            }
            5 if instances.len() > 1 => {
                let instance = instances.swap_remove(rng.usize(..instances.len()));
                stopped.push(instance.reported());
                instance.stop().await;
            }
            6 | 7 => reshard(&fleet, &mut rng),
            8 => fleet.sim.expire_iterators(),
            9 => fleet.store.recover(),
            10..=13 => {
                let calls = [Call::Acquire, Call::Renew, Call::Checkpoint, Call::ReadAll];
                let while_it_lasts = Duration::from_millis(rng.u64(1..4_000));
                let troubles = [
                    Trouble::Fails,
                    Trouble::LosesAnswer,
                    Trouble::Hangs,
                    Trouble::AnswersLate(while_it_lasts),
                ];
                let (call, trouble) = (rng.usize(..calls.len()), rng.usize(..troubles.len()));
                fleet
                    .store
                    .trouble(calls[call], troubles[trouble], rng.usize(1..4));
            }
            _ => {}
        }
        sleep(Duration::from_millis(rng.u64(100..2_000))).await;
    }
    fleet.store.recover();
    fleet.sim.clear_faults();
    instances.push(start(&fleet, "last", rng.u64(..)).await);
    until("everything is handled", async || {
        let mut done = fleet.seen();
        done.retain(|seen| seen.done_at.is_some());
        done.sort_by(|one, other| (&one.stream, one.value).cmp(&(&other.stream, other.value)));
        done.dedup_by(|one, other| (&one.stream, one.value) == (&other.stream, other.value));
        done.len() as u64 == 2 * put
    })
    .await;
    for instance in instances {
        stopped.push(instance.reported());
        instance.stop().await;
    }

    let mut history = String::new();
    let at = |moment: Instant| moment - began;
    for seen in fleet.seen() {
        let done_at = seen.done_at.map(at);
        writeln!(
            history,
            "{:?} {} epoch {} is given {} {} {} {} attempt {}, done {done_at:?}",
            at(seen.at),
            seen.owner,
            seen.epoch,
            seen.stream,
            seen.shard,
            seen.sequence_number,
            seen.value,
            seen.attempt,
        )
        .unwrap();
    }
    for made in fleet.store.made() {
        writeln!(
            history,
            "{:?} {} calls {:?} {} keys {} epoch {} {:?}: {:?}",
            at(made.at),
            made.owner,
            made.call,
            made.key,
            made.keys,
            made.epoch,
            made.checkpoint,
            made.outcome,
        )
        .unwrap();
    }
    for reported in stopped {
        for error in reported.lock().unwrap().iter() {
            writeln!(history, "{:?} {}", at(error.at), error.text).unwrap();
        }
    }
    history
}

async fn start(fleet: &Fleet, owner: &str, seed: u64) -> Instance {
    let streams = [STREAM, OTHER].map(from_the_start);
    fleet
        .instance(owner)
        .streams(streams)
        .handler(|seen| match (seen.value % 9, seen.attempt) {
            (0, 1) => say(rstream::HandlerOutcome::retry()),
            (1..=4, _) => ack_after(Duration::from_millis(200)),
            (5, _) => ack_after(2 * SECOND),
            _ => ack(),
        })
        .configure(move |broker| broker.seed(seed))
        .start()
        .await
}

fn reshard(fleet: &Fleet, rng: &mut fastrand::Rng) {
    let mut open = fleet.sim.shards(STREAM);
    open.retain(|shard| shard.open);
    open.sort_by_key(|shard| shard.starting_hash_key);
    if open.len() < 6 {
        let shard = &open[rng.usize(..open.len())];
        fleet.sim.split_shard(STREAM, &shard.id);
    } else {
        let left = rng.usize(..open.len() - 1);
        let [left, right] = [&open[left], &open[left + 1]];
        fleet.sim.merge_shards(STREAM, &left.id, &right.id);
    }
}

#[test]
fn one_seed_gives_the_same_history_twice_and_another_seed_another() {
    let mut histories = Vec::new();
    for seed in 0..4 {
        let (first, second) = (history(seed), history(seed));
        let differs = (first.lines().zip(second.lines())).find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(first.len(), second.len(), "seed {seed}");
        assert!(first.contains("read to its end"), "seed {seed}:\n{first}");
        assert!(!histories.contains(&first), "seed {seed}");
        histories.push(first);
    }
}
