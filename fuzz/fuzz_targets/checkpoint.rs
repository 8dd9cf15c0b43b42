//! The text of a checkpoint, as a row has it.

#![no_main]

use lease_core::{Checkpoint, SHARD_END};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match text.parse::<Checkpoint>() {
        Ok(read) => {
            let written = read.to_string();
            assert_eq!(
                written.parse().as_ref(),
                Ok(&read),
                "{text:?} is written as {written:?}"
            );
            assert_eq!(read.is_shard_end(), text == SHARD_END);
            // A sequence number is kept as it came; a moment may have had another text.
            if let Some(sequence_number) = read.sequence() {
                assert_eq!(written, text);
                match read.sub_sequence() {
                    None => assert_eq!(sequence_number, text),
                    Some(sub) => assert_eq!(format!("{sequence_number}:{sub}"), text),
                }
            }
        }
        Err(error) => assert!(error.to_string().starts_with(&format!("{text:?}"))),
    }
    // Whoever makes one of any text gets nothing that reads back as another.
    for made in [Checkpoint::at(text), Checkpoint::at_sub(text, 7)] {
        if let Ok(read) = made.to_string().parse::<Checkpoint>() {
            assert_eq!(read, made);
        }
    }
});
