//! The component of the provider: fetched and loaded with the first question, again a while after that failed, and anew when it is asked for
//! other signatures. What the component is asked is not known here.

use crate::shell::eval::{evaluator::Evaluator, provider::Source};
use numo_plugin::provider::MachineProvider;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// How long a component that could not be had is not fetched again.
const FAILED: Duration = Duration::from_secs(30);

/// Loads the component. A cheap handle.
#[derive(Clone)]
pub struct Loader {
    evaluator: Evaluator,
    namespace: Arc<str>,
    source: Arc<Source>,
    loaded: Arc<Mutex<Loaded>>,
}

#[derive(Default)]
struct Loaded {
    /// The component, and the number of the policy of signatures that it was verified by.
    provider: Option<(u64, MachineProvider)>,
    failed: Option<(Instant, String)>,
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader")
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl Loader {
    /// Nothing is fetched yet. `namespace` is numo's own.
    pub fn new(evaluator: Evaluator, namespace: &str, source: Source) -> Self {
        Self {
            evaluator,
            namespace: namespace.into(),
            source: Arc::new(source),
            loaded: Arc::default(),
        }
    }

    /// The component, loaded by whoever asks first. That goes on where whoever asks has no more patience: to compile it may take longer.
    ///
    /// Errors: why it cannot be had, for people.
    pub async fn provider(&self) -> Result<MachineProvider, String> {
        let loaded = self.loaded.clone().lock_owned().await;
        let policy = self.evaluator.policy();
        if let Some((of, provider)) = &loaded.provider
            && *of == policy
        {
            return Ok(provider.clone());
        }
        if let Some((_, words)) = loaded.failed.as_ref().filter(|(at, _)| at.elapsed() < FAILED) {
            return Err(words.clone());
        }
        let loading = tokio::spawn(self.clone().load(loaded, policy));
        let ended = loading.await;
        ended.unwrap_or_else(|error| Err(format!("loading the component of the provider ended: {error}")))
    }

    async fn load(self, mut loaded: OwnedMutexGuard<Loaded>, policy: u64) -> Result<MachineProvider, String> {
        // One that was verified by another policy is not asked while this one is looked for.
        loaded.provider = None;
        let found = self.evaluator.load_provider(&self.namespace, &self.source).await;
        match &found {
            Ok(provider) => {
                let about = provider.description();
                tracing::info!(
                    name = about.name,
                    version = about.version,
                    digest = provider.digest(),
                    "the provider of machines is loaded"
                );
                loaded.provider = Some((policy, provider.clone()));
                loaded.failed = None;
            }
            Err(words) => {
                tracing::warn!(words, "the provider of machines cannot be loaded");
                loaded.failed = Some((Instant::now(), words.clone()));
            }
        }
        found
    }
}
