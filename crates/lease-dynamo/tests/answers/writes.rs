//! What each call sends, how many calls there are, and what their answers mean.

use std::time::{Duration, SystemTime};

use lease_core::{Checkpoint, LeaseError, LeaseState, LeaseStore, Renewal};
use lease_dynamo::DynamoLeaseStore;
use serde_json::json;
use tokio::time::advance;

use crate::script::{Reply, Request, Script, TTL, WallClock, free, held, key};
use crate::{granted, holder};

#[tokio::test(start_paused = true)]
async fn a_row_that_was_listed_is_acquired_renewed_and_released_in_one_call_each() {
    let script = Script::default();
    let store = script.store();
    let still_held = |request: &Request| {
        let row = held(&key(0), "a", 7, 62, request.value(":grant"));
        Reply::ok(json!({"Attributes": row}))
    };
    script
        .then(|_| Reply::ok(json!({"Item": free(&key(0), 6, 60)})))
        .then(|request| {
            assert!(request.condition().contains("attribute_not_exists(#owner)"));
            assert_eq!(request.value(":epoch"), "6");
            let row = held(&key(0), "a", 7, 61, request.value(":new_grant"));
            Reply::ok(json!({"Attributes": row}))
        })
        .then(still_held)
        .then(still_held)
        .then(|_| Reply::ok(json!({"Attributes": free(&key(0), 7, 62)})));

    store.read(&key(0)).await.unwrap();
    let acquired = store.acquire(&key(0), "a", TTL).await.unwrap().unwrap();
    assert_eq!(acquired, holder(7));
    let renewal = store.renew(&key(0), &acquired, TTL).await.unwrap();
    assert_eq!(renewal, Renewal::Held);
    let at = Checkpoint::at("5");
    assert!(store.checkpoint(&key(0), &acquired, &at).await.unwrap());
    store.release(&key(0), &acquired).await.unwrap();

    let requests = script.requests();
    for write in &requests[2..] {
        let grant = requests[1].value(":new_grant");
        assert_eq!(write.value(":grant"), grant, "of its own acquisition");
    }
    for write in &requests[1..] {
        assert_eq!(write.operation, "UpdateItem");
        assert_eq!(write.body["ReturnValues"], "ALL_NEW");
        assert_eq!(write.body["ReturnValuesOnConditionCheckFailure"], "ALL_OLD");
        assert!(write.condition().contains("#format = :format"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_a_lease_that_was_seen_held_is_one_call() {
    let script = Script::default();
    let store = script.store();
    let row = held(&key(0), "b", 3, 9, "g");
    let (listed, refusal) = (row.clone(), row);
    script
        .then(move |_| Reply::ok(json!({"Item": listed})))
        .then(move |_| Reply::refused(Some(refusal)));
    store.read(&key(0)).await.unwrap();
    assert_eq!(store.acquire(&key(0), "a", TTL).await.unwrap(), None);
    assert_eq!(script.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_expired_lease_is_taken_on_exactly_what_was_observed() {
    let script = Script::default();
    let store = script.store();
    script.then(|_| Reply::refused(Some(held(&key(0), "b", 3, 9, "g"))));
    assert_eq!(store.acquire(&key(0), "a", TTL).await.unwrap(), None);

    advance(TTL).await;
    script.then(|request| {
        assert!(request.condition().ends_with("AND #counter = :counter"));
        let observed = [
            (":owner", "b"),
            (":epoch", "3"),
            (":counter", "9"),
            (":grant", "g"),
        ];
        for (name, value) in observed {
            assert_eq!(request.value(name), value);
        }
        let row = held(&key(0), "a", 4, 10, request.value(":new_grant"));
        Reply::ok(json!({"Attributes": row}))
    });
    let acquired = store.acquire(&key(0), "a", TTL).await.unwrap();
    assert_eq!(acquired, Some(holder(4)));
    script.requests();
}

#[tokio::test(start_paused = true)]
async fn where_a_refusal_shows_no_item_one_consistent_read_stands_in() {
    let script = Script::default();
    let store = script.store();
    script
        .then(|_| Reply::refused(None))
        .then(|_| Reply::ok(json!({"Item": held(&key(0), "b", 3, 9, "g")})));
    assert_eq!(store.acquire(&key(0), "a", TTL).await.unwrap(), None);
    let requests = script.requests();
    assert_eq!(requests[1].operation, "GetItem");
    assert_eq!(requests[1].body["ConsistentRead"], true);

    // The same for an answer that was lost: it is its own success.
    script
        .then(|_| Reply::Lost)
        .then(|_| Reply::refused(None))
        .then(|_| Reply::ok(json!({"Item": held(&key(0), "a", 1, 7, "g")})));
    let renewal = store.renew(&key(1), &holder(1), TTL).await;
    // A row under another key's name cannot be understood.
    assert!(
        matches!(renewal, Err(LeaseError::Corrupt { .. })),
        "{renewal:?}"
    );
    script.requests();
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_lost_where_its_row_is_anothers_or_gone() {
    let script = Script::default();
    let store = script.store();
    script.then(|_| Reply::refused(Some(held(&key(0), "b", 2, 5, "g"))));
    let renewal = store.renew(&key(0), &holder(1), TTL).await.unwrap();
    assert_eq!(renewal, Renewal::Lost);

    script
        .then(|_| Reply::refused(None))
        .then(|_| Reply::ok(json!({})));
    let renewal = store.renew(&key(1), &holder(1), TTL).await.unwrap();
    assert_eq!(renewal, Renewal::Lost);
    script.requests();
}

#[tokio::test(start_paused = true)]
async fn a_renewal_tells_of_an_ask_until_it_lapses() {
    let script = Script::default();
    let store = script.store();
    for counter in [7, 8] {
        let mut row = held(&key(0), "a", 1, counter, "g");
        row["asked_by"] = json!({"S": "b"});
        row["ask_lapses"] = json!({"N": "8"});
        script.then(move |_| Reply::ok(json!({"Attributes": row})));
    }
    let mut renewals = Vec::new();
    for _ in 0..2 {
        renewals.push(store.renew(&key(0), &holder(1), TTL).await.unwrap());
    }
    let asked = Renewal::Asked { by: "b".to_owned() };
    assert_eq!(renewals, [asked, Renewal::Held]);
}

#[tokio::test(start_paused = true)]
async fn no_wall_clock_makes_a_lease_longer_or_shorter() {
    async fn observed(store: DynamoLeaseStore, script: &Script) -> Vec<LeaseState> {
        let mut states = Vec::new();
        for (counter, seconds) in [(1, 9), (2, 9), (2, 1), (2, 3_600), (3, 1)] {
            let mut row = held(&key(0), "a", 1, counter, "g");
            // A holder whose own clock says anything at all.
            let year = 1970 + 100 * (counter % 2);
            row["renewed_at"] = json!({"S": format!("{year}-01-01T00:00:00Z")});
            script.then(move |_| Reply::ok(json!({"Item": row})));
            states.push(store.read(&key(0)).await.unwrap());
            advance(Duration::from_secs(seconds)).await;
        }
        states
    }
    let script = Script::default();
    let hours = |hours: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(hours * 3_600);
    let reference = observed(script.store(), &script).await;
    let lives: Vec<bool> = reference.iter().map(|state| state.live).collect();
    assert_eq!(lives, [true, true, true, false, true]);
    for store in [
        script.store_at(WallClock(hours(500_000))),
        script.store_at(WallClock(hours(1))),
    ] {
        assert_eq!(observed(store, &script).await, reference);
    }
    script.requests();
}

#[tokio::test(start_paused = true)]
async fn the_times_in_a_row_are_those_of_the_configuration_and_for_people_alone() {
    let script = Script::default();
    let noon = SystemTime::UNIX_EPOCH + Duration::from_millis(1_769_860_800_750);
    script.then(granted);
    let store = script.store_at(WallClock(noon));
    store.acquire(&key(0), "a", TTL).await.unwrap();
    let request = &script.requests()[0];
    assert_eq!(request.value(":now"), "2026-01-31T12:00:00Z");
    assert!(!request.condition().contains(":now"));
}

#[tokio::test(start_paused = true)]
async fn one_seed_sends_one_run_of_requests() {
    let run = async |seed| {
        let script = Script::default();
        let store = script.store().seed(seed);
        script.then(granted).then(granted);
        store.acquire(&key(0), "a", TTL).await.unwrap();
        store.acquire(&key(1), "a", TTL).await.unwrap_err();
        script.requests()
    };
    assert_eq!(run(1).await, run(1).await);
    assert_ne!(run(1).await, run(2).await);
}

#[test]
fn a_store_shows_its_table_and_no_more() {
    let store = Script::default().store();
    assert_eq!(
        format!("{store:?}"),
        "DynamoLeaseStore { table: \"leases\", .. }"
    );
}
