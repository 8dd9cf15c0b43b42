//! What rstream does, seen from outside.
#![allow(clippy::unwrap_used, reason = "tests, with their helpers")]

mod app_macro;
mod batches;
mod codecs;
mod handlers;
mod lifecycle;
mod policies;
mod programs;
mod replies;
mod seek;
mod states;
mod subscriber_macro;
mod support;
mod test_app;
