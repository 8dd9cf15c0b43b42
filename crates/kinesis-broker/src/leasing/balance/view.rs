//! One listing as the plan wants it: shards in key order, members by number, counts.

use std::collections::{BTreeMap, BTreeSet};

use lease_core::LeaseKey;

use super::{Claim, Shard};

/// One listing, with names made numbers. Members are numbered in the order of their names, streams and
/// shards in the order of theirs, so that every instance numbers what it sees in the same order.
#[derive(Debug)]
pub(super) struct View<'a> {
    /// Everybody seen, and this instance.
    pub(super) members: Vec<&'a str>,
    /// This instance.
    pub(super) me: usize,
    /// The streams.
    pub(super) streams: Vec<&'a str>,
    /// The shards, by key.
    pub(super) shards: Vec<Seen<'a>>,
    /// How many shards each member has, those on their way to it included.
    pub(super) counts: Vec<usize>,
    /// The (member, stream) pairs where the member holds, asks for, or is kept a shard of the stream.
    readers: BTreeSet<(usize, usize)>,
}

/// One shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) key: &'a LeaseKey,
    pub(super) stream: usize,
    pub(super) whose: Whose,
    /// The member whose live ask is on it, its holder apart.
    pub(super) asked_by: Option<usize>,
}

/// For whom a shard counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// A live lease that can be asked for and given.
    Held(usize),
    /// A live lease that stays, or is on its way.
    Settled(usize),
    /// Released and kept for this member.
    Reserved(usize),
    /// Nobody.
    Free { takeable: bool },
}

impl Whose {
    /// The member for whom the shard counts.
    pub(super) fn member(self) -> Option<usize> {
        match self {
            Self::Held(member) | Self::Settled(member) | Self::Reserved(member) => Some(member),
            Self::Free { .. } => None,
        }
    }
}

impl<'a> View<'a> {
    /// Digests a listing for the instance called `me`.
    pub(super) fn new(me: &'a str, shards: &[Shard<'a>]) -> Self {
        let mut members = BTreeMap::from([(me, 0)]);
        let mut streams = BTreeMap::new();
        for shard in shards {
            streams.insert(shard.key.stream(), 0);
            let has = match shard.claim {
                Claim::Mine | Claim::Kept | Claim::Free { .. } => None,
                Claim::Going { to: name }
                | Claim::Held { owner: name }
                | Claim::Reserved { asker: name } => Some(name),
            };
            members.extend(has.into_iter().chain(shard.asked_by).map(|name| (name, 0)));
        }
        let members = numbered(members);
        let streams = numbered(streams);
        let mine = members[me];

        let mut seen: Vec<_> = shards
            .iter()
            .map(|shard| {
                let whose = match shard.claim {
                    Claim::Mine => Whose::Held(mine),
                    Claim::Kept => Whose::Settled(mine),
                    Claim::Going { to } => Whose::Settled(members[to]),
                    Claim::Held { owner } if owner == me => Whose::Settled(mine),
                    Claim::Held { owner } => Whose::Held(members[owner]),
                    Claim::Reserved { asker } => Whose::Reserved(members[asker]),
                    Claim::Free { takeable } => Whose::Free { takeable },
                };
                let asked_by = shard.asked_by.map(|asker| members[asker]);
                Seen {
                    key: shard.key,
                    stream: streams[shard.key.stream()],
                    whose,
                    asked_by: asked_by.filter(|asker| whose.member() != Some(*asker)),
                }
            })
            .collect();
        seen.sort_by_key(|shard| shard.key);

        let mut counts = vec![0; members.len()];
        let mut readers = BTreeSet::new();
        for shard in &seen {
            if let Some(member) = shard.whose.member() {
                counts[member] += 1;
            }
            let readers_here = shard.whose.member().into_iter().chain(shard.asked_by);
            readers.extend(readers_here.map(|member| (member, shard.stream)));
        }
        Self {
            members: members.into_keys().collect(),
            me: mine,
            streams: streams.into_keys().collect(),
            shards: seen,
            counts,
            readers,
        }
    }

    /// Whether `member` is known to read `stream`. This instance reads all that it lists.
    pub(super) fn reads(&self, member: usize, stream: usize) -> bool {
        member == self.me || self.readers.contains(&(member, stream))
    }

    /// The number of the member called `name`.
    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.members.binary_search(&name).ok()
    }

    /// The number of the stream called `name`.
    pub(super) fn stream(&self, name: &str) -> Option<usize> {
        self.streams.binary_search(&name).ok()
    }

    /// The members with a live ask on a shard that somebody has.
    pub(super) fn askers(&self) -> BTreeSet<usize> {
        let had = self
            .shards
            .iter()
            .filter(|shard| shard.whose.member().is_some());
        had.filter_map(|shard| shard.asked_by).collect()
    }
}

/// Gives each name its place in the order of names.
fn numbered(mut names: BTreeMap<&str, usize>) -> BTreeMap<&str, usize> {
    for (number, place) in names.values_mut().enumerate() {
        *place = number;
    }
    names
}
