//! The suite that every store must pass: what each case is called, and how to run them.
//!
//! Each case is a function of a [`Subject`], which holds the store under test and what the suite has
//! to know of it. [`conformance_tests!`](crate::conformance_tests) makes a test of each; [`CASES`]
//! lists them for any other way of running them. The cases use keys of their own, so they can run
//! at once and on rows that are shared with others.
//!
//! The suite trusts no time to have passed. It waits, in small steps and with much patience, until
//! what is due has happened. Where something must *not* have happened yet, it counts, on the clock
//! of the store, from before the call that began it; an attempt that took so long that it
//! might have happened has decided nothing, and is made again. So a failure is the store's, however
//! busy the machine is. A store on a clock that a test can move is tested in no time.
//!
//! Most cases know what each answer must be. Those of [`linearizability`] draw the calls of several
//! owners from a seed, and look for an order of the calls that explains whatever was answered.
//!
//! ```
//! use lease_core::conformance::{Case, Subject, Violation};
//! # mod lease_memory {
//! #     // The real one depends on this crate.
//! #     #[derive(Debug)]
//! #     pub struct MemoryLeaseStore;
//! #     impl MemoryLeaseStore { pub fn new() -> Self { Self } }
//! #     use lease_core::*;
//! #     #[async_trait]
//! #     impl LeaseStore for MemoryLeaseStore {
//! #         async fn acquire(&self, _: &LeaseKey, _: &str, _: std::time::Duration) -> Result<Option<Holder>, LeaseError> { Ok(None) }
//! #         async fn renew(&self, _: &LeaseKey, _: &Holder, _: std::time::Duration) -> Result<Renewal, LeaseError> { Ok(Renewal::Lost) }
//! #         async fn checkpoint(&self, _: &LeaseKey, _: &Holder, _: &Checkpoint) -> Result<bool, LeaseError> { Ok(false) }
//! #         async fn read(&self, _: &LeaseKey) -> Result<LeaseState, LeaseError> { Ok(LeaseState::default()) }
//! #         async fn release(&self, _: &LeaseKey, _: &Holder) -> Result<(), LeaseError> { Ok(()) }
//! #     }
//! # }
//! use lease_memory::MemoryLeaseStore;
//!
//! /// Sets up a store for one case.
//! async fn check(case: Case) -> Result<(), Violation> {
//!     let store = MemoryLeaseStore::new();
//!     case.run(&Subject::new(&store)).await
//! }
//!
//! lease_core::conformance_tests!(#[tokio::test(start_paused = true)] check);
//! # fn main() {}
//! ```

pub mod acquiring;
pub mod checkpoints;
pub mod fencing;
pub mod hand_over;
pub mod linearizability;
pub mod listing;
pub mod repeats;
mod subject;
mod trial;
mod violation;

use std::fmt;
use std::pin::Pin;

pub use self::subject::{Clock, Subject};
pub use self::violation::Violation;

type Run =
    for<'a> fn(&'a Subject<'a>) -> Pin<Box<dyn Future<Output = Result<(), Violation>> + Send + 'a>>;

/// One case of the suite, by name.
#[derive(Clone, Copy)]
pub struct Case {
    name: &'static str,
    run: Run,
}

impl Case {
    #[doc(hidden)]
    pub const fn new(name: &'static str, run: Run) -> Self {
        Self { name, run }
    }

    /// The name of its function, a sentence that says what it checks.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the case.
    ///
    /// # Errors
    ///
    /// What the case found wrong with the store, with the name of the case.
    pub async fn run(&self, subject: &Subject<'_>) -> Result<(), Violation> {
        let outcome = (self.run)(subject).await;
        outcome.map_err(|violation| violation.in_case(self.name))
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Case({})", self.name)
    }
}

/// Every case of the suite.
pub const CASES: &[Case] = crate::conformance_tests!(@cases);

/// Runs every case, one after the other; what each found wrong, nothing for a store that keeps the
/// contract.
pub async fn run_all(subject: &Subject<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for case in CASES {
        violations.extend(case.run(subject).await.err());
    }
    violations
}

/// Makes a test of every case of the suite.
///
/// It takes the attributes that make an async function a test, and the path of an
/// `async fn(Case) -> Result<(), Violation>` that sets up a store and runs the case on it; see
/// [`conformance`](crate::conformance) for an example. Each test bears the name of its case. Two stores
/// in one file go into two modules.
#[macro_export]
macro_rules! conformance_tests {
    (@cases) => { $crate::conformance_tests!(@list cases ()) };
    (@list $mode:tt $with:tt) => {
        $crate::__each_conformance_case! { $mode $with
            acquiring::a_shard_that_nobody_leased_is_granted
            acquiring::a_live_lease_is_refused_to_others_and_to_its_own_name
            acquiring::one_of_sixteen_that_race_for_a_free_shard_wins
            acquiring::one_of_sixteen_that_race_for_an_expired_lease_wins
            acquiring::a_lease_that_nobody_renews_expires
            acquiring::an_expired_lease_is_taken_over
            acquiring::a_renewed_lease_outlives_its_first_ttl
            acquiring::an_expired_lease_that_nobody_took_is_still_its_holders
            acquiring::a_late_renewal_and_an_acquisition_do_not_both_succeed
            acquiring::a_released_lease_is_free_at_once
            acquiring::epochs_outlive_release_and_expiry
            acquiring::the_same_shard_of_two_streams_is_two_leases
            acquiring::an_owner_without_a_name_and_a_lease_without_a_time_are_refused
            fencing::a_holder_whose_lease_was_taken_over_changes_nothing
            fencing::an_earlier_acquisition_of_the_same_owner_changes_nothing
            fencing::a_holder_that_released_changes_nothing
            fencing::owner_and_epoch_must_both_be_the_present_holders
            fencing::a_holder_of_a_shard_that_nobody_leased_changes_nothing
            checkpoints::a_checkpoint_of_any_form_reads_back_as_it_was
            checkpoints::checkpoints_outlive_a_release
            checkpoints::checkpoints_outlive_an_expiry
            checkpoints::no_sequence_numbers_are_compared
            checkpoints::a_checkpoint_that_lands_late_changes_nothing
            checkpoints::a_checkpoint_is_sent_when_it_is_first_polled
            checkpoints::checkpoints_that_race_end_at_the_one_sent_last
            checkpoints::the_order_of_checkpoints_begins_anew_with_each_acquisition
            checkpoints::a_checkpoint_renews_nothing
            checkpoints::a_shard_that_was_read_to_its_end_reads_as_finished
            listing::an_unknown_key_reads_as_never_leased
            listing::a_read_shows_what_was_answered_before_it
            listing::thousands_of_keys_are_read_in_their_order
            listing::no_keys_and_repeated_keys_are_answered_one_for_one
            listing::a_finished_shard_that_nobody_holds_is_forgotten
            listing::a_shard_that_is_held_or_unfinished_is_not_forgotten
            linearizability::calls_on_one_shard_take_effect_one_after_the_other
            linearizability::calls_on_three_shards_take_effect_one_after_the_other
            linearizability::calls_that_are_cancelled_take_effect_whole_or_not_at_all
            linearizability::calls_on_leases_that_expire_take_effect_one_after_the_other
            hand_over::an_ask_reaches_the_holder_with_its_next_renewal
            hand_over::one_asks_at_a_time
            hand_over::one_of_sixteen_that_race_to_ask_wins
            hand_over::only_what_another_holds_is_asked_for
            hand_over::an_ask_that_is_not_made_again_lapses
            hand_over::an_ask_that_is_made_again_stands
            hand_over::a_release_reserves_the_shard_for_its_asker
            hand_over::a_reservation_runs_out
            hand_over::a_take_over_ends_the_ask
            repeats::a_call_sent_twice_answers_as_it_did
            repeats::a_cancelled_acquisition_takes_the_lease_or_does_not
            repeats::a_cancelled_checkpoint_never_undoes_a_later_one
            repeats::a_cancelled_release_can_be_sent_again
        }
    };
    ($(#[$test:meta])+ $check:path) => {
        $crate::conformance_tests! { @list tests ([$(#[$test])+] $check) }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __each_conformance_case {
    (cases () $($module:ident :: $case:ident)*) => {
        &[$($crate::__conformance_case!($module $case)),*]
    };
    (tests $with:tt $($module:ident :: $case:ident)*) => {
        $($crate::__conformance_test! { $with $module $case })*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_case {
    ($module:ident $case:ident) => {
        $crate::conformance::Case::new(stringify!($case), |subject| {
            ::std::boxed::Box::pin($crate::conformance::$module::$case(subject))
        })
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_test {
    (([$(#[$test:meta])+] $check:path) $module:ident $case:ident) => {
        $(#[$test])+
        async fn $case() -> ::std::result::Result<(), $crate::conformance::Violation> {
            $check($crate::__conformance_case!($module $case)).await
        }
    };
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_case_is_listed_once() {
        let sources = [
            include_str!("acquiring.rs"),
            include_str!("checkpoints.rs"),
            include_str!("fencing.rs"),
            include_str!("hand_over.rs"),
            include_str!("linearizability.rs"),
            include_str!("listing.rs"),
            include_str!("repeats.rs"),
        ];
        let written: BTreeSet<&str> = sources
            .iter()
            .flat_map(|source| source.split("\npub async fn ").skip(1))
            .filter_map(|rest| rest.split('(').next())
            .collect();
        let listed: BTreeSet<&str> = CASES.iter().map(Case::name).collect();
        assert_eq!(written, listed);
        assert_eq!(listed.len(), CASES.len());
    }
}
