//! Whatever happens to the store and to the instances: nothing is lost, each shard has one reader at a time,
//! and nothing that was checkpointed is handed over again.

use std::time::Duration;

use tokio::time::sleep;

use crate::support::{Call, Fleet, Instance, Trouble, ack, ack_after, shard, until};

const SECOND: Duration = Duration::from_secs(1);
const SHARDS: usize = 4;

fn any_trouble(rng: &mut fastrand::Rng) -> Trouble {
    let while_it_lasts = Duration::from_millis(rng.u64(1..6_000));
    match rng.u8(0..6) {
        0 => Trouble::Fails,
        1 => Trouble::Throttles,
        2 => Trouble::LosesAnswer,
        3 => Trouble::Hangs,
        4 => Trouble::Late(while_it_lasts),
        _ => Trouble::AnswersLate(while_it_lasts),
    }
}

fn any_call(rng: &mut fastrand::Rng) -> Call {
    let calls = [
        Call::Acquire,
        Call::Renew,
        Call::Checkpoint,
        Call::ReadAll,
        Call::Release,
        Call::Ask,
    ];
    calls[rng.usize(..calls.len())]
}

/// A minute of mishaps, and then none.
async fn run(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let fleet = Fleet::of_shards(SHARDS);
    let mut instances: Vec<(String, Instance)> = Vec::new();
    let mut started = 0;
    let mut put = 0;
    for _ in 0..60 {
        for _ in 0..rng.usize(0..4) {
            fleet.put(&shard(rng.usize(..SHARDS)), put);
            put += 1;
        }
        match rng.u8(0..20) {
            0..=2 if instances.len() < 3 => {
                let owner = format!("i{started}");
                started += 1;
                let slow = rng.bool();
                let instance = fleet
                    .instance(&owner)
                    .handler(move |seen| match seen.value % 10 {
                        0 if slow => ack_after(4 * SECOND),
                        1..=5 => ack_after(Duration::from_millis(300)),
                        _ => ack(),
                    })
                    .start();
                // A start waits for a store that hangs, and time goes on.
                let instance = instance.await;
                instances.push((owner, instance));
            }
            3 if !instances.is_empty() => {
                let (_, instance) = instances.swap_remove(rng.usize(..instances.len()));
                instance.kill();
            }
            4 if !instances.is_empty() => {
                let (_, instance) = instances.swap_remove(rng.usize(..instances.len()));
                instance.stop().await;
            }
            5 if !instances.is_empty() => {
                let (owner, _) = &instances[rng.usize(..instances.len())];
                fleet.store.partition(owner);
            }
            6 | 7 => fleet.store.recover(),
            8..=13 => {
                let (call, trouble) = (any_call(&mut rng), any_trouble(&mut rng));
                fleet.store.trouble(call, trouble, rng.usize(1..4));
            }
            14 if !instances.is_empty() => {
                let (owner, _) = &instances[rng.usize(..instances.len())];
                let (call, trouble) = (any_call(&mut rng), any_trouble(&mut rng));
                fleet.store.always_of(call, owner, trouble);
            }
            _ => {}
        }
        sleep(Duration::from_millis(rng.u64(100..2_000))).await;
    }
    fleet.store.recover();
    let last = fleet.instance("last").start().await;
    until("everything is handled", async || {
        let mut values: Vec<_> = fleet
            .seen()
            .iter()
            .filter(|seen| seen.done_at.is_some())
            .map(|seen| seen.value)
            .collect();
        values.sort_unstable();
        values.dedup();
        values.len() == put as usize
    })
    .await;
    for (_, instance) in instances {
        instance.stop().await;
    }
    last.stop().await;
    fleet.check_history();
    fleet.check_nothing_is_lost();
    for n in 0..SHARDS {
        assert_eq!(fleet.state(&shard(n)).await.holder, None);
        if let Some(record) = fleet.sim.records(crate::support::STREAM, &shard(n)).pop() {
            assert_eq!(fleet.checkpoint(&shard(n)).await, record.sequence_number);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_and_each_shard_has_one_reader_whatever_befalls_the_store() {
    for seed in 0..30 {
        eprintln!("seed {seed}");
        run(seed).await;
    }
}
