//! The search for an order that explains all answers, after Wing and Gong: one call after another is taken that may
//! have been next, as long as the model explains its answer. A set of calls that led to a row once without success is
//! not tried again, in whatever order it comes (Lowe).

use std::collections::HashSet;

use super::history::Operation;
use super::model::Row;
use crate::LeaseKey;
use crate::conformance::Violation;

/// So many sets of calls are tried at most. A history of the suite takes some hundreds.
const ENOUGH: usize = 50_000;
/// And so many to see whether one answer matters; where that is not enough it is told, and may not matter.
const ENOUGH_TO_TELL: usize = 2_000;

/// What a search came to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    /// By an order that leaves this row.
    Explained(Row),
    Unexplained,
    /// Too many calls without an answer, or too many at once.
    Undecided,
}

/// Looks for an order that explains the calls on one key.
pub(super) fn check(key: &LeaseKey, mut operations: Vec<Operation>) -> Result<(), Violation> {
    operations.sort_by_key(|operation| operation.began);
    match explain(&operations, ENOUGH) {
        Outcome::Explained(_) => Ok(()),
        Outcome::Undecided => Err(Violation::new(format!(
            "of {} calls on {key} more are under way at once than the checker can put in order",
            operations.len()
        ))),
        Outcome::Unexplained => Err(Violation::new(told(key, operations))),
    }
}

fn explain(operations: &[Operation], enough: usize) -> Outcome {
    let mut search = Search {
        operations,
        enough,
        tried: HashSet::new(),
    };
    let mut done = vec![false; operations.len()];
    match search.go_on(&mut done, &Row::default()) {
        Some(row) => Outcome::Explained(row),
        None if search.tried.len() >= enough => Outcome::Undecided,
        None => Outcome::Unexplained,
    }
}

struct Search<'a> {
    operations: &'a [Operation],
    enough: usize,
    tried: HashSet<(Vec<bool>, Row)>,
}

impl Search<'_> {
    /// Goes on from a row, after the calls that are done; the row at the end.
    fn go_on(&mut self, done: &mut Vec<bool>, row: &Row) -> Option<Row> {
        let open = self.operations.iter().zip(done.iter());
        let open = open.filter(|(_, done)| !**done);
        let answers = open.filter_map(|(operation, _)| operation.ended.as_ref());
        // What was sent after an answer had come took effect after that call.
        let Some(first_answer) = answers.map(|(ended, _)| ended.order).min() else {
            return Some(row.clone());
        };
        for index in 0..self.operations.len() {
            let operation = &self.operations[index];
            if operation.began.order > first_answer {
                break;
            }
            if done[index] {
                continue;
            }
            for after in row.after(operation) {
                if self.tried.len() >= self.enough {
                    return None;
                }
                done[index] = true;
                if self.tried.insert((done.clone(), after.clone()))
                    && let Some(end) = self.go_on(done, &after)
                {
                    return Some(end);
                }
                done[index] = false;
            }
        }
        None
    }
}

/// What is wrong: few calls whose answers no order explains, whatever became of the others.
fn told(key: &LeaseKey, operations: Vec<Operation>) -> String {
    let (mut operations, row) = until_it_broke(operations);
    let all = answered(&operations);
    let is_unexplained =
        |operations: &[Operation]| explain(operations, ENOUGH_TO_TELL) == Outcome::Unexplained;
    for index in (0..operations.len()).rev() {
        // A call that changed nothing may as well not have been made.
        if operations[index].changes_nothing() {
            let operation = operations.remove(index);
            if !is_unexplained(&operations) {
                operations.insert(index, operation);
            }
        }
    }
    for index in (0..operations.len()).rev() {
        if let Some(ended) = operations[index].ended.take()
            && !is_unexplained(&operations)
        {
            operations[index].ended = Some(ended);
        }
    }
    let mut told = format!("no order of these calls on {key} explains their answers:");
    for operation in operations
        .iter()
        .filter(|operation| operation.ended.is_some())
    {
        told += &format!("\n{operation}");
    }
    let others = all - answered(&operations);
    told + &format!(
        "\nwhatever was answered to {others} others until then. Without the last answer the row can be: {row}."
    )
}

fn answered(operations: &[Operation]) -> usize {
    operations
        .iter()
        .filter(|operation| operation.ended.is_some())
        .count()
}

/// The calls up to the first answer that cannot be explained with those before it, and what those leave.
fn until_it_broke(operations: Vec<Operation>) -> (Vec<Operation>, Row) {
    let mut answers: Vec<usize> = operations
        .iter()
        .filter_map(|operation| Some(operation.ended.as_ref()?.0.order))
        .collect();
    answers.sort_unstable();
    let until = |last: usize| {
        let mut before = operations.clone();
        before.retain(|operation| operation.began.order < last);
        for operation in &mut before {
            operation.ended.take_if(|(ended, _)| ended.order > last);
        }
        before
    };
    let explained = |last: usize| match explain(&until(last), ENOUGH) {
        Outcome::Explained(row) => Some(row),
        Outcome::Unexplained | Outcome::Undecided => None,
    };
    // More answers are only harder to explain, so it can be found by halves.
    let broke = answers.partition_point(|last| explained(*last).is_some());
    let before = broke
        .checked_sub(1)
        .and_then(|index| explained(answers[index]));
    let broken = answers.get(broke).map(|last| until(*last));
    (broken.unwrap_or(operations), before.unwrap_or_default())
}

#[cfg(test)]
mod tests;
