//! Every write, as the condition and the update that DynamoDB is sent. Data alone: nothing here makes a call.
//!
//! A condition on an existing item also says what the item must be to be understood, so that another one is
//! refused and then told for what it is. Names stand as `#name` throughout, since many are
//! [reserved words][reserved].
//!
//! [reserved]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ReservedWords.html

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use lease_core::{Checkpoint, Holder, SHARD_END};

use crate::row::{FORMAT, Presented, ttl_ms};
use crate::sightings::{Attempt, Expired};

/// How many renewals an ask outlives: at three renewals a lease time, a little more than one lease time.
pub(crate) const RENEWALS_ASKED: u64 = 4;

/// What can be told of an item's attributes, but for its owner and its grant: a comparison holds for an attribute
/// that is there, has the type of the values, and lies between them. It cannot be told whether a number is
/// whole, nor how a checkpoint goes on that begins as one, such as a sequence number with a place in it.
const UNDERSTOOD: &str = "#format = :format \
     AND #epoch BETWEEN :zero AND :most AND #counter BETWEEN :zero AND :most \
     AND #ttl_ms BETWEEN :one AND :most AND #cp_no BETWEEN :zero AND :most \
     AND (attribute_not_exists(#checkpoint) OR #checkpoint = :shard_end \
     OR #checkpoint BETWEEN :first_moment AND :last_moment \
     OR (#checkpoint >= :first_digit AND #checkpoint < :colon)) \
     AND (attribute_not_exists(#asked_by) \
     OR (#asked_by > :empty AND #ask_lapses BETWEEN :zero AND :most))";
/// The present holder's, as far as can be told without the token of its acquisition.
const OWNED: &str = "#owner = :owner AND #epoch = :epoch AND #grant > :empty";
/// The present holder's, by this acquisition.
const GRANTED: &str = "#owner = :owner AND #epoch = :epoch AND #grant = :grant";
/// Somebody's.
const HELD: &str = "#owner > :empty AND #grant > :empty";
/// Nobody's.
const FREE: &str = "attribute_not_exists(#owner) AND attribute_not_exists(#grant)";
/// Nobody else has a reservation that has not lapsed.
const UNRESERVED: &str =
    "(attribute_not_exists(#asked_by) OR #asked_by = :new_owner OR #ask_lapses <= #counter)";
const ACQUIRE: &str = "SET #format = :format, #owner = :new_owner, \
     #epoch = if_not_exists(#epoch, :seen) + :one, #counter = if_not_exists(#counter, :zero) + :one, \
     #ttl_ms = :ttl_ms, #grant = :new_grant, #cp_no = :zero, #acquired_at = :now, #renewed_at = :now \
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
        let mut values: BTreeMap<_, _> = constants().into_iter().chain(values).collect();
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
        Attempt::Expired { from, seen } => acquire_expired(claim, from, seen),
        Attempt::Unclaimed { from, grant } => {
            // Its time counts from a call that may be long ago, and is to count from this one.
            let presented = Presented {
                holder: from,
                grant: Some(grant),
            };
            renew(presented, claim.ttl, claim.now)
        }
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
    let mut condition = format!("{UNDERSTOOD} AND {FREE} AND #epoch = :epoch");
    if reservation_counts {
        condition = format!("{condition} AND {UNRESERVED}");
    }
    let values = claim_values(claim, epoch)
        .into_iter()
        .chain([(":epoch", number(epoch))]);
    Write::new(condition, ACQUIRE, values)
}

/// Takes the lease of a holder whose counter has stood still for a lease time.
fn acquire_expired(claim: Claim<'_>, from: &Holder, seen: &Expired) -> Write {
    let presented = Presented {
        holder: from,
        grant: Some(&seen.grant),
    };
    let values = claim_values(claim, from.epoch)
        .into_iter()
        .chain(presented_values(presented))
        .chain([(":counter", number(seen.counter))]);
    let condition = format!("{} AND #counter = :counter", held_by(presented));
    Write::new(condition, ACQUIRE, values)
}

fn claim_values(claim: Claim<'_>, seen: u64) -> [(&'static str, AttributeValue); 5] {
    [
        (":new_owner", text(claim.owner)),
        (":ttl_ms", number(ttl_ms(claim.ttl))),
        (":new_grant", text(claim.grant)),
        (":now", text(claim.now)),
        (":seen", number(seen)),
    ]
}

pub(crate) fn renew(presented: Presented<'_>, ttl: Duration, now: &str) -> Write {
    let values = presented_values(presented)
        .into_iter()
        .chain([(":ttl_ms", number(ttl_ms(ttl))), (":now", text(now))]);
    let update = "SET #counter = #counter + :one, #ttl_ms = :ttl_ms, #renewed_at = :now";
    Write::new(held_by(presented), update, values)
}

/// Notes a position, unless a call of the same holder with a higher number has taken effect.
pub(crate) fn checkpoint(
    presented: Presented<'_>,
    at: &Checkpoint,
    cp_no: u64,
    now: &str,
) -> Write {
    let values = presented_values(presented).into_iter().chain([
        (":checkpoint", text(&at.to_string())),
        (":cp_no", number(cp_no)),
        (":now", text(now)),
    ]);
    let update = "SET #checkpoint = :checkpoint, #cp_no = :cp_no, #checkpointed_at = :now";
    let condition = format!("{} AND #cp_no < :cp_no", held_by(presented));
    Write::new(condition, update, values)
}

/// Gives the lease back. An ask stays in the item as the reservation.
pub(crate) fn release(presented: Presented<'_>) -> Write {
    let values = presented_values(presented);
    Write::new(held_by(presented), "REMOVE #owner, #grant", values)
}

/// Asks for a lease, unless it is the one that this instance has seen expire.
pub(crate) fn ask(asker: &str, expired: Option<&Expired>) -> Write {
    let mut condition = format!(
        "{UNDERSTOOD} AND {HELD} AND #owner <> :asker \
         AND (attribute_not_exists(#asked_by) OR #asked_by = :asker OR #ask_lapses <= #counter) \
         AND (attribute_not_exists(#checkpoint) OR #checkpoint <> :shard_end)"
    );
    let mut values = vec![
        (":asker", text(asker)),
        (":renewals", number(RENEWALS_ASKED)),
    ];
    if let Some(expired) = expired {
        condition += " AND (#grant <> :grant OR #counter <> :counter)";
        values.push((":grant", text(&expired.grant)));
        values.push((":counter", number(expired.counter)));
    }
    let update = "SET #asked_by = :asker, #ask_lapses = #counter + :renewals";
    Write::new(condition, update, values)
}

/// Deletes the item of a finished shard that nobody holds, or none.
pub(crate) fn forget() -> Write {
    let condition = format!(
        "attribute_not_exists(#lease_key) OR ({UNDERSTOOD} AND {FREE} AND #checkpoint = :shard_end)"
    );
    Write::new(condition, "", [])
}

/// The item is the present holder's.
fn held_by(presented: Presented<'_>) -> String {
    let whose = match presented.grant {
        Some(_) => GRANTED,
        None => OWNED,
    };
    format!("{UNDERSTOOD} AND {whose}")
}

fn presented_values(presented: Presented<'_>) -> Vec<(&'static str, AttributeValue)> {
    let mut values = vec![
        (":owner", text(&presented.holder.owner)),
        (":epoch", number(presented.holder.epoch)),
    ];
    values.extend(presented.grant.map(|grant| (":grant", text(grant))));
    values
}

/// What `UNDERSTOOD` and the updates compare and add.
fn constants() -> [(&'static str, AttributeValue); 10] {
    [
        (":format", number(FORMAT)),
        (":zero", number(0)),
        (":one", number(1)),
        (":most", number(u64::MAX)),
        (":empty", text("")),
        (":shard_end", text(SHARD_END)),
        // `AT_TIMESTAMP:`, and then a sign or a digit; the colon is the next after the digits.
        (":first_moment", text("AT_TIMESTAMP:-")),
        (":last_moment", text("AT_TIMESTAMP::")),
        (":first_digit", text("0")),
        (":colon", text(":")),
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
mod tests;
