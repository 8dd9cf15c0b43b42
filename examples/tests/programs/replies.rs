//! Replies.

use rstream::HandlerOutcome;

use crate::{played, said};

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../../replies.rs"]
mod with_macros;

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../../manual/replies.rs"]
mod by_hand;

#[tokio::test(start_paused = true)]
async fn replies_are_stored_under_their_own_keys_and_a_drop_has_none() {
    let receipts = [
        r#"receipts, 7: {"sku":7,"delta":10}"#,
        r#"receipts, 7: {"sku":7,"delta":-12}"#,
    ];
    let alarms = [r#"alarms, 7: {"taken":12}"#];
    for (stage, stored) in [
        (played(with_macros::program).await, receipts.to_vec()),
        (
            played(by_hand::program).await,
            [&receipts[..], &alarms].concat(),
        ),
    ] {
        assert_eq!(stage.said(), stored);
        let outcomes: Vec<_> = stage.calls().iter().map(said).collect();
        let [ack, drop] = [HandlerOutcome::ack(), HandlerOutcome::drop()];
        assert_eq!(outcomes, [ack.clone(), drop, ack]);
    }
}
