//! In place of the engine where this crate is built without the feature `sandbox`: none can be set up, so no component is loaded and none
//! asked. Its types are there for those who would ask, and there is no value of any of them.

use crate::{
    description::Description,
    grants::{Grants, MissingGrant},
    inspect::Inspection,
    limits::{LimitOutOfBounds, Limits, RuleLimits},
    outcome::Answer,
    reason::Refused,
    services::Services,
    setup::{Absent, Setup, SetupError},
    spec::Terms,
    verdict::{ConfigProblem, Input},
};

/// What nothing is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Never {}

/// An engine that is not there.
#[derive(Clone, Debug)]
pub struct Engine(Never);

/// A rule that no engine has loaded.
#[derive(Clone, Debug)]
pub struct Rule(Never);

/// The turn of an evaluation that is none.
#[derive(Debug)]
pub struct Turn(Never);

#[allow(clippy::unused_async, reason = "with an engine they wait")]
impl Engine {
    /// Errors: always.
    pub fn new(_: Setup) -> Result<Self, SetupError> {
        Err(Absent.into())
    }

    /// Never asked.
    pub fn limits(&self) -> &Limits {
        match self.0 {}
    }

    /// Never asked.
    pub fn handle(&self) -> Option<&tokio::runtime::Handle> {
        match self.0 {}
    }

    /// Never asked.
    pub fn cached(&self, _: &str) -> Option<Vec<u8>> {
        match self.0 {}
    }

    /// Never asked.
    pub async fn load_for(&self, _: &str, _: &[u8]) -> Result<Rule, Refused> {
        match self.0 {}
    }
}

#[allow(clippy::unused_async, reason = "with an engine they wait")]
impl Rule {
    /// Never asked.
    pub fn description(&self) -> &Description {
        match self.0 {}
    }

    /// Never asked.
    pub fn inspection(&self) -> &Inspection {
        match self.0 {}
    }

    /// Never asked.
    pub fn compiled_bytes(&self) -> u64 {
        match self.0 {}
    }

    /// Never asked.
    pub fn digest(&self) -> &str {
        match self.0 {}
    }

    /// Never asked.
    pub fn missing_grants(&self, _: &Grants) -> Vec<MissingGrant> {
        match self.0 {}
    }

    /// Never asked.
    pub fn limits(&self, _: &RuleLimits) -> Result<Limits, LimitOutOfBounds> {
        match self.0 {}
    }

    /// Never asked.
    pub async fn validate_config(&self, _: &str) -> Result<Result<(), Vec<ConfigProblem>>, Refused> {
        match self.0 {}
    }

    /// Never asked.
    pub async fn turn(&self, _: &Terms) -> Result<Turn, Refused> {
        match self.0 {}
    }

    /// Never asked.
    pub async fn evaluate_in(&self, _: Turn, _: Input, _: &Terms, _: Services) -> Result<Answer, Refused> {
        match self.0 {}
    }
}
