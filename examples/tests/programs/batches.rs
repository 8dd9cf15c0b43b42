//! Batches.

use rstream::HandlerOutcome;

use crate::{played, said};

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../../batches.rs"]
mod with_macros;

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../../manual/batches.rs"]
mod by_hand;

#[tokio::test(start_paused = true)]
async fn a_batch_is_settled_up_to_an_index_and_the_rest_comes_again() {
    for stage in [
        played(with_macros::program).await,
        played(by_hand::program).await,
    ] {
        let calls = stage.calls();
        let given = calls.iter().map(|call| (call.payloads.len(), call.attempt));
        assert_eq!(
            given.collect::<Vec<_>>(),
            [(500, 1), (200, 2), (500, 1), (200, 2), (200, 1)]
        );
        assert_eq!(said(&calls[0]), HandlerOutcome::ack_until(300));

        let handed_over: usize = calls.iter().map(|call| call.payloads.len()).sum();
        assert_eq!(handed_over, 1_600, "200 came twice, twice");
        assert_eq!(stage.said(), ["5 checkpoints for 1,200 changes"]);
    }
}
