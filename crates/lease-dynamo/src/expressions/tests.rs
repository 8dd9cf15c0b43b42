//! What each call sends.

use super::*;
use crate::names;

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

fn expired() -> Expired {
    Expired {
        grant: "0ld".to_owned(),
        counter: 42,
    }
}

fn every_write() -> Vec<(&'static str, Write)> {
    let now = claim().now;
    let ttl = claim().ttl;
    let holder = holder();
    let owned = Presented {
        holder: &holder,
        grant: None,
    };
    let granted = Presented {
        grant: Some("m1n3"),
        ..owned
    };
    let at = Checkpoint::at("5");
    vec![
        ("acquire, absent", acquire_absent(claim(), 7)),
        ("acquire, released", acquire_released(claim(), 7, true)),
        (
            "acquire, reservation over",
            acquire_released(claim(), 7, false),
        ),
        (
            "acquire, expired",
            acquire_expired(claim(), &holder, &expired()),
        ),
        ("renew", renew(owned, ttl, now)),
        ("renew, own", renew(granted, ttl, now)),
        ("checkpoint", checkpoint(owned, &at, 3, now)),
        ("checkpoint, own", checkpoint(granted, &at, 3, now)),
        ("release", release(owned)),
        ("release, own", release(granted)),
        ("ask", ask("b", None)),
        ("ask, expired", ask("b", Some(&expired()))),
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
        for name in write.values.keys() {
            assert!(
                tokens(&text, ':').any(|token| token == *name),
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
        "contains",
        "if_not_exists",
        "AND",
        "BETWEEN",
        "NOT",
        "OR",
        "SET",
        "REMOVE",
    ];
    for (call, write) in every_write() {
        let text = format!("{} {}", write.condition, write.update);
        for word in text.split(|c: char| !(c.is_ascii_alphanumeric() || "_#:".contains(c))) {
            let is_fine = word.is_empty() || word.starts_with(['#', ':']) || words.contains(&word);
            assert!(is_fine, "{call}: {word}");
        }
    }
}

#[test]
fn every_name_is_one_of_the_public_format() {
    for (call, write) in every_write() {
        let text = format!("{} {}", write.condition, write.update);
        for token in tokens(&text, '#') {
            assert!(names::ALL.contains(&&token[1..]), "{call}: {token}");
        }
    }
}

#[test]
fn every_condition_on_an_existing_item_checks_that_it_can_be_understood() {
    for (call, write) in every_write() {
        let only_where_absent = write.condition == "attribute_not_exists(#lease_key)";
        assert!(
            only_where_absent || write.condition.contains(UNDERSTOOD),
            "{call}: {}",
            write.condition
        );
    }
}

/// As the [limits] of the service have it.
///
/// [limits]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html
#[test]
fn no_expression_comes_near_the_limits_of_the_service() {
    const BYTES: usize = 4_096;
    const OPERATORS: usize = 300;
    for (call, write) in every_write() {
        for expression in [&write.condition, &write.update] {
            assert!(expression.len() < BYTES / 3, "{call}: {}", expression.len());
            let words = expression.split_whitespace().count();
            assert!(words < OPERATORS, "{call}: {words}");
        }
    }
}

#[test]
fn the_conditions_are_those_of_the_protocol() {
    let conditions: Vec<String> = every_write()
        .into_iter()
        .map(|(call, write)| {
            let condition = write.condition.replace(UNDERSTOOD, "understood");
            format!("{call}: {condition}")
        })
        .collect();
    let owned = "understood AND #owner = :owner AND #epoch = :epoch AND #grant > :empty";
    let granted = "understood AND #owner = :owner AND #epoch = :epoch AND #grant = :grant";
    let free = "attribute_not_exists(#owner) AND attribute_not_exists(#grant)";
    let asker_or_lapsed = |who: &str| {
        format!("(attribute_not_exists(#asked_by) OR #asked_by = {who} OR #ask_lapses <= #counter)")
    };
    let ask = format!(
        "understood AND #owner > :empty AND #grant > :empty AND #owner <> :asker AND {} \
         AND (attribute_not_exists(#checkpoint) OR #checkpoint <> :shard_end)",
        asker_or_lapsed(":asker")
    );
    assert_eq!(
        conditions,
        [
            "acquire, absent: attribute_not_exists(#lease_key)".to_owned(),
            format!(
                "acquire, released: understood AND {free} AND #epoch = :epoch AND {}",
                asker_or_lapsed(":new_owner")
            ),
            format!("acquire, reservation over: understood AND {free} AND #epoch = :epoch"),
            format!("acquire, expired: {granted} AND #counter = :counter"),
            format!("renew: {owned}"),
            format!("renew, own: {granted}"),
            format!("checkpoint: {owned} AND #cp_no < :cp_no"),
            format!("checkpoint, own: {granted} AND #cp_no < :cp_no"),
            format!("release: {owned}"),
            format!("release, own: {granted}"),
            format!("ask: {ask}"),
            format!("ask, expired: {ask} AND (#grant <> :grant OR #counter <> :counter)"),
            format!(
                "forget: attribute_not_exists(#lease_key) OR (understood AND {free} AND \
                 #checkpoint = :shard_end)"
            ),
        ]
    );
}

#[test]
fn the_updates_are_those_of_the_protocol() {
    let mut updates: Vec<String> = every_write()
        .into_iter()
        .map(|(_, write)| write.update)
        .collect();
    updates.dedup();
    assert_eq!(
        updates,
        [
            ACQUIRE,
            "SET #counter = #counter + :one, #ttl_ms = :ttl_ms, #renewed_at = :now",
            "SET #checkpoint = :checkpoint, #cp_no = :cp_no, #checkpointed_at = :now",
            "REMOVE #owner, #grant",
            "SET #asked_by = :asker, #ask_lapses = #counter + :renewals",
            "",
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
    let values = acquire_expired(claim(), &holder(), &expired()).values();
    let expected = [
        (":owner", text("a")),
        (":epoch", number(7)),
        (":counter", number(42)),
        (":grant", text("0ld")),
        (":new_owner", text("b")),
        (":new_grant", text("t0k3n")),
        (":ttl_ms", number(10_000)),
        (":seen", number(7)),
    ];
    for (name, value) in expected {
        assert_eq!(values[name], value, "{name}");
    }
}
