//! What each event is told as, by somebody who knows how everything ended.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use lease_core::{Checkpoint, LeaseKey};
use rstream::HandlerOutcome;
use rstream::broker::Settlement;

use super::number;
use crate::history::{
    Answer, Ask, CallId, Delivery, DeliveryId, Event, History, InstanceId, Sequence,
};

/// A handler that takes longer has a line of its own for its end.
const QUICK: Duration = Duration::from_secs(1);

/// A line of the story.
pub(super) struct Line<'a> {
    /// Whom it is about, where it is about one.
    pub(super) who: Option<InstanceId>,
    /// Which shard, where it is about one.
    pub(super) key: Option<&'a LeaseKey>,
    pub(super) text: String,
}

/// A call of which it is known how it ended.
struct Call<'a> {
    instance: InstanceId,
    ask: &'a Ask,
    answered: Option<&'a Answer>,
}

/// Knows how everything ended, and who holds what so far.
pub(super) struct Teller<'a> {
    calls: HashMap<CallId, Call<'a>>,
    deliveries: HashMap<DeliveryId, &'a Delivery>,
    said: HashMap<DeliveryId, (Duration, Option<&'a HandlerOutcome>)>,
    handed: HashMap<DeliveryId, Duration>,
    records: HashMap<(&'a LeaseKey, &'a Sequence), usize>,
    /// The shards of the records.
    keys: HashMap<&'a Sequence, &'a LeaseKey>,
    /// By shard: whom its row names, and the epoch.
    holders: BTreeMap<&'a LeaseKey, (InstanceId, u64)>,
    renewals: HashMap<&'a LeaseKey, usize>,
    /// By instance and shard: how many records are in handlers.
    in_hand: HashMap<(InstanceId, &'a LeaseKey), usize>,
}

impl<'a> Teller<'a> {
    pub(super) fn of(history: &'a History) -> Self {
        let mut teller = Self {
            calls: HashMap::new(),
            deliveries: HashMap::new(),
            said: HashMap::new(),
            handed: HashMap::new(),
            records: HashMap::new(),
            keys: HashMap::new(),
            holders: BTreeMap::new(),
            renewals: HashMap::new(),
            in_hand: HashMap::new(),
        };
        for (number, record) in history.records.iter().enumerate() {
            teller
                .records
                .insert((&record.key, &record.sequence), number);
            teller.keys.insert(&record.sequence, &record.key);
        }
        for (at, event) in &history.events {
            match event {
                Event::Sent {
                    call,
                    instance,
                    ask,
                } => {
                    teller.calls.insert(
                        *call,
                        Call {
                            instance: *instance,
                            ask,
                            answered: None,
                        },
                    );
                }
                Event::Answered { call, answer } => {
                    if let Some(call) = teller.calls.get_mut(call) {
                        call.answered = Some(answer);
                    }
                }
                Event::Handed(delivery) => {
                    teller.deliveries.insert(delivery.id, delivery);
                    teller.handed.insert(delivery.id, *at);
                }
                Event::Said { delivery, outcome } => {
                    teller.said.insert(*delivery, (*at, outcome.as_ref()));
                }
                _ => {}
            }
        }
        teller
    }

    pub(super) fn tell(&mut self, at: Duration, event: &'a Event) -> Option<Line<'a>> {
        let of = |who: &InstanceId, text: String| {
            Some(Line {
                who: Some(*who),
                key: None,
                text,
            })
        };
        let of_all = |key, text| {
            Some(Line {
                who: None,
                key,
                text,
            })
        };
        match event {
            Event::Joined { instance, owner } => of(instance, format!("joins, as {owner}")),
            Event::Started(instance) => of(instance, "has started".to_owned()),
            Event::Killed(instance) => {
                of(instance, format!("is killed; rows: {}", self.holdings()))
            }
            Event::Paused(instance) => of(instance, "stands still".to_owned()),
            Event::Woken(instance) => of(instance, "goes on".to_owned()),
            Event::Stopping(instance) => of(
                instance,
                format!("is told to stop; rows: {}", self.holdings()),
            ),
            Event::Stopped {
                instance,
                tasks: 0,
                kept: 0,
            } => of(instance, "has stopped".to_owned()),
            Event::Stopped {
                instance,
                tasks,
                kept,
            } => of(
                instance,
                format!("has stopped, and left {tasks} tasks and {kept} things behind"),
            ),
            Event::Reported { instance, error } => of(instance, format!("reports: {error}")),
            Event::Fault(what) => of_all(None, format!("TROUBLE  {what}")),
            Event::Healed => of_all(None, format!("ALL IS HEALED; rows: {}", self.holdings())),
            Event::Resharded { parents, children } => of_all(
                None,
                format!("shards {} become {}", numbers(parents), numbers(children)),
            ),
            Event::Trimmed {
                key,
                records,
                listed: true,
            } => of_all(
                Some(key),
                format!("loses {} records to retention", records.len()),
            ),
            Event::Trimmed { key, records, .. } => of_all(
                Some(key),
                format!("leaves the listing, with {} records", records.len()),
            ),
            Event::Sent { .. } => None,
            Event::Took { call, answer } => self.took(*call, answer),
            Event::Answered { call, answer } => self.answered(*call, answer),
            Event::Fetched {
                instance, records, ..
            } => self.fetched(*instance, records),
            Event::Handed(delivery) => Some(self.handed(at, delivery)),
            Event::Said { delivery, outcome } => self.said(at, *delivery, outcome.as_ref()),
        }
    }

    fn took(&mut self, call: CallId, answer: &Answer) -> Option<Line<'a>> {
        let Call {
            instance,
            ask,
            answered,
        } = self.calls.get(&call)?;
        let (instance, ask) = (*instance, *ask);
        let unheard = match answered {
            None => " (and never hears of it)",
            Some(Answer::Failed(_)) => " (and is told of a failure)",
            Some(_) => "",
        };
        let key = ask.key()?;
        let text = match (ask, answer) {
            (Ask::Acquire { .. }, Answer::Granted(holder)) => {
                self.holders.insert(key, (instance, holder.epoch));
                self.renewals.remove(key);
                format!(
                    "is granted it, epoch {}{unheard}; rows: {}",
                    holder.epoch,
                    self.holdings()
                )
            }
            (Ask::Acquire { .. }, Answer::No) => "is refused it".to_owned(),
            (Ask::Renew { .. }, Answer::Yes) => {
                *self.renewals.entry(key).or_default() += 1;
                return None;
            }
            (Ask::Renew { holder, .. }, Answer::No) => {
                format!("may not renew epoch {}{unheard}", holder.epoch)
            }
            (Ask::Checkpoint { holder, at, .. }, Answer::Yes) => {
                format!(
                    "checkpoint {}, epoch {}{unheard}",
                    self.position(key, at),
                    holder.epoch
                )
            }
            (Ask::Checkpoint { holder, at, .. }, Answer::No) => {
                format!(
                    "may not checkpoint {}, epoch {}{unheard}",
                    self.position(key, at),
                    holder.epoch
                )
            }
            (Ask::Release { holder, .. }, _)
                if self.holders.get(key) == Some(&(instance, holder.epoch)) =>
            {
                self.holders.remove(key);
                let renewals = self.renewals.remove(key).unwrap_or_default();
                format!(
                    "releases epoch {}, after {renewals} renewals{unheard}; rows: {}",
                    holder.epoch,
                    self.holdings()
                )
            }
            (Ask::Release { holder, .. }, _) => {
                format!("releases epoch {}, which it does not hold", holder.epoch)
            }
            (Ask::Ask { .. }, Answer::Yes) => format!("asks for it{unheard}"),
            (Ask::Forget { .. }, Answer::Yes) => {
                self.holders.remove(key);
                format!("has its row forgotten{unheard}")
            }
            _ => return None,
        };
        Some(Line {
            who: Some(instance),
            key: Some(key),
            text,
        })
    }

    fn answered(&self, call: CallId, answer: &Answer) -> Option<Line<'a>> {
        let Call { instance, ask, .. } = self.calls.get(&call)?;
        let Answer::Failed(error) = answer else {
            return None;
        };
        let what = match ask {
            Ask::Acquire { .. } => "acquire".to_owned(),
            Ask::Renew { holder, .. } => format!("renew epoch {}", holder.epoch),
            Ask::Checkpoint { key, holder, at } => {
                format!(
                    "checkpoint {}, epoch {}",
                    self.position(key, at),
                    holder.epoch
                )
            }
            Ask::Release { holder, .. } => format!("release epoch {}", holder.epoch),
            Ask::Read { .. } => "read the row".to_owned(),
            Ask::ReadAll { keys } => format!("read {keys} rows"),
            Ask::Ask { .. } => "ask for it".to_owned(),
            Ask::Forget { .. } => "forget the row".to_owned(),
        };
        Some(Line {
            who: Some(*instance),
            key: ask.key(),
            text: format!("failed to {what}: {error}"),
        })
    }

    fn fetched(&self, instance: InstanceId, records: &'a [Sequence]) -> Option<Line<'a>> {
        let (first, last) = (records.first()?, records.last()?);
        let key = *self.keys.get(first)?;
        let names = match (self.name(key, first), self.name(key, last)) {
            (first, _) if records.len() == 1 => first,
            (first, last) => format!("{} records, {first} to {last}", records.len()),
        };
        Some(Line {
            who: Some(instance),
            key: Some(key),
            text: format!("reads {names}"),
        })
    }

    fn handed(&mut self, at: Duration, delivery: &'a Delivery) -> Line<'a> {
        let in_hand = self
            .in_hand
            .entry((delivery.instance, &delivery.key))
            .or_default();
        let beside = match *in_hand {
            0 => String::new(),
            others => format!(", beside {others} in hand"),
        };
        *in_hand += 1;
        let name = self.name(&delivery.key, &delivery.sequence);
        let again = match delivery.attempt {
            1 => String::new(),
            attempt => format!(", attempt {attempt}"),
        };
        let end = match self.said.get(&delivery.id) {
            None => ", whose handler never ends".to_owned(),
            Some((said, outcome)) if *said - at < QUICK => format!(": {}", told(*outcome)),
            Some(_) => " ...".to_owned(),
        };
        let text = format!(
            "{name} of key {}, epoch {}{again}{beside}{end}",
            delivery.partition_key, delivery.epoch
        );
        Line {
            who: Some(delivery.instance),
            key: Some(&delivery.key),
            text,
        }
    }

    fn said(
        &mut self,
        at: Duration,
        id: DeliveryId,
        outcome: Option<&HandlerOutcome>,
    ) -> Option<Line<'a>> {
        let delivery = *self.deliveries.get(&id)?;
        if let Some(in_hand) = self.in_hand.get_mut(&(delivery.instance, &delivery.key)) {
            *in_hand = in_hand.saturating_sub(1);
        }
        let took = at - *self.handed.get(&id)?;
        if took < QUICK {
            return None;
        }
        let name = self.name(&delivery.key, &delivery.sequence);
        let text = format!(
            "... {name}: {}, after {:.3} s",
            told(outcome),
            took.as_secs_f64()
        );
        Some(Line {
            who: Some(delivery.instance),
            key: Some(&delivery.key),
            text,
        })
    }

    fn name(&self, key: &LeaseKey, sequence: &Sequence) -> String {
        match self.records.get(&(key, sequence)) {
            Some(number) => format!("r{number}"),
            None => sequence.to_string(),
        }
    }

    fn position(&self, key: &LeaseKey, at: &Checkpoint) -> String {
        match at.sequence() {
            Some(sequence) => self.name(key, &Sequence(sequence.to_owned())),
            None => at.to_string(),
        }
    }

    /// Whom the rows name, whether their leases are live or not.
    fn holdings(&self) -> String {
        let mut held: BTreeMap<InstanceId, Vec<&str>> = BTreeMap::new();
        for (key, (instance, _)) in &self.holders {
            held.entry(*instance).or_default().push(number(key));
        }
        let held = held
            .iter()
            .map(|(instance, shards)| format!("{instance} {}", shards.join(" ")));
        let held: Vec<_> = held.collect();
        if held.is_empty() {
            "nobody's".to_owned()
        } else {
            held.join(" | ")
        }
    }
}

fn numbers(keys: &[LeaseKey]) -> String {
    keys.iter().map(number).collect::<Vec<_>>().join(" and ")
}

fn told(outcome: Option<&HandlerOutcome>) -> String {
    match outcome.map(HandlerOutcome::settlement) {
        None => "panics".to_owned(),
        Some(Settlement::Ack) => "ack".to_owned(),
        Some(Settlement::Drop) => "drop".to_owned(),
        Some(Settlement::Retry { after: None }) => "retry".to_owned(),
        Some(Settlement::Retry { after: Some(after) }) => format!("retry after {after:?}"),
        Some(other) => format!("{other:?}"),
    }
}
