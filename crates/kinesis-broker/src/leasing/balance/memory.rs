//! What an instance remembers of members and asks from one listing to the next, and what follows for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lease_core::LeaseKey;
use tokio::time::Instant;

use super::plan::{self, Drawn, Facts};
use super::sighting::{Sighting, Sightings, Wait};
use super::view::{Seen, View, Whose};
use super::{
    ASK_CHECK, ASK_PATIENCE, ASK_PAUSE, FIRST_ASKS, HandOver, Plan, RESTLESS_LIMIT, Shard, TURN,
};
use crate::leasing::LEASE;
use crate::sabotage::{self, Sabotage};

/// Decides after each listing, and remembers what later decisions need.
#[derive(Debug)]
pub(crate) struct Balance {
    me: Arc<str>,
    /// The members of the last listing; none before the first.
    members: BTreeSet<Arc<str>>,
    /// When the membership changed last.
    changed_at: Option<Instant>,
    /// When it began to change without a quiet turn in between.
    restless_since: Option<Instant>,
    /// The shards of the last listing.
    shards: Sightings,
    /// Members that let a shard go to nobody, and have neither acquired nor newly asked since; and when
    /// that was seen last.
    stands_back: BTreeMap<Arc<str>, Instant>,
    /// What members turned down, by (member, stream).
    turned_down: BTreeSet<(Arc<str>, Arc<str>)>,
    /// Who has asked since the membership changed last, and when that was seen last.
    asked: BTreeMap<Arc<str>, Instant>,
    /// Since when this instance has been asking for each shard that it asks for.
    asks_since: BTreeMap<LeaseKey, Instant>,
    /// Shards that this instance asks for no more, and until when.
    declined_until: BTreeMap<LeaseKey, Instant>,
}

impl Balance {
    /// The memory of an instance that has not listed yet.
    pub(crate) fn new(me: &str) -> Self {
        Self {
            me: me.into(),
            members: BTreeSet::new(),
            changed_at: None,
            restless_since: None,
            shards: Sightings::default(),
            stands_back: BTreeMap::new(),
            turned_down: BTreeSet::new(),
            asked: BTreeMap::new(),
            asks_since: BTreeMap::new(),
            declined_until: BTreeMap::new(),
        }
    }

    /// Decides what to do after the listing of `now`: all shards that may be read now, in any order.
    pub(crate) fn decide(&mut self, now: Instant, shards: &[Shard<'_>]) -> Plan {
        let me = Arc::clone(&self.me);
        let last = std::mem::take(&mut self.shards);
        let shards: Vec<_> = (shards.iter())
            .map(|shard| last.correct(*shard, &me))
            .collect();
        let view = View::new(&me, &shards);
        let names: Vec<Arc<str>> = view.members.iter().map(|name| Arc::from(*name)).collect();
        let before = last.before(&view);

        self.notice_members(now, &names);
        self.notice_signs_of_life(now, &view, &names, &before);
        self.notice_turned_down(now, &view, &before);
        self.notice_asks(now, &view, &names);
        self.notice_declined(now, &view);

        let waits: Vec<_> = (before.iter())
            .map(|before| Wait::after(*before, now))
            .collect();
        let drawn = plan::draw(&view, &self.facts(&view, &waits));
        let plan = self.act(now, &view, &waits, &drawn);
        self.shards = Sightings::of(&view, &names, &waits, &drawn, &plan);
        plan
    }

    /// Notes whether the membership has changed, and for how long it has been changing.
    fn notice_members(&mut self, now: Instant, names: &[Arc<str>]) {
        if self.changed_at.is_some_and(|at| now >= at + TURN) {
            self.restless_since = None;
        }
        if !self.members.iter().eq(names) {
            self.members = names.iter().cloned().collect();
            self.changed_at = Some(now);
            self.restless_since.get_or_insert(now);
        }
    }

    /// When the membership counts as settled, if that is still to come.
    fn settles_at(&self, now: Instant) -> Option<Instant> {
        let quiet_at = self.changed_at? + TURN;
        let limit = self.restless_since.map(|since| since + RESTLESS_LIMIT);
        let settles_at = limit.map_or(quiet_at, |limit| limit.min(quiet_at));
        (now < settles_at).then_some(settles_at)
    }

    /// Notes who let go of a shard to nobody, and who has acquired or asked since.
    fn notice_signs_of_life(
        &mut self,
        now: Instant,
        view: &View<'_>,
        names: &[Arc<str>],
        before: &[Option<&Sighting>],
    ) {
        let mut alive = BTreeSet::new();
        for (shard, before) in view.shards.iter().zip(before) {
            let (had, asked) = match before {
                Some(Sighting::Of {
                    member, asked_by, ..
                }) => (Some(member), asked_by.as_ref()),
                Some(Sighting::Free { .. }) | None => (None, None),
            };
            if matches!(shard.whose, Whose::Free { .. }) {
                self.stands_back
                    .extend(had.map(|name| (Arc::clone(name), now)));
                continue;
            }
            let acquired = match shard.whose {
                Whose::Held(member) => Some(&names[member]).filter(|name| had != Some(name)),
                _ => None,
            };
            let asks = shard.asked_by.map(|asker| &names[asker]);
            alive.extend(asks.filter(|name| asked != Some(name)));
            alive.extend(acquired);
        }
        let members = &self.members;
        self.stands_back.retain(|name, since| {
            members.contains(name) && !alive.contains(name) && now < *since + LEASE
        });
    }

    /// Notes who turned down a free shard of which stream, and who is seen to read it after all.
    fn notice_turned_down(&mut self, now: Instant, view: &View<'_>, before: &[Option<&Sighting>]) {
        for (shard, before) in view.shards.iter().zip(before) {
            if let Some(Sighting::Free {
                wait,
                falls_to: Some(name),
            }) = before
                && now >= wait.ends
                && matches!(shard.whose, Whose::Free { .. })
            {
                let stream = Arc::clone(shard.key.shared_stream());
                self.turned_down.insert((Arc::clone(name), stream));
            }
        }
        self.turned_down.retain(|(name, stream)| {
            let (member, stream) = (view.number(name), view.stream(stream));
            (member.zip(stream)).is_some_and(|(member, stream)| !view.reads(member, stream))
        });
    }

    /// Notes who asks while shares are settled anew.
    fn notice_asks(&mut self, now: Instant, view: &View<'_>, names: &[Arc<str>]) {
        if self.changed_at.is_none_or(|at| now >= at + LEASE) {
            self.asked.clear();
            return;
        }
        let askers = view.askers().into_iter();
        self.asked
            .extend(askers.map(|asker| (Arc::clone(&names[asker]), now)));
        self.asked.retain(|_, at| now < *at + 2 * TURN);
    }

    /// Notes which of this instance's own asks bring nothing.
    fn notice_declined(&mut self, now: Instant, view: &View<'_>) {
        let before = std::mem::take(&mut self.asks_since);
        self.asks_since = (view.shards.iter())
            .filter(|shard| shard.asked_by == Some(view.me))
            .map(|shard| {
                let since = before.get(shard.key).copied().unwrap_or(now);
                (shard.key.clone(), since)
            })
            .collect();
        self.declined_until.retain(|_, until| *until > now);
        for (key, since) in &self.asks_since {
            if now >= *since + ASK_PATIENCE && !self.declined_until.contains_key(key) {
                self.declined_until.insert(key.clone(), now + ASK_PAUSE);
            }
        }
    }

    /// All that is remembered, in the numbers of the listing.
    fn facts(&self, view: &View<'_>, waits: &[Wait]) -> Facts {
        Facts {
            turns: waits.iter().map(|wait| wait.turn).collect(),
            declined: (view.shards.iter())
                .map(|shard| self.declined_until.contains_key(shard.key))
                .collect(),
            stands_back: (view.members.iter())
                .map(|name| self.stands_back.contains_key(*name))
                .collect(),
            wants_share: (view.members.iter())
                .map(|name| self.asked.contains_key(*name))
                .collect(),
            turned_down: (self.turned_down.iter())
                .filter_map(|(name, stream)| view.number(name).zip(view.stream(stream)))
                .collect(),
        }
    }

    /// This instance's part of the plan.
    fn act(&self, now: Instant, view: &View<'_>, waits: &[Wait], drawn: &Drawn) -> Plan {
        let (mut take, mut waits_for) = (Vec::new(), Vec::new());
        for (number, shard) in view.shards.iter().enumerate() {
            match shard.whose {
                Whose::Reserved(asker) if asker == view.me => take.push(shard.key.clone()),
                Whose::Free { .. } if drawn.falls_to[number] == Some(view.me) => {
                    take.push(shard.key.clone());
                }
                Whose::Free { takeable: true } => waits_for.push(waits[number].ends),
                _ => {}
            }
        }

        let (mut ask, new): (Vec<Seen<'_>>, Vec<Seen<'_>>) = (drawn.gifts.iter())
            .filter(|gift| gift.to == view.me)
            .map(|gift| view.shards[gift.shard])
            .partition(|shard| shard.asked_by == Some(view.me));
        let mut hand_over: Vec<_> = (drawn.gifts.iter())
            .filter(|gift| gift.from == view.me && !sabotage::is(Sabotage::NeverGives))
            .filter(|gift| view.shards[gift.shard].asked_by == Some(gift.to))
            .map(|gift| HandOver {
                key: view.shards[gift.shard].key.clone(),
                to: view.members[gift.to].to_owned(),
            })
            .collect();
        match self.settles_at(now) {
            None => ask.extend(new),
            Some(at) => {
                let known_by = FIRST_ASKS.saturating_sub(ask.len()).min(new.len());
                if known_by > 0 {
                    waits_for.push(now + ASK_CHECK);
                }
                if known_by < new.len() || !hand_over.is_empty() {
                    waits_for.push(at);
                }
                ask.extend(&new[..known_by]);
                hand_over.clear();
            }
        }
        Plan {
            take,
            ask: ask.into_iter().map(|shard| shard.key.clone()).collect(),
            hand_over,
            look_again_in: (waits_for.into_iter().min())
                .map(|at| at.saturating_duration_since(now)),
        }
    }
}
