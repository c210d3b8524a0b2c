//! The decision for a MutexRunConfig: MachineConfigPools are paused, and their nodes let go one after the other. Nothing here
//! reads or writes anything.
//!
//! Order of a pass: finish before starting. Nodes in flight move on; then, if the run is being left,
//! what numo changed is given back; otherwise pools are armed, and nodes are admitted while every gate
//! and budget allows.

mod admit;
mod change;
mod directive;
mod finalizer;
pub mod gates;
mod given_up;
mod in_force;
mod journals;
mod labels;
mod lint;
mod machine;
mod member;
mod orphans;
mod pause;
mod pool;
mod put_back;
mod quarantine;
mod release;
mod run;
mod run_decision;
mod run_rules;
pub(crate) mod run_view;
mod selectors;
mod targets;
mod turn;
mod ungated;
mod walk;
mod waves;

pub use admit::reservation;
pub use member::Member;
pub use run_view::{RunView, lease_holder};

pub(crate) use lint::Lint;
pub(crate) use run::Run;

use crate::{
    admit::wave,
    intent::Intent,
    key::Key,
    mark,
    observed::{Observed, RunConfigView},
    pools,
};
use numo_api::marks::openshift;

/// The rules that a run refers to, whether they exist or not: its own, and those of its waves.
pub(crate) fn named_by(run: &RunConfigView, observed: &Observed) -> Vec<Key> {
    let own = Intent::parse(run, observed).rules.into_iter();
    let own = own.map(|(key, _)| key);
    let of_waves = wave::rules(run.spec.waves.as_deref(), &run.key.namespace);
    own.chain(of_waves).collect()
}

/// As if a node had rolled to what its pool has, in what was seen.
pub(crate) fn imagine_rolled(observed: &mut Observed, node: &str) {
    let selectors: Vec<_> = observed
        .pools
        .values()
        .map(|pool| (pool.name.clone(), mark::own_selector(pool)))
        .collect();
    let Some(node) = observed.nodes.get_mut(node) else {
        return;
    };
    let all = selectors.iter().map(|(name, selector)| (name.as_str(), selector));
    if let pools::Home::Pool(home) = pools::home(&node.labels, all)
        && let Some(pool) = observed.pools.get(home)
    {
        for key in [openshift::CURRENT_CONFIG, openshift::DESIRED_CONFIG] {
            node.annotations.insert(key.to_owned(), pool.config.clone());
        }
    }
}
