//! How a plan is drawn from a seed. Each run has a temper of its own: most are small, some are calm, some are
//! nothing but trouble, so that rules about quiet fleets are put to the test as well as rules about storms.

use std::time::Duration;

use fastrand::Rng;

use super::{Handlers, KinesisTrouble, Mishap, Plan, Producer, Reading, Start, Trouble, What};

pub(super) fn plan(seed: u64) -> Plan {
    let mut rng = Rng::with_seed(seed);
    let lasts = Duration::from_secs(rng.u64(40..=120));
    // Few shards find most faults in the least time; many find the rest.
    let shards = match rng.u8(0..10) {
        0..=4 => rng.usize(1..=4),
        5..=8 => rng.usize(2..=12),
        _ => rng.usize(12..=40),
    };
    let is_calm = rng.u8(0..4) == 0;
    let noise = |rng: &mut Rng| match rng.u8(0..4) {
        0 if !is_calm => rng.u32(1..=100),
        1 if !is_calm => rng.u32(1..=20),
        _ => 0,
    };
    let (store_noise, kinesis_noise) = (noise(&mut rng), noise(&mut rng));
    let mut plan = Plan {
        seed,
        shards,
        start: if rng.u8(0..4) == 0 {
            Start::Latest
        } else {
            Start::TrimHorizon
        },
        instances: rng.usize(1..=4),
        drift_ppm: if rng.bool() { 500 } else { 0 },
        producer: Producer {
            keys: rng.usize(1..=3 * shards),
            per_second: rng.u32(1..=10),
        },
        handlers: handlers(&mut rng),
        reading: Reading::default(),
        store_noise,
        kinesis_noise,
        mishaps: mishaps(&mut rng, lasts, is_calm),
        lasts,
    };
    // By a generator of its own, so that a seed draws the same troubles however its fleet reads.
    read_in_some_way(&mut plan, &mut Rng::with_seed(seed ^ 0x4EAD_A4EA_D5EE_D5ED));
    plan
}

/// Draws how the fleet reads, and enough records for it to matter.
fn read_in_some_way(plan: &mut Plan, rng: &mut Rng) {
    plan.reading = Reading {
        concurrency: match rng.u8(0..8) {
            0..=4 => 1,
            5 => 2,
            6 => 4,
            _ => 16,
        },
        interval: match rng.u8(0..8) {
            0..=4 => None,
            5 => Some(Duration::from_millis(rng.u64(500..=2_000))),
            _ => Some(Duration::from_millis(rng.u64(2_000..=20_000))),
        },
        prefetch: match rng.u8(0..8) {
            0..=3 => None,
            4 | 5 => Some(0),
            _ => Some(rng.usize(1..=8)),
        },
    };
    if plan.reading.concurrency > 1 {
        plan.producer.keys = rng.usize(1..=12 * plan.shards);
        plan.producer.per_second *= rng.u32(1..=3);
    }
}

fn handlers(rng: &mut Rng) -> Handlers {
    Handlers {
        usual: Duration::from_millis(rng.u64(0..=200)),
        slow_in_1000: if rng.bool() { rng.u32(0..=30) } else { 0 },
        slow: Duration::from_secs(rng.u64(1..=25)),
        unhappy_in_1000: if rng.bool() { rng.u32(0..=150) } else { 0 },
    }
}

fn mishaps(rng: &mut Rng, lasts: Duration, is_calm: bool) -> Vec<Mishap> {
    // What is left to itself for a while shows whether the fleet comes to rest.
    let apart = if is_calm {
        18_000..=40_000
    } else {
        200..=9_000
    };
    let mut mishaps = Vec::new();
    let mut at = Duration::from_millis(rng.u64(0..=12_000));
    while at < lasts {
        let what = if is_calm {
            planned_or_killed(rng)
        } else {
            anything(rng)
        };
        mishaps.push(Mishap { at, what });
        at += Duration::from_millis(rng.u64(apart.clone()));
    }
    mishaps
}

fn victim(rng: &mut Rng) -> usize {
    rng.usize(0..720)
}

fn planned_or_killed(rng: &mut Rng) -> What {
    match rng.u8(0..10) {
        0..=2 => What::Join { reuses_name: false },
        3..=5 => What::Kill {
            victim: victim(rng),
        },
        6..=7 => What::Stop {
            victim: victim(rng),
        },
        8 => What::Split { shard: victim(rng) },
        _ => What::Merge { shard: victim(rng) },
    }
}

fn anything(rng: &mut Rng) -> What {
    match rng.u8(0..100) {
        0..=13 => What::Join {
            reuses_name: rng.u8(0..4) == 0,
        },
        14..=23 => What::Kill {
            victim: victim(rng),
        },
        24..=30 => What::Stop {
            victim: victim(rng),
        },
        31..=40 => What::Pause {
            victim: victim(rng),
            lasts: pause(rng),
        },
        41..=43 => What::WallClock {
            victim: victim(rng),
            seconds: rng.i64(-100_000..=100_000),
        },
        44..=52 => What::Split { shard: victim(rng) },
        53..=60 => What::Merge { shard: victim(rng) },
        61..=63 => What::Trim {
            age: Duration::from_millis(rng.u64(500..=40_000)),
        },
        64..=82 => What::Store {
            trouble: store_trouble(rng),
            victim: rng.bool().then(|| victim(rng)),
            lasts: spell(rng),
        },
        83..=95 => What::Kinesis {
            trouble: kinesis_trouble(rng),
            lasts: spell(rng),
        },
        _ => What::ExpireIterators,
    }
}

/// As long as a garbage collection, a lease, or a suspended laptop.
fn pause(rng: &mut Rng) -> Duration {
    Duration::from_millis(match rng.u8(0..4) {
        0 => rng.u64(100..=3_000),
        1 => rng.u64(8_500..=11_500),
        _ => rng.u64(3_000..=40_000),
    })
}

/// How long trouble lasts: a call, a renewal, a lease, or an outage.
fn spell(rng: &mut Rng) -> Duration {
    Duration::from_millis(match rng.u8(0..4) {
        0 => rng.u64(10..=1_000),
        1 => rng.u64(1_000..=6_000),
        2 => rng.u64(6_000..=14_000),
        _ => rng.u64(14_000..=45_000),
    })
}

fn while_it_lasts(rng: &mut Rng) -> Duration {
    Duration::from_millis(match rng.u8(0..3) {
        0 => rng.u64(10..=500),
        1 => rng.u64(500..=4_000),
        _ => rng.u64(4_000..=15_000),
    })
}

/// Any trouble of a store.
pub(crate) fn store_trouble(rng: &mut Rng) -> Trouble {
    match rng.u8(0..8) {
        0 => Trouble::Fails,
        1 => Trouble::Throttles,
        2 | 3 => Trouble::LosesAnswer,
        4 => Trouble::Repeats,
        5 => Trouble::Hangs,
        6 => Trouble::Late(while_it_lasts(rng)),
        _ => Trouble::AnswersLate(while_it_lasts(rng)),
    }
}

fn kinesis_trouble(rng: &mut Rng) -> KinesisTrouble {
    match rng.u8(0..7) {
        0 => KinesisTrouble::Throttles,
        1 => KinesisTrouble::Fails,
        2 => KinesisTrouble::Outage,
        3 => KinesisTrouble::Hangs,
        4 => KinesisTrouble::Slow(while_it_lasts(rng)),
        5 => KinesisTrouble::PartialPuts,
        _ => KinesisTrouble::LosesAnswers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_plan_twice_and_another_seed_another() {
        assert_eq!(plan(7), plan(7));
        assert_ne!(plan(7), plan(8));
    }

    #[test]
    fn a_fleet_mostly_reads_as_the_product_does_by_itself_and_now_and_then_in_every_other_way() {
        let readings: Vec<_> = (0..400).map(|seed| plan(seed).reading).collect();
        let is_default = |reading: &&Reading| **reading == Reading::default();
        let is_paced = |reading: &Reading| reading.interval.is_some();
        assert!((60..200).contains(&readings.iter().filter(is_default).count()));
        for concurrency in [1, 2, 4, 16] {
            let mut of = readings
                .iter()
                .filter(|reading| reading.concurrency == concurrency);
            assert!(of.clone().any(is_paced) && of.any(|reading| !is_paced(reading)));
        }
    }

    #[test]
    fn mishaps_come_in_the_order_of_time_and_before_the_end() {
        for seed in 0..200 {
            let Plan { mishaps, lasts, .. } = plan(seed);
            assert!(mishaps.is_sorted_by_key(|mishap| mishap.at), "seed {seed}");
            assert!(
                mishaps.iter().all(|mishap| mishap.at < lasts),
                "seed {seed}"
            );
        }
    }
}
