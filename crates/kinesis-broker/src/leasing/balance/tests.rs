//! Cases with names, properties of whole fleets in a model, and the rule that does not do.

mod cases;
mod obvious;
mod properties;
mod world;
