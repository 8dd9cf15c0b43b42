//! Codecs.

use rstream::HandlerOutcome;

use crate::{played, said};

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../../codecs.rs"]
mod with_macros;

#[expect(dead_code, reason = "a program's main is not called here")]
#[path = "../../manual/codecs.rs"]
mod by_hand;

#[tokio::test(start_paused = true)]
async fn each_stream_is_decoded_by_its_own_codec() {
    for stage in [
        played(with_macros::program).await,
        played(by_hand::program).await,
    ] {
        let calls = stage.calls();
        let mut streams: Vec<_> = calls.iter().map(|call| call.stream.as_str()).collect();
        streams.sort_unstable();
        assert_eq!(
            streams,
            ["inventory-cbor", "inventory-messagepack", "photographs"]
        );
        for call in &calls {
            assert_eq!(said(call), HandlerOutcome::ack(), "{}", call.stream);
            let is_json = serde_json::from_slice::<serde_json::Value>(&call.payloads[0]);
            assert!(is_json.is_err(), "{}", call.stream);
        }
    }
}
