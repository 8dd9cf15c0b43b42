//! What must hold of any history, whatever happened: checked after the run, from what was noted in it.

use std::collections::{BTreeMap, HashMap};

use super::{Call, Fleet, Outcome, STREAM, Seen};

impl Fleet {
    /// The deliveries of each shard, by the name of its lease, in the order in which they began.
    pub(crate) fn by_shard(&self) -> BTreeMap<String, Vec<Seen>> {
        let mut shards = BTreeMap::<_, Vec<_>>::new();
        for seen in self.seen() {
            let key = format!("{}:{}", seen.stream, seen.shard);
            shards.entry(key).or_default().push(seen);
        }
        shards
    }

    /// The values that were handed over again after they had been settled, or to two holders.
    pub(crate) fn repeated(&self) -> Vec<u64> {
        let mut first = HashMap::new();
        let mut repeated = Vec::new();
        for seen in self.seen() {
            let record = (
                seen.stream.clone(),
                seen.shard.clone(),
                seen.sequence_number.clone(),
            );
            if seen.attempt == 1 && first.insert(record, ()).is_some() {
                repeated.push(seen.value);
            }
        }
        repeated
    }

    /// Checks the whole history: one reader at a time, order within each shard, and checkpoints that only
    /// move forward, behind which nothing is handed over again.
    pub(crate) fn check_history(&self) {
        for (shard, seen) in self.by_shard() {
            check_deliveries(&shard, &seen);
            let id = shard.split(':').next_back().unwrap();
            let mut written = Vec::new();
            for made in self.store.made_on(Call::Checkpoint, id) {
                let is_this = made.key == shard && made.outcome == Outcome::Yes;
                if let Some(text) = made.checkpoint.filter(|_| is_this) {
                    written.push((made.epoch, text));
                }
            }
            check_checkpoints(&shard, &written, &seen);
        }
    }

    /// Checks that every record of [`STREAM`] was handled.
    pub(crate) fn check_nothing_is_lost(&self) {
        for shard in self.sim.shards(STREAM) {
            let seen = self.seen_of(&shard.id);
            for record in self.sim.records(STREAM, &shard.id) {
                let is_handled = seen.iter().any(|seen| {
                    seen.sequence_number == record.sequence_number && seen.done_at.is_some()
                });
                assert!(
                    is_handled,
                    "{} of {} is lost",
                    record.sequence_number, shard.id
                );
            }
        }
    }
}

fn check_deliveries(shard: &str, seen: &[Seen]) {
    for pair in seen.windows(2) {
        let [before, after] = pair else { continue };
        assert!(
            before.epoch <= after.epoch,
            "{shard}: {before:?} and then, of an earlier lease, {after:?}"
        );
        if before.epoch == after.epoch {
            let (last, next) = (
                order(&before.sequence_number),
                order(&after.sequence_number),
            );
            assert!(
                last <= next,
                "{shard}: {before:?} and then, out of order, {after:?}"
            );
            let is_done = before.done_at.is_some_and(|done| done <= after.at);
            assert!(is_done, "{shard}: {before:?} still runs beside {after:?}");
        }
    }
}

fn check_checkpoints(shard: &str, written: &[(u64, String)], seen: &[Seen]) {
    let records: Vec<_> = written
        .iter()
        .filter(|(_, text)| text.bytes().all(|byte| byte.is_ascii_digit()))
        .collect();
    for pair in records.windows(2) {
        assert!(
            order(&pair[0].1) <= order(&pair[1].1),
            "{shard}: the checkpoint moves back: {pair:?}"
        );
    }
    for (epoch, text) in records {
        let again = seen
            .iter()
            .find(|seen| seen.epoch > *epoch && order(&seen.sequence_number) <= order(text));
        assert!(
            again.is_none(),
            "{shard}: {text} was checkpointed under epoch {epoch}, and then {again:?}"
        );
    }
}

/// Sequence numbers have no leading zeros.
fn order(sequence_number: &str) -> (usize, &str) {
    (sequence_number.len(), sequence_number)
}
