//! The rule that comes to mind first, to show what it lacks: take what is free, ask the richest while it
//! holds two more, and hand over whatever is asked for.

use std::collections::BTreeMap;

use lease_core::LeaseKey;
use tokio::time::Instant;

use super::super::{Claim, HandOver, Plan, Shard};
use super::world::Rule;

/// The obvious rule.
#[derive(Debug)]
pub(super) struct Obvious {
    me: String,
}

impl Rule for Obvious {
    fn new(name: &str) -> Self {
        Self {
            me: name.to_owned(),
        }
    }

    fn decide(&mut self, _: Instant, shards: &[Shard<'_>]) -> Plan {
        let mut plan = Plan::default();
        let mut mine = 0;
        let mut held = BTreeMap::<&str, Vec<&LeaseKey>>::new();
        for shard in shards {
            match shard.claim {
                Claim::Mine => {
                    mine += 1;
                    plan.hand_over.extend(shard.asked_by.map(|asker| HandOver {
                        key: shard.key.clone(),
                        to: asker.to_owned(),
                    }));
                }
                Claim::Kept => mine += 1,
                Claim::Held { owner } if owner != self.me => {
                    held.entry(owner).or_default().push(shard.key);
                }
                Claim::Free { .. } => plan.take.push(shard.key.clone()),
                Claim::Reserved { asker } if asker == self.me => {
                    plan.take.push(shard.key.clone());
                }
                Claim::Held { .. } | Claim::Reserved { .. } | Claim::Going { .. } => {}
            }
        }
        mine += plan.take.len();
        while let Some(richest) = held.values_mut().max_by_key(|keys| keys.len())
            && richest.len() >= mine + 2
        {
            plan.ask.extend(richest.pop().cloned());
            mine += 1;
        }
        plan
    }
}
