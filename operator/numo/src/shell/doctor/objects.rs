//! Checks the objects that people write: rules, bindings, budgets, windows, notifiers and runs. What numo says of them is in their status.

use super::finding::{Findings, counted};
use crate::shell::{
    client::Connection,
    kind::Kind,
    watch,
    watched::{self, Object},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Resource, ResourceExt,
    api::{ListParams, ObjectMeta},
};
use numo_api::{
    ApprovalPolicy, Condition, MutexBinding, MutexBindingStatus, MutexBudget, MutexBudgetStatus,
    MutexNotifier, MutexNotifierStatus, MutexRule, MutexRunConfig, MutexWindow, MutexWindowStatus, Reason,
    conditions::types,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;

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
            1 => "the one MutexRule can be evaluated".to_owned(),
            number => format!("all {number} MutexRules can be evaluated"),
        });
    }
    list
}

/// Every object of a kind; none, and told, where the kind cannot be listed, and none where it is not served.
pub(super) async fn listed<K>(connection: &Connection, found: &mut Findings, kinds: &str) -> Vec<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::all(connection.read.clone());
    match api.list(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => {
            found.unknown(kinds, &error);
            Vec::new()
        }
    }
}

/// A kind of which numo judges each object, as kubectl and numo name it.
struct Judged {
    kind: &'static str,
    resource: &'static str,
    /// What all of them do, if nothing is to be told of any.
    all_well: &'static str,
    /// Of what one that is idle has none yet.
    subjects: &'static str,
}

/// What is looked at of one object.
struct Seen<'a> {
    metadata: &'a ObjectMeta,
    observed_generation: Option<i64>,
    conditions: &'a [Condition],
    /// That it does nothing, in a sentence, if so.
    idle: Option<String>,
}

impl Judged {
    /// A policy of nodes.
    const fn of_nodes(kind: &'static str, resource: &'static str) -> Self {
        Self {
            kind,
            resource,
            all_well: "can be understood",
            subjects: "nodes",
        }
    }

    /// Tells of each object that numo has not judged yet, that is not Ready, or that does nothing; that all is well, if so.
    fn tell<'a>(&self, found: &mut Findings, all: impl ExactSizeIterator<Item = Seen<'a>>) {
        let (total, before) = (all.len(), found.all.len());
        all.for_each(|one| self.tell_one(found, one));
        if total > 0 && found.all.len() == before {
            found.ok(format!("{} {}", counted(total, self.kind), self.all_well));
        }
    }

    fn tell_one(&self, found: &mut Findings, one: Seen<'_>) {
        let Self { kind, resource, .. } = self;
        let name = one.metadata.name.as_deref().unwrap_or_default();
        let is_current =
            one.metadata.generation.is_none() || one.observed_generation == one.metadata.generation;
        let ready = one.conditions.iter().find(|one| one.type_ == types::READY);
        match (ready.filter(|_| is_current), one.idle) {
            (None, _) => found.note(
                format!("{kind} {name} has not been judged by numo yet"),
                format!("numo explain {resource}/{name}"),
            ),
            (Some(ready), _) if ready.status == "False" => found.wrong(
                format!(
                    "{kind} {name} is not Ready ({}): {}",
                    ready.reason.as_deref().unwrap_or_default(),
                    ready.message.as_deref().unwrap_or_default()
                ),
                format!("kubectl edit {resource} {name}; numo explain {resource}/{name}"),
            ),
            (Some(_), Some(idle)) => found.note(
                format!("{kind} {name} {idle}"),
                format!(
                    "kubectl edit {resource} {name}, unless its {} are yet to come",
                    self.subjects
                ),
            ),
            (Some(_), None) => {}
        }
    }
}

/// All bindings: a gate that is not Ready stands open, or holds its owners for a slip of the pen.
pub(super) async fn bindings(connection: &Connection, found: &mut Findings) {
    let all: Vec<MutexBinding> = listed(connection, found, "MutexBindings").await;
    let judged = Judged {
        kind: "MutexBinding",
        resource: "mutexbinding",
        all_well: "gate the owners that they select",
        subjects: "owners",
    };
    named_nowhere(connection, found, &all).await;
    let none = MutexBindingStatus::default();
    let seen = all.iter().map(|one| {
        let status = one.status.as_ref().unwrap_or(&none);
        let kind = &one.spec.owner_selector.kind;
        Seen {
            metadata: &one.metadata,
            observed_generation: status.observed_generation,
            conditions: &status.conditions,
            idle: (status.owners_matched == Some(0))
                .then(|| format!("gates nothing: no {kind} matches its spec.ownerSelector")),
        }
    });
    judged.tell(found, seen);
    for (name, field, kind) in all.iter().filter_map(left_by_labels) {
        found.note(
            format!(
                "MutexBinding {name} {field} wants approval, and spec.ownerSelector.labels says of which {kind}s: who may edit the labels of a {kind} takes it out of that"
            ),
            format!(
                "kubectl edit mutexbinding {name}: select by kind and namespaces, without labels; or let a ValidatingAdmissionPolicy keep these labels from those who may not approve (operator/docs/approvals.md#who-may)"
            ),
        );
    }
}

/// A binding that wants approval of owners that it selects by labels: its name, the field that wants it, and the kind of the owners. Who
/// edits an owner edits its labels too, and an approval is there so that these do not decide alone.
fn left_by_labels(binding: &MutexBinding) -> Option<(String, String, &str)> {
    let owners = &binding.spec.owner_selector;
    let labels = owners.labels.as_ref()?;
    let is_any = labels
        .match_labels
        .as_ref()
        .is_some_and(|labels| !labels.is_empty())
        || labels
            .match_expressions
            .as_ref()
            .is_some_and(|all| !all.is_empty());
    let is_manual = |policy: Option<ApprovalPolicy>| policy == Some(ApprovalPolicy::Manual);
    let settings = &binding.spec.settings;
    let of_all = settings.approval.iter().find_map(|approval| {
        let begin = is_manual(approval.begin).then_some("spec.approval.begin");
        begin.or_else(|| is_manual(approval.after_failure).then_some("spec.approval.afterFailure"))
    });
    let mut waves = settings.waves.iter().flatten();
    let of_wave = || {
        let place = waves.position(|wave| is_manual(wave.approval))?;
        Some(format!("spec.waves[{place}].approval"))
    };
    let field = of_all.map(str::to_owned).or_else(of_wave).filter(|_| is_any)?;
    Some((binding.name_any(), field, owners.kind.as_str()))
}

/// Namespaces that bindings name and that do not exist: a slip gates nothing.
async fn named_nowhere(connection: &Connection, found: &mut Findings, all: &[MutexBinding]) {
    let named = all.iter().flat_map(|one| {
        let named = one.spec.owner_selector.namespaces.iter().flatten();
        named.map(move |namespace| (one, namespace))
    });
    let named: Vec<(&MutexBinding, &String)> = named.collect();
    if named.is_empty() {
        return;
    }
    let namespaces: Vec<Namespace> = listed(connection, found, "Namespaces").await;
    let names: BTreeSet<String> = namespaces.iter().map(ResourceExt::name_any).collect();
    if names.is_empty() {
        return;
    }
    for (one, missing) in named.into_iter().filter(|(_, name)| !names.contains(*name)) {
        let binding = one.name_any();
        found.wrong(
            format!(
                "MutexBinding {binding} spec.ownerSelector.namespaces: found {missing}, wanted a namespace that exists"
            ),
            format!("kubectl edit mutexbinding {binding}; kubectl get namespaces"),
        );
    }
}

/// All budgets: one that cannot be understood lets no node begin.
pub(super) async fn budgets(connection: &Connection, found: &mut Findings) {
    let all: Vec<MutexBudget> = listed(connection, found, "MutexBudgets").await;
    let judged = Judged::of_nodes("MutexBudget", "mutexbudget");
    let none = MutexBudgetStatus::default();
    let seen = all.iter().map(|one| {
        let status = one.status.as_ref().unwrap_or(&none);
        let mut conditions = status.conditions.iter();
        let selects_none = conditions.any(|one| one.reason.as_deref() == Some(Reason::NoNodes.name()));
        Seen {
            metadata: &one.metadata,
            observed_generation: status.observed_generation,
            conditions: &status.conditions,
            idle: selects_none.then(|| "selects no node".to_owned()),
        }
    });
    judged.tell(found, seen);
}

/// All windows: one that cannot be understood, or never opens, lets no node begin that it selects.
pub(super) async fn windows(connection: &Connection, found: &mut Findings) {
    let all: Vec<MutexWindow> = listed(connection, found, "MutexWindows").await;
    let judged = Judged::of_nodes("MutexWindow", "mutexwindow");
    let none = MutexWindowStatus::default();
    let seen = all.iter().map(|one| {
        let status = one.status.as_ref().unwrap_or(&none);
        Seen {
            metadata: &one.metadata,
            observed_generation: status.observed_generation,
            conditions: &status.conditions,
            idle: (status.nodes == Some(0)).then(|| "selects no node".to_owned()),
        }
    });
    judged.tell(found, seen);
}

/// All notifiers: one whose sink takes nothing tells nobody, and nothing else shows that.
pub(super) async fn notifiers(connection: &Connection, found: &mut Findings) {
    let all: Vec<MutexNotifier> = listed(connection, found, "MutexNotifiers").await;
    let judged = Judged {
        kind: "MutexNotifier",
        resource: "mutexnotifier",
        all_well: "can tell people",
        subjects: "owners",
    };
    let none = MutexNotifierStatus::default();
    let seen = all.iter().map(|one| {
        let status = one.status.as_ref().unwrap_or(&none);
        Seen {
            metadata: &one.metadata,
            observed_generation: status.observed_generation,
            conditions: &status.conditions,
            idle: None,
        }
    });
    judged.tell(found, seen);
}

/// All runs: one that waits for a person says which pools the next upgrade holds, or lets roll without rules.
pub(super) async fn runs(connection: &Connection, found: &mut Findings) {
    for one in listed::<MutexRunConfig>(connection, found, "MutexRunConfigs").await {
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
    fn an_approval_that_an_edit_of_labels_takes_away_is_told() {
        let labels = json!({"matchLabels": {"tier": "prod"}});
        let terms = json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]});
        let begin = json!({"approval": {"begin": "Manual"}});
        let failure = json!({"approval": {"begin": "None", "afterFailure": "Manual"}});
        let wave = json!({"waves": [{"nodes": 1}, {"nodes": 1, "approval": "Manual"}]});
        let none = json!({"approval": {"begin": "None"}, "waves": [{"nodes": 1, "approval": "None"}]});
        for (labels, settings, wanted) in [
            (&labels, &begin, Some("spec.approval.begin")),
            (&terms, &failure, Some("spec.approval.afterFailure")),
            (&labels, &wave, Some("spec.waves[1].approval")),
            (&labels, &none, None),
            (&labels, &json!({"soakSeconds": 5}), None),
            (&json!({}), &begin, None),
            (&json!({"matchLabels": {}, "matchExpressions": []}), &begin, None),
            (&json!(null), &wave, None),
        ] {
            let mut spec = settings.clone();
            spec["ownerSelector"] = json!({"kind": "Plan", "labels": labels});
            let binding = json!({
                "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBinding",
                "metadata": {"name": "b"}, "spec": spec,
            });
            let binding: MutexBinding = serde_json::from_value(binding).unwrap();
            let found = left_by_labels(&binding);
            let wanted = wanted.map(|field| ("b".to_owned(), field.to_owned(), "Plan"));
            assert_eq!(found, wanted, "{labels} {settings}");
        }
    }

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
