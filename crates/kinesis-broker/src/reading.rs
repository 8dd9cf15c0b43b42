//! How a shard is read: its iterator, its records, and what their handling moves.

pub(crate) mod assignment;
pub(crate) mod cursor;
pub(crate) mod delivery;
pub(crate) mod reader;
pub(crate) mod record;
pub(crate) mod watermark;
