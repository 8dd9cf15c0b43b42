//! Every write, as the condition and the update that DynamoDB is sent. Data alone: nothing here makes a call.
//!
//! A condition on an existing item also checks its format, so an item of another format is never written.
//! Names stand as `#name` throughout, since many are [reserved words][reserved].
//!
//! [reserved]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ReservedWords.html

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use lease_core::{Checkpoint, Holder, SHARD_END};

use crate::row::{FORMAT, ttl_ms};
use crate::sightings::Attempt;

/// How many renewals an ask outlives: at three renewals a lease time, a little more than one lease time.
pub(crate) const RENEWALS_ASKED: u64 = 4;

/// The item is there, is understood, and is the present holder's.
const HELD: &str = "#format = :format AND #owner = :owner AND #epoch = :epoch";
/// The item is there, is understood, and is nobody's since the release of the epoch that was seen.
const RELEASED: &str = "#format = :format AND attribute_not_exists(#owner) AND #epoch = :epoch";
/// Nobody else has a reservation that has not lapsed.
const UNRESERVED: &str =
    "(attribute_not_exists(#asked_by) OR #asked_by = :new_owner OR #ask_lapses <= #counter)";
const ACQUIRE: &str = "SET #format = :format, #owner = :new_owner, \
     #epoch = if_not_exists(#epoch, :seen) + :one, #counter = if_not_exists(#counter, :zero) + :one, \
     #ttl_ms = :ttl_ms, #grant = :grant, #cp_no = :zero, #acquired_at = :now, #renewed_at = :now \
     REMOVE #asked_by, #ask_lapses";

/// One conditional write of one item.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) condition: String,
    /// Empty for a deletion.
    pub(crate) update: String,
    values: BTreeMap<&'static str, AttributeValue>,
}

/// What an acquisition writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<'a> {
    pub(crate) owner: &'a str,
    pub(crate) ttl: Duration,
    /// The token of this acquisition.
    pub(crate) grant: &'a str,
    /// The time for people to read.
    pub(crate) now: &'a str,
}

impl Write {
    fn new(
        condition: impl Into<String>,
        update: impl Into<String>,
        values: impl IntoIterator<Item = (&'static str, AttributeValue)>,
    ) -> Self {
        let (condition, update) = (condition.into(), update.into());
        let mut values: BTreeMap<_, _> = values.into_iter().collect();
        values.insert(":format", number(FORMAT));
        // The service refuses a value that no expression uses.
        let used: Vec<&str> = tokens(&condition, ':')
            .chain(tokens(&update, ':'))
            .collect();
        values.retain(|name, _| used.contains(name));
        Self {
            condition,
            update,
            values,
        }
    }

    /// What the names of the expressions stand for.
    pub(crate) fn names(&self) -> HashMap<String, String> {
        tokens(&self.condition, '#')
            .chain(tokens(&self.update, '#'))
            .map(|token| (token.to_owned(), token[1..].to_owned()))
            .collect()
    }

    /// What the values of the expressions stand for.
    pub(crate) fn values(&self) -> HashMap<String, AttributeValue> {
        let values = self.values.iter();
        values
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect()
    }
}

/// What an acquisition sends in its situation, if it is to write at all.
pub(crate) fn acquire(claim: Claim<'_>, attempt: &Attempt) -> Option<Write> {
    Some(match attempt {
        Attempt::Absent { seen } => acquire_absent(claim, *seen),
        Attempt::Released {
            epoch,
            reservation_counts,
        } => acquire_released(claim, *epoch, *reservation_counts),
        Attempt::Expired { from, counter } => acquire_expired(claim, from, *counter),
        Attempt::Unanswered { from, grant } => adopt(claim, from, grant),
        Attempt::Look => return None,
    })
}

/// Takes a lease of which there is no item. Its epoch goes on from the highest that was seen.
fn acquire_absent(claim: Claim<'_>, seen: u64) -> Write {
    let condition = "attribute_not_exists(#lease_key)";
    Write::new(condition, ACQUIRE, claim_values(claim, seen))
}

/// Takes a lease that is nobody's since the release of this epoch, unless it is reserved for another and
/// the reservation still counts.
fn acquire_released(claim: Claim<'_>, epoch: u64, reservation_counts: bool) -> Write {
    let mut condition = RELEASED.to_owned();
    if reservation_counts {
        condition = format!("{condition} AND {UNRESERVED}");
    }
    let values = claim_values(claim, epoch)
        .into_iter()
        .chain([(":epoch", number(epoch))]);
    Write::new(condition, ACQUIRE, values)
}

/// Takes the lease of a holder whose counter has stood still for a lease time.
fn acquire_expired(claim: Claim<'_>, from: &Holder, counter: u64) -> Write {
    let values = claim_values(claim, from.epoch)
        .into_iter()
        .chain(holder_values(from))
        .chain([(":counter", number(counter))]);
    Write::new(format!("{HELD} AND #counter = :counter"), ACQUIRE, values)
}

fn claim_values(claim: Claim<'_>, seen: u64) -> [(&'static str, AttributeValue); 7] {
    [
        (":new_owner", text(claim.owner)),
        (":ttl_ms", number(ttl_ms(claim.ttl))),
        (":grant", text(claim.grant)),
        (":now", text(claim.now)),
        (":seen", number(seen)),
        (":one", number(1)),
        (":zero", number(0)),
    ]
}

/// Renews the lease that an acquisition was granted without learning of it: its time counts from a call that
/// may be long ago, and is to count from this one.
fn adopt(claim: Claim<'_>, holder: &Holder, grant: &str) -> Write {
    let Write {
        condition,
        update,
        mut values,
    } = renew(holder, claim.ttl, claim.now);
    values.insert(":grant", text(grant));
    Write::new(format!("{condition} AND #grant = :grant"), update, values)
}

pub(crate) fn renew(holder: &Holder, ttl: Duration, now: &str) -> Write {
    let values = holder_values(holder).into_iter().chain([
        (":ttl_ms", number(ttl_ms(ttl))),
        (":one", number(1)),
        (":now", text(now)),
    ]);
    let update = "SET #counter = #counter + :one, #ttl_ms = :ttl_ms, #renewed_at = :now";
    Write::new(HELD, update, values)
}

/// Notes a position, unless a call of the same holder with a higher number has taken effect.
pub(crate) fn checkpoint(holder: &Holder, at: &Checkpoint, cp_no: u64, now: &str) -> Write {
    let values = holder_values(holder).into_iter().chain([
        (":checkpoint", text(&at.to_string())),
        (":cp_no", number(cp_no)),
        (":now", text(now)),
    ]);
    let update = "SET #checkpoint = :checkpoint, #cp_no = :cp_no, #checkpointed_at = :now";
    Write::new(format!("{HELD} AND #cp_no < :cp_no"), update, values)
}

/// Gives the lease back. An ask stays in the item as the reservation.
pub(crate) fn release(holder: &Holder) -> Write {
    Write::new(HELD, "REMOVE #owner, #grant", holder_values(holder))
}

pub(crate) fn ask(asker: &str) -> Write {
    let condition = "#format = :format AND attribute_exists(#owner) AND #owner <> :asker \
         AND (attribute_not_exists(#asked_by) OR #asked_by = :asker OR #ask_lapses <= #counter) \
         AND (attribute_not_exists(#checkpoint) OR #checkpoint <> :shard_end)";
    let update = "SET #asked_by = :asker, #ask_lapses = #counter + :renewals";
    let values = [
        (":asker", text(asker)),
        (":renewals", number(RENEWALS_ASKED)),
        (":shard_end", text(SHARD_END)),
    ];
    Write::new(condition, update, values)
}

/// Deletes the item of a finished shard that nobody holds, or none.
pub(crate) fn forget() -> Write {
    let condition = "attribute_not_exists(#lease_key) OR \
         (#format = :format AND #checkpoint = :shard_end AND attribute_not_exists(#owner))";
    Write::new(condition, "", [(":shard_end", text(SHARD_END))])
}

fn holder_values(holder: &Holder) -> [(&'static str, AttributeValue); 2] {
    [
        (":owner", text(&holder.owner)),
        (":epoch", number(holder.epoch)),
    ]
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn number(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// The names in an expression that begin with a mark, mark and all.
fn tokens(expression: &str, mark: char) -> impl Iterator<Item = &str> {
    expression.match_indices(mark).map(move |(start, _)| {
        let rest = &expression[start..];
        let end = rest[1..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        &rest[..end.map_or(rest.len(), |end| end + 1)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder() -> Holder {
        Holder {
            owner: "a".to_owned(),
            epoch: 7,
        }
    }

    fn claim() -> Claim<'static> {
        Claim {
            owner: "b",
            ttl: Duration::from_secs(10),
            grant: "t0k3n",
            now: "2026-01-31T12:00:00Z",
        }
    }

    fn every_write() -> Vec<(&'static str, Write)> {
        let now = claim().now;
        let ttl = claim().ttl;
        vec![
            ("acquire, absent", acquire_absent(claim(), 7)),
            ("acquire, released", acquire_released(claim(), 7, true)),
            (
                "acquire, reservation over",
                acquire_released(claim(), 7, false),
            ),
            ("acquire, expired", acquire_expired(claim(), &holder(), 42)),
            ("adopt", adopt(claim(), &holder(), "earlier")),
            ("renew", renew(&holder(), ttl, now)),
            (
                "checkpoint",
                checkpoint(&holder(), &Checkpoint::at("5"), 3, now),
            ),
            ("release", release(&holder())),
            ("ask", ask("b")),
            ("forget", forget()),
        ]
    }

    #[test]
    fn every_name_and_every_value_is_given_and_used() {
        for (call, write) in every_write() {
            let text = format!("{} {}", write.condition, write.update);
            let values = write.values();
            for token in tokens(&text, ':') {
                assert!(values.contains_key(token), "{call}: {token} has no value");
            }
            for name in values.keys() {
                assert!(
                    tokens(&text, ':').any(|token| token == name),
                    "{call}: {name} is not used"
                );
            }
            for token in tokens(&text, '#') {
                assert_eq!(write.names()[token], token[1..], "{call}");
            }
        }
    }

    #[test]
    fn no_name_stands_as_itself() {
        let words = [
            "attribute_exists",
            "attribute_not_exists",
            "if_not_exists",
            "AND",
            "OR",
            "SET",
            "REMOVE",
        ];
        for (call, write) in every_write() {
            let text = format!("{} {}", write.condition, write.update);
            for word in text.split(|c: char| !(c.is_ascii_alphanumeric() || "_#:".contains(c))) {
                let is_fine =
                    word.is_empty() || word.starts_with(['#', ':']) || words.contains(&word);
                assert!(is_fine, "{call}: {word}");
            }
        }
    }

    #[test]
    fn every_condition_on_an_existing_item_checks_its_format() {
        for (call, write) in every_write() {
            let only_where_absent = write.condition == "attribute_not_exists(#lease_key)";
            assert!(
                only_where_absent || write.condition.contains("#format = :format"),
                "{call}: {}",
                write.condition
            );
        }
    }

    #[test]
    fn the_conditions_are_those_of_the_protocol() {
        let conditions: Vec<String> = every_write()
            .into_iter()
            .map(|(call, write)| format!("{call}: {}", write.condition))
            .collect();
        let held = "#format = :format AND #owner = :owner AND #epoch = :epoch";
        let released = "#format = :format AND attribute_not_exists(#owner) AND #epoch = :epoch";
        let asker_or_lapsed = |who: &str| {
            format!(
                "(attribute_not_exists(#asked_by) OR #asked_by = {who} OR #ask_lapses <= #counter)"
            )
        };
        assert_eq!(
            conditions,
            [
                "acquire, absent: attribute_not_exists(#lease_key)".to_owned(),
                format!(
                    "acquire, released: {released} AND {}",
                    asker_or_lapsed(":new_owner")
                ),
                format!("acquire, reservation over: {released}"),
                format!("acquire, expired: {held} AND #counter = :counter"),
                format!("adopt: {held} AND #grant = :grant"),
                format!("renew: {held}"),
                format!("checkpoint: {held} AND #cp_no < :cp_no"),
                format!("release: {held}"),
                format!(
                    "ask: #format = :format AND attribute_exists(#owner) AND #owner <> :asker AND {} \
                     AND (attribute_not_exists(#checkpoint) OR #checkpoint <> :shard_end)",
                    asker_or_lapsed(":asker")
                ),
                "forget: attribute_not_exists(#lease_key) OR (#format = :format AND \
                 #checkpoint = :shard_end AND attribute_not_exists(#owner))"
                    .to_owned(),
            ]
        );
    }

    #[test]
    fn the_updates_are_those_of_the_protocol() {
        let updates: Vec<String> = [
            renew(&holder(), claim().ttl, claim().now),
            checkpoint(&holder(), &Checkpoint::shard_end(), 3, claim().now),
            release(&holder()),
            ask("b"),
            acquire_absent(claim(), 7),
        ]
        .into_iter()
        .map(|write| write.update)
        .collect();
        assert_eq!(
            updates,
            [
                "SET #counter = #counter + :one, #ttl_ms = :ttl_ms, #renewed_at = :now",
                "SET #checkpoint = :checkpoint, #cp_no = :cp_no, #checkpointed_at = :now",
                "REMOVE #owner, #grant",
                "SET #asked_by = :asker, #ask_lapses = #counter + :renewals",
                ACQUIRE,
            ]
        );
        for part in [
            "#epoch = if_not_exists(#epoch, :seen) + :one",
            "#cp_no = :zero",
            "REMOVE #asked_by, #ask_lapses",
        ] {
            assert!(ACQUIRE.contains(part), "{part}");
        }
    }

    #[test]
    fn the_values_are_those_that_were_seen_and_claimed() {
        let values = acquire_expired(claim(), &holder(), 42).values();
        let expected = [
            (":owner", text("a")),
            (":epoch", number(7)),
            (":counter", number(42)),
            (":new_owner", text("b")),
            (":grant", text("t0k3n")),
            (":ttl_ms", number(10_000)),
            (":seen", number(7)),
        ];
        for (name, value) in expected {
            assert_eq!(values[name], value, "{name}");
        }
    }
}
