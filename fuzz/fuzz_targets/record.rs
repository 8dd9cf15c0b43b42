//! A record of the Kinesis API, and what a handler can ask about it.

#![no_main]

use std::time::UNIX_EPOCH;

use kinesis_broker::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((seconds, rest)) = input.split_first_chunk() else {
        return;
    };
    let seconds = f64::from_le_bytes(*seconds);
    // JSON has no other numbers.
    if !seconds.is_finite() {
        return;
    }
    let mut lines = rest.splitn(3, |byte| *byte == b'\n');
    let mut text = || {
        lines
            .next()
            .map(|line| String::from_utf8_lossy(line).into_owned())
    };
    let (sequence_number, partition_key) = (text().unwrap_or_default(), text());
    let data = lines.next().unwrap_or_default();

    let (info, payload) =
        fuzzing::record(&sequence_number, partition_key.as_deref(), seconds, data);
    assert_eq!(payload, data);
    assert_eq!(info.sequence_number, sequence_number);
    assert_eq!(info.partition_key, partition_key.unwrap_or_default());
    let arrived_at = match info.arrived_at.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    };
    // Within what a clock shows; what lies beyond is told as the epoch.
    if seconds.abs() < 4e9 {
        assert!(
            (arrived_at - seconds).abs() <= 0.000_501,
            "{seconds} is told as {arrived_at}"
        );
    }
});
