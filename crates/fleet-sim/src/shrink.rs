//! Makes a plan that fails as small as it can be while it still fails.
//!
//! What is taken out comes first: mishaps, by halves and then one by one. What is left is made simpler: no noise, no
//! drift, prompt handlers, records read as they are by default, fewer instances, shards and keys, shorter spells, and
//! an early end. All of it is tried again until nothing more can go. What the seed decides during the run stays, but whatever is taken out shifts it,
//! so a smaller plan may fail for a reason of its own; whoever looks at it has to look at what it breaks.

use std::time::Duration;

use crate::plan::{Mishap, Plan, Reading, What};

/// How many plans are tried at most: each of them is a whole run.
const TRIES: usize = 300;
/// How long a run goes on, at least, after its last mishap.
const AFTERMATH: Duration = Duration::from_secs(1);
/// A shorter spell of trouble tells no more.
const SHORT: Duration = Duration::from_millis(100);

/// The smallest plan found that still fails; the plan itself, where nothing smaller does.
pub fn shrink(plan: &Plan, fails: impl FnMut(&Plan) -> bool) -> Plan {
    let mut shrinker = Shrinker {
        best: plan.clone(),
        fails,
        tries: TRIES,
    };
    loop {
        let before = shrinker.best.clone();
        shrinker.take_out_mishaps();
        shrinker.simplify();
        shrinker.shorten();
        if shrinker.best == before || shrinker.tries == 0 {
            return shrinker.best;
        }
    }
}

struct Shrinker<F> {
    best: Plan,
    fails: F,
    tries: usize,
}

impl<F: FnMut(&Plan) -> bool> Shrinker<F> {
    /// Takes a change for good if the plan still fails with it.
    fn attempt(&mut self, change: impl FnOnce(&mut Plan)) -> bool {
        let mut plan = self.best.clone();
        change(&mut plan);
        if plan == self.best || self.tries == 0 {
            return false;
        }
        self.tries -= 1;
        let fails = (self.fails)(&plan);
        if fails {
            self.best = plan;
        }
        fails
    }

    fn take_out_mishaps(&mut self) {
        let mut size = self.best.mishaps.len();
        while size > 0 {
            let mut from = 0;
            while from < self.best.mishaps.len() {
                let to = (from + size).min(self.best.mishaps.len());
                let is_out = self.attempt(|plan| {
                    plan.mishaps.drain(from..to);
                });
                if !is_out {
                    from = to;
                }
            }
            size /= 2;
        }
    }

    fn simplify(&mut self) {
        self.attempt(|plan| plan.store_noise = 0);
        self.attempt(|plan| plan.kinesis_noise = 0);
        self.attempt(|plan| plan.drift_ppm = 0);
        self.attempt(|plan| plan.handlers.unhappy_in_1000 = 0);
        self.attempt(|plan| plan.handlers.slow_in_1000 = 0);
        self.attempt(|plan| plan.handlers.usual = Duration::ZERO);
        let Reading {
            concurrency,
            interval,
            prefetch,
        } = Reading::default();
        self.attempt(|plan| plan.reading.interval = interval);
        self.attempt(|plan| plan.reading.prefetch = prefetch);
        if !self.attempt(|plan| plan.reading.concurrency = concurrency) {
            self.lower(|plan| &mut plan.reading.concurrency);
        }
        self.lower(|plan| &mut plan.instances);
        self.lower(|plan| &mut plan.shards);
        self.lower(|plan| &mut plan.producer.keys);
        while self.best.producer.per_second > 1
            && self.attempt(|plan| plan.producer.per_second /= 2)
        {}
    }

    /// Makes a number as small as it can be, but not less than one.
    fn lower(&mut self, number: fn(&mut Plan) -> &mut usize) {
        loop {
            let now = *number(&mut self.best);
            let is_lower = [1, now / 2, now.saturating_sub(1)]
                .into_iter()
                .any(|lower| {
                    lower >= 1 && lower < now && self.attempt(|plan| *number(plan) = lower)
                });
            if !is_lower {
                return;
            }
        }
    }

    fn shorten(&mut self) {
        for mishap in 0..self.best.mishaps.len() {
            while self.attempt(|plan| {
                if let Some(lasts) =
                    spell(&mut plan.mishaps[mishap]).filter(|lasts| **lasts >= 2 * SHORT)
                {
                    *lasts /= 2;
                }
            }) {}
        }
        let last = self
            .best
            .mishaps
            .last()
            .map_or(Duration::ZERO, |mishap| mishap.at);
        let least = last + AFTERMATH;
        let halfway = least + self.best.lasts.saturating_sub(least) / 2;
        for lasts in [least, halfway] {
            if lasts < self.best.lasts && self.attempt(|plan| plan.lasts = lasts) {
                return;
            }
        }
    }
}

fn spell(mishap: &mut Mishap) -> Option<&mut Duration> {
    match &mut mishap.what {
        What::Pause { lasts, .. } | What::Store { lasts, .. } | What::Kinesis { lasts, .. } => {
            Some(lasts)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kill(at: u64, victim: usize) -> Mishap {
        Mishap {
            at: Duration::from_secs(at),
            what: What::Kill { victim },
        }
    }

    fn pause(at: u64, lasts: u64) -> Mishap {
        let (at, lasts) = (Duration::from_secs(at), Duration::from_secs(lasts));
        Mishap {
            at,
            what: What::Pause { victim: 1, lasts },
        }
    }

    /// The largest of what a seed may draw, with these mishaps.
    fn large(mishaps: Vec<Mishap>) -> Plan {
        let mut plan = Plan::from_seed(1);
        (
            plan.shards,
            plan.instances,
            plan.producer.keys,
            plan.producer.per_second,
        ) = (40, 4, 120, 10);
        (plan.store_noise, plan.kinesis_noise, plan.drift_ppm) = (100, 100, 500);
        (plan.mishaps, plan.lasts) = (mishaps, Duration::from_secs(120));
        plan.reading = Reading {
            concurrency: 16,
            interval: Some(Duration::from_secs(5)),
            prefetch: Some(0),
        };
        plan
    }

    fn has_kill(plan: &Plan, wanted: usize) -> bool {
        plan.mishaps
            .iter()
            .any(|mishap| mishap.what == What::Kill { victim: wanted })
    }

    #[test]
    fn only_the_mishaps_that_it_takes_are_left_and_the_rest_is_as_simple_as_can_be() {
        let mishaps = (0..60)
            .map(|number| kill(number + 1, number as usize))
            .collect();
        let plan = shrink(&large(mishaps), |plan| {
            has_kill(plan, 7) && has_kill(plan, 31) && plan.shards >= 3
        });
        assert_eq!(plan.mishaps, [kill(8, 7), kill(32, 31)]);
        assert_eq!(
            (
                plan.shards,
                plan.instances,
                plan.producer.keys,
                plan.producer.per_second
            ),
            (3, 1, 1, 1)
        );
        assert_eq!(
            (plan.store_noise, plan.kinesis_noise, plan.drift_ppm),
            (0, 0, 0)
        );
        assert_eq!(plan.lasts, Duration::from_secs(33));
        assert_eq!(plan.reading, Reading::default());
    }

    #[test]
    fn of_how_the_fleet_reads_what_matters_is_left_and_the_rest_is_as_by_default() {
        let plan = shrink(&large(Vec::new()), |plan| {
            plan.reading.concurrency >= 3 && plan.reading.interval.is_some()
        });
        let left = Reading {
            concurrency: 3,
            interval: Some(Duration::from_secs(5)),
            prefetch: None,
        };
        assert_eq!(plan.reading, left);
    }

    #[test]
    fn a_spell_is_as_short_as_it_can_be() {
        let longer_than_a_lease = |plan: &Plan| {
            plan.mishaps.iter().any(|mishap| {
                matches!(mishap.what, What::Pause { lasts, .. } if lasts > Duration::from_secs(10))
            })
        };
        let plan = shrink(&large(vec![pause(1, 3), pause(5, 47)]), longer_than_a_lease);
        let [
            Mishap {
                what: What::Pause { lasts, .. },
                ..
            },
        ] = plan.mishaps[..]
        else {
            panic!("{plan}");
        };
        assert_eq!(lasts, Duration::from_millis(11_750));
    }

    #[test]
    fn a_plan_of_which_everything_matters_stays_as_it_is() {
        let plan = large(vec![kill(1, 1), kill(2, 2)]);
        assert_eq!(shrink(&plan, |_| false), plan);
    }

    #[test]
    fn it_gives_up_after_so_many_tries() {
        let mut tries = 0;
        let mishaps = (0..700)
            .map(|number| kill(number + 1, number as usize))
            .collect();
        shrink(&large(mishaps), |plan| {
            tries += 1;
            plan.mishaps.len() > 690
        });
        assert!(tries <= TRIES, "{tries}");
    }
}
