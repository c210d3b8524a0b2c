//! Commands on MachineConfigPools.

use super::name::{NAMED, mentioned};
use super::wait::Wait;
use numo_api::{Reason, Step};

impl Wait<'_> {
    /// Pools that stay paused: take the run up again, take in again who was left out, or unpause.
    pub(super) fn held(&self) -> Vec<String> {
        let mut all = Vec::new();
        if let Some(report) = self.report.filter(|_| self.reason == Reason::PoolHeld) {
            if self.is_given_up() {
                all.extend(self.undo());
            }
            let left_out = report
                .nodes
                .iter()
                .filter(|(_, node)| matches!(node.step, Step::Skipped | Step::Failed));
            let retries = left_out.map(|(name, _)| format!("numo retry {name}"));
            let retries: Vec<String> = retries.filter(|retry| !all.contains(retry)).take(NAMED).collect();
            all.extend(retries);
        }
        all.extend(self.of_pools("patch", " --type merge -p '{\"spec\":{\"paused\":false}}'"));
        all
    }

    pub(super) fn of_pools(&self, verb: &str, more: &str) -> Vec<String> {
        let mut pools = mentioned(self.message, "MachineConfigPool");
        let known = self.look.store.observed.pools.keys();
        if pools.is_empty() {
            let spoken = known.filter(|name| self.message.contains(name.as_str()));
            pools = spoken.take(NAMED).map(String::as_str).collect();
        }
        if pools.is_empty() {
            return vec!["kubectl get machineconfigpools".to_owned()];
        }
        let pools = pools.into_iter();
        pools
            .map(|pool| format!("kubectl {verb} machineconfigpool {pool}{more}"))
            .collect()
    }
}
