//! Both programs that publish, against the simulated Kinesis.

use std::collections::BTreeMap;

use examples::StockChange;
use kinesis_broker::KinesisPublisher;
use kinesis_sim::{Fault, KinesisSim, Operation};

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../publish.rs"]
mod with_macros;

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../manual/publish.rs"]
mod by_hand;

#[tokio::test(start_paused = true)]
async fn each_program_stores_every_change_in_the_order_of_its_article() {
    for is_by_hand in [false, true] {
        let sim = KinesisSim::new();
        sim.create_stream("inventory", 4);
        sim.inject(Fault::partial(20).rate(0.3));
        let publisher = KinesisPublisher::from_config(&sim.sdk_config()).seed(7);

        let stored = if is_by_hand {
            by_hand::publish(publisher, 5_000).await
        } else {
            with_macros::publish(publisher, 5_000).await
        };

        let mut articles = BTreeMap::<_, Vec<_>>::new();
        for (shard, records) in stored.unwrap().by_shard() {
            let there = sim.records("inventory", shard);
            assert_eq!(there.len() as u64, records);
            for record in there {
                let change: StockChange = serde_json::from_slice(&record.data).unwrap();
                assert_eq!(record.partition_key, change.sku.to_string());
                articles.entry(change.sku).or_default().push(change.delta);
            }
        }
        assert_eq!(articles.len(), 500);
        for (sku, deltas) in articles {
            let expected = (0..10).map(|round| 500 * round + sku as i64 + 1);
            assert_eq!(deltas, expected.collect::<Vec<_>>(), "article {sku}");
        }
        assert!(sim.faults_struck() > 0 && sim.calls(Operation::PutRecords) > 10);
    }
}
