//! Many rows at once: by a scan, by their keys, and what is made of either's failure.

use std::sync::{Arc, Mutex};

use lease_core::{LeaseError, LeaseKey, LeaseStore};
use lease_dynamo::{LeaseItem, LeaseRow};
use serde_json::{Value, json};
use tokio::time::{Instant, advance};

use crate::script::{Reply, Request, Script, TTL, free, held, key};

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
async fn where_a_scan_does_not_work_the_keys_are_read_at_once_and_for_a_while() {
    let denied = |script: &Script| {
        script.then(|_| Reply::error("AccessDeniedException", "not authorized"));
    };
    let hangs = |script: &Script| {
        for _ in 0..3 {
            script.then(|_| Reply::Never);
        }
    };
    for fails in [&denied as &dyn Fn(&Script), &hangs] {
        let script = Script::default();
        let store = script.store();
        let keys: Vec<LeaseKey> = (0..3).map(key).collect();
        fails(&script);
        for _ in 0..2 {
            script.then(|request| {
                Reply::ok(json!({"Responses": {"leases": found(&names(request))}}))
            });
        }
        for _ in 0..2 {
            let states = store.read_all(&keys).await.unwrap();
            let epochs: Vec<u64> = states.iter().map(|state| state.epoch).collect();
            assert_eq!(epochs, [1, 2, 3]);
        }
        script.requests();
    }
}

#[tokio::test(start_paused = true)]
async fn where_nothing_works_the_next_listing_scans_again() {
    let script = Script::default();
    let store = script.store();
    let keys: Vec<LeaseKey> = (0..3).map(key).collect();
    for _ in 0..2 {
        script
            .then(|_| Reply::error("ResourceNotFoundException", "no such table"))
            .then(|_| Reply::error("ResourceNotFoundException", "no such table"));
        store.read_all(&keys).await.unwrap_err();
    }
    let operations: Vec<_> = script.requests().into_iter().map(|r| r.operation).collect();
    assert_eq!(operations, ["Scan", "BatchGetItem", "Scan", "BatchGetItem"]);
}

#[tokio::test(start_paused = true)]
async fn a_scan_that_is_throttled_is_not_made_up_for_by_calls_that_cost_more() {
    let script = Script::default();
    for _ in 0..3 {
        script.then(|_| Reply::error("ThrottlingException", "slow down"));
    }
    let keys: Vec<LeaseKey> = (0..3).map(key).collect();
    let error = script.store().read_all(&keys).await.unwrap_err();
    assert!(matches!(error, LeaseError::Throttled { .. }), "{error:?}");
    script.requests();
}

#[tokio::test(start_paused = true)]
async fn batches_that_are_throttled_together_do_not_come_back_together() {
    let script = Script::default();
    let store = script.store();
    let keys: Vec<LeaseKey> = (0..300).map(key).collect();
    let times = Arc::new(Mutex::new(Vec::new()));
    script.then(huge_page);
    for _ in 0..3 {
        script.then(|request| {
            Reply::ok(json!({"Responses": {}, "UnprocessedKeys": left(&names(request))}))
        });
    }
    for _ in 0..3 {
        let times = times.clone();
        script.then(move |request| {
            times.lock().unwrap().push(Instant::now());
            Reply::ok(json!({"Responses": {"leases": found(&names(request))}}))
        });
    }
    store.read_all(&keys).await.unwrap();
    let mut times = times.lock().unwrap();
    times.dedup();
    assert_eq!(times.len(), 3, "{times:?}");
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
        LeaseRow::Unknown {
            lease_key, reason, ..
        },
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
