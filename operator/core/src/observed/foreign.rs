//! Operators that numo replaces, where one is live.

use crate::owner::ForeignController;

/// An operator that numo replaces, and that is live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// What it works on.
    pub what: ForeignController,
    /// What is left of it, where its Deployment is at 0 or deleted; none where that runs.
    pub lingers: Option<String>,
}
