//! A loaded rule: bytes become something that can be asked. Loading goes from cheap to dear, and stops at the first
//! fault: size, validity, type, compiled form, links, `describe`.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sha2::{Digest, Sha256};
use wasmtime::component::Component;

use crate::{
    bindings::RulePre,
    description::Description,
    engine::{Engine, Inner},
    evaluate,
    grants::{Grants, MissingGrant},
    host::Sandbox,
    inspect::{Inspection, check_size, inspect},
    limits::{Limits, RuleLimits},
    reason::{Reason, Refused},
    text::hex,
    verdict::ConfigProblem,
};

/// A rule, ready to be asked. A cheap handle.
#[derive(Clone)]
pub struct Rule(pub(crate) Arc<Loaded>);

pub(crate) struct Loaded {
    pub(crate) engine: Arc<Inner>,
    pub(crate) pre: RulePre<Sandbox>,
    pub(crate) description: Description,
    pub(crate) inspection: Inspection,
    digest: String,
    reasons: Mutex<BTreeSet<String>>,
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Description { name, version, .. } = &self.0.description;
        write!(f, "Rule({name} {version}, {})", self.0.digest)
    }
}

/// What one MutexRule says about how its rule is asked.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// What it lends.
    pub grants: Arc<Grants>,
    /// What it asks of limits.
    pub limits: RuleLimits,
}

impl Engine {
    /// Makes a rule of a component's bytes.
    ///
    /// Compiles unless the cache has the compiled form, and calls `describe` with every host call denied.
    /// Errors: `TooLarge`, `CompileFailed`, `CompileTimeout`, `WrongWorld`, `UnknownImport`, `HostTooOld`, and what
    /// `describe` can run into.
    pub async fn load(&self, bytes: &[u8]) -> Result<Rule, Refused> {
        let inner = self.0.clone();
        check_size(bytes, &inner.limits)?;
        let digest = digest(bytes);
        let (inspection, compiled) = inner.compiled(&digest, bytes).await?;
        let component = deserialize(&inner.wasmtime, &compiled)?;
        if component.resources_required().is_none() {
            let message = "the component imports core modules or instances";
            return Err(Refused::new(Reason::UnknownImport, message));
        }
        let pre = inner
            .linker
            .instantiate_pre(&component)
            .map_err(|error| not_linked(&error))?;
        let pre =
            RulePre::new(pre).map_err(|error| Refused::new(Reason::WrongWorld, format!("{error:#}")))?;
        let description = evaluate::describe(&inner, &pre).await?;
        Ok(Rule(Arc::new(Loaded {
            engine: inner,
            pre,
            description,
            inspection,
            digest,
            reasons: Mutex::default(),
        })))
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

    /// `sha256:…` of the component.
    pub fn digest(&self) -> &str {
        &self.0.digest
    }

    /// What it wants and these grants lack, the required first. [`Rule::evaluate`] refuses while a required one is
    /// missing.
    pub fn missing_grants(&self, grants: &Grants) -> Vec<MissingGrant> {
        grants.missing(&self.0.description, &self.0.inspection)
    }

    /// Has the rule check its configuration, with every host call denied. The inner error is the rule's word.
    pub async fn validate_config(&self, json: &str) -> Result<Result<(), Vec<ConfigProblem>>, Refused> {
        evaluate::validate_config(&self.0, json).await
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

impl Inner {
    /// Type and compiled form, from the cache or from the compiler. What is in the cache was inspected before.
    async fn compiled(&self, digest: &str, bytes: &[u8]) -> Result<(Inspection, Vec<u8>), Refused> {
        let cached = || {
            let (about, compiled) = self.cache.as_ref()?.compiled(digest)?;
            Some((serde_json::from_slice::<Inspection>(&about).ok()?, compiled))
        };
        if let Some(cached) = cached() {
            return Ok(cached);
        }
        let inspection = inspect(bytes, &self.limits)?;
        let of_other = || cached().map(|(_, compiled)| compiled);
        let compiled = self
            .compiler
            .compile(digest, bytes, &self.limits, of_other)
            .await?;
        if let Some(cache) = &self.cache
            && let Err(error) = serde_json::to_vec(&inspection)
                .map_err(std::io::Error::other)
                .and_then(|about| cache.put(digest, bytes, &about, &compiled))
        {
            tracing::warn!(%error, digest, "the compiled rule is not cached");
        }
        Ok((inspection, compiled))
    }
}

/// `sha256:` and hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

/// The one place that trusts compiled bytes.
#[allow(
    unsafe_code,
    reason = "wasmtime has no safe way to load compiled code; see the safety comment"
)]
fn deserialize(engine: &wasmtime::Engine, compiled: &[u8]) -> Result<Component, Refused> {
    // SAFETY: the bytes are what this host's own compiler wrote: they come from the compiler in this process, from the
    // pipe of a child that runs this very binary, or from the cache, which gives only what carries a MAC made with a
    // key that never leaves this cache's private folder. They never come from a registry. That they fit this engine
    // (version, features, processor) wasmtime checks itself.
    unsafe { Component::deserialize(engine, compiled) }.map_err(|error| {
        Refused::new(
            Reason::CompileFailed,
            format!("the compiled form does not load: {error:#}"),
        )
    })
}

/// Types of the same name that do not fit: a component of another contract, or of no such WASI.
fn not_linked(error: &wasmtime::Error) -> Refused {
    let text = format!("{error:#}");
    let reason = if text.contains("numo:") {
        Reason::WrongWorld
    } else {
        Reason::UnknownImport
    };
    Refused::new(reason, text)
}

/// How long `describe` may take.
pub(crate) fn describe_time(limits: &Limits) -> Duration {
    Duration::from_secs(limits.describe_seconds)
}
