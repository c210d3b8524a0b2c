//! What the API server refuses of numo's kinds, because it can never work: by kind, the field it stands at, the rule in CEL, and the
//! sentence that is said (found, wanted).
//!
//! Only what the operator itself refuses whatever else the cluster holds is refused here; what can come right (a rule that is made
//! later, a pool that does not exist yet) becomes a condition. An object that is stored already and breaks a rule is served, and
//! all but the broken field may be written (CRD ratcheting, Kubernetes 1.30).

use crate::{
    check::{
        Check, LABELS, REQUIREMENT, SPEC, check, domains, drain, failures, first_or_waves, growth_is_last,
        left_out_or_waited_for, limit, no_pools, reference, some, wave_names,
    },
    rule_validations::MUTEX_RULE,
    shape,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

const MUTEX_TARGET: &[Check] = &[
    SPEC,
    check(
        ".spec",
        "has(self.machineConfigPools) && size(self.machineConfigPools) > 0",
        "found no pool, wanted the name of one MachineConfigPool at least",
    )
    .of(".machineConfigPools"),
    check(
        ".spec",
        "!has(self.machineConfigPools) || self.machineConfigPools.all(name, name != '')",
        "found an empty name, wanted names of MachineConfigPools",
    )
    .of(".machineConfigPools"),
];

const MUTEX_RUN_CONFIG: &[Check] = &[
    SPEC,
    check(
        ".spec",
        "has(self.pools) || (has(self.mutexTargets) && size(self.mutexTargets) > 0)",
        "found no target, wanted the name of one MutexTarget at least, or pools",
    )
    .of(".mutexTargets"),
    check(
        ".spec",
        "!has(self.pools) || !has(self.mutexTargets)",
        "found pools beside mutexTargets, wanted one of them",
    )
    .of(".pools"),
    reference(".spec.mutexTargets[]"),
    limit(".spec.mutexTargets[].maxUnavailable"),
    reference(".spec.mutexRules[]"),
    reference(".spec.waves[].rules[]"),
    check(
        ".spec.rules[]",
        "(has(self.type) && self.type != 'kubernetes') || has(self.jobSpec) || has(self.cleanUpJobSpec) || has(self.cel) || has(self.prometheus)",
        "found neither jobSpec nor cleanUpJobSpec, wanted a batch/v1 JobSpec, or another type with its field",
    )
    .of(".jobSpec"),
    check(
        ".spec.rules[]",
        "!has(self.type) || self.type != 'wasm'",
        "found type wasm, wanted kubernetes, cel or prometheus: a component has a MutexRule of its own",
    )
    .of(".type"),
    check(
        ".spec",
        "!(has(self.strategy) ? self.strategy == 'CanaryPool' : has(self.canary)) || (has(self.canary) && has(self.canary.name) && self.canary.name != '')",
        "found no canary.name, wanted the name of a MachineConfigPool (strategy CanaryPool)",
    )
    .of(".canary"),
    check(
        ".spec",
        "!has(self.hold) || (has(self.trigger) && self.trigger == 'AnyConfig')",
        "found hold: Always without trigger: AnyConfig, wanted both",
    )
    .says("'found hold: ' + self.hold + ' with trigger ' + (has(self.trigger) ? self.trigger : 'Version') + ', wanted trigger: AnyConfig'")
    .of(".hold"),
    check(
        ".spec",
        "!has(self.pools) || !has(self.canary) || !has(self.canary.name) || (has(self.strategy) && self.strategy != 'CanaryPool') || !(self.canary.name in self.pools)",
        "found canary.name among pools, wanted a pool of its own: nodes are released into it",
    )
    .says("'found ' + self.canary.name + ' among pools, wanted a pool of its own: nodes are released into it'")
    .of(".canary.name"),
    check(
        ".spec",
        "!has(self.pools) || !has(self.waves) || self.waves.all(wave, !has(wave.pools) || wave.pools.all(name, name in self.pools))",
        "found a pool of a wave that is not among pools, wanted names of pools: the wave would have no node of it",
    )
    .of(".waves"),
    domains(".spec.domains"),
    limit(".spec.maxUnavailable"),
    failures(".spec.failureBudget"),
    first_or_waves(".spec"),
    left_out_or_waited_for(".spec"),
    wave_names(".spec.waves"),
    growth_is_last(".spec.waves"),
    some(".spec.waves[].nodes"),
    limit(".spec.waves[].maxUnavailable"),
    failures(".spec.waves[].failureBudget"),
];

/// A policy of nodes that selects none is a slip: absent is none, and `{}` is all.
const fn selects_nodes() -> Check {
    check(
        ".spec",
        "has(self.nodeSelector)",
        "found no nodeSelector, which selects no node; wanted {} for all nodes, or labels",
    )
    .of(".nodeSelector")
}

const MUTEX_BUDGET: &[Check] = &[
    selects_nodes(),
    limit(".spec.maxUnavailable"),
    check(
        ".spec",
        "!has(self.maxGroups) || (has(self.groupBy) && self.groupBy != '')",
        "found maxGroups without groupBy, wanted groupBy too: the label whose values are counted",
    )
    .of(".maxGroups"),
];

const MUTEX_WINDOW: &[Check] = &[selects_nodes()];

const MUTEX_NOTIFIER: &[Check] = &[
    check(
        ".spec.template",
        r"self.matches(r'^([^{}]|\{\{|\}\}|\{(owner|what|transition|kind|namespace|name|node|reason|message|target|time|id|explanation)\})*$')",
        "found a brace that begins no field, wanted fields such as {message}, and a brace twice for a brace of the text",
    ),
    check(
        ".spec",
        "!has(self.namespaces) || !has(self.ownerKinds) || self.ownerKinds.exists(kind, kind in ['MutexRunConfig', 'Plan'])",
        "found namespaces beside ownerKinds that are in none, which tells nobody; wanted MutexRunConfig or Plan among them, or no namespaces",
    )
    .of(".namespaces"),
    check(
        ".spec",
        "[has(self.cloudEvents), has(self.slack), has(self.alertmanager)].filter(given, given).size() == 1",
        "found no sink, or several, wanted one of cloudEvents, slack and alertmanager",
    ),
    check(
        ".spec",
        "has(self.secretRef) || !has(self.slack)",
        "found slack without secretRef, wanted a Secret with key url: whoever knows that URL may post",
    )
    .of(".slack"),
    check(
        ".spec",
        "has(self.secretRef) || !has(self.cloudEvents) || has(self.cloudEvents.url)",
        "found cloudEvents without url and no secretRef, wanted one of them",
    )
    .of(".cloudEvents"),
    check(
        ".spec",
        "has(self.secretRef) || !has(self.alertmanager) || has(self.alertmanager.url)",
        "found alertmanager without url and no secretRef, wanted one of them",
    )
    .of(".alertmanager"),
    check(
        ".spec.alertmanager.silences",
        "self.nodeLabel != 'alertname' && (!has(self.matchers) || self.matchers.all(one, !(one.name in ['alertname', self.nodeLabel])))",
        "found alertname, or nodeLabel in matchers too, wanted other labels: numo has matchers of its own for these",
    ),
];

/// An approval is a word that was given: it is withdrawn, and not edited.
const MUTEX_APPROVAL: &[Check] = &[
    check(
        ".spec",
        "self == oldSelf",
        "found another spec, wanted it as it was made: delete the object to withdraw it, and approve again",
    ),
    check(
        ".spec",
        "!has(self.wave) || !has(self.afterFailure) || !self.afterFailure",
        "found afterFailure beside wave, wanted one of them",
    )
    .of(".afterFailure"),
    check(
        ".spec.owner",
        "self.kind in ['MutexRunConfig', 'Plan', 'NodeMaintenance', 'NodeVersion']",
        "found another kind, wanted MutexRunConfig, Plan, NodeMaintenance or NodeVersion: only these have approvals",
    )
    .of(".kind"),
    check(
        ".spec.owner",
        "self.kind == 'MutexRunConfig' ? self.apiGroup == 'openshift-optional.skrzypek.io' : self.kind == 'Plan' ? self.apiGroup == 'upgrade.cattle.io' : self.kind == 'NodeMaintenance' ? self.apiGroup in ['nodemaintenance.medik8s.io', 'nodemaintenance.kubevirt.io'] : self.kind != 'NodeVersion' || self.apiGroup == 'update.edgeless.systems'",
        "found an apiGroup that has no such kind, wanted that of the owner",
    )
    .says("'found apiGroup ' + self.apiGroup + ' with kind ' + self.kind + ', wanted that of the owner'")
    .of(".apiGroup"),
    check(
        ".spec.owner",
        "!(self.kind in ['MutexRunConfig', 'Plan']) || (has(self.namespace) && self.namespace != '')",
        "found no namespace, wanted that of the MutexRunConfig or Plan",
    )
    .of(".namespace"),
    check(
        ".spec.owner",
        "!(self.kind in ['NodeMaintenance', 'NodeVersion']) || !has(self.namespace) || self.namespace == ''",
        "found a namespace, wanted none: a NodeMaintenance or NodeVersion is in no namespace",
    )
    .of(".namespace"),
];

const MUTEX_BINDING: &[Check] = &[
    check(
        ".spec.ownerSelector",
        "!has(self.apiGroup) || self.kind != 'Plan' || self.apiGroup in ['upgrade.cattle.io']",
        "found another apiGroup with kind Plan, wanted upgrade.cattle.io or none",
    )
    .says("'found apiGroup ' + self.apiGroup + ' with kind Plan, wanted upgrade.cattle.io or none'")
    .of(".apiGroup"),
    check(
        ".spec.ownerSelector",
        "!has(self.apiGroup) || self.kind != 'NodeMaintenance' || self.apiGroup in ['nodemaintenance.medik8s.io', 'nodemaintenance.kubevirt.io']",
        "found another apiGroup with kind NodeMaintenance, wanted nodemaintenance.medik8s.io, nodemaintenance.kubevirt.io or none",
    )
    .says("'found apiGroup ' + self.apiGroup + ' with kind NodeMaintenance, wanted nodemaintenance.medik8s.io, nodemaintenance.kubevirt.io or none'")
    .of(".apiGroup"),
    check(
        ".spec.ownerSelector",
        "self.kind != 'NodeMaintenance' || !has(self.namespaces)",
        "found namespaces with kind NodeMaintenance, wanted none: a NodeMaintenance is in no namespace",
    )
    .of(".namespaces"),
    check(
        ".spec.ownerSelector",
        "!has(self.apiGroup) || self.kind != 'NodeVersion' || self.apiGroup in ['update.edgeless.systems']",
        "found another apiGroup with kind NodeVersion, wanted update.edgeless.systems or none",
    )
    .says("'found apiGroup ' + self.apiGroup + ' with kind NodeVersion, wanted update.edgeless.systems or none'")
    .of(".apiGroup"),
    check(
        ".spec.ownerSelector",
        "self.kind != 'NodeVersion' || !has(self.namespaces)",
        "found namespaces with kind NodeVersion, wanted none: a NodeVersion is in no namespace",
    )
    .of(".namespaces"),
    // What holds where nothing is given is no setting, and nothing empty is. `leaveOutAfterSeconds` says nothing by itself.
    check(
        ".spec",
        "(has(self.rules) && size(self.rules) > 0) || has(self.maxUnavailable) || (has(self.mutexKeys) && size(self.mutexKeys) > 0) || has(self.order) || (has(self.soakSeconds) && self.soakSeconds > 0) || (has(self.first) && ((has(self.first.matchLabels) && size(self.first.matchLabels) > 0) || (has(self.first.matchExpressions) && size(self.first.matchExpressions) > 0))) || has(self.waves) || has(self.domains) || (has(self.approval) && ((has(self.approval.begin) && self.approval.begin == 'Manual') || (has(self.approval.afterFailure) && self.approval.afterFailure == 'Manual'))) || has(self.failureBudget) || (has(self.takeNotReady) && self.takeNotReady != (self.ownerSelector.kind == 'NodeMaintenance')) || (has(self.notReadyPolicy) && (self.notReadyPolicy != 'Wait' || self.ownerSelector.kind == 'NodeMaintenance')) || (has(self.retries) && self.retries > 0) || (has(self.drainBy) && self.drainBy == (self.ownerSelector.kind == 'Plan' ? 'Numo' : 'NodeMaintenance')) || has(self.window) || has(self.startAfter) || (has(self.drain) && (has(self.drain.force) || has(self.drain.deleteEmptydirData) || has(self.drain.ignoreDaemonsets) || has(self.drain.gracePeriodSeconds) || has(self.drain.timeoutSeconds) || has(self.drain.skipWaitForDeleteTimeoutSeconds) || has(self.drain.disableEviction) || has(self.drain.podSelector) || has(self.drain.order) || has(self.drain.orderLabel) || has(self.drain.maxConcurrent) || has(self.drain.awaitVolumeDetach) || has(self.drain.probe)))",
        "found neither rules nor settings, which gates nothing; wanted rules, or a setting such as maxUnavailable",
    ),
    reference(".spec.rules[]"),
    reference(".spec.waves[].rules[]"),
    domains(".spec.domains"),
    limit(".spec.maxUnavailable"),
    failures(".spec.failureBudget"),
    drain(".spec.drain"),
    first_or_waves(".spec"),
    left_out_or_waited_for(".spec"),
    wave_names(".spec.waves"),
    growth_is_last(".spec.waves"),
    some(".spec.waves[].nodes"),
    limit(".spec.waves[].maxUnavailable"),
    failures(".spec.waves[].failureBudget"),
    no_pools(".spec.waves[]"),
    check(
        ".spec",
        "self.ownerSelector.kind != 'NodeMaintenance' || !has(self.waves) || self.waves.all(wave, !has(wave.nodes))",
        "found waves with nodes and kind NodeMaintenance, wanted nodeSelector: one that has ended is gone, and nobody knows how many were before",
    )
    .of(".waves"),
    check(
        ".spec",
        "self.ownerSelector.kind != 'NodeMaintenance' || !has(self.order)",
        "found order with kind NodeMaintenance, wanted none: it has one node, and begins as soon as it may",
    )
    .of(".order"),
    check(
        ".spec",
        "self.ownerSelector.kind != 'NodeMaintenance' || !has(self.retries) || self.retries == 0",
        "found retries with kind NodeMaintenance, wanted none: it has no Job that could be tried again (a rule has retries of its own)",
    )
    .of(".retries"),
    check(
        ".spec",
        "self.ownerSelector.kind != 'NodeMaintenance' || !has(self.drainBy) || self.drainBy == 'Numo'",
        "found drainBy: Job with kind NodeMaintenance, wanted Numo or none: it has no Job, and numo drains its node",
    )
    .says("'found drainBy: ' + self.drainBy + ' with kind NodeMaintenance, wanted Numo or none: it has no Job, and numo drains its node'")
    .of(".drainBy"),
    check(
        ".spec",
        "self.ownerSelector.kind != 'NodeVersion' || !has(self.retries) || self.retries == 0",
        "found retries with kind NodeVersion, wanted none: it has no Job that could be tried again (its joinRetries are of machines that do not join)",
    )
    .of(".retries"),
    check(
        ".spec",
        "self.ownerSelector.kind != 'NodeVersion' || !has(self.drainBy) || self.drainBy != 'Job'",
        "found drainBy: Job with kind NodeVersion, wanted Numo, NodeMaintenance or none: it has no Job",
    )
    .of(".drainBy"),
    check(
        ".spec",
        "self.ownerSelector.kind != 'Plan' || !has(self.drainBy) || self.drainBy != 'NodeMaintenance'",
        "found drainBy: NodeMaintenance with kind Plan, wanted Job, Numo or none: only nodes of a NodeVersion are drained so",
    )
    .of(".drainBy"),
];

const NODE_CHANGE: &[Check] = &[
    check(
        ".spec",
        "self.nodeName != '' && self.ownerRef.kind != '' && self.ownerRef.name != ''",
        "found no nodeName, ownerRef.kind or ownerRef.name, wanted all of them",
    ),
    check(
        ".spec",
        "self.ownerRef == oldSelf.ownerRef",
        "found another owner than before, wanted the same: only directive may be changed",
    )
    .of(".ownerRef"),
    check(
        ".spec",
        "self.nodeName == oldSelf.nodeName && self.nodeUID == oldSelf.nodeUID",
        "found another node than before, wanted the same: only directive may be changed",
    )
    .of(".nodeName"),
    check(
        ".spec",
        "self.target == oldSelf.target",
        "found another target than before, wanted the same: only directive may be changed",
    )
    .of(".target"),
    check(
        ".spec",
        "(has(self.inService) && self.inService) == (has(oldSelf.inService) && oldSelf.inService)",
        "found another inService than before, wanted the same: only directive may be changed",
    )
    .of(".inService"),
];

/// `nodeName` cannot be changed, in the words of the reference's webhook. At the root: a spec that is taken away and put back is an
/// update too.
const NODE_MAINTENANCE: &[Check] = &[
    check(
        "",
        "!has(oldSelf.spec) || (has(self.spec) && self.spec.nodeName == oldSelf.spec.nodeName)",
        "updating spec.NodeName isn't allowed",
    ),
    reference(".spec.mutexRules[]"),
    drain(".spec.drain"),
];

/// Of a Plan only numo's own part is judged.
const PLAN: &[Check] = &[
    reference(".spec.mutex.rules[]"),
    reference(".spec.mutex.waves[].rules[]"),
    domains(".spec.mutex.domains"),
    limit(".spec.mutex.maxUnavailable"),
    failures(".spec.mutex.failureBudget"),
    first_or_waves(".spec.mutex"),
    left_out_or_waited_for(".spec.mutex"),
    wave_names(".spec.mutex.waves"),
    growth_is_last(".spec.mutex.waves"),
    some(".spec.mutex.waves[].nodes"),
    limit(".spec.mutex.waves[].maxUnavailable"),
    failures(".spec.mutex.waves[].failureBudget"),
    no_pools(".spec.mutex.waves[]"),
];

/// What is refused of a NodeVersion beside what is refused of a Plan's settings, which it has, too.
const NODE_VERSION: &[Check] = &[
    limit(".spec.surge"),
    drain(".spec.drain"),
    check(
        ".spec.copiedAnnotations[]",
        "self.matches('^[A-Za-z0-9][-A-Za-z0-9_./]*[*]?$') || self == '*'",
        "found no key of an annotation, wanted a key such as example.com/owner, or the beginning of one and '*'",
    )
    .says("'found ' + self + ', wanted the key of an annotation such as example.com/owner, or the beginning of one and \"*\"'"),
    check(
        ".spec.mutex",
        "!has(self.retries) || self.retries == 0",
        "found retries, wanted none: a NodeVersion has no Job that could be tried again (spec.joinRetries are of machines that do not join)",
    )
    .of(".retries"),
    check(
        ".spec.mutex",
        "!has(self.drainBy) || self.drainBy != 'Job'",
        "found drainBy: Job, wanted Numo, NodeMaintenance or none: a NodeVersion has no Job",
    )
    .of(".drainBy"),
];

/// What is refused of a Plan alone.
const PLAN_ALONE: &[Check] = &[check(
    ".spec.mutex",
    "!has(self.drainBy) || self.drainBy != 'NodeMaintenance'",
    "found drainBy: NodeMaintenance, wanted Job, Numo or none: only nodes of a NodeVersion are drained so",
)
.of(".drainBy")];

/// What is refused of a kind.
fn checks(kind: &str) -> impl Iterator<Item = &'static Check> {
    let (first, second): (&[Check], &[Check]) = match kind {
        "NodeVersion" => (PLAN, NODE_VERSION),
        "Plan" => (PLAN, PLAN_ALONE),
        kind => (of_kind(kind), &[]),
    };
    first.iter().chain(second)
}

fn of_kind(kind: &str) -> &'static [Check] {
    match kind {
        "MutexRule" => MUTEX_RULE,
        "MutexTarget" => MUTEX_TARGET,
        "MutexRunConfig" => MUTEX_RUN_CONFIG,
        "MutexBudget" => MUTEX_BUDGET,
        "MutexApproval" => MUTEX_APPROVAL,
        "MutexWindow" => MUTEX_WINDOW,
        "MutexNotifier" => MUTEX_NOTIFIER,
        "MutexBinding" => MUTEX_BINDING,
        "NodeChange" => NODE_CHANGE,
        "NodeMaintenance" => NODE_MAINTENANCE,
        "Plan" => PLAN,
        _ => &[],
    }
}

/// What is refused of the rules that stand in an object of this kind: what is refused of MutexRules, but for what is of components, which
/// have no place there.
fn inline(kind: &str) -> Vec<(String, Check)> {
    if kind != shape::INLINE.0 {
        return Vec::new();
    }
    let of_spec = MUTEX_RULE.iter().filter(|check| check.at.starts_with(".spec"));
    let of_others = of_spec.filter(|check| !check.rule.contains("self.wasm"));
    let placed = of_others.map(|check| (shape::inline(check.at), *check));
    placed.collect()
}

/// The definition with what is refused.
pub(crate) fn validated(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let kind = crd.spec.names.kind.clone();
    let selectors = shape::SELECTORS.into_iter().filter(|(of, _)| *of == kind);
    let selectors: Vec<(String, Check)> = selectors
        .flat_map(|(_, path)| {
            [
                (format!("{path}.matchExpressions[]"), REQUIREMENT),
                (format!("{path}.matchLabels"), LABELS),
            ]
        })
        .collect();
    for schema in shape::schemas(&mut crd) {
        let of_kind = checks(&kind).map(|check| (check.at, *check));
        let of_selectors = selectors.iter().map(|(path, check)| (path.as_str(), *check));
        let inline = inline(&kind);
        let of_inline = inline.iter().map(|(path, check)| (path.as_str(), *check));
        for (path, check) in of_kind.chain(of_selectors).chain(of_inline) {
            if let Some(field) = shape::at(schema, path) {
                let rules = field.x_kubernetes_validations.get_or_insert_default();
                rules.push(check.rule());
            }
        }
    }
    crd
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        crds,
        mutex_binding::{GATED_KINDS, groups_of},
    };

    #[test]
    fn every_check_stands_at_a_field_and_is_about_one() {
        for mut crd in crds::all().into_iter().chain(crds::machines()) {
            let kind = crd.spec.names.kind.clone();
            for check in checks(&kind) {
                let about = format!("{}{}", check.at, check.field.unwrap_or_default());
                for schema in shape::schemas(&mut crd) {
                    assert!(
                        shape::at(schema, check.at).is_some(),
                        "{kind} has no {}",
                        check.at
                    );
                    assert!(shape::at(schema, &about).is_some(), "{kind} has no {about}");
                }
            }
        }
    }

    #[test]
    fn the_kinds_and_groups_that_a_binding_gates_are_those_of_the_operator() {
        for kind in GATED_KINDS {
            let groups: Vec<String> = groups_of(kind).iter().map(|group| format!("'{group}'")).collect();
            assert!(!groups.is_empty(), "{kind} is of no group");
            let rule = format!(
                "!has(self.apiGroup) || self.kind != '{kind}' || self.apiGroup in [{}]",
                groups.join(", ")
            );
            assert!(MUTEX_BINDING.iter().any(|check| check.rule == rule), "{rule}");
        }
        for mut crd in crds::all()
            .into_iter()
            .filter(|crd| crd.spec.names.kind == "MutexBinding")
        {
            for schema in shape::schemas(&mut crd) {
                let kind = shape::at(schema, ".spec.ownerSelector.kind").expect("a kind");
                let found = kind.enum_.iter().flatten().map(|value| value.0.clone());
                assert!(
                    found.eq(GATED_KINDS.map(serde_json::Value::from)),
                    "{:?}",
                    kind.enum_
                );
            }
        }
    }

    /// A field that is not in the rule would not count as a setting.
    #[test]
    fn the_rule_against_idle_bindings_names_every_field() {
        let idle = |check: &&Check| check.message.contains("which gates nothing");
        let rule = MUTEX_BINDING.iter().find(idle).expect("a rule").rule;
        // Whom it selects, and what says nothing without notReadyPolicy.
        let no_settings = ["ownerSelector", "leaveOutAfterSeconds"];
        for mut crd in crds::all()
            .into_iter()
            .filter(|crd| crd.spec.names.kind == "MutexBinding")
        {
            for schema in shape::schemas(&mut crd) {
                for (path, object) in [(".spec", "self"), (".spec.drain", "self.drain")] {
                    let spec = shape::at(schema, path).expect("an object");
                    let fields = spec.properties.iter().flatten().map(|(name, _)| name.as_str());
                    for field in fields.filter(|field| !no_settings.contains(field)) {
                        let named = format!("has({object}.{field})");
                        assert!(rule.contains(&named), "{named} is not in {rule}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_message_says_what_is_wanted() {
        for crd in crds::all().into_iter().chain(crds::machines()) {
            for check in checks(&crd.spec.names.kind) {
                let said = check.message.contains("found ") && check.message.contains("wanted ");
                assert!(
                    said || check.message.contains("isn't allowed"),
                    "{}",
                    check.message
                );
            }
        }
    }
}
