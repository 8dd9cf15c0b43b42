//! Both programs of the examples, in process and against the simulated Kinesis.

use std::sync::Arc;
use std::time::Duration;

use examples::{Service, StockChange, Tally};
use kinesis_broker::prelude::*;
use kinesis_sim::KinesisSim;
use lease_core::LeaseKey;
use lease_memory::MemoryLeaseStore;
use rstream::testing::TestApp;

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../kinesis_leases_store.rs"]
mod with_macros;

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../manual/kinesis_leases_store.rs"]
mod by_hand;

const SERVICES: [Service; 2] = [with_macros::service, by_hand::service];

#[tokio::test]
async fn each_service_settles_a_change_in_process() {
    for service in SERVICES {
        let app = service(KinesisBroker::new(), Arc::new(MemoryLeaseStore::new()));
        let app = TestApp::start(app).await.unwrap();
        let kinesis = app.broker::<KinesisBroker>();
        let change = StockChange { sku: 7, delta: -2 };

        kinesis
            .message(&change)
            .to("inventory")
            .publish()
            .await
            .unwrap();

        let inventory = kinesis.subscriber("inventory");
        inventory
            .assert_called_once()
            .with(&change)
            .settled(HandlerOutcome::ack());
        assert_eq!(inventory.received::<StockChange>(), [change]);
        app.shutdown().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn each_service_shares_the_shards_of_a_stream_between_two_instances() {
    for service in SERVICES {
        let sim = KinesisSim::new().without_quotas();
        sim.create_stream("inventory", 4);
        let leases = Arc::new(MemoryLeaseStore::new());
        let tally = Tally::default();
        let start = async |owner: &str| {
            let broker = KinesisBroker::from_config(&sim.sdk_config())
                .owner_id(owner)
                .seed(7);
            let leases = Arc::clone(&leases);
            tally.watch(service(broker, leases)).start().await.unwrap()
        };
        let (one, two) = (start("one").await, start("two").await);

        let mut delta = 0;
        while tally.shards_of("two") < 2 {
            for sku in 0..16 {
                let change = serde_json::to_vec(&StockChange { sku, delta }).unwrap();
                let stored = sim.put("inventory", &sku.to_string(), change);
                tally.put(&stored.shard, &stored.sequence_number);
            }
            delta += 1;
            assert!(delta < 60, "a second instance never got its share");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        one.shutdown().await.unwrap();
        while tally.outstanding() > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        two.shutdown().await.unwrap();

        let report = tally.report();
        assert_eq!(report.instances(), 2);
        assert_eq!((report.lost(), report.handled_twice()), (0, 0));
        for shard in sim.shards("inventory") {
            let key = LeaseKey::new("inventory", &shard.id);
            let state = lease_core::LeaseStore::read(&*leases, &key).await.unwrap();
            let last = sim.records("inventory", &shard.id).pop();
            let last = last.map(|record| record.sequence_number);
            let checkpoint = state
                .checkpoint
                .and_then(|at| at.sequence().map(str::to_owned));
            assert_eq!(checkpoint, last);
            assert_eq!(state.holder, None);
        }
    }
}
