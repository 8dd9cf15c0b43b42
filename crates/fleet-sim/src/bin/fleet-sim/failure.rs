//! A run that failed: what it broke, and the smallest plan found that breaks the same.

use std::fmt::Write as _;

use fleet_sim::check::{Invariant, Violation};
use fleet_sim::plan::Plan;
use fleet_sim::shrink::shrink;
use fleet_sim::{Run, Simulation};

use crate::fleets;

/// So many violations are told; what comes after the first ones mostly follows from them.
const TOLD: usize = 10;

/// What went wrong with a run.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// It broke rules.
    Broke(Vec<Violation>),
    /// It came to no end.
    Panicked(String),
}

impl Failure {
    pub(crate) fn of(ran: &Result<Run, String>) -> Option<Self> {
        match ran {
            Ok(run) if run.violations.is_empty() => None,
            Ok(run) => Some(Self::Broke(run.violations.clone())),
            Err(message) => Some(Self::Panicked(message.clone())),
        }
    }

    /// Whether this is a failure of the same kind.
    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Broke(violations), Self::Broke(others)) => {
                let broken: Option<Invariant> = others.first().map(|violation| violation.invariant);
                violations
                    .iter()
                    .any(|violation| Some(violation.invariant) == broken)
            }
            (Self::Panicked(_), Self::Panicked(_)) => true,
            _ => false,
        }
    }

    /// What it broke, and how to see it again.
    pub(crate) fn tell(&self, seed: u64) -> String {
        let mut told = format!("seed {seed} FAILED\n");
        match self {
            Self::Broke(violations) => {
                for violation in violations.iter().take(TOLD) {
                    let _ = writeln!(told, "  {violation}");
                }
                if let Some(more) = violations.len().checked_sub(TOLD).filter(|more| *more > 0) {
                    let _ = writeln!(told, "  and {more} more");
                }
            }
            Self::Panicked(message) => {
                let _ = writeln!(told, "  it came to no end: {message}");
            }
        }
        let _ = write!(told, "  replay it: cargo xtask sim --seed {seed} --trace");
        told
    }

    /// The smallest plan found that fails like this one, and what that breaks.
    pub(crate) fn tell_shrunk(&self, plan: &Plan) -> String {
        let ran = |plan: &Plan| Self::of(&fleets::run(Simulation::of(plan.clone())));
        let shrunk = shrink(plan, |plan| {
            ran(plan).is_some_and(|failure| failure.is_like(self))
        });
        let what = match ran(&shrunk) {
            Some(Self::Broke(violations)) => violations
                .first()
                .map(ToString::to_string)
                .unwrap_or_default(),
            Some(Self::Panicked(message)) => format!("it comes to no end: {message}"),
            None => {
                "nothing, the second time: the run does not depend on its seed alone".to_owned()
            }
        };
        format!("shrunk, {shrunk}  breaks {what}")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn broke(invariants: &[Invariant]) -> Failure {
        let violations = invariants.iter().map(|invariant| Violation {
            invariant: *invariant,
            at: Duration::from_secs(1),
            text: "what happened".to_owned(),
        });
        Failure::Broke(violations.collect())
    }

    #[test]
    fn a_failure_is_told_with_the_command_that_replays_it_and_not_at_any_length() {
        let told = broke(&[Invariant::NoLoss; 13]).tell(7);
        assert_eq!(
            told.matches("no loss at 1.000 s: what happened").count(),
            TOLD
        );
        assert!(told.contains("and 3 more"), "{told}");
        assert!(told.ends_with("cargo xtask sim --seed 7 --trace"), "{told}");
    }

    #[test]
    fn a_smaller_plan_has_to_break_what_the_first_broke_first() {
        let first = broke(&[Invariant::Quiet, Invariant::NoLoss]);
        assert!(broke(&[Invariant::NoLoss, Invariant::Quiet]).is_like(&first));
        assert!(!broke(&[Invariant::NoLoss]).is_like(&first));
        assert!(!Failure::Panicked(String::new()).is_like(&first));
    }
}
