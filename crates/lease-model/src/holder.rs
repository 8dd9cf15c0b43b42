//! A holder's own view of its lease: its deadline, and how far it has come with the records.

use crate::flaw::{Flaw, Rules};
use crate::table::{Mine, Name};

/// A lease in the hands of the instance that was granted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hold {
    pub(crate) epoch: u8,
    /// Which grant it is: for the invariants, no decision looks at it.
    pub(crate) serial: u8,
    /// The ticks since it *sent* its last successful acquisition or renewal.
    sent: u8,
    /// Whether it has read where to go on.
    pub(crate) opened: bool,
    /// The last record handed to the handler.
    pub(crate) handed: u8,
    /// The last record of the settled prefix.
    pub(crate) settled: u8,
    /// The last checkpoint that was answered `true`.
    pub(crate) accepted: u8,
    /// The number of the last checkpoint call.
    pub(crate) cp_no: u8,
}

impl Hold {
    /// A lease that was granted by a call which was sent so many ticks ago.
    pub(crate) fn granted(epoch: u8, serial: u8, sent: u8, rules: Rules) -> Self {
        Self {
            epoch,
            serial,
            sent: counted(sent, rules),
            opened: false,
            handed: 0,
            settled: 0,
            accepted: 0,
            cp_no: 0,
        }
    }

    /// One that is adopted: not read until a renewal succeeds.
    pub(crate) fn adopted(epoch: u8, serial: u8, lease: u8, rules: Rules) -> Self {
        let mut hold = Self::granted(epoch, serial, lease, rules);
        hold.sent = match rules.lack(Flaw::AdoptedIsReadAtOnce) {
            true => 0,
            false => lease,
        };
        hold
    }

    /// A renewal succeeded that was sent so many ticks ago.
    pub(crate) fn renewed(&mut self, sent: u8, rules: Rules) {
        self.sent = self.sent.min(counted(sent, rules));
    }

    /// Goes on after this record, which is settled.
    pub(crate) fn open(&mut self, after: u8, accepted: u8) {
        self.opened = true;
        self.handed = after;
        self.settled = after;
        self.accepted = accepted;
    }

    pub(crate) fn tick(&mut self, lease: u8) {
        self.sent = lease.min(self.sent + 1);
    }

    /// Whether its own deadline has not passed.
    pub(crate) fn is_in_time(&self, lease: u8, rules: Rules) -> bool {
        self.sent < lease || rules.lack(Flaw::DeadlineIgnored)
    }

    /// The next record to hand over, in a shard of so many. One is with the handler at a time.
    pub(crate) fn next(&self, records: u8, lease: u8, rules: Rules) -> Option<u8> {
        let may = self.opened && self.is_in_time(lease, rules) && self.handed == self.settled;
        // Of an endless shard no record is counted.
        let next = self.handed + u8::from(records > 0);
        (may && next <= records).then_some(next)
    }

    /// The position to checkpoint, if that is further than what was accepted.
    pub(crate) fn checkpointable(&self, lease: u8, rules: Rules) -> Option<u8> {
        let upto = match rules.lack(Flaw::CheckpointsUnsettled) {
            true => self.handed,
            false => self.settled,
        };
        let may = self.opened && self.is_in_time(lease, rules) && upto > self.accepted;
        may.then_some(upto)
    }

    /// Whether all is settled, and the last checkpoint accepted.
    pub(crate) fn may_be_released(&self) -> bool {
        self.opened && self.handed == self.settled && self.settled == self.accepted
    }

    pub(crate) fn mine(&self, owner: Name) -> Mine {
        let epoch = self.epoch;
        Mine { owner, epoch }
    }
}

fn counted(sent: u8, rules: Rules) -> u8 {
    match rules.lack(Flaw::DeadlineFromArrival) {
        true => 0,
        false => sent,
    }
}
