//! What the store makes of answers that no healthy server gives on demand: lost, late, throttled, refused
//! without an item, or not to be understood.

#![expect(clippy::unwrap_used, reason = "a failed call fails the test")]

mod script;

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_types::SdkConfig;
use aws_types::region::Region;
use lease_core::{Checkpoint, Holder, LeaseError, LeaseKey, LeaseState, LeaseStore, Renewal};
use lease_dynamo::{DynamoLeaseStore, LeaseItem, LeaseRow};
use script::{Reply, Request, Script, TTL, WallClock, free, held, key};
use serde_json::{Value, json};
use tokio::time::advance;

fn holder(epoch: u64) -> Holder {
    Holder {
        owner: "a".to_owned(),
        epoch,
    }
}

/// What the service answers to the acquisition of an absent row.
fn granted(request: &Request) -> Reply {
    Reply::ok(json!({"Attributes": row_of(request)}))
}

/// The row as an acquisition of an absent row leaves it.
fn row_of(request: &Request) -> Value {
    held(
        &key(0),
        request.value(":new_owner"),
        1,
        1,
        request.value(":grant"),
    )
}

/// Fails whatever of the SDK's attempts at one call there are.
fn lost_for_good(script: &Script) {
    for _ in 0..3 {
        script.then(|_| Reply::Lost);
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_whose_answer_was_lost_ends_as_the_success_it_was() {
    let script = Script::default();
    script
        .then(|_| Reply::Lost)
        .then(|request| Reply::refused(Some(row_of(request))));

    let acquired = script.store().acquire(&key(0), "a", TTL).await.unwrap();

    assert_eq!(acquired, Some(holder(1)));
    let requests = script.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0], requests[1], "sent again as it was");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_hangs_is_sent_again_within_two_seconds() {
    let script = Script::default();
    script.then(|_| Reply::Never).then(granted);
    let start = tokio::time::Instant::now();
    let acquired = script.store().acquire(&key(0), "a", TTL).await.unwrap();
    assert_eq!(acquired, Some(holder(1)));
    assert!(
        start.elapsed() < Duration::from_millis(2_600),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_was_never_heard_of_is_adopted_and_renewed_by_the_next_acquisition() {
    let script = Script::default();
    let store = script.store();
    lost_for_good(&script);
    let error = store.acquire(&key(0), "a", TTL).await.unwrap_err();
    assert!(matches!(error, LeaseError::Unavailable { .. }), "{error:?}");
    let lost = script.requests()[0].clone();
    let row = row_of(&lost);

    script.then(move |_| Reply::refused(Some(row))).then({
        let grant = lost.value(":grant").to_owned();
        move |request| {
            assert!(request.condition().ends_with("AND #grant = :grant"));
            assert_eq!(request.value(":grant"), grant);
            assert_eq!(request.value(":epoch"), "1");
            Reply::ok(json!({"Attributes": held(&key(0), "a", 1, 2, &grant)}))
        }
    });
    let acquired = store.acquire(&key(0), "a", TTL).await.unwrap();
    assert_eq!(acquired, Some(holder(1)));

    // It is known now, and refused to its own name like any other.
    script.then(|_| Reply::refused(Some(held(&key(0), "a", 1, 2, "whatever"))));
    assert_eq!(store.acquire(&key(0), "a", TTL).await.unwrap(), None);
    script.requests();
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_was_never_heard_of_reads_as_nobodys_to_its_own_instance_alone() {
    let script = Script::default();
    let (store, other) = (script.store(), script.store().seed(8));
    lost_for_good(&script);
    store.acquire(&key(0), "a", TTL).await.unwrap_err();
    let row = row_of(&script.requests()[0]);

    for (store, is_live) in [(&store, false), (&other, true)] {
        let item = row.clone();
        script.then(move |_| Reply::ok(json!({"Item": item})));
        let state = store.read(&key(0)).await.unwrap();
        assert_eq!(state.holder, Some(holder(1)));
        assert_eq!(state.live, is_live);
    }

    // One write then suffices.
    let grant = row["grant"]["S"].as_str().unwrap().to_owned();
    script.then(move |request| {
        assert_eq!(request.value(":grant"), grant);
        Reply::ok(json!({"Attributes": held(&key(0), "a", 1, 2, &grant)}))
    });
    let acquired = store.acquire(&key(0), "a", TTL).await.unwrap();
    assert_eq!(acquired, Some(holder(1)));
    script.requests();
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_that_was_dropped_is_adopted_too_but_not_by_another_name() {
    let script = Script::default();
    let store = script.store();
    script.then(|_| Reply::Never);
    let key_0 = key(0);
    let call = store.acquire(&key_0, "a", TTL);
    assert!(
        tokio::time::timeout(Duration::from_secs(1), call)
            .await
            .is_err()
    );
    let row = row_of(&script.requests()[0]);

    let refusal = row.clone();
    script.then(move |_| Reply::refused(Some(refusal)));
    assert_eq!(store.acquire(&key(0), "b", TTL).await.unwrap(), None);

    script.then(move |_| Reply::ok(json!({"Attributes": row})));
    let acquired = store.acquire(&key(0), "a", TTL).await.unwrap();
    assert_eq!(acquired, Some(holder(1)));
    script.requests();
}

#[tokio::test(start_paused = true)]
async fn of_two_acquisitions_under_way_in_one_name_one_is_refused() {
    let script = Script::default();
    let store = script.store();
    script.then(|_| Reply::Never);
    let key_0 = key(0);
    let mut first = store.acquire(&key_0, "a", TTL);
    let polled = std::future::poll_fn(|context| {
        std::task::Poll::Ready(first.as_mut().poll(context).is_pending())
    });
    assert!(polled.await);
    let row = row_of(&script.requests()[0]);

    script.then(move |_| Reply::refused(Some(row)));
    assert_eq!(store.acquire(&key(0), "a", TTL).await.unwrap(), None);
    script.requests();
}

#[tokio::test(start_paused = true)]
async fn a_row_that_was_listed_is_acquired_renewed_and_released_in_one_call_each() {
    let script = Script::default();
    let store = script.store();
    script
        .then(|_| Reply::ok(json!({"Item": free(&key(0), 6, 60)})))
        .then(|request| {
            assert!(request.condition().contains("attribute_not_exists(#owner)"));
            assert_eq!(request.value(":epoch"), "6");
            let row = held(&key(0), "a", 7, 61, request.value(":grant"));
            Reply::ok(json!({"Attributes": row}))
        })
        .then(|_| Reply::ok(json!({"Attributes": held(&key(0), "a", 7, 62, "g")})))
        .then(|_| Reply::ok(json!({"Attributes": held(&key(0), "a", 7, 62, "g")})))
        .then(|_| Reply::ok(json!({"Attributes": free(&key(0), 7, 62)})));

    store.read(&key(0)).await.unwrap();
    let acquired = store.acquire(&key(0), "a", TTL).await.unwrap().unwrap();
    assert_eq!(acquired, holder(7));
    let renewal = store.renew(&key(0), &acquired, TTL).await.unwrap();
    assert_eq!(renewal, Renewal::Held);
    let at = Checkpoint::at("5");
    assert!(store.checkpoint(&key(0), &acquired, &at).await.unwrap());
    store.release(&key(0), &acquired).await.unwrap();

    for write in &script.requests()[1..] {
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
        let observed = [(":owner", "b"), (":epoch", "3"), (":counter", "9")];
        for (name, value) in observed {
            assert_eq!(request.value(name), value);
        }
        let row = held(&key(0), "a", 4, 10, request.value(":grant"));
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
async fn a_checkpoint_whose_answer_was_lost_is_accepted_when_it_is_sent_again() {
    let script = Script::default();
    let store = script.store();
    script.then(|_| Reply::Lost).then(|request| {
        let mut row = held(&key(0), "a", 1, 4, "g");
        row["cp_no"] = json!({"N": request.value(":cp_no")});
        row["checkpoint"] = json!({"S": request.value(":checkpoint")});
        Reply::refused(Some(row))
    });
    let at = Checkpoint::at("42");
    assert!(store.checkpoint(&key(0), &holder(1), &at).await.unwrap());

    script.then(|_| Reply::refused(Some(held(&key(0), "b", 2, 5, "g"))));
    assert!(!store.checkpoint(&key(0), &holder(1), &at).await.unwrap());
    let numbers: Vec<u64> = script
        .requests()
        .iter()
        .map(|request| request.value(":cp_no").parse().unwrap())
        .collect();
    assert_eq!(numbers, [1, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_release_or_an_ask_whose_answer_was_lost_ends_as_it_did() {
    let script = Script::default();
    let store = script.store();
    script
        .then(|_| Reply::Lost)
        .then(|_| Reply::refused(Some(free(&key(0), 1, 4))));
    store.release(&key(0), &holder(1)).await.unwrap();

    let mut asked = held(&key(0), "a", 1, 4, "g");
    asked["asked_by"] = json!({"S": "b"});
    asked["ask_lapses"] = json!({"N": "8"});
    script
        .then(|_| Reply::Lost)
        .then(move |_| Reply::ok(json!({"Attributes": asked})));
    assert!(store.ask(&key(0), "b").await.unwrap());
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
async fn throttling_is_told_as_such_after_the_sdks_own_tries() {
    let script = Script::default();
    for _ in 0..3 {
        let code = "ProvisionedThroughputExceededException";
        script.then(move |_| Reply::error(code, "slow down"));
    }
    let error = script.store().read(&key(0)).await.unwrap_err();
    assert!(matches!(error, LeaseError::Throttled { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("GetItem on DynamoDB table leases"), "{text}");
    assert!(text.contains("slow down"), "{text}");
    script.requests();
}

#[tokio::test(start_paused = true)]
async fn missing_permission_is_told_with_the_action_to_allow() {
    let script = Script::default();
    let denied = "User: arn:aws:iam::123456789012:user/x is not authorized";
    script.then(move |_| Reply::error("AccessDeniedException", denied));
    let error = script.store().acquire(&key(0), "a", TTL).await.unwrap_err();
    assert!(
        matches!(error, LeaseError::Misconfigured { .. }),
        "{error:?}"
    );
    let text = error.to_string();
    for part in ["table leases", denied, "allow dynamodb:UpdateItem"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    script.requests();
}

#[tokio::test(start_paused = true)]
async fn an_item_that_cannot_be_understood_is_an_error_that_names_it() {
    let script = Script::default();
    let store = script.store();
    let mut later = held(&key(1), "a", 1, 1, "g");
    later["format"] = json!({"N": "2"});
    let refusal = later.clone();
    script
        .then(move |_| Reply::refused(Some(refusal)))
        .then(move |_| Reply::ok(json!({"Items": [free(&key(0), 1, 1), later]})));
    let keys = [key(0), key(1)];
    let errors = [
        store.acquire(&key(1), "a", TTL).await.unwrap_err(),
        store.read_all(&keys).await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, LeaseError::Corrupt { .. }), "{error:?}");
        let text = error.to_string();
        for part in [
            "table leases",
            "inventory:shardId-000000000001",
            "format is 2",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
    script.requests();
}

fn names(request: &Request) -> Vec<String> {
    let keys = &request.body["RequestItems"]["leases"]["Keys"];
    assert_eq!(
        request.body["RequestItems"]["leases"]["ConsistentRead"],
        true
    );
    let keys = keys.as_array().unwrap().iter();
    keys.map(|key| key["lease_key"]["S"].as_str().unwrap().to_owned())
        .collect()
}

fn found(names: &[String]) -> Value {
    let rows = names.iter().map(|name| {
        let (stream, shard) = name.split_once(':').unwrap();
        let number: u64 = shard.trim_start_matches("shardId-").parse().unwrap();
        free(&LeaseKey::new(stream, shard), number + 1, 1)
    });
    rows.collect()
}

fn left(names: &[String]) -> Value {
    let keys = names.iter().map(|name| json!({"lease_key": {"S": name}}));
    json!({"leases": {"Keys": keys.collect::<Vec<_>>(), "ConsistentRead": true}})
}

/// A page of a table that is not worth its scan.
fn huge_page(_: &Request) -> Reply {
    let last = json!({"lease_key": {"S": "inventory:zzz"}});
    let consumed = json!({"TableName": "leases", "CapacityUnits": 9_999.0});
    Reply::ok(json!({"Items": [], "LastEvaluatedKey": last, "ConsumedCapacity": consumed}))
}

#[tokio::test(start_paused = true)]
async fn a_scan_that_costs_more_than_the_keys_is_given_up_and_not_tried_again_soon() {
    let script = Script::default();
    let store = script.store();
    let keys: Vec<LeaseKey> = (0..250).map(key).collect();
    for listing in 0..2 {
        if listing == 0 {
            script.then(huge_page);
        }
        for _ in 0..3 {
            script.then(|request| {
                let names = names(request);
                assert!(names.len() <= 100);
                Reply::ok(json!({"Responses": {"leases": found(&names)}, "UnprocessedKeys": {}}))
            });
        }
        let states = store.read_all(&keys).await.unwrap();
        let epochs: Vec<u64> = states.iter().map(|state| state.epoch).collect();
        assert_eq!(epochs, (1..=250).collect::<Vec<_>>());
    }
    let operations: Vec<String> = script
        .requests()
        .into_iter()
        .map(|request| request.operation)
        .collect();
    assert_eq!(operations[0], "Scan");
    assert!(
        operations[1..]
            .iter()
            .all(|operation| operation == "BatchGetItem")
    );
}

#[tokio::test(start_paused = true)]
async fn a_small_table_is_scanned_page_by_page_for_what_was_asked() {
    let script = Script::default();
    let store = script.store();
    let keys: Vec<LeaseKey> = [3, 1, 3, 9].map(key).into();
    for _ in 0..2 {
        script
            .then(|request| {
                assert_eq!(request.body["ConsistentRead"], true);
                assert_eq!(request.body.get("ExclusiveStartKey"), None);
                let names: Vec<String> = [1, 2].map(|shard| key(shard).to_string()).into();
                let last = json!({"lease_key": {"S": names[1]}});
                Reply::ok(json!({"Items": found(&names), "LastEvaluatedKey": last}))
            })
            .then(|request| {
                let from = &request.body["ExclusiveStartKey"]["lease_key"]["S"];
                assert_eq!(from, &key(2).to_string());
                Reply::ok(json!({"Items": found(&[key(3).to_string()])}))
            });
        let states = store.read_all(&keys).await.unwrap();
        let epochs: Vec<u64> = states.iter().map(|state| state.epoch).collect();
        assert_eq!(epochs, [4, 2, 4, 0]);
    }
    script.requests();
}

#[tokio::test(start_paused = true)]
async fn all_rows_are_read_page_by_page_and_one_that_is_not_understood_hides_no_other() {
    let script = Script::default();
    let mut later = held(&key(1), "a", 1, 1, "g");
    later["format"] = json!({"N": "2"});
    let mut released = free(&key(2), 3, 9);
    released["asked_by"] = json!({"S": "b"});
    released["ask_lapses"] = json!({"N": "10"});
    let last = json!({"lease_key": {"S": key(1).to_string()}});
    script
        .then(move |request| {
            assert_eq!(request.operation, "Scan");
            assert_eq!(request.body["ConsistentRead"], true);
            assert_eq!(request.body.get("Limit"), None);
            let items = [held(&key(0), "a", 7, 70, "g"), later];
            Reply::ok(json!({"Items": items, "LastEvaluatedKey": last}))
        })
        .then(move |request| {
            let from = &request.body["ExclusiveStartKey"]["lease_key"]["S"];
            assert_eq!(from, &key(1).to_string());
            Reply::ok(json!({"Items": [released]}))
        });

    let rows = script.store().rows().await.unwrap();

    let [
        LeaseRow::Lease(first),
        LeaseRow::Unknown { lease_key, reason },
        LeaseRow::Lease(last),
    ] = &rows[..]
    else {
        panic!("{rows:?}");
    };
    assert_eq!(first.owner.as_deref(), Some("a"));
    assert_eq!((first.epoch, first.counter), (7, 70));
    assert_eq!(*lease_key, key(1).to_string());
    assert!(reason.contains("format is 2"), "{reason}");
    assert_eq!(
        (last.owner.as_ref(), last.asked_by.as_deref()),
        (None, Some("b"))
    );
    script.requests();
}

#[tokio::test(start_paused = true)]
async fn the_rows_of_a_table_of_something_else_are_refused() {
    let script = Script::default();
    script.then(|_| Reply::ok(json!({"Items": [{"id": {"S": "1"}}]})));
    let error = script.store().rows().await.unwrap_err();
    assert!(
        matches!(error, LeaseError::Misconfigured { .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("table leases"), "{error}");
    script.requests();
}

#[tokio::test(start_paused = true)]
async fn looking_at_all_rows_takes_over_no_lease_the_sooner() {
    let script = Script::default();
    let store = script.store();
    let row = held(&key(0), "b", 3, 9, "g");
    let (listed, refusal) = (row.clone(), row);
    script.then(move |_| Reply::ok(json!({"Items": [listed]})));
    let rows = store.rows().await.unwrap();
    assert!(matches!(
        &rows[..],
        [LeaseRow::Lease(LeaseItem { epoch: 3, .. })]
    ));

    advance(TTL * 2).await;
    script.then(|_| Reply::refused(Some(refusal)));
    assert_eq!(store.acquire(&key(0), "a", TTL).await.unwrap(), None);
    script.requests();
}

#[tokio::test(start_paused = true)]
async fn keys_that_the_service_left_out_are_asked_for_again() {
    let script = Script::default();
    let store = script.store();
    script
        .then(huge_page)
        .then(|request| {
            let names = names(request);
            let (read, unread) = names.split_at(1);
            let read = json!({"leases": found(read)});
            Reply::ok(json!({"Responses": read, "UnprocessedKeys": left(unread)}))
        })
        .then(|request| {
            let names = names(request);
            assert_eq!(names.len(), 2);
            Reply::ok(json!({"Responses": {"leases": found(&names)}}))
        });
    let keys: Vec<LeaseKey> = (0..3).map(key).collect();
    let states = store.read_all(&keys).await.unwrap();
    let epochs: Vec<u64> = states.iter().map(|state| state.epoch).collect();
    assert_eq!(epochs, [1, 2, 3]);

    for _ in 0..8 {
        script.then(|request| {
            Reply::ok(json!({"Responses": {}, "UnprocessedKeys": left(&names(request))}))
        });
    }
    let error = store.read_all(&keys).await.unwrap_err();
    assert!(matches!(error, LeaseError::Throttled { .. }), "{error:?}");
    assert!(
        error
            .to_string()
            .contains("table leases: 3 keys still unread"),
        "{error}"
    );
    script.requests();
}

#[tokio::test(start_paused = true)]
async fn no_keys_cost_no_call() {
    let script = Script::default();
    assert_eq!(script.store().read_all(&[]).await.unwrap(), []);
    assert_eq!(script.requests(), []);
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

#[tokio::test]
async fn a_configuration_that_lacks_something_is_told() {
    let region = Region::new("eu-central-1");
    let credentials = Credentials::new("id", "secret", None, None, "test");
    let credentials = SharedCredentialsProvider::new(credentials);
    let bare = || SdkConfig::builder().http_client(Script::default());
    let without_region = bare().credentials_provider(credentials).build();
    let without_credentials = bare().region(region).build();
    for (config, said) in [
        (without_region, "the SdkConfig has no region"),
        (without_credentials, "the credentials of the SdkConfig"),
    ] {
        let store = DynamoLeaseStore::new(&config, "leases");
        let error = store.read(&key(0)).await.unwrap_err();
        assert!(error.to_string().contains(said), "{error:?}");
        assert!(
            matches!(error, LeaseError::Misconfigured { .. }),
            "{error:?}"
        );
    }
}

#[test]
fn a_store_shows_its_table_and_no_more() {
    let store = Script::default().store();
    assert_eq!(
        format!("{store:?}"),
        "DynamoLeaseStore { table: \"leases\", .. }"
    );
}
