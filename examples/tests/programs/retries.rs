//! Retries and dead letters.

use examples::StockChange;
use kinesis_broker::DeadLetter;
use rstream::broker::Verdict;

use crate::{change, played};

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../../retries.rs"]
mod with_macros;

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../../manual/retries.rs"]
mod by_hand;

#[tokio::test(start_paused = true)]
async fn what_fails_is_retried_and_then_lies_among_the_dead_letters_as_it_was() {
    for stage in [
        played(with_macros::program).await,
        played(by_hand::program).await,
    ] {
        let calls = stage.calls();
        let (failed, inventory): (Vec<_>, Vec<_>) = calls
            .iter()
            .partition(|call| call.stream == "inventory-failed");
        let tried: Vec<_> = (inventory.iter())
            .filter(|call| !matches!(call.verdict, Verdict::Undecodable(_)))
            .map(|call| (change(call).sku, call.attempt))
            .collect();
        assert_eq!(
            tried,
            [
                (1, 1),
                (1, 2),
                (1, 3),
                (2, 1),
                (2, 2),
                (2, 3),
                (3, 1),
                (4, 1)
            ]
        );

        let letters: Vec<_> = (failed.iter())
            .map(|call| DeadLetter::parse(&call.payloads[0]).unwrap())
            .collect();
        let told: Vec<_> = (letters.iter())
            .map(|letter| (letter.attempts, letter.partition_key.as_str()))
            .collect();
        assert_eq!(told, [(3, "2"), (1, "3"), (1, "5")]);
        assert_eq!(letters[0].reason, "the handler asked for a retry");
        assert_eq!(letters[1].reason, "there is no article 3");
        assert!(letters[2].reason.contains("cannot decode"), "{letters:?}");
        let payload: StockChange = serde_json::from_slice(&letters[1].payload).unwrap();
        assert_eq!(payload, StockChange { sku: 3, delta: 1 });
        assert_eq!(&letters[2].payload[..], b"no JSON");
    }
}
