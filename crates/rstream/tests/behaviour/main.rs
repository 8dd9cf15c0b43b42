//! What rstream does, seen from outside.
#![allow(clippy::unwrap_used, reason = "tests, with their helpers")]

mod app_macro;
mod handlers;
mod lifecycle;
mod programs;
mod subscriber_macro;
mod support;
mod test_app;
