//! The store on a DynamoDB in this process: its conditions decide, as they do on a server.

#![expect(clippy::unwrap_used, reason = "a failed call fails the test")]

#[path = "../damaged/mod.rs"]
mod damaged;
mod expression;
mod fake;
mod rows;

use lease_core::conformance::{Case, Subject, Violation};

use crate::fake::{Fake, Refusals, TABLE};

async fn check(case: Case) -> Result<(), Violation> {
    let fake = Fake::new(Refusals::WithItem);
    let [one, other] = [(); 2].map(|()| fake.store());
    case.run(&Subject::new(&one).other_instance(&other)).await
}

lease_core::conformance_tests!(
    #[tokio::test(start_paused = true)]
    check
);

#[tokio::test(start_paused = true)]
async fn no_call_overwrites_an_item_that_it_cannot_understand() {
    let config = Fake::new(Refusals::WithItem).config();
    damaged::no_call_overwrites_an_item_that_it_cannot_understand(&config, TABLE, "s").await;
}

#[tokio::test(start_paused = true)]
async fn where_refusals_show_no_item_one_that_cannot_be_understood_is_read_and_told_all_the_same() {
    let config = Fake::new(Refusals::Bare).config();
    damaged::no_call_overwrites_an_item_that_it_cannot_understand(&config, TABLE, "s").await;
}
