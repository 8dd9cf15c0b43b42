//! The simulation as the genuine SDK client sees it, on tokio's paused clock.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod calls;
mod faults;
mod http;
mod listing;
mod quotas;
mod reading;
mod resharding;
mod streams;
mod support;
mod writing;
