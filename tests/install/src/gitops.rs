//! What Argo CD is told of numo's kinds: one script of health for each, as its ConfigMap has them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;

use crate::{GENERATED, read};

/// The script.
pub const HEALTH: &str = "deploy/gitops/argocd/health.lua";
/// The patch of Argo CD's ConfigMap that is made of it.
pub const CONFIG: &str = "deploy/gitops/argocd/argocd-cm.yaml";
/// The kinds that have health, with their groups.
pub const KINDS: [(&str, &str); 17] = [
    ("openshift-optional.skrzypek.io", "MutexRunConfig"),
    ("openshift-optional.skrzypek.io", "MutexRule"),
    ("openshift-optional.skrzypek.io", "MutexTarget"),
    ("numo.openshift-optional.skrzypek.io", "MutexBudget"),
    ("numo.openshift-optional.skrzypek.io", "MutexWindow"),
    ("numo.openshift-optional.skrzypek.io", "MutexBinding"),
    ("numo.openshift-optional.skrzypek.io", "MutexNotifier"),
    ("numo.openshift-optional.skrzypek.io", "MutexApproval"),
    ("numo.openshift-optional.skrzypek.io", "NodeChange"),
    ("nodemaintenance.medik8s.io", "NodeMaintenance"),
    ("nodemaintenance.kubevirt.io", "NodeMaintenance"),
    ("upgrade.cattle.io", "Plan"),
    ("update.edgeless.systems", "NodeVersion"),
    ("update.edgeless.systems", "ScalingGroup"),
    ("update.edgeless.systems", "PendingNode"),
    ("update.edgeless.systems", "JoiningNode"),
    ("update.edgeless.systems", "AutoscalingStrategy"),
];

pub(crate) fn files() -> Result<BTreeMap<String, String>> {
    let script = read(HEALTH)?;
    let lines: Vec<String> = script
        .lines()
        .map(|line| {
            if line.is_empty() {
                "\n".to_owned()
            } else {
                format!("    {line}\n")
            }
        })
        .collect();
    let mut text = format!(
        "# {GENERATED} From {HEALTH}.\n# A patch: kubectl -n argocd patch configmap argocd-cm --patch-file {CONFIG}\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: argocd-cm\n  namespace: argocd\n  labels:\n    \
         app.kubernetes.io/name: argocd-cm\n    app.kubernetes.io/part-of: argocd\ndata:\n"
    );
    for (group, kind) in KINDS {
        let _ = write!(
            text,
            "  resource.customizations.health.{group}_{kind}: |\n{}",
            lines.concat()
        );
    }
    Ok(BTreeMap::from([(CONFIG.to_owned(), text)]))
}
