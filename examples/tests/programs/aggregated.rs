//! Aggregated records.

use crate::{change, played};

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../../aggregated.rs"]
mod with_macros;

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../../manual/aggregated.rs"]
mod by_hand;

#[tokio::test(start_paused = true)]
async fn an_instance_goes_on_inside_an_aggregated_record_where_another_stopped() {
    for stage in [
        played(with_macros::program).await,
        played(by_hand::program).await,
    ] {
        let calls = stage.calls();
        let first_attempts: Vec<_> = (calls.iter().filter(|call| call.attempt == 1))
            .map(|call| {
                let sku = change(call).sku;
                assert_eq!(call.info.sub_sequence_number, Some(sku - 1));
                assert_eq!(call.info.partition_key, sku.to_string());
                (call.info.holder.owner.as_str(), sku)
            })
            .collect();
        assert_eq!(
            first_attempts,
            [("one", 1), ("one", 2), ("one", 3), ("two", 3), ("two", 4)]
        );
        let number = &calls[0].info.sequence_number;
        assert_eq!(
            stage.said(),
            [format!("one stops, with its checkpoint at {number}:1")]
        );
    }
}
