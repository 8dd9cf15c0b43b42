//! Lints say of a handler what they would say of the function, and nothing else.
#![deny(
    warnings,
    future_incompatible,
    missing_copy_implementations,
    missing_debug_implementations,
    missing_docs,
    nonstandard_style,
    rust_2018_idioms,
    single_use_lifetimes,
    unnameable_types,
    unreachable_pub,
    unsafe_code,
    unused,
    unused_qualifications
)]

#[path = "../support/mod.rs"]
#[allow(missing_docs, missing_debug_implementations, missing_copy_implementations, unnameable_types, unreachable_pub)]
mod support;

/// Handlers.
pub mod handlers {
    use super::support::{Change, Topic};
    use rstream::{Context, HandlerOutcome, subscriber};

    /// Documented, so that nothing is missing.
    #[subscriber(Topic("inventory"))]
    pub async fn documented(change: &Change, ctx: &mut Context<'_>) -> HandlerOutcome {
        let _ = (change.sku, ctx.attempt());
        HandlerOutcome::ack()
    }

    #[subscriber(Topic("inventory"))]
    #[doc = "Documented below the attribute."]
    pub async fn documented_below(_: &Change) {}

    #[subscriber(Topic("inventory"))]
    #[cfg_attr(all(), doc = "Documented under a condition.")]
    pub async fn documented_conditionally(_: &Change) {}

    #[subscriber(Topic("inventory"))]
    #[allow(missing_docs, unused_variables)]
    pub async fn allowed(change: &Change) {
        let unused = 1;
    }

    #[subscriber(Topic("inventory"))]
    #[expect(missing_docs, unused_variables, reason = "one is of the item, one of the body")]
    pub async fn expected(change: &Change) {}

    #[subscriber(Topic("inventory"))]
    #[expect(dead_code)]
    async fn never_included(_: &Change) {}

    #[subscriber(Topic("inventory"))]
    #[allow(dead_code)]
    async fn never_included_either(_: &Change) {}

    /// Still there.
    #[subscriber(Topic("inventory"))]
    #[deprecated]
    pub async fn outdated(_: &Change) {}

    /// What the function denies, it denies in its body.
    #[subscriber(Topic("inventory"))]
    #[deny(unused_must_use)]
    #[inline]
    pub async fn denying(_: &Change) {}
}

fn main() {
    support::include(handlers::documented);
}
