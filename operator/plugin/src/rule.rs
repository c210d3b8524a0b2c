//! A loaded rule, and what is known of it without asking it.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use crate::{
    bindings::RulePre,
    description::Description,
    engine::{Engine, Inner},
    grants::{Grants, MissingGrant},
    host::Sandbox,
    inspect::Inspection,
    limits::{Limits, RuleLimits},
};

/// A rule, ready to be asked. A cheap handle.
#[derive(Clone)]
pub struct Rule(pub(crate) Arc<Loaded>);

pub(crate) struct Loaded {
    pub(crate) engine: Arc<Inner>,
    pub(crate) pre: RulePre<Sandbox>,
    pub(crate) description: Description,
    pub(crate) inspection: Inspection,
    pub(crate) compiled_bytes: u64,
    pub(crate) digest: String,
    pub(crate) reasons: Mutex<BTreeSet<String>>,
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Description { name, version, .. } = &self.0.description;
        write!(f, "Rule({name} {version}, {})", self.0.digest)
    }
}

impl Engine {
    /// The bytes of a component that was loaded before, if the cache still has them. Whether the asker may have them
    /// is not known here.
    pub fn cached(&self, digest: &str) -> Option<Vec<u8>> {
        self.0.cache.as_ref().and_then(|cache| cache.component(digest))
    }
}

impl Rule {
    /// What it says it is.
    pub fn description(&self) -> &Description {
        &self.0.description
    }

    /// What its type says it is.
    pub fn inspection(&self) -> &Inspection {
        &self.0.inspection
    }

    /// Bytes of its compiled form: about what it takes while it is loaded.
    pub fn compiled_bytes(&self) -> u64 {
        self.0.compiled_bytes
    }

    /// `sha256:…` of the component.
    pub fn digest(&self) -> &str {
        &self.0.digest
    }

    /// What it wants and these grants lack, the required first. [`Rule::evaluate`] refuses while a required one is
    /// missing.
    pub fn missing_grants(&self, grants: &Grants) -> Vec<MissingGrant> {
        grants.missing(&self.0.description, &self.0.inspection)
    }

    /// The limits that `asked` leads to, or the one that is out of bounds.
    pub fn limits(&self, asked: &RuleLimits) -> Result<Limits, crate::limits::LimitOutOfBounds> {
        self.0.engine.limits.with(asked, &self.0.engine.ceilings)
    }

    /// `reason` as a metric label: the rule's first [`Limits::reasons`] stay apart, later ones are `Other`.
    pub fn metric_reason(&self, reason: &str) -> String {
        let mut reasons = self.0.reasons.lock().unwrap_or_else(PoisonError::into_inner);
        if reasons.contains(reason) {
            return reason.to_owned();
        }
        if reasons.len() as u64 >= self.0.engine.limits.reasons {
            return "Other".to_owned();
        }
        reasons.insert(reason.to_owned());
        reason.to_owned()
    }
}

/// How long `describe` may take.
pub(crate) fn describe_time(limits: &Limits) -> Duration {
    Duration::from_secs(limits.describe_seconds)
}
