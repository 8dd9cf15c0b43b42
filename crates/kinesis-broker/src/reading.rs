//! How a shard is read: its iterator, its records, and what their handling moves.

pub(crate) mod aggregate;
pub(crate) mod assignment;
pub(crate) mod cursor;
pub(crate) mod delivery;
pub(crate) mod feed;
pub(crate) mod handling;
pub(crate) mod in_flight;
pub(crate) mod judgement;
pub(crate) mod lanes;
pub(crate) mod queue;
pub(crate) mod reader;
pub(crate) mod record;
pub(crate) mod seek;
pub(crate) mod watermark;
