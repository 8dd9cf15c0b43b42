//! A model of the lease protocol, small enough that every history of it can be explored.
//!
//! The protocol is the one that a store without a clock of its own keeps, as `lease-dynamo` does: conditional
//! writes on one row a shard, expiry by observation, and the holder's own deadline. It is written down here once
//! more, as pure functions over a row of nine small numbers, and shares nothing with any store. [`explore`] goes
//! breadth first through all that two or three instances can make of it, whatever the order, and looks at each step
//! whether an [`Invariant`] breaks. A [`Flaw`] leaves a rule out; each of them must be found.
//!
//! ```
//! use lease_model::{Flaw, Invariant, World, explore};
//!
//! // Two instances and one shard whose lease is granted twice, with every answer as late as can be.
//! let world = World { renewals: 0, ..World::of_leases("an example") };
//! let explored = explore(&world);
//! assert_eq!(explored.finding, None);
//! assert!(explored.states > 1_000);
//!
//! // The same, but that holders count their deadline from the arrival of the answer.
//! let flawed = World { flaw: Some(Flaw::DeadlineFromArrival), ..world };
//! let finding = explore(&flawed).finding.expect("it must be found");
//! assert_eq!(finding.invariant, Invariant::Exclusive);
//! assert_eq!(
//!     finding.history,
//!     [
//!         "A sends acquire, free (row absent)",
//!         "A's acquire, free (row absent) takes effect: granted, epoch 1",
//!         "B sends acquire, free (row absent)",
//!         "B's acquire, free (row absent) gets there, and changes nothing",
//!         "the answer to B's acquire arrives: refused",
//!         "a tick passes",
//!         "the answer to A's acquire arrives: granted, epoch 1",
//!         "a tick passes",
//!         "B sends acquire, expired (owner a, epoch 1, counter 1)",
//!         "B's acquire, expired (owner a, epoch 1, counter 1) takes effect: granted, epoch 2",
//!         "A hands over a record, under epoch 1",
//!     ]
//! );
//! ```
//!
//! `cargo run --release -p lease-model` explores all of [`World::ALL`] and every flaw, and prints the table.
//!
//! # What may happen
//!
//! A call is sent, takes effect at the store (not at all, once, or twice), and its answer arrives, or its sender
//! gives up on it; each at any time after the one before, so that a call which was given up may still take effect. A
//! record is handed over, and settled later. An instance crashes and starts again under its own name or another,
//! while its calls are still on their way. A row is deleted by hand. A tick passes, for all clocks alike. An
//! instance that is paused needs no step of its own: any instance may do nothing while time passes.
//!
//! # What it shows of deleted rows
//!
//! A row that is deleted by hand costs nobody a lease only where every instance has seen the row, and no
//! acquisition that found none is on its way any more; [`Flaw::DeletesAnUnseenRow`] and
//! [`Flaw::DeletesUnderAFirstCall`] show why. Its last holder may have it back at once only within its own deadline,
//! since somebody else may have had it before it vanished ([`Flaw::VanishedIsItsOwnForEver`]). A row that is deleted
//! twice within one lease time is outside all this. For the same reasons a row is forgotten only when no call on it
//! can be on its way any more ([`Flaw::ForgetsUnderACall`]). The condition "row absent, or no owner and `epoch = :e`"
//! must be sent as the one or the other, by what was seen ([`Flaw::VanishedRowIsFree`]). Here everybody else has such a
//! row after one lease time; the product lets two pass, so that the last holder comes before them, which changes
//! nothing that is shown here.
//!
//! # What it does not show
//!
//! Clocks that run at different rates, more than a few of anything, and mistakes of a store in the making of these
//! rules; the simulation and the conformance suite look for those.

mod arriving;
mod flaw;
mod holder;
mod invariant;
mod landing;
mod observer;
mod progress;
mod search;
mod sending;
mod state;
mod step;
mod symmetry;
mod table;
mod tidy;
mod words;
mod world;

pub use crate::flaw::Flaw;
pub use crate::invariant::Invariant;
pub use crate::search::{Exploration, Finding, explore};
pub use crate::world::World;
