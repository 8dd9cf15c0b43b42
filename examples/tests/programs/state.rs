//! State.

use crate::played;

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../../state.rs"]
mod with_macros;

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../../manual/state.rs"]
mod by_hand;

#[tokio::test(start_paused = true)]
async fn all_calls_of_a_handler_share_the_state() {
    for stage in [
        played(with_macros::program).await,
        played(by_hand::program).await,
    ] {
        assert_eq!(stage.calls().len(), 5);
        assert_eq!(stage.said(), ["in the end 5 of article 7, 4 of article 8"]);
    }
}
