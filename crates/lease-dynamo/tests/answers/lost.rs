//! Answers that are lost or late, and calls that are sent again.

use std::time::Duration;

use lease_core::{Checkpoint, LeaseError, LeaseStore};
use serde_json::json;

use crate::script::{Reply, Script, TTL, free, held, key};
use crate::{granted, holder, lost_for_good, row_of};

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
        let grant = lost.value(":new_grant").to_owned();
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
async fn a_refused_acquisition_of_which_an_attempt_lands_late_is_adopted() {
    let script = Script::default();
    let store = script.store();
    // The first attempt is held up on its way, the second is refused, and then the holder releases.
    script
        .then(|_| Reply::Never)
        .then(|_| Reply::refused(Some(held(&key(0), "b", 1, 1, "g"))));
    assert_eq!(store.acquire(&key(0), "a", TTL).await.unwrap(), None);
    let late = row_of(&script.requests()[0]);

    let item = late.clone();
    script.then(move |_| Reply::ok(json!({"Item": item})));
    let state = store.read(&key(0)).await.unwrap();
    assert_eq!((state.holder, state.live), (Some(holder(1)), false));
    script.then(move |request| {
        assert_eq!(request.value(":grant"), late["grant"]["S"]);
        Reply::ok(json!({"Attributes": late}))
    });
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
async fn a_read_that_was_overtaken_by_ones_own_acquisition_does_not_show_the_lease_as_free() {
    let script = Script::default();
    let store = script.store();
    let second = Duration::from_secs(1);
    script
        .then(move |_| Reply::ok(json!({})).later(second))
        .then(granted);
    let (key_0, read) = (key(0), store.clone());
    let read = tokio::spawn(async move { read.read(&key_0).await });
    tokio::task::yield_now().await;
    let acquired = store.acquire(&key(0), "a", TTL).await.unwrap();
    let state = read.await.unwrap().unwrap();
    assert_eq!((state.holder, state.live), (acquired, true));
    let operations: Vec<_> = script.requests().into_iter().map(|r| r.operation).collect();
    assert_eq!(operations, ["GetItem", "UpdateItem"]);
}
