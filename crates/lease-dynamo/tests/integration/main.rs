//! The store on real DynamoDB servers, two of them: the whole conformance suite, and what only a server shows.
//! `cargo xtask integration` starts both.

#![cfg(feature = "integration")]
#![expect(clippy::unwrap_used, reason = "a failed call fails the test")]

#[path = "../damaged/mod.rs"]
mod damaged;
mod many;
mod rows;
mod server;
mod tables;

use lease_core::conformance::{Case, Subject, Violation};
use lease_dynamo::DynamoLeaseStore;

use crate::server::{SHARED, Server, TTL, WallClock, unique};

/// The whole suite, on two instances whose wall clocks differ by hours: no clock of theirs is compared.
async fn conforms(server: Server, case: Case) -> Result<(), Violation> {
    let [one, other] = [-3, 5].map(|hours_ahead| {
        DynamoLeaseStore::new(&server.config_at(WallClock { hours_ahead }), SHARED)
    });
    one.create_table_if_missing().await.unwrap();
    let subject = Subject::new(&one).other_instance(&other);
    let subject = subject.ttl(TTL).namespace(unique("run"));
    case.run(&subject).await
}

macro_rules! on_each_server {
    ($($of:ident::$test:ident)*) => {
        on_each_server!(@ first "DYNAMODB_ENDPOINT" $($of::$test)*);
        on_each_server!(@ second "DYNAMODB_SECOND_ENDPOINT" $($of::$test)*);
    };
    (@ $module:ident $variable:literal $($of:ident::$test:ident)*) => {
        mod $module {
            use super::*;

            const SERVER: Server = Server($variable);

            async fn check(case: Case) -> Result<(), Violation> {
                conforms(SERVER, case).await
            }

            lease_core::conformance_tests!(#[tokio::test] check);

            $(
                #[tokio::test]
                async fn $test() {
                    super::$of::$test(SERVER).await;
                }
            )*
        }
    };
}

on_each_server! {
    tables::racing_instances_create_one_table
    tables::a_table_with_another_key_is_refused_by_name
    tables::a_missing_table_is_named_with_what_to_do
    rows::one_of_sixteen_instances_that_race_wins
    many::five_thousand_rows_are_read_at_once
    rows::no_call_overwrites_an_item_that_it_cannot_understand
    rows::all_rows_are_shown_as_they_are
    rows::a_row_deleted_by_hand_is_its_holders_at_once_and_nobody_elses_meanwhile
    rows::a_finished_row_that_was_cleared_away_by_oneself_reads_as_never_leased
}
