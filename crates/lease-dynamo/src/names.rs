//! The names of an item's attributes, as the crate's documentation makes them public.

/// The partition key: `stream:shard`.
pub(crate) const LEASE_KEY: &str = "lease_key";
pub(crate) const FORMAT: &str = "format";
pub(crate) const OWNER: &str = "owner";
pub(crate) const EPOCH: &str = "epoch";
pub(crate) const COUNTER: &str = "counter";
pub(crate) const TTL_MS: &str = "ttl_ms";
pub(crate) const GRANT: &str = "grant";
pub(crate) const CP_NO: &str = "cp_no";
pub(crate) const CHECKPOINT: &str = "checkpoint";
pub(crate) const ASKED_BY: &str = "asked_by";
pub(crate) const ASK_LAPSES: &str = "ask_lapses";

/// Those that decide something, and those that are written for people to read.
#[cfg(test)]
pub(crate) const ALL: [&str; 14] = [
    LEASE_KEY,
    FORMAT,
    OWNER,
    EPOCH,
    COUNTER,
    TTL_MS,
    GRANT,
    CP_NO,
    CHECKPOINT,
    ASKED_BY,
    ASK_LAPSES,
    "acquired_at",
    "renewed_at",
    "checkpointed_at",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_in_the_documentation() {
        let documentation = include_str!("lib.rs");
        for name in ALL {
            assert!(documentation.contains(&format!("`{name}`")), "{name}");
        }
    }
}
