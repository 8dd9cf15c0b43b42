//! The rules one by one; `simulation` runs them together on random reshardings.

mod simulation;

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use lease_core::Holder;

use super::*;

const NUMBERS: (&str, &str) = ("1000", "1999");

/// A stream, as one listing and one reading of the lease states show it.
struct Stream {
    start: Start,
    shards: Vec<ShardInfo>,
    states: BTreeMap<Arc<str>, LeaseState>,
    unknown: Option<&'static str>,
    history: History,
}

impl Stream {
    fn starting(start: Start) -> Self {
        Self {
            start,
            shards: Vec::new(),
            states: BTreeMap::new(),
            unknown: None,
            history: History::default(),
        }
    }

    /// At the tip.
    fn new() -> Self {
        Self::starting(Start::Latest)
    }

    fn open(mut self, id: &str, parents: &[&str]) -> Self {
        self.shards.push(ShardInfo {
            id: id.into(),
            parent: parents.first().map(|&parent| parent.into()),
            adjacent_parent: parents.get(1).map(|&parent| parent.into()),
            hash_keys: None,
            starting_sequence_number: NUMBERS.0.to_owned(),
            ending_sequence_number: None,
            ended_before_start: false,
        });
        self
    }

    fn closed(self, id: &str, parents: &[&str]) -> Self {
        let mut stream = self.open(id, parents);
        let shard = stream.shards.last_mut().unwrap();
        shard.ending_sequence_number = Some(NUMBERS.1.to_owned());
        stream
    }

    fn closed_before_start(self, id: &str, parents: &[&str]) -> Self {
        let mut stream = self.closed(id, parents);
        stream.shards.last_mut().unwrap().ended_before_start = true;
        stream
    }

    fn with(mut self, id: &str, state: LeaseState) -> Self {
        self.states.insert(id.into(), state);
        self
    }

    fn with_unknown_state(mut self, id: &'static str) -> Self {
        self.unknown = Some(id);
        self
    }

    /// Lists and reads the states so many times.
    fn listed(&mut self, times: usize) -> BTreeMap<String, Standing> {
        let mut standings = BTreeMap::new();
        let (unknown, states, never_leased) = (self.unknown, &self.states, LeaseState::default());
        let lookup = |shard: &str| {
            let state = states.get(shard).unwrap_or(&never_leased);
            (Some(shard) != unknown).then_some(state)
        };
        for _ in 0..times {
            self.history.list(self.shards.clone());
            let lineage = self.history.lineage(self.start, lookup);
            standings = lineage
                .standings(lookup)
                .map(|(shard, standing)| (shard.id.to_string(), standing))
                .collect();
        }
        standings
    }

    fn standing(&mut self, id: &str) -> Standing {
        self.listed(1).remove(id).unwrap()
    }

    fn forgettable(&mut self) -> Vec<Arc<str>> {
        let (states, never_leased) = (&self.states, LeaseState::default());
        self.history
            .forgettable(|shard| Some(states.get(shard).unwrap_or(&never_leased)))
    }
}

/// Leased once, released, nothing checkpointed.
fn leased() -> LeaseState {
    LeaseState {
        epoch: 1,
        ..LeaseState::default()
    }
}

fn at(checkpoint: Checkpoint) -> LeaseState {
    LeaseState {
        checkpoint: Some(checkpoint),
        ..leased()
    }
}

fn read_to(sequence_number: &str) -> LeaseState {
    at(Checkpoint::at(sequence_number))
}

fn finished() -> LeaseState {
    at(Checkpoint::shard_end())
}

fn held(state: LeaseState) -> LeaseState {
    let owner = "a".to_owned();
    LeaseState {
        holder: Some(Holder { owner, epoch: 1 }),
        live: true,
        ..state
    }
}

fn moment() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

fn opens(open_at: Position) -> Standing {
    Standing::Readable {
        open_at,
        warnings: Vec::new(),
    }
}

fn opens_after(sequence_number: &str) -> Standing {
    opens(Position::After(Checkpoint::at(sequence_number)))
}

fn opens_loudly(warning: Warning) -> Standing {
    Standing::Readable {
        open_at: Position::TrimHorizon,
        warnings: vec![warning],
    }
}

fn waits_on(parent: &str) -> Standing {
    Standing::Waiting { on: parent.into() }
}

#[test]
fn a_shard_without_parents_opens_at_the_start_position() {
    let table = [
        (Start::Latest, Position::Latest),
        (Start::TrimHorizon, Position::TrimHorizon),
        (
            Start::AtTimestamp(moment()),
            Position::AtTimestamp(moment()),
        ),
    ];
    for (start, position) in table {
        let mut stream = Stream::starting(start).open("0", &[]);
        assert_eq!(stream.standing("0"), opens(position));
    }
}

#[test]
fn a_shard_with_a_checkpoint_opens_there_whatever_the_start_position() {
    for start in [
        Start::Latest,
        Start::TrimHorizon,
        Start::AtTimestamp(moment()),
    ] {
        let mut stream = Stream::starting(start)
            .closed("parent", &[])
            .open("read", &["parent"])
            .open("at its tip", &["parent"])
            .with("parent", finished())
            .with("read", read_to("1500"))
            .with("at its tip", at(Checkpoint::at_timestamp(moment())));
        assert_eq!(stream.standing("read"), opens_after("1500"));
        let tip = Position::AtTimestamp(moment());
        assert_eq!(stream.standing("at its tip"), opens(tip));
        assert_eq!(stream.standing("parent"), Standing::Finished);
    }
}

#[test]
fn a_parent_that_was_ever_leased_is_read_to_its_end_before_its_children() {
    let unfinished = [
        leased(),
        held(leased()),
        read_to("1500"),
        at(Checkpoint::at_timestamp(moment())),
    ];
    for state in unfinished {
        let mut stream = Stream::new()
            .closed("parent", &[])
            .open("child", &["parent"])
            .with("parent", state);
        assert_eq!(stream.standing("child"), waits_on("parent"));
        stream.states.insert("parent".into(), finished());
        assert_eq!(stream.standing("child"), opens(Position::TrimHorizon));
    }
}

#[test]
fn a_merged_shard_waits_for_each_of_its_parents_in_play() {
    let mut stream = Stream::new()
        .closed("left", &[])
        .closed("right", &[])
        .open("child", &["left", "right"])
        .with("left", finished())
        .with("right", read_to("1500"));
    assert_eq!(stream.standing("child"), waits_on("right"));
    stream.states.insert("right".into(), finished());
    assert_eq!(stream.standing("child"), opens(Position::TrimHorizon));
    stream.states.remove("right");
    assert_eq!(stream.standing("child"), opens(Position::TrimHorizon));
}

#[test]
fn a_fresh_group_at_the_tip_passes_over_closed_shards_and_waits_for_none() {
    let mut stream = Stream::new()
        .closed("grandparent", &[])
        .closed("parent", &["grandparent"])
        .open("child", &["parent"])
        .open("sibling", &["parent"]);
    let standings = stream.listed(1);
    assert_eq!(standings["grandparent"], Standing::Finished);
    assert_eq!(standings["parent"], Standing::Finished);
    assert_eq!(standings["child"], opens(Position::Latest));
    assert_eq!(standings["sibling"], opens(Position::Latest));
}

#[test]
fn a_generation_that_nobody_leased_is_read_from_its_beginning_where_one_before_it_was() {
    let mut stream = Stream::new()
        .closed("grandparent", &[])
        .closed("parent", &["grandparent"])
        .open("child", &["parent"])
        .with("grandparent", finished());
    assert_eq!(stream.standing("parent"), opens(Position::TrimHorizon));
    assert_eq!(stream.standing("child"), waits_on("parent"));
}

#[test]
fn a_closed_shard_that_was_leased_while_it_was_open_is_read_at_the_tip_as_well() {
    let mut stream = Stream::new()
        .closed("parent", &[])
        .open("child", &["parent"])
        .with("parent", at(Checkpoint::at_timestamp(moment())));
    let tip = Position::AtTimestamp(moment());
    assert_eq!(stream.standing("parent"), opens(tip));
    // Its first reader died before it could checkpoint the moment, and so had handed over nothing.
    stream.states.insert("parent".into(), leased());
    assert_eq!(stream.standing("parent"), opens(Position::Latest));
    assert_eq!(stream.standing("child"), waits_on("parent"));
}

#[test]
fn a_start_in_the_past_brings_every_shard_into_play() {
    for start in [Start::TrimHorizon, Start::AtTimestamp(moment())] {
        let mut stream = Stream::starting(start)
            .closed("parent", &[])
            .open("child", &["parent"]);
        assert_eq!(stream.standing("parent"), opens(start.position()));
        assert_eq!(stream.standing("child"), waits_on("parent"));
        stream.states.insert("parent".into(), finished());
        assert_eq!(stream.standing("child"), opens(Position::TrimHorizon));
    }
}

#[test]
fn a_shard_known_to_have_closed_before_the_start_moment_is_passed_over() {
    let start = Start::AtTimestamp(moment());
    let mut stream = Stream::starting(start)
        .closed_before_start("parent", &[])
        .open("child", &["parent"]);
    assert_eq!(stream.standing("parent"), Standing::Finished);
    assert_eq!(stream.standing("child"), opens(start.position()));
    // A moment that moves with each deployment takes nothing back that the group has begun.
    stream.states.insert("parent".into(), read_to("1500"));
    assert_eq!(stream.standing("parent"), opens_after("1500"));
    assert_eq!(stream.standing("child"), waits_on("parent"));
}

#[test]
fn a_parent_that_is_no_longer_listed_and_was_never_leased_changes_nothing() {
    for start in [
        Start::Latest,
        Start::TrimHorizon,
        Start::AtTimestamp(moment()),
    ] {
        let mut stream = Stream::starting(start).open("child", &["gone", "gone too"]);
        assert_eq!(stream.standing("child"), opens(start.position()));
    }
}

#[test]
fn a_finished_parent_that_is_no_longer_listed_opens_its_child_at_the_beginning() {
    for state in [finished(), held(finished())] {
        let mut stream = Stream::new().open("child", &["gone"]).with("gone", state);
        assert_eq!(stream.standing("child"), opens(Position::TrimHorizon));
    }
}

#[test]
fn an_unfinished_parent_that_is_no_longer_listed_costs_a_warning() {
    for state in [
        leased(),
        read_to("1500"),
        at(Checkpoint::at_timestamp(moment())),
    ] {
        let mut stream = Stream::new().open("child", &["gone"]).with("gone", state);
        let warning = Warning::RestExpired("gone".into());
        assert_eq!(stream.standing("child"), opens_loudly(warning));
        // Once the child has a checkpoint, all is said.
        stream.states.insert("child".into(), read_to("1500"));
        assert_eq!(stream.standing("child"), opens_after("1500"));
    }
}

#[test]
fn a_parent_that_is_no_longer_listed_blocks_while_a_live_instance_holds_it() {
    let mut stream = Stream::new()
        .open("child", &["gone"])
        .with("gone", held(read_to("1500")));
    assert_eq!(stream.standing("child"), waits_on("gone"));
}

#[test]
fn a_generation_that_went_unseen_leaves_its_children_to_the_start_position() {
    // Both "grandparent" (finished) and "parent" (never leased) have passed out of retention while
    // nobody read: nothing that is left says that the one came from the other.
    let mut stream = Stream::new()
        .open("child", &["parent"])
        .with("grandparent", finished());
    assert_eq!(stream.standing("child"), opens(Position::Latest));
}

#[test]
fn a_sequence_number_outside_its_shard_belongs_to_an_earlier_stream() {
    let table = [
        ("999", false),
        ("1000", true),
        ("01000", true),
        ("1999", true),
        ("2000", false),
        ("10000", false),
        ("0", false),
    ];
    for (sequence_number, belongs) in table {
        let mut stream = Stream::new()
            .closed("parent", &[])
            .open("child", &["parent"])
            .with("parent", read_to(sequence_number));
        let expected = if belongs {
            opens_after(sequence_number)
        } else {
            opens_loudly(Warning::EarlierStream(Checkpoint::at(sequence_number)))
        };
        assert_eq!(stream.standing("parent"), expected, "{sequence_number}");
        assert_eq!(stream.standing("child"), waits_on("parent"));
    }
}

#[test]
fn an_end_that_lies_before_the_start_says_nothing_of_a_sequence_number() {
    for (sequence_number, belongs) in [("999", false), ("1000", true), ("2000", true)] {
        let mut stream = Stream::new()
            .closed("0", &[])
            .with("0", read_to(sequence_number));
        stream.shards[0].ending_sequence_number = Some("922".to_owned());
        let is_after = stream.standing("0") == opens_after(sequence_number);
        assert_eq!(is_after, belongs, "{sequence_number}");
    }
}

#[test]
fn an_open_shard_has_no_greatest_sequence_number() {
    for (sequence_number, belongs) in [("999", false), ("1000", true), ("10000", true)] {
        let mut stream = Stream::new()
            .open("0", &[])
            .with("0", read_to(sequence_number));
        let is_after = stream.standing("0") == opens_after(sequence_number);
        assert_eq!(is_after, belongs, "{sequence_number}");
    }
}

#[test]
fn a_text_that_is_no_number_lies_outside_of_every_shard() {
    let mut stream = Stream::new().open("0", &[]);
    let shard = stream.shards.pop().unwrap();
    for text in ["", "-1500", "1500x", "LATEST", "١٥٠٠"] {
        assert!(!shard.contains(text), "{text}");
    }
    let garbled = ShardInfo {
        starting_sequence_number: "?".to_owned(),
        ..shard
    };
    assert!(!garbled.contains("1500"));
}

#[test]
fn a_shard_end_of_a_shard_that_stays_open_belongs_to_an_earlier_stream() {
    let mut stream = Stream::new().open("0", &[]).with("0", finished());
    assert_eq!(stream.listed(10)["0"], Standing::Finished);
    let warning = Warning::EarlierStream(Checkpoint::shard_end());
    assert_eq!(stream.standing("0"), opens_loudly(warning.clone()));
    assert_eq!(stream.standing("0"), opens_loudly(warning));
    stream.states.insert("0".into(), read_to("1500"));
    assert_eq!(stream.standing("0"), opens_after("1500"));
}

#[test]
fn a_listing_from_before_a_shard_closed_does_not_refute_its_end() {
    let mut stream = Stream::new().open("parent", &[]);
    assert_eq!(stream.listed(20)["parent"], opens(Position::Latest));
    // It is split, and its reader reaches the end, between this listing and the reading of states.
    stream.states.insert("parent".into(), finished());
    assert_eq!(stream.standing("parent"), Standing::Finished);
    stream.shards.clear();
    let mut stream = stream.closed("parent", &[]).open("child", &["parent"]);
    assert_eq!(stream.listed(20)["parent"], Standing::Finished);
    assert_eq!(stream.standing("child"), opens(Position::TrimHorizon));
}

#[test]
fn states_read_again_without_a_new_listing_do_not_refute_an_end() {
    let mut stream = Stream::new().open("0", &[]).with("0", finished());
    stream.history.list(stream.shards.clone());
    for _ in 0..20 {
        let lookup = |shard: &str| stream.states.get(shard);
        let lineage = stream.history.lineage(Start::Latest, lookup);
        assert_eq!(lineage.standing("0", lookup), Some(Standing::Finished));
    }
}

#[test]
fn a_shard_with_children_is_closed_even_without_an_ending_sequence_number() {
    let mut stream = Stream::new()
        .open("parent", &[])
        .open("child", &["parent"])
        .with("parent", finished());
    assert_eq!(stream.listed(20)["parent"], Standing::Finished);
    assert_eq!(stream.standing("child"), opens(Position::TrimHorizon));
}

#[test]
fn a_shard_of_an_earlier_stream_is_read_before_its_children_and_is_no_past_to_them() {
    let mut stream = Stream::new()
        .closed("parent", &[])
        .open("child", &["parent"])
        .with("parent", read_to("5"))
        .with("child", read_to("7"));
    let warning = Warning::EarlierStream(Checkpoint::at("5"));
    assert_eq!(stream.standing("parent"), opens_loudly(warning));
    assert_eq!(stream.standing("child"), waits_on("parent"));
    stream.states.insert("parent".into(), finished());
    let warning = Warning::EarlierStream(Checkpoint::at("7"));
    assert_eq!(stream.standing("child"), opens_loudly(warning));
}

#[test]
fn a_new_start_position_does_not_dig_up_what_a_running_group_has_passed_over() {
    let mut stream = Stream::starting(Start::TrimHorizon)
        .closed("grandparent", &[])
        .closed("parent", &["grandparent"])
        .open("read", &["parent"])
        .open("unread", &["parent"])
        .with("read", read_to("1500"));
    let standings = stream.listed(1);
    assert_eq!(standings["grandparent"], Standing::Finished);
    assert_eq!(standings["parent"], Standing::Finished);
    assert_eq!(standings["read"], opens_after("1500"));
    assert_eq!(standings["unread"], opens(Position::TrimHorizon));
}

#[test]
fn a_child_that_was_only_acquired_puts_no_parent_into_the_past() {
    let mut stream = Stream::starting(Start::TrimHorizon)
        .closed("parent", &[])
        .open("child", &["parent"])
        .with("child", held(leased()));
    assert_eq!(stream.standing("parent"), opens(Position::TrimHorizon));
    assert_eq!(stream.standing("child"), waits_on("parent"));
}

#[test]
fn a_shard_of_unknown_state_is_left_alone_and_its_descendants_wait() {
    let mut stream = Stream::new()
        .closed("parent", &[])
        .closed("child", &["parent"])
        .open("grandchild", &["child"])
        .open("stranger", &[])
        .with_unknown_state("parent");
    let standings = stream.listed(1);
    assert_eq!(standings["parent"], waits_on("parent"));
    assert_eq!(standings["child"], waits_on("parent"));
    assert_eq!(standings["grandchild"], waits_on("child"));
    assert_eq!(standings["stranger"], opens(Position::Latest));

    let mut stream = Stream::new()
        .open("child", &["gone"])
        .with_unknown_state("gone");
    assert_eq!(stream.standing("child"), waits_on("gone"));
}

#[test]
fn a_reader_asks_again_with_the_states_that_it_has_just_read() {
    let mut stream = Stream::new()
        .closed("parent", &[])
        .open("child", &["parent"]);
    stream.history.list(stream.shards.clone());
    let never_leased = LeaseState::default();
    let lineage = stream
        .history
        .lineage(Start::Latest, |_| Some(&never_leased));
    let ask = |parent: LeaseState| {
        let child = held(leased());
        let fresh = BTreeMap::from([("parent", parent), ("child", child)]);
        lineage.standing("child", |shard| fresh.get(shard))
    };
    assert_eq!(ask(never_leased.clone()), Some(opens(Position::Latest)));
    // Another instance has leased the parent since, by a listing from before it closed.
    assert_eq!(ask(held(leased())), Some(waits_on("parent")));
    assert_eq!(ask(finished()), Some(opens(Position::TrimHorizon)));
    assert_eq!(lineage.standing("no such shard", |_| None), None);
}

#[test]
fn shards_that_are_each_others_parents_wait_and_hang_nobody() {
    for start in [Start::Latest, Start::TrimHorizon] {
        let mut stream = Stream::starting(start)
            .open("its own parent", &["its own parent"])
            .open("hen", &["egg"])
            .open("egg", &["hen"])
            .open("chick", &["egg"])
            .with("hen", leased());
        let standings = stream.listed(1);
        assert_eq!(standings["hen"], waits_on("egg"));
        assert_eq!(standings["egg"], waits_on("hen"));
        assert_eq!(standings["chick"], waits_on("egg"));
        assert_eq!(standings.len(), 4);
    }
}

#[test]
fn a_chain_of_thousands_of_generations_is_walked_without_recursion() {
    let names: Vec<String> = (0..5_000)
        .map(|generation| format!("{generation}"))
        .collect();
    let mut stream = Stream::new().closed("0", &[]).with("0", finished());
    for pair in names.windows(2) {
        stream = stream.closed(&pair[1], &[&pair[0]]);
    }
    let standings = stream.listed(1);
    assert_eq!(standings["0"], Standing::Finished);
    assert_eq!(standings["1"], opens(Position::TrimHorizon));
    assert_eq!(standings["4999"], waits_on("4998"));
}

#[test]
fn a_shard_that_is_listed_twice_stands_once() {
    let mut stream = Stream::new().open("0", &[]).open("0", &["elsewhere"]);
    assert_eq!(stream.standing("0"), opens(Position::Latest));
    assert_eq!(stream.history.shards_to_read().count(), 1);
}

#[test]
fn a_finished_row_is_forgotten_after_ten_listings_once_every_child_has_a_checkpoint() {
    let mut stream = Stream::new()
        .closed("parent", &[])
        .open("left", &["parent"])
        .open("right", &["parent"])
        .with("parent", finished())
        .with("left", read_to("1500"));
    stream.listed(20);
    assert!(stream.forgettable().is_empty());
    stream.shards.remove(0);
    stream.listed(20);
    assert!(stream.forgettable().is_empty(), "right has no checkpoint");
    stream.states.insert("right".into(), held(leased()));
    assert!(stream.forgettable().is_empty(), "right has no checkpoint");
    stream.states.insert("right".into(), read_to("1500"));
    assert_eq!(stream.forgettable(), [Arc::from("parent")]);
    stream.states.remove("parent");
    assert!(stream.forgettable().is_empty());
    assert_eq!(stream.standing("left"), opens_after("1500"));
}

#[test]
fn nine_listings_without_a_shard_do_not_forget_it_and_one_with_it_counts_anew() {
    let mut stream = Stream::new()
        .closed("parent", &[])
        .open("child", &["parent"])
        .with("parent", finished())
        .with("child", read_to("1500"));
    stream.listed(1);
    for _ in 0..2 {
        let parent = stream.shards.remove(0);
        stream.listed(9);
        assert!(stream.forgettable().is_empty());
        stream.shards.insert(0, parent);
        stream.listed(1);
    }
    stream.shards.remove(0);
    stream.listed(10);
    assert_eq!(stream.forgettable(), [Arc::from("parent")]);
}

#[test]
fn a_row_that_is_unfinished_held_or_unknown_is_not_forgotten() {
    for state in [leased(), read_to("1500"), held(finished())] {
        let mut stream = Stream::new()
            .open("child", &["gone"])
            .with("gone", state)
            .with("child", read_to("1500"));
        stream.listed(20);
        assert!(stream.forgettable().is_empty());
    }
    let mut stream = Stream::new()
        .open("child", &["gone"])
        .with("gone", finished())
        .with("child", read_to("1500"));
    stream.listed(20);
    assert!(stream.history.forgettable(|_| None).is_empty());
}

#[test]
fn a_parent_from_before_the_first_listing_is_forgotten_too() {
    let mut stream = Stream::new()
        .open("child", &["gone"])
        .with("gone", finished())
        .with("child", read_to("1500"));
    stream.listed(10);
    assert_eq!(stream.forgettable(), [Arc::from("gone")]);
}

#[test]
fn a_row_that_the_store_does_not_forget_is_offered_once() {
    let mut stream = Stream::new()
        .open("child", &["gone"])
        .with("gone", finished())
        .with("child", read_to("1500"));
    stream.listed(10);
    assert_eq!(stream.forgettable(), [Arc::from("gone")]);
    assert_eq!(stream.forgettable(), [Arc::from("gone")]);
    stream.history.done_with("gone");
    stream.listed(20);
    assert!(stream.forgettable().is_empty());
}

#[test]
fn what_is_remembered_does_not_grow_with_the_generations() {
    for store_forgets in [true, false] {
        let mut stream = Stream::new().open("0", &[]).with("0", finished());
        for generation in 1..1_000 {
            let (id, parent) = (generation.to_string(), (generation - 1).to_string());
            stream.shards.clear();
            stream = stream.open(&id, &[&parent]);
            // Every third is never read, and its rest passes out of retention.
            if generation % 3 != 0 {
                stream = stream.with(&id, finished());
            }
            stream.listed(1);
            for shard in stream.forgettable() {
                if store_forgets {
                    stream.states.remove(&shard);
                }
                stream.history.done_with(&shard);
            }
            assert!(stream.history.shards_to_read().count() <= 12);
        }
    }
}

/// Run it by name, with `--release` and `--nocapture`, for a figure.
#[test]
fn five_thousand_shards_are_judged_in_one_go() {
    let mut stream = Stream::new();
    for shard in 0..5_000 {
        let id = format!("shardId-{shard:012}");
        let parent = format!("shardId-{:012}", shard / 2);
        let parents = [parent.as_str()];
        let parents = if shard == 0 { &[][..] } else { &parents };
        let (is_open, state) = match shard {
            0..2_500 => (false, finished()),
            _ => (true, read_to("1500")),
        };
        stream = if is_open {
            stream.open(&id, parents)
        } else {
            stream.closed(&id, parents)
        };
        stream = stream.with(&id, state);
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "a figure to print, not to decide by"
    )]
    let began = std::time::Instant::now();
    let standings = stream.listed(20);
    println!("5,000 shards: {:?} a listing", began.elapsed() / 20);
    let readable = |standing: &&Standing| **standing == opens_after("1500");
    assert_eq!(standings.values().filter(readable).count(), 2_500);
}
