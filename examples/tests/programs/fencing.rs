//! Fencing downstream.

use crate::played;

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../../fencing.rs"]
mod with_macros;

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../../manual/fencing.rs"]
mod by_hand;

#[tokio::test(start_paused = true)]
async fn a_write_under_a_lease_that_has_passed_to_another_is_refused() {
    for stage in [
        played(with_macros::program).await,
        played(by_hand::program).await,
    ] {
        assert_eq!(
            stage.said(),
            [
                "one, under epoch 1: Done",
                "one, under epoch 1: Done",
                "two, under epoch 2: Done",
                "one, under epoch 1: Refused",
                "5 of article 7",
            ]
        );
        let holders = stage.calls();
        let holders = holders.iter().map(|call| call.info.holder.owner.as_str());
        assert_eq!(holders.collect::<Vec<_>>(), ["one", "one", "two", "one"]);
    }
}
