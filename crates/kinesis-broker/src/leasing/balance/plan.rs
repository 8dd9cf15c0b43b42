//! The plan that every instance computes: to whom free shards fall, and who gives which shard to whom.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::view::{View, Whose};
use crate::sabotage::{self, Sabotage};

/// What a plan needs to know besides the listing, by the numbers of its [`View`].
#[derive(Debug)]
pub(super) struct Facts {
    /// By shard: to whom it may fall if it is free.
    pub(super) turns: Vec<Turn>,
    /// By shard: whether this instance's asks for it were declined.
    pub(super) declined: Vec<bool>,
    /// By member: whether it lets go of shards, so that none falls to it.
    pub(super) stands_back: Vec<bool>,
    /// By member: whether it is believed to want its whole share.
    pub(super) wants_share: Vec<bool>,
    /// The (member, stream) pairs where the member turned down a free shard of the stream.
    pub(super) turned_down: BTreeSet<(usize, usize)>,
}

/// To whom a free shard may fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// To anybody.
    Everybodys,
    /// To those that are known to read its stream.
    Readers,
    /// To whoever looks.
    Mine,
}

impl Turn {
    /// Whose turn it is after this one.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Everybodys => Self::Readers,
            Self::Readers | Self::Mine => Self::Mine,
        }
    }
}

/// The whole plan, whoever is to act on it.
#[derive(Debug)]
pub(super) struct Drawn {
    /// By shard: the member that a free one falls to.
    pub(super) falls_to: Vec<Option<usize>>,
    /// What goes from whom to whom, in the order in which it was decided.
    pub(super) gifts: Vec<Gift>,
}

/// One held shard that goes from its holder to another member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gift {
    pub(super) shard: usize,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// Draws the plan.
pub(super) fn draw(view: &View<'_>, facts: &Facts) -> Drawn {
    let mut counts = view.counts.clone();
    let falls_to = let_fall(view, facts, &mut counts);
    let gifts = level(view, facts, &mut counts);
    Drawn { falls_to, gifts }
}

/// Lets each free shard fall to the poorest member that may have it.
fn let_fall(view: &View<'_>, facts: &Facts, counts: &mut [usize]) -> Vec<Option<usize>> {
    let members: Vec<_> = view.members.iter().map(|name| hash(&[name])).collect();
    let mut falls_to = vec![None; view.shards.len()];
    for (number, shard) in view.shards.iter().enumerate() {
        let Whose::Free { takeable } = shard.whose else {
            continue;
        };
        let may_have = |member: usize| match facts.turns[number] {
            _ if member == view.me => takeable,
            _ if facts.stands_back[member] => false,
            _ if facts.turned_down.contains(&(member, shard.stream)) => false,
            Turn::Everybodys => true,
            Turn::Readers => view.reads(member, shard.stream),
            Turn::Mine => false,
        };
        let key = hash(&[shard.key.stream(), shard.key.shard()]);
        let poorest = (0..members.len())
            .filter(|member| may_have(*member))
            .min_by_key(|member| (counts[*member], mix(key ^ members[*member]), *member));
        if let Some(member) = poorest {
            counts[member] += 1;
        }
        falls_to[number] = poorest;
    }
    falls_to
}

/// Lets the poorest receiver take from the richest holder that has something for it and two more than it,
/// until there is no such pair.
fn level(view: &View<'_>, facts: &Facts, counts: &mut [usize]) -> Vec<Gift> {
    let mut offers = Offers::new(view, facts);
    let askers = view.askers();
    let receives = |member: &usize| {
        *member == view.me
            || (!facts.stands_back[*member]
                && (askers.contains(member) || facts.wants_share[*member]))
    };
    let mut receivers: BTreeSet<_> = (0..counts.len())
        .filter(receives)
        .map(|member| (counts[member], member))
        .collect();
    let apart = if sabotage::is(Sabotage::AlwaysMoves) {
        1
    } else {
        2
    };
    let mut gifts = Vec::new();
    while let Some((count, to)) = receivers.pop_first() {
        let richest = (0..counts.len())
            .filter(|from| *from != to && counts[*from] >= count + apart)
            .filter_map(|from| Some((counts[from], offers.best(from, to)?, from)))
            .max_by_key(|(count, offer, from)| (offer.asked, *count, usize::MAX - from));
        let Some((_, offer, from)) = richest else {
            continue;
        };
        offers.withdraw(from, to, offer);
        if receivers.remove(&(counts[from], from)) {
            receivers.insert((counts[from] - 1, from));
        }
        counts[from] -= 1;
        counts[to] += 1;
        receivers.insert((counts[to], to));
        gifts.push(Gift {
            shard: offer.shard,
            from,
            to,
        });
    }
    gifts
}

/// What holders have for receivers.
struct Offers<'p> {
    view: &'p View<'p>,
    facts: &'p Facts,
    /// What a receiver asks of a holder, by (holder, receiver), in the order of keys.
    asked: BTreeMap<(usize, usize), VecDeque<usize>>,
    /// What nobody asks of a holder, in an order of this instance's own, so that those that start together
    /// do not all ask for the same shards. This instance takes from the front, others from the back.
    unasked: Vec<BTreeSet<(u64, usize)>>,
    /// The (holder, receiver) pairs where nothing unasked suits.
    nothing_suits: BTreeSet<(usize, usize)>,
}

/// A shard that could go to a receiver.
#[derive(Clone, Copy)]
struct Offer {
    /// Whether the receiver asks for it already.
    asked: bool,
    place: u64,
    shard: usize,
}

impl<'p> Offers<'p> {
    fn new(view: &'p View<'p>, facts: &'p Facts) -> Self {
        let me = hash(&[view.members[view.me]]);
        let mut asked = BTreeMap::<_, VecDeque<_>>::new();
        let mut unasked = vec![BTreeSet::new(); view.members.len()];
        for (number, shard) in view.shards.iter().enumerate() {
            match (shard.whose, shard.asked_by) {
                (Whose::Held(from), Some(to)) if !(to == view.me && facts.declined[number]) => {
                    asked.entry((from, to)).or_default().push_back(number);
                }
                (Whose::Held(from), None) => {
                    let place = mix(me ^ hash(&[shard.key.stream(), shard.key.shard()]));
                    unasked[from].insert((place, number));
                }
                _ => {}
            }
        }
        Self {
            view,
            facts,
            asked,
            unasked,
            nothing_suits: BTreeSet::new(),
        }
    }

    /// The shard that `from` would give to `to`: one that it asks for, or else, if it wants its share, one
    /// that nobody asks for.
    fn best(&mut self, from: usize, to: usize) -> Option<Offer> {
        if let Some(shard) = self.asked.get(&(from, to)).and_then(VecDeque::front) {
            return Some(Offer {
                asked: true,
                place: 0,
                shard: *shard,
            });
        }
        let mine = to == self.view.me;
        if !(mine || self.facts.wants_share[to]) || self.nothing_suits.contains(&(from, to)) {
            return None;
        }
        let suits = |shard: usize| {
            if mine {
                !self.facts.declined[shard]
            } else {
                let stream = self.view.shards[shard].stream;
                !self.facts.turned_down.contains(&(to, stream))
            }
        };
        let mut unasked = self.unasked[from].iter().copied();
        let found = if mine {
            unasked.find(|(_, shard)| suits(*shard))
        } else {
            unasked.rfind(|(_, shard)| suits(*shard))
        };
        if found.is_none() {
            self.nothing_suits.insert((from, to));
        }
        found.map(|(place, shard)| Offer {
            asked: false,
            place,
            shard,
        })
    }

    /// Takes an offer of `best` off the list.
    fn withdraw(&mut self, from: usize, to: usize, offer: Offer) {
        if offer.asked {
            self.asked
                .get_mut(&(from, to))
                .and_then(VecDeque::pop_front);
        } else {
            self.unasked[from].remove(&(offer.place, offer.shard));
        }
    }
}

/// FNV-1a over the parts. Instances of different builds must agree on it, which the standard library's
/// hashers do not promise.
fn hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Spreads a hash over all bits (the finalizer of SplitMix64).
fn mix(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
