//! The kinds that a cluster does not serve, in one line of the log: plain Kubernetes has none of OpenShift's, and each of them has a watch
//! of its own. Nothing here is read by numo itself.

use super::kind::Kind;
use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// How long others are waited for that belong into the same line.
const GATHERED: Duration = Duration::from_secs(2);

/// The kinds that are not served here.
pub(super) static UNSERVED: Unserved = Unserved(Mutex::new(Known {
    kinds: BTreeSet::new(),
    is_due: false,
}));

/// What is known of them.
pub(super) struct Unserved(Mutex<Known>);

struct Known {
    kinds: BTreeSet<Kind>,
    /// Somebody is about to say it.
    is_due: bool,
}

impl Unserved {
    /// The API server does not know a kind; what is new is said in a moment, with the others.
    pub(super) fn lacks(&'static self, kind: Kind) {
        if self.note(kind) {
            tokio::spawn(async {
                tokio::time::sleep(GATHERED).await;
                tracing::info!("{}", self.line());
            });
        }
    }

    /// A kind is served: it may have come since.
    pub(super) fn has(&self, kind: Kind) {
        if self.known().kinds.remove(&kind) {
            tracing::info!("served here now: {}", name(kind));
        }
    }

    /// Notes a kind that is not served; true if nobody is about to say it.
    fn note(&self, kind: Kind) -> bool {
        let mut known = self.known();
        known.kinds.insert(kind) && !std::mem::replace(&mut known.is_due, true)
    }

    /// All of them, in words.
    fn line(&self) -> String {
        let mut known = self.known();
        known.is_due = false;
        let names: Vec<String> = known.kinds.iter().copied().map(name).collect();
        format!("not served here: {}", names.join(", "))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A kind as `kubectl get` takes it.
fn name(kind: Kind) -> String {
    let (group, _, _, plural) = kind.resource();
    format!("{plural}.{group}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_are_not_served_are_one_line_until_that_changes() {
        let unserved = Unserved(Mutex::new(Known {
            kinds: BTreeSet::new(),
            is_due: false,
        }));
        assert!(unserved.note(Kind::MachineConfigPool));
        // The others come into the same line.
        assert!(!unserved.note(Kind::ClusterVersion));
        assert!(!unserved.note(Kind::MachineConfigPool));
        let line = unserved.line();
        assert!(
            line.starts_with("not served here: ")
                && line.contains("machineconfigpools.machineconfiguration.openshift.io")
                && line.contains("clusterversions.config.openshift.io"),
            "{line}"
        );
        // What is known is not said again; what is new is, and what went and came back.
        assert!(!unserved.note(Kind::ClusterVersion));
        assert!(unserved.note(Kind::ClusterApiMachine));
        unserved.line();
        unserved.has(Kind::ClusterVersion);
        assert!(unserved.note(Kind::ClusterVersion));
    }
}
