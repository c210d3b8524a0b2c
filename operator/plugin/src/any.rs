//! Loads a component of whatever world. What it is for is known from its own type, which is read where it is compiled.

use crate::{
    call::LOADING,
    engine::Engine,
    inspect::{Inspection, World},
    load::rule,
    provider::{MachineProvider, load::provider},
    reason::Refused,
    rule::Rule,
};

/// A component, ready to be asked. A cheap handle.
#[derive(Clone, Debug)]
pub enum Component {
    /// Of the world `numo:rule/rule`.
    Rule(Rule),
    /// Of the world `numo:provider/provider`.
    Provider(MachineProvider),
}

impl Engine {
    /// Makes of a component's bytes what they say they are.
    ///
    /// Errors: as those of [`Engine::load`]; `WrongWorld` only for what is neither a rule nor a provider of machines.
    pub async fn load_any(&self, bytes: &[u8]) -> Result<Component, Refused> {
        let prepared = self.0.prepared(LOADING, bytes).await?;
        let engine = self.0.clone();
        match prepared.inspection.world {
            World::Rule => Box::pin(rule(engine, prepared)).await.map(Component::Rule),
            World::Provider => Box::pin(provider(engine, prepared))
                .await
                .map(Component::Provider),
        }
    }
}

impl Component {
    /// What its type says it is.
    pub fn inspection(&self) -> &Inspection {
        match self {
            Self::Rule(rule) => rule.inspection(),
            Self::Provider(provider) => provider.inspection(),
        }
    }

    /// `sha256:…` of it.
    pub fn digest(&self) -> &str {
        match self {
            Self::Rule(rule) => rule.digest(),
            Self::Provider(provider) => provider.digest(),
        }
    }

    /// What it is called, in its own words.
    pub fn name(&self) -> &str {
        match self {
            Self::Rule(rule) => &rule.description().name,
            Self::Provider(provider) => &provider.description().name,
        }
    }

    /// Its own version.
    pub fn version(&self) -> &str {
        match self {
            Self::Rule(rule) => &rule.description().version,
            Self::Provider(provider) => &provider.description().version,
        }
    }

    /// What it is for, in its own words.
    pub fn summary(&self) -> &str {
        match self {
            Self::Rule(rule) => &rule.description().summary,
            Self::Provider(provider) => &provider.description().summary,
        }
    }
}
