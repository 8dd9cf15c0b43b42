//! The search, breadth first: what is found is found with a shortest history.
//!
//! Of a state that was seen nothing is kept but its fingerprint and that of the state before it, sixteen bytes; a
//! history is told by walking it once more.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hasher};

use crate::invariant::Invariant;
use crate::progress::Progress;
use crate::state::State;
use crate::step::{self, Step};
use crate::symmetry::fingerprint;
use crate::words::words;
use crate::world::World;

/// What an exploration came to.
#[derive(Clone, Debug)]
pub struct Exploration {
    /// Different states; those that differ in nothing but which instance is which are one.
    pub states: usize,
    /// Steps taken.
    pub steps: u64,
    /// The steps to the states that are furthest from the first.
    pub depth: usize,
    /// What broke first, if anything did.
    pub finding: Option<Finding>,
}

/// An invariant that does not hold, and how to break it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which one.
    pub invariant: Invariant,
    /// A shortest history that breaks it, a step a line.
    pub history: Vec<String>,
}

/// Explores every history of a world, or as far as the first that breaks an invariant.
///
/// See the [crate] for an example.
#[must_use]
pub fn explore(world: &World) -> Exploration {
    Search::new(world).run()
}

struct Search<'a> {
    world: &'a World,
    /// Each state that was seen, and the one before it.
    before: HashMap<u64, u64, Plain>,
    progress: Progress,
    steps: u64,
    depth: usize,
}

impl<'a> Search<'a> {
    fn new(world: &'a World) -> Self {
        Self {
            world,
            before: HashMap::default(),
            progress: Progress::default(),
            steps: 0,
            depth: 0,
        }
    }

    fn run(mut self) -> Exploration {
        let first = State::first(self.world);
        let print = fingerprint(&first, self.world);
        self.before.insert(print, print);
        let mut reached = vec![(print, first)];
        let mut finding = None;
        while !reached.is_empty() && finding.is_none() {
            let mut next = Vec::new();
            for (print, state) in reached {
                finding = self.leave(print, &state, &mut next);
                if finding.is_some() {
                    break;
                }
            }
            self.depth += usize::from(!next.is_empty() || finding.is_some());
            reached = next;
        }
        Exploration {
            states: self.before.len(),
            steps: self.steps,
            depth: self.depth,
            finding,
        }
    }

    /// Takes every step from a state.
    fn leave(
        &mut self,
        print: u64,
        state: &State,
        next: &mut Vec<(u64, State)>,
    ) -> Option<Finding> {
        if state.is_at_the_horizon(self.world) {
            return None;
        }
        for step in step::steps(state, self.world) {
            self.steps += 1;
            let (after, broken) = step::after(state, self.world, step);
            if let Some(invariant) = broken {
                return Some(self.told(print, Some(step), invariant));
            }
            let reached = fingerprint(&after, self.world);
            let Entry::Vacant(unseen) = self.before.entry(reached) else {
                continue;
            };
            unseen.insert(print);
            if self.world.progress && self.progress.is_dead_end(&after, self.world) {
                return Some(self.told(reached, None, Invariant::Progress));
            }
            next.push((reached, after));
        }
        None
    }

    /// Tells the history that leads to a state, and the last step.
    fn told(&self, mut print: u64, last: Option<Step>, invariant: Invariant) -> Finding {
        let mut prints = vec![print];
        while self.before[&print] != print {
            print = self.before[&print];
            prints.push(print);
        }
        prints.reverse();
        let mut state = State::first(self.world);
        let mut history = Vec::new();
        for &print in &prints[1..] {
            let steps = step::steps(&state, self.world).into_iter();
            let mut reached = steps.map(|step| (step, step::after(&state, self.world, step).0));
            let (step, after) = reached
                .find(|(_, after)| fingerprint(after, self.world) == print)
                .expect("a state that was reached is reached again");
            history.push(words(&state, &after, self.world, step));
            state = after;
        }
        if let Some(step) = last {
            let (after, _) = step::after(&state, self.world, step);
            history.push(words(&state, &after, self.world, step));
        }
        Finding { invariant, history }
    }
}

/// Fingerprints are hashes already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Plain(u64);

impl BuildHasher for Plain {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for Plain {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, print: u64) {
        self.0 = print;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
