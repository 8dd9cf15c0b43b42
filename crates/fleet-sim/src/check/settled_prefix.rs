//! **Settled prefix.** Whoever goes on after a checkpoint skips nothing: when a checkpoint that the store accepted
//! was *sent*, every record of the shard up to it was settled, by whomever, under whichever acquisition. The end of a
//! shard is written only once a split or a merge has closed it and all of it is settled.
//!
//! Not asked for: records that had passed out of retention by then, and those before the start position (see
//! [`owed`](super::owed)).

use crate::check::Found;
use crate::check::index::Index;
use crate::history::{Ask, Sequence};

pub(super) fn check(index: &Index<'_>) -> Vec<Found> {
    (0..index.shards.len())
        .flat_map(|shard| check_shard(index, shard))
        .collect()
}

fn check_shard(index: &Index<'_>, shard: usize) -> Vec<Found> {
    let facts = &index.shards[shard];
    let records = &index.history.records;
    let mut found = Vec::new();
    // Calls come in the order of their sending, so what was done before one was done before the next.
    let mut prefix = 0;
    // A record that is never settled lies before every later checkpoint; the first one says so.
    let mut said = None;
    for call in facts.calls.iter().map(|call| &index.calls[*call]) {
        let Ask::Checkpoint { holder, at, .. } = call.ask else {
            continue;
        };
        if call.accepted().is_none() || at.timestamp().is_some() {
            continue;
        }
        let is_done = |record: &usize| index.fates[*record].is_done_before(call.sent);
        prefix += facts.records[prefix..]
            .iter()
            .take_while(|record| is_done(record))
            .count();
        let covers = match at.sequence() {
            Some(sequence) => {
                let last = Sequence(sequence.to_owned());
                facts
                    .records
                    .partition_point(|record| records[*record].sequence <= last)
            }
            None => facts.records.len(),
        };
        let what = format!(
            "{} sends checkpoint {at} of {} under epoch {}",
            call.instance,
            index.name(shard),
            holder.epoch
        );
        if covers > prefix && said != Some(prefix) {
            said = Some(prefix);
            let first = index.record_name(facts.records[prefix]);
            found.push(
                call.sent
                    .found(format!("{what}, although {first} is not settled")),
            );
        }
        if at.is_shard_end() && facts.closed.is_none_or(|closed| closed > call.sent) {
            found.push(
                call.sent
                    .found(format!("{what}, although the shard is open")),
            );
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use rstream::HandlerOutcome;

    use crate::check::Invariant::SettledPrefix;
    use crate::check::builder::{Tale, end, moment, seq};
    use crate::history::Answer;

    fn held() -> Tale {
        let mut tale = Tale::with(1);
        tale.grant(0, 0, 1);
        (1..=3).for_each(|sequence| tale.store(0, sequence));
        tale
    }

    #[test]
    fn what_is_settled_may_be_checkpointed_whoever_settled_it() {
        let mut tale = held();
        tale.settle(0, 0, 1, 1);
        let dropped = tale.hand(0, 0, 1, 2);
        tale.say(dropped, HandlerOutcome::drop());
        tale.at(12.0).grant(0, 0, 2);
        tale.settle(0, 0, 2, 3);
        tale.checkpoint(0, 0, 2, seq(3));
        tale.keeps(SettledPrefix);
    }

    #[test]
    fn a_gap_before_a_checkpoint_is_seen_once() {
        let mut tale = held();
        tale.settle(0, 0, 1, 1);
        let again = tale.hand(0, 0, 1, 2);
        tale.say(again, HandlerOutcome::retry());
        tale.settle(0, 0, 1, 3);
        tale.checkpoint(0, 0, 1, seq(3));
        tale.checkpoint(0, 0, 1, seq(3));
        tale.breaks(SettledPrefix, "r1 of shard 0 (2) is not settled");
    }

    #[test]
    fn what_counts_is_the_sending_and_refused_calls_do_not() {
        let mut tale = held();
        let call = tale.send(0, Tale::position(0, 0, 1, seq(1)));
        tale.settle(0, 0, 1, 1);
        tale.took(call, Answer::Yes);
        tale.breaks(SettledPrefix, "r0 of shard 0 (1) is not settled");

        let mut tale = held();
        let call = tale.send(0, Tale::position(0, 0, 1, seq(3)));
        tale.took(call, Answer::No);
        tale.keeps(SettledPrefix);
    }

    #[test]
    fn what_passed_out_of_retention_before_needs_no_settling() {
        let mut tale = held();
        tale.trim(0, &[1, 2]);
        tale.handle(0, 0, 1, 3);
        tale.keeps(SettledPrefix);
    }

    #[test]
    fn what_lies_before_the_tip_needs_no_settling() {
        let mut tale = Tale::at_the_tip();
        tale.shard(0, &[]);
        tale.join(0);
        tale.store(0, 1);
        tale.at(1.0).grant(0, 0, 1);
        tale.checkpoint(0, 0, 1, moment(1));
        tale.at(2.0).store(0, 2);
        tale.handle(0, 0, 1, 2);
        tale.keeps(SettledPrefix);

        tale.at(3.0).store(0, 3);
        tale.checkpoint(0, 0, 1, seq(3));
        tale.breaks(SettledPrefix, "r2 of shard 0 (3) is not settled");
    }

    #[test]
    fn the_end_is_written_of_a_closed_shard_with_everything_settled() {
        let mut tale = held();
        (1..=2).for_each(|sequence| tale.handle(0, 0, 1, sequence));
        tale.shard(1, &[0]);
        tale.checkpoint(0, 0, 1, end());
        tale.breaks(SettledPrefix, "r2 of shard 0 (3) is not settled");

        let mut tale = held();
        (1..=3).for_each(|sequence| tale.handle(0, 0, 1, sequence));
        tale.checkpoint(0, 0, 1, end());
        tale.breaks(SettledPrefix, "although the shard is open");

        let mut tale = held();
        (1..=3).for_each(|sequence| tale.handle(0, 0, 1, sequence));
        tale.shard(1, &[0]);
        tale.checkpoint(0, 0, 1, end());
        tale.keeps(SettledPrefix);
    }
}
