//! Replays.

use crate::{change, played};

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../../replay.rs"]
mod with_macros;

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../../manual/replay.rs"]
mod by_hand;

#[tokio::test(start_paused = true)]
async fn moves_and_a_generation_hand_everything_over_again_and_the_former_position_stays() {
    for stage in [
        played(with_macros::program).await,
        played(by_hand::program).await,
    ] {
        let skus: Vec<_> = stage.calls().iter().map(|call| change(call).sku).collect();
        assert_eq!(skus, [7, 8, 7, 8, 7, 8, 7, 8, 9, 4, 5, 0, 4, 5, 0]);
    }
}
