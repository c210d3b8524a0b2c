//! Where MutexRunConfigs are watched.

use crate::{
    observed::{RunConfigView, Settings},
    why::Why,
};
use numo_api::Reason;

/// A namespace in which this kind is not watched: nothing is written there, whatever the spec says.
/// Source: design §4, Authority; OLM gives namespace editors the right to create these kinds.
pub fn not_watched(run: &RunConfigView, settings: &Settings) -> Option<Why> {
    let namespace = &run.key.namespace;
    if *namespace == settings.namespace || settings.run_namespaces.contains(namespace) {
        return None;
    }
    let message = format!(
        "MutexRunConfig {}: found namespace {namespace}, wanted {} or one given by --run-namespaces",
        run.key, settings.namespace
    );
    Some(Why::new(Reason::NamespaceNotAllowed, message))
}
