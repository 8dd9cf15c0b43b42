//! Concurrency, and checkpoints at an interval.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{change, played};

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../../concurrency.rs"]
mod with_macros;

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../../manual/concurrency.rs"]
mod by_hand;

const A_CALL: Duration = Duration::from_millis(20);

#[tokio::test(start_paused = true)]
async fn sixteen_records_are_in_hand_at_once_and_never_two_of_a_key() {
    for stage in [
        played(with_macros::program).await,
        played(by_hand::program).await,
    ] {
        let calls = stage.calls();
        assert_eq!(calls.len(), 400);
        let at_once = |ended| {
            let is_running = |end: &_| (ended..ended + A_CALL).contains(end);
            calls.iter().filter(|call| is_running(&call.ended)).count()
        };
        let most = calls.iter().map(|call| at_once(call.ended)).max();
        assert_eq!(most, Some(16));

        let mut articles = BTreeMap::<_, Vec<_>>::new();
        for call in &calls {
            articles.entry(change(call).sku).or_default().push(call);
        }
        for (sku, calls) in articles {
            for two in calls.windows(2) {
                assert!(two[1].ended - two[0].ended >= A_CALL, "article {sku}");
                let [one, other] = [&two[0].info, &two[1].info];
                assert!(one.sequence_number < other.sequence_number, "article {sku}");
            }
        }
        let checkpoints = stage.checkpoints();
        assert!((1..=6).contains(&checkpoints), "{:?}", stage.said());
    }
}
