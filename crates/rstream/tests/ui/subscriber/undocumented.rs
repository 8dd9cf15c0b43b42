//! A library would say the same of the function.
#![deny(missing_docs)]

#[path = "../support/mod.rs"]
mod support;

/// Handlers.
pub mod handlers {
    use super::support::{Change, Topic};
    use rstream::subscriber;

    #[subscriber(Topic("inventory"))]
    pub async fn apply(_change: &Change) {}
}

fn main() {}
