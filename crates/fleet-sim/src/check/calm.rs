//! When nothing was wrong: what is promised of a fleet that is left to itself is asked of no other.
//!
//! An event tells when trouble begins, and the plan how long it lasts; what is late goes on being late for a while.

use std::time::Duration;

use crate::check::index::Index;
use crate::history::Event;
use crate::plan::{KinesisTrouble, Mishap, Trouble, What};

/// The times of trouble.
#[derive(Debug)]
pub(super) struct Troubles {
    /// From when to when, and the place of the event where there is one.
    spells: Vec<(Duration, Duration, Option<usize>)>,
}

impl Troubles {
    pub(super) fn of(index: &Index<'_>) -> Self {
        let end = index
            .history
            .events
            .last()
            .map_or(Duration::ZERO, |(at, _)| *at);
        let healed = index.rest.as_ref().map_or(end, |rest| rest.from);
        let mut spells = Vec::new();
        if index.plan.store_noise > 0 || index.plan.kinesis_noise > 0 {
            spells.push((Duration::ZERO, healed, None));
        }
        spells.extend(index.plan.mishaps.iter().filter_map(spell));
        let events = index.history.events.iter().enumerate();
        spells.extend(
            events
                .filter(|(_, (_, event))| is_trouble(event))
                .map(|(place, (at, _))| (*at, *at, Some(place))),
        );
        for life in index.lives.values() {
            spells.extend(
                life.pauses
                    .iter()
                    .map(|(from, to)| (*from, to.unwrap_or(end), None)),
            );
            // Whoever starts or stops may be doing so for a while.
            let starting = life.joined.map(|joined| {
                (
                    joined.at,
                    life.started.map_or(joined.at, |started| started.at),
                )
            });
            let stopping = life
                .stopping
                .zip(life.stopped)
                .map(|(from, to)| (from.at, to.at));
            spells.extend(
                starting
                    .into_iter()
                    .chain(stopping)
                    .map(|(from, to)| (from, to, None)),
            );
        }
        Self { spells }
    }

    /// Whether nothing was wrong between, but for the event of this place.
    pub(super) fn is_calm(&self, from: Duration, to: Duration, but_for: usize) -> bool {
        !self
            .spells
            .iter()
            .any(|(begins, ends, place)| *begins <= to && *ends >= from && *place != Some(but_for))
    }
}

fn spell(mishap: &Mishap) -> Option<(Duration, Duration, Option<usize>)> {
    let (lasts, late) = match &mishap.what {
        What::Store { trouble, lasts, .. } => {
            let late = match trouble {
                Trouble::Late(by) | Trouble::AnswersLate(by) => *by,
                _ => Duration::ZERO,
            };
            (*lasts, late)
        }
        What::Kinesis { trouble, lasts } => {
            let late = match trouble {
                KinesisTrouble::Slow(by) => *by,
                _ => Duration::ZERO,
            };
            (*lasts, late)
        }
        _ => return None,
    };
    Some((mishap.at, mishap.at + lasts + late, None))
}

fn is_trouble(event: &Event) -> bool {
    matches!(
        event,
        Event::Fault(_)
            | Event::Joined { .. }
            | Event::Killed(_)
            | Event::Paused(_)
            | Event::Woken(_)
            | Event::Stopping(_)
    )
}
