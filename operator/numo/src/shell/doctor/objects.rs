//! Checks the objects that people write: rules, bindings, windows and runs. What numo says of them is in their status.

use super::finding::{Findings, counted};
use crate::shell::{
    client::Connection,
    kind::Kind,
    watch,
    watched::{self, Object},
};
use kube::{Api, ResourceExt, api::ListParams};
use numo_api::{Condition, MutexBinding, MutexRule, MutexRunConfig, MutexWindow, Reason, conditions::types};
use serde_json::Value;

/// All rules.
pub(super) async fn rules(connection: &Connection, found: &mut Findings) -> Vec<MutexRule> {
    let api = watch::items(&connection.read, Kind::MutexRule, "");
    let items = match api.list(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(kube::Error::Api(status)) if status.code == 404 => return Vec::new(),
        Err(error) => {
            found.unknown("MutexRules", &error);
            return Vec::new();
        }
    };
    let before = found.all.len();
    let mut list: Vec<MutexRule> = Vec::new();
    for item in items {
        match watched::item(Kind::MutexRule, &item) {
            Some(Object::Rule(rule)) => list.push(*rule),
            Some(Object::Unreadable(rule, why)) => found.wrong(
                format!(
                    "MutexRule {}/{} is not read: {}",
                    rule.namespace().unwrap_or_default(),
                    rule.name_any(),
                    why.message
                ),
                "its author makes it smaller, or deletes it".to_owned(),
            ),
            _ => {}
        }
    }
    for rule in &list {
        let key = format!("{}/{}", rule.namespace().unwrap_or_default(), rule.name_any());
        if let Some(ready) = readiness(rule).filter(|ready| ready.status == "False") {
            let reason = ready.reason.clone().unwrap_or_default();
            let message = ready.message.clone().unwrap_or_default();
            found.wrong(
                format!("MutexRule {key} is not Ready ({reason}): {message}"),
                format!(
                    "numo explain mutexrule/{} -n {}",
                    rule.name_any(),
                    rule.namespace().unwrap_or_default()
                ),
            );
        }
    }
    if found.all.len() == before {
        found.ok(match list.len() {
            0 => "there are no MutexRules yet".to_owned(),
            1 => "the one MutexRule can be asked".to_owned(),
            number => format!("all {number} MutexRules can be asked"),
        });
    }
    list
}

/// An object of numo's own as its status judges it.
struct Judged<'a> {
    kind: &'static str,
    /// As kubectl and numo name the kind.
    resource: &'static str,
    name: &'a str,
    /// Whether the status is of the present spec.
    is_current: bool,
    conditions: &'a [Condition],
}

impl Judged<'_> {
    /// Tells of an object that numo has not judged yet, or that is not Ready; true if there was nothing to tell.
    fn tell(&self, found: &mut Findings) -> bool {
        let (kind, resource, name) = (self.kind, self.resource, self.name);
        let ready = self.conditions.iter().find(|one| one.type_ == "Ready");
        match ready.filter(|_| self.is_current) {
            None => found.note(
                format!("{kind} {name} has not been judged by numo yet"),
                format!("numo explain {resource}/{name}"),
            ),
            Some(ready) if ready.status == "False" => found.wrong(
                format!(
                    "{kind} {name} is not Ready ({}): {}",
                    ready.reason.as_deref().unwrap_or_default(),
                    ready.message.as_deref().unwrap_or_default()
                ),
                format!("kubectl edit {resource} {name}; numo explain {resource}/{name}"),
            ),
            Some(_) => return true,
        }
        false
    }
}

/// All bindings: a gate that is not Ready stands open, or holds its owners for a slip of the pen.
pub(super) async fn bindings(connection: &Connection, found: &mut Findings) {
    let api: Api<MutexBinding> = Api::all(connection.read.clone());
    let list = match api.list(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(kube::Error::Api(status)) if status.code == 404 => return,
        Err(error) => return found.unknown("MutexBindings", &error),
    };
    let total = list.len();
    let mut good = 0;
    for one in list {
        let name = one.name_any();
        let status = one.status.unwrap_or_default();
        let judged = Judged {
            kind: "MutexBinding",
            resource: "mutexbinding",
            name: &name,
            is_current: one.metadata.generation.is_none()
                || status.observed_generation == one.metadata.generation,
            conditions: &status.conditions,
        };
        if !judged.tell(found) {
            continue;
        }
        if status.owners_matched == Some(0) {
            found.note(
                format!(
                    "MutexBinding {name} gates nothing: no {} matches its spec.ownerSelector",
                    one.spec.owner_selector.kind
                ),
                format!("kubectl edit mutexbinding {name}, unless its owners are yet to come"),
            );
        } else {
            good += 1;
        }
    }
    if good == total && total > 0 {
        found.ok(format!(
            "{} gate the owners that they select",
            counted(total, "MutexBinding")
        ));
    }
}

/// All windows: one that cannot be understood, or never opens, lets no node begin that it selects.
pub(super) async fn windows(connection: &Connection, found: &mut Findings) {
    let api: Api<MutexWindow> = Api::all(connection.read.clone());
    let list = match api.list(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(kube::Error::Api(status)) if status.code == 404 => return,
        Err(error) => return found.unknown("MutexWindows", &error),
    };
    let total = list.len();
    let mut good = 0;
    for one in list {
        let name = one.name_any();
        let status = one.status.unwrap_or_default();
        let judged = Judged {
            kind: "MutexWindow",
            resource: "mutexwindow",
            name: &name,
            is_current: one.metadata.generation.is_none()
                || status.observed_generation == one.metadata.generation,
            conditions: &status.conditions,
        };
        if !judged.tell(found) {
            continue;
        }
        if status.nodes == Some(0) {
            found.note(
                format!("MutexWindow {name} selects no node"),
                format!("kubectl edit mutexwindow {name}, unless its nodes are yet to come"),
            );
        } else {
            good += 1;
        }
    }
    if good == total && total > 0 {
        found.ok(format!("{} can be understood", counted(total, "MutexWindow")));
    }
}

/// All runs: one that waits for a person says which pools the next upgrade holds, or lets roll without rules.
pub(super) async fn runs(connection: &Connection, found: &mut Findings) {
    let api: Api<MutexRunConfig> = Api::all(connection.read.clone());
    let list = match api.list(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(kube::Error::Api(status)) if status.code == 404 => return,
        Err(error) => return found.unknown("MutexRunConfigs", &error),
    };
    for one in list {
        let (namespace, name) = (one.namespace().unwrap_or_default(), one.name_any());
        let mut conditions = one.status.iter().flat_map(|status| &status.conditions);
        let Some(stalled) = conditions.find(|one| one.type_ == types::STALLED) else {
            continue;
        };
        // It is the run's matter, and nothing of the installation.
        found.note(
            format!(
                "MutexRunConfig {namespace}/{name} waits for a person ({}): {}",
                stalled.reason.as_deref().unwrap_or_default(),
                stalled.message.as_deref().unwrap_or_default()
            ),
            format!("numo explain -n {namespace} mutexrunconfig/{name}"),
        );
    }
}

/// All Plans: one that selects no node is Complete, as system-upgrade-controller has it, and upgrades nothing.
pub(super) async fn plans(connection: &Connection, found: &mut Findings) {
    let list = match watch::api(&connection.read, Kind::Plan, "")
        .list(&ListParams::default())
        .await
    {
        Ok(list) => list.items,
        Err(kube::Error::Api(status)) if status.code == 404 => return,
        Err(error) => return found.unknown("Plans", &error),
    };
    for plan in list.iter().filter(|plan| selects_nobody(&plan.data)) {
        let (namespace, name) = (plan.namespace().unwrap_or_default(), plan.name_any());
        found.note(
            format!("Plan {namespace}/{name} selects no node: its spec.nodeSelector matches none, so it upgrades nothing"),
            format!(
                "compare the selector with kubectl get nodes --show-labels: kubectl -n {namespace} edit plans.upgrade.cattle.io {name}"
            ),
        );
    }
}

/// Whether numo says of a Plan that it has no nodes.
fn selects_nobody(plan: &Value) -> bool {
    let conditions = plan.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| {
        let is = |field: &str, wanted: &str| one.get(field).and_then(Value::as_str) == Some(wanted);
        is("type", types::READY) && is("reason", Reason::NoNodes.name())
    })
}

/// What numo says of a rule.
pub(super) fn readiness(rule: &MutexRule) -> Option<&Condition> {
    let mut conditions = rule.status.iter().flat_map(|status| &status.conditions);
    conditions.rfind(|one| one.type_ == "Ready")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_plan_without_nodes_is_told_from_one_that_is_done() {
        let plan = |type_: &str, reason: &str| {
            json!({"status": {"conditions": [
                {"type": "Complete", "status": "True", "reason": "Complete"}, {"type": type_, "reason": reason},
            ]}})
        };
        assert!(selects_nobody(&plan("Ready", "NoNodes")));
        assert!(!selects_nobody(&plan("Ready", "UpToDate")));
        assert!(!selects_nobody(&plan("Complete", "NoNodes")));
        assert!(!selects_nobody(&json!({})));
    }
}
