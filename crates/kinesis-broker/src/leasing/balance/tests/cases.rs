//! Cases with names: what one instance decides on one listing, and small fleets followed to their end.

use std::time::Duration;

use lease_core::LeaseKey;
use tokio::time::Instant;

use super::super::{Balance, Claim, Plan, Shard};
use super::world::{Manners, World};

/// A listing of one stream, shard by shard; names and asks are spelt out.
#[derive(Clone, Debug, Default)]
struct Listing(Vec<(LeaseKey, Claim<'static>, Option<&'static str>)>);

impl Listing {
    /// The next `count` shards.
    fn with(mut self, count: usize, claim: Claim<'static>) -> Self {
        for _ in 0..count {
            let key = LeaseKey::new("inventory", format!("shard-{:02}", self.0.len()));
            self.0.push((key, claim, None));
        }
        self
    }

    fn held(self, count: usize, owner: &'static str) -> Self {
        self.with(count, Claim::Held { owner })
    }

    fn mine(self, count: usize) -> Self {
        self.with(count, Claim::Mine)
    }

    fn free(self, count: usize) -> Self {
        self.with(count, Claim::Free { takeable: true })
    }

    /// An ask on the given shards.
    fn asked(mut self, shards: impl IntoIterator<Item = usize>, by: &'static str) -> Self {
        for shard in shards {
            self.0[shard].2 = Some(by);
        }
        self
    }
}

/// An instance called `me`, and a clock.
struct Instance {
    balance: Balance,
    now: Instant,
}

impl Instance {
    fn new() -> Self {
        Self {
            balance: Balance::new("me"),
            now: Instant::now(),
        }
    }

    /// One that has seen the members of this listing for long.
    fn that_knows(listing: &Listing) -> Self {
        let mut instance = Self::new();
        instance.sees(listing);
        instance.after(60.0);
        instance
    }

    fn after(&mut self, seconds: f64) -> &mut Self {
        self.now += Duration::from_secs_f64(seconds);
        self
    }

    fn sees(&mut self, listing: &Listing) -> Plan {
        let shards: Vec<_> = (listing.0.iter())
            .map(|(key, claim, asked_by)| Shard {
                key,
                claim: *claim,
                asked_by: *asked_by,
            })
            .collect();
        self.balance.decide(self.now, &shards)
    }
}

fn shards(keys: &[LeaseKey]) -> Vec<&str> {
    let mut shards: Vec<_> = keys.iter().map(LeaseKey::shard).collect();
    shards.sort_unstable();
    shards
}

fn given(plan: &Plan) -> Vec<(&str, &str)> {
    let given = plan.hand_over.iter();
    given
        .map(|gift| (gift.key.shard(), gift.to.as_str()))
        .collect()
}

#[test]
fn a_lone_instance_takes_everything_at_once() {
    let plan = Instance::new().sees(&Listing::default().free(40));
    assert_eq!(plan.take.len(), 40);
    assert_eq!(plan.look_again_in, None);
}

#[test]
fn a_newcomer_makes_itself_known_by_two_asks_and_then_asks_for_its_share() {
    let listing = Listing::default().held(10, "a").held(10, "b");
    let mut newcomer = Instance::new();
    let first = newcomer.sees(&listing);
    assert_eq!(first.ask.len(), 2);
    assert_eq!(first.look_again_in, Some(Duration::from_secs(1)));

    let place = |key| listing.0.iter().position(|(other, ..)| other == key);
    let asked: Vec<_> = first.ask.iter().filter_map(place).collect();
    let listing = listing.asked(asked, "me");
    let plan = newcomer.after(1.0).sees(&listing);
    assert_eq!(
        shards(&plan.ask),
        shards(&first.ask),
        "repeated, and no other"
    );
    assert_eq!(plan.look_again_in, Some(Duration::from_millis(2_500)));

    let plan = newcomer.after(2.5).sees(&listing);
    assert_eq!(plan.ask.len(), 6, "7, 7 and 6");
    assert!(first.ask.iter().all(|key| plan.ask.contains(key)));
}

#[test]
fn a_holder_hands_over_what_is_asked_and_falls_to_the_asker_once_the_membership_has_settled() {
    let listing = Listing::default().mine(4).held(4, "b");
    let mut holder = Instance::that_knows(&listing);
    let asked = listing.asked([1, 2], "c").asked([5], "c");
    let plan = holder.sees(&asked);
    assert_eq!(given(&plan), []);
    assert_eq!(plan.look_again_in, Some(Duration::from_millis(3_500)));
    let plan = holder.after(3.5).sees(&asked);
    assert_eq!(
        given(&plan),
        [("shard-01", "c")],
        "one of each holder, 3, 3 and 2"
    );
}

#[test]
fn hand_overs_wait_for_a_restless_membership_only_so_long() {
    let askers = ["c", "d", "e", "f", "g"];
    let mut holder = Instance::that_knows(&Listing::default().mine(12));
    let mut listing = Listing::default().mine(12);
    let mut handed_over = Vec::new();
    for (shard, asker) in askers.iter().enumerate() {
        listing = listing.asked([shard], asker);
        handed_over.push(holder.sees(&listing).hand_over.len());
        holder.after(3.0);
    }
    assert_eq!(handed_over, [0, 0, 0, 4, 5]);
}

#[test]
fn an_ask_that_came_too_late_is_not_served() {
    let listing = Listing::default().mine(4).held(3, "b").asked([0, 1], "b");
    let plan = Instance::that_knows(&listing).sees(&listing);
    assert_eq!(given(&plan), []);
}

#[test]
fn of_two_askers_the_poorer_is_served_first() {
    let listing = Listing::default().mine(5).held(3, "a").held(2, "b");
    let listing = listing.asked([0], "a").asked([1, 2], "b");
    let plan = Instance::that_knows(&listing).sees(&listing);
    assert_eq!(given(&plan), [("shard-01", "b")], "4, 3 and 3");
}

#[test]
fn a_shard_whose_hand_over_was_declined_stays_and_another_goes() {
    let listing = Listing::default().with(1, Claim::Kept).mine(5);
    let listing = listing.held(1, "b").asked([0, 3], "b");
    let plan = Instance::that_knows(&listing).sees(&listing);
    assert_eq!(given(&plan), [("shard-03", "b")]);
}

#[test]
fn a_shard_on_its_way_counts_for_its_receiver() {
    let listing = Listing::default().mine(4).with(2, Claim::Going { to: "b" });
    let listing = listing.held(1, "b").asked([0], "b");
    let plan = Instance::that_knows(&listing).sees(&listing);
    assert_eq!(given(&plan), [], "4 and 3");
}

#[test]
fn a_listing_older_than_a_hand_over_does_not_give_the_same_twice() {
    let listing = Listing::default().mine(6).asked([0, 1, 2, 3], "b");
    let mut holder = Instance::that_knows(&listing);
    assert_eq!(holder.sees(&listing).hand_over.len(), 3);
    let outdated = Listing::default().held(3, "me").mine(3);
    let outdated = outdated.asked([0, 1, 2, 3], "b");
    assert_eq!(given(&holder.after(0.5).sees(&outdated)), []);
}

#[test]
fn what_brought_nothing_for_long_is_not_asked_for_again_but_another_shard_is() {
    let listing = Listing::default().held(4, "a").mine(2).asked([2], "me");
    let mut asker = Instance::new();
    assert_eq!(shards(&asker.sees(&listing).ask), ["shard-02"]);
    assert_eq!(shards(&asker.after(24.0).sees(&listing).ask), ["shard-02"]);
    let plan = asker.after(1.0).sees(&listing);
    assert_eq!(plan.ask.len(), 1);
    assert_ne!(shards(&plan.ask), ["shard-02"]);
}

#[test]
fn nothing_is_asked_for_that_another_asks_for() {
    let listing = Listing::default().held(6, "a").mine(1);
    let listing = listing.asked([0, 1, 2, 3, 4], "b");
    let plan = Instance::that_knows(&listing).sees(&listing);
    assert_eq!(shards(&plan.ask), ["shard-05"]);
}

#[test]
fn an_asker_that_wants_no_more_than_it_asks_for_holds_nobody_up() {
    // `b` shows nothing of what it holds elsewhere.
    let listing = Listing::default().held(6, "a").asked([0], "b").mine(2);
    let plan = Instance::that_knows(&listing).sees(&listing);
    assert_eq!(
        plan.ask.len(),
        1,
        "one goes to `b`, one comes here: 4 and 3"
    );
}

#[test]
fn what_is_reserved_goes_to_its_asker_alone() {
    let listing = Listing::default()
        .with(2, Claim::Reserved { asker: "me" })
        .with(2, Claim::Reserved { asker: "b" });
    let plan = Instance::new().sees(&listing);
    assert_eq!(shards(&plan.take), ["shard-00", "shard-01"]);
}

#[test]
fn what_this_instance_may_not_take_falls_to_others() {
    let listing = Listing::default().with(4, Claim::Free { takeable: false });
    assert_eq!(Instance::new().sees(&listing), Plan::default());
}

#[test]
fn free_shards_fall_to_the_poorest() {
    let listing = Listing::default().held(5, "a").mine(2).free(3);
    assert_eq!(Instance::new().sees(&listing).take.len(), 3);

    let listing = Listing::default().held(2, "a").mine(5).free(3);
    let plan = Instance::new().sees(&listing);
    assert_eq!(plan.take.len(), 0);
    assert_eq!(plan.look_again_in, Some(Duration::from_millis(3_500)));
}

#[test]
fn what_the_poorest_leaves_is_taken_by_those_that_are_known_to_read_it() {
    let listing = Listing::default().held(1, "a").mine(5).free(2);
    // `a` reads the stream: it has one turn more than one that nobody has seen reading it.
    let mut instance = Instance::new();
    assert_eq!(instance.sees(&listing).take.len(), 0);
    assert_eq!(instance.after(3.5).sees(&listing).take.len(), 0);
    assert_eq!(instance.after(3.5).sees(&listing).take.len(), 2);
}

#[test]
fn a_member_that_stops_is_offered_nothing_that_it_lets_go() {
    let mut instance = Instance::that_knows(&Listing::default().mine(5).held(4, "b"));
    let stopping = Listing::default().mine(5).free(3).held(1, "b");
    assert_eq!(instance.sees(&stopping).take.len(), 3);
}

#[test]
fn what_an_asker_left_reserved_falls_to_others_at_once() {
    let reserved = Listing::default()
        .mine(3)
        .with(1, Claim::Reserved { asker: "b" });
    let mut instance = Instance::that_knows(&reserved);
    let lapsed = Listing::default().mine(3).free(1).asked([3], "b");
    assert_eq!(shards(&instance.sees(&lapsed).take), ["shard-03"]);
}

#[test]
fn a_lease_in_this_instances_name_that_it_does_not_hold_is_neither_given_nor_asked_for() {
    let listing = Listing::default().held(6, "me").asked([0], "b");
    assert_eq!(
        Instance::that_knows(&listing).sees(&listing),
        Plan::default()
    );
}

#[test]
fn the_order_of_a_listing_does_not_matter() {
    let listing = Listing::default().mine(9).held(4, "a").free(3).held(7, "b");
    let listing = listing
        .asked([2, 5, 7], "a")
        .asked([17], "c")
        .asked([8, 0], "c");
    let mut backwards = listing.clone();
    backwards.0.reverse();
    let plan = Instance::that_knows(&listing).sees(&listing);
    assert!(!plan.hand_over.is_empty());
    assert_eq!(plan, Instance::that_knows(&backwards).sees(&backwards));
}

/// A fleet whose listings are quick.
fn world(shards: &[usize]) -> World<Balance> {
    let manners = Manners {
        staleness: 0,
        settling: 1_000,
        declined: 0,
        sightings: false,
    };
    let mut world = World::new(1, shards, manners);
    world.join(0..shards.len());
    world.run(20_000);
    world
}

#[test]
fn eight_shards_over_two_become_three_three_and_two() {
    let mut world = world(&[8]);
    world.join([0]);
    world.run(30_000);
    assert_eq!(world.counts(), [4, 4]);
    world.join([0]);
    world.run(30_000);
    let mut counts = world.counts();
    counts.sort_unstable();
    assert_eq!((counts, world.moves), (vec![2, 3, 3], 8 + 4 + 2));
}

#[test]
fn a_hundred_streams_of_one_shard_spread_like_one_stream_of_a_hundred() {
    for streams in [vec![1; 100], vec![100]] {
        let mut world = world(&streams);
        world.join(0..streams.len());
        world.run(30_000);
        assert_eq!((world.counts(), world.moves), (vec![50, 50], 150));
    }
}

#[test]
fn seven_that_join_in_one_moment_cost_no_move_too_many() {
    let mut world = world(&[64]);
    for _ in 0..7 {
        world.join([0]);
    }
    world.run(30_000);
    assert_eq!((world.counts(), world.moves), (vec![8; 8], 64 + 56));
}

#[test]
fn what_a_stopped_instance_released_is_read_at_the_next_listing() {
    let mut world = world(&[12]);
    let second = world.join([0]);
    world.join([0]);
    world.run(30_000);
    world.stop(second);
    world.run(30_000);
    assert_eq!(world.counts(), [6, 6]);
    assert!(world.longest_unread <= 3_500, "{}", world.longest_unread);
}
