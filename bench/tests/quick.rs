//! The benchmarks run: so little that their figures mean nothing.

use bench::{Effort, Group};

const QUICK: Effort = Effort {
    repetitions: 1,
    is_quick: true,
};

fn rows(group: Group) -> Vec<Vec<String>> {
    let table = group.run(QUICK).expect("each side runs");
    for row in table.rows() {
        for cell in row {
            assert!(!cell.contains("NaN") && !cell.contains("inf"), "{table}");
        }
    }
    table.rows().to_vec()
}

#[test]
fn records_a_second_are_compared_for_each_size_number_of_shards_and_payload() {
    let rows = rows(Group::Throughput).len();
    // Those of the middle size twice, since there are two ways to checkpoint.
    assert_eq!(rows, (3 + 1) * 3 * 2);
}

#[test]
fn latencies_are_compared_on_a_clock_that_jumps_over_pauses() {
    assert_eq!(rows(Group::Latency).len(), 3);
}

#[test]
fn a_listing_makes_as_many_calls_for_twenty_shards_as_for_one() {
    for row in rows(Group::Listing) {
        let calls: f64 = row[4].parse().unwrap();
        assert_eq!(calls, 1.0, "{row:?}");
        let [listings, reads] = [5, 6].map(|column| row[column].parse::<f64>().unwrap());
        assert_eq!(listings + reads, 1.0, "{row:?}");
    }
}
