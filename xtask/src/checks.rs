//! What CI checks besides cargo's own commands. Each check is a module, and a pure one at its heart.

pub(crate) mod licences;
pub(crate) mod rust_version;
pub(crate) mod walls;

/// How a check that did not fail ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// It could not run here, and why.
    Skipped(String),
}
