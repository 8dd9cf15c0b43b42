//! Rows that many want, that are looked at, deleted by hand, or damaged.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::future::join_all;
use lease_core::{Checkpoint, LeaseKey, LeaseState, LeaseStore, Renewal};
use lease_dynamo::LeaseRow;

use crate::damaged;
use crate::server::{SHARED, Server, TTL, key, unique};

/// Sixteen instances of their own, unlike the sixteen callers of the suite's races.
pub(crate) async fn one_of_sixteen_instances_that_race_wins(server: Server) {
    let instances: Vec<_> = (0..16).map(|_| server.store(SHARED)).collect();
    instances[0].create_table_if_missing().await.unwrap();
    let key = LeaseKey::new(unique("race"), "shardId-000000000000");
    for round in 1..=5 {
        let owners: Vec<String> = (0..16).map(|number| format!("racer-{number}")).collect();
        let racers = instances.iter().zip(&owners);
        let answers = join_all(racers.map(|(store, owner)| store.acquire(&key, owner, TTL))).await;
        let mut winners = Vec::new();
        for (store, answer) in instances.iter().zip(answers) {
            winners.extend(answer.unwrap().map(|holder| (store, holder)));
        }
        assert_eq!(winners.len(), 1, "{winners:?}");
        let (winner, holder) = winners.remove(0);
        assert_eq!(holder.epoch, round);
        assert_eq!(
            winner.renew(&key, &holder, TTL).await.unwrap(),
            Renewal::Held
        );
        winner.release(&key, &holder).await.unwrap();
    }
}

pub(crate) async fn all_rows_are_shown_as_they_are(server: Server) {
    let table = unique("lease-dynamo-rows");
    let store = server.store(&table);
    store.create_table_if_missing().await.unwrap();
    assert_eq!(store.rows().await.unwrap(), []);

    let mut holders = Vec::new();
    for shard in 0..3 {
        let acquired = store.acquire(&key(shard), "a", TTL).await.unwrap();
        holders.push(acquired.unwrap());
    }
    let renewal = store.renew(&key(0), &holders[0], TTL).await.unwrap();
    assert_eq!(renewal, Renewal::Held);
    assert!(store.ask(&key(1), "b").await.unwrap());
    store.release(&key(1), &holders[1]).await.unwrap();
    let end = Checkpoint::shard_end();
    assert!(store.checkpoint(&key(2), &holders[2], &end).await.unwrap());
    let later = server
        .client()
        .put_item()
        .table_name(&table)
        .item("lease_key", AttributeValue::S(key(3).to_string()))
        .item("format", AttributeValue::N("2".to_owned()));
    later.send().await.unwrap();

    let (mut leases, mut unknown) = (Vec::new(), Vec::new());
    for row in server.store(&table).rows().await.unwrap() {
        match row {
            LeaseRow::Lease(lease) => leases.push(lease),
            LeaseRow::Unknown { lease_key, .. } => unknown.push(lease_key),
        }
    }
    assert_eq!(unknown, [key(3).to_string()]);
    leases.sort_by(|a, b| a.key.cmp(&b.key));
    let [renewed, reserved, finished] = &leases[..] else {
        panic!("{leases:?}");
    };
    assert_eq!(renewed.owner.as_deref(), Some("a"));
    assert_eq!((renewed.epoch, renewed.counter, renewed.ttl), (1, 2, TTL));
    assert_eq!(
        (reserved.owner.as_ref(), reserved.asked_by.as_deref()),
        (None, Some("b"))
    );
    assert_eq!(finished.checkpoint, Some(end));
    server.delete(&table).await;
}

pub(crate) async fn a_row_deleted_by_hand_is_its_holders_at_once_and_nobody_elses_meanwhile(
    server: Server,
) {
    let [a, b] = [(); 2].map(|()| server.store(SHARED));
    a.create_table_if_missing().await.unwrap();
    let key = LeaseKey::new(unique("vanished"), "shardId-000000000000");
    let ttl = Duration::from_secs(4);
    let holder = a.acquire(&key, "a", ttl).await.unwrap().unwrap();
    b.read(&key).await.unwrap();
    let name = AttributeValue::S(key.to_string());
    let deleted = server
        .client()
        .delete_item()
        .table_name(SHARED)
        .key("lease_key", name);
    deleted.send().await.unwrap();

    for (store, owner) in [(&b, "b"), (&a, "c")] {
        assert_eq!(store.acquire(&key, owner, ttl).await.unwrap(), None);
        let state = store.read(&key).await.unwrap();
        assert_eq!(state.holder.as_ref(), Some(&holder));
        assert!(state.live);
    }
    assert_eq!(a.renew(&key, &holder, ttl).await.unwrap(), Renewal::Lost);
    let again = a.acquire(&key, "a", ttl).await.unwrap().unwrap();
    assert_eq!(again.epoch, 2);
    assert_eq!(b.acquire(&key, "b", ttl).await.unwrap(), None);
}

pub(crate) async fn a_finished_row_that_was_cleared_away_by_oneself_reads_as_never_leased(
    server: Server,
) {
    let [a, b] = [(); 2].map(|()| server.store(SHARED));
    a.create_table_if_missing().await.unwrap();
    let key = LeaseKey::new(unique("cleared"), "shardId-000000000000");
    let holder = a.acquire(&key, "a", TTL).await.unwrap().unwrap();
    b.read(&key).await.unwrap();
    let end = Checkpoint::shard_end();
    assert!(a.checkpoint(&key, &holder, &end).await.unwrap());
    a.release(&key, &holder).await.unwrap();
    for _ in 0..2 {
        assert!(b.forget(&key).await.unwrap());
        assert_eq!(b.read(&key).await.unwrap(), LeaseState::default());
    }
}

pub(crate) async fn no_call_overwrites_an_item_that_it_cannot_understand(server: Server) {
    let table = unique("lease-dynamo-damaged");
    let store = server.store(&table);
    store.create_table_if_missing().await.unwrap();
    let config = server.config();
    damaged::no_call_overwrites_an_item_that_it_cannot_understand(&config, &table, "s").await;
    server.delete(&table).await;
}
