//! The protocol keeps every promise in small worlds. `cargo run --release -p lease-model` explores larger ones.

use lease_model::{World, explore};

fn holds(world: World) {
    let explored = explore(&world);
    if let Some(finding) = explored.finding {
        panic!("not {}:\n{}", finding.invariant, finding.history.join("\n"));
    }
    // Fewer would mean that the world has come to a stop, and nothing was looked at.
    assert!(explored.states > 1_000, "{} states", explored.states);
    assert!(explored.depth > 20, "{} steps deep", explored.depth);
}

const LEASES: World = World {
    progress: true,
    ..World::of_leases("leases")
};
const RECORDS: World = World {
    renewals: 0,
    progress: true,
    ..World::new("records")
};

#[test]
fn renewals_and_take_overs_keep_the_lease_exclusive() {
    holds(LEASES);
}

#[test]
fn a_lost_answer_harms_nothing() {
    holds(World {
        lost_answers: 1,
        ..LEASES
    });
}

#[test]
fn a_call_that_is_sent_twice_harms_nothing() {
    holds(World {
        duplicates: 1,
        renewals: 0,
        ..LEASES
    });
}

#[test]
fn a_crash_harms_nothing() {
    holds(World {
        crashes: 1,
        renewals: 0,
        ..LEASES
    });
}

#[test]
fn three_instances_share_one_lease() {
    holds(World {
        instances: 3,
        grants: 1,
        renewals: 0,
        ..LEASES
    });
}

#[test]
fn two_shards_do_not_disturb_each_other() {
    holds(World {
        shards: 2,
        instances: 1,
        ..LEASES
    });
}

#[test]
fn two_instances_of_one_name_do_not_share_a_lease() {
    holds(World {
        twins: true,
        lost_answers: 1,
        renewals: 0,
        ..LEASES
    });
}

#[test]
fn an_ask_of_an_instance_that_died_blocks_nobody() {
    holds(World {
        asks: 1,
        crashes: 1,
        grants: 1,
        renewals: 0,
        ..LEASES
    });
}

#[test]
fn a_row_that_is_deleted_by_hand_costs_nobody_a_lease() {
    holds(World {
        deletions: 1,
        grants: 1,
        ..LEASES
    });
}

#[test]
fn a_finished_shard_that_was_forgotten_can_be_leased_again() {
    holds(World {
        forgets: 1,
        records: 1,
        grants: 1,
        ..RECORDS
    });
}

#[test]
fn no_record_is_lost_and_no_checkpoint_goes_back() {
    holds(World {
        records: 1,
        lost_answers: 1,
        ..RECORDS
    });
}

#[test]
fn answers_that_overtake_one_another_harm_nothing() {
    holds(World {
        calls_at_once: 2,
        grants: 1,
        renewals: 0,
        ..LEASES
    });
}
