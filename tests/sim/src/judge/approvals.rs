//! Approvals (invariant approval): no node begins of an owner or a wave that wants a person's word without one that names this owner,
//! this wave, and a digest that was reported for just that, when its spec, its rules and its run were what they are now.

use super::{Judge, Verdict, breach, fleet, waves};
use crate::world::{World, seconds};
use numo_api::{
    ApprovalPolicy, ApprovalSettings, GROUP, MutexApprovalSpec, machines::UPDATE_GROUP, plan::PLAN_GROUP,
};
use numo_core::{
    Decision, Owner, OwnerKind,
    observed::{Key, NodeView, Observed},
    report::Point,
};
use serde_json::{Value, json};

/// Something that was reported to wait for a word.
#[derive(Debug)]
pub(super) struct Reported {
    owner: Owner,
    run_id: String,
    point: Point,
    digest: String,
    /// When it was reported first (seconds since the beginning).
    at: i64,
    /// What it was about, without the nodes.
    about: Value,
}

/// What of an owner must be approved before a node begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Begin,
    /// That a node has failed at this time (seconds since the beginning), or later.
    AfterFailure(i64),
    /// The wave of this number, from 1.
    Wave(usize),
}

impl Judge {
    /// Keeps what a decision says that waits.
    pub(super) fn note_waiting(
        &mut self,
        world: &World,
        seen: &Observed,
        owner: &Owner,
        decision: &Decision,
    ) {
        let report = &decision.report;
        let Some(waits) = &report.approval else { return };
        let is_known = |one: &Reported| {
            one.digest == waits.digest
                && one.point == waits.point
                && one.owner == *owner
                && one.run_id == report.run_id
        };
        if !self.reported.iter().any(is_known) {
            self.reported.push(Reported {
                owner: owner.clone(),
                run_id: report.run_id.clone(),
                point: waits.point.clone(),
                digest: waits.digest.clone(),
                at: world.now,
                about: about(seen, owner),
            });
        }
    }

    /// Whether everything that the owner wants approved before this node begins has been.
    pub(super) fn with_a_word(
        &self,
        world: &World,
        seen: &Observed,
        owner: &Owner,
        (run_id, node): (&str, &NodeView),
    ) -> Verdict {
        let is_manual = |policy: Option<ApprovalPolicy>| policy == Some(ApprovalPolicy::Manual);
        let settings = settings(seen, owner);
        let mut wanted = Vec::new();
        if settings.iter().any(|one| is_manual(one.begin)) {
            wanted.push(Wanted::Begin);
        }
        if settings.iter().any(|one| is_manual(one.after_failure)) {
            let failed = super::settings::failed(seen, owner, (run_id, node));
            let last =
                failed.filter_map(|change| change.status.since.as_deref()?.parse::<jiff::Timestamp>().ok());
            wanted.extend(last.map(seconds).max().map(Wanted::AfterFailure));
        }
        let wave = self.wave_of(world, seen, owner, (run_id, node));
        if let Some((number, _)) = wave.filter(|(_, wave)| is_manual(wave.approval)) {
            wanted.push(Wanted::Wave(number));
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let name = wave.and_then(|(_, wave)| wave.name.as_deref());
        let ttl = settings.iter().filter_map(|one| one.ttl_seconds).min();
        let about = about(seen, owner);
        for wanted in wanted {
            let has_said = seen.approvals.values().any(|view| {
                let is_fresh = ttl.is_none_or(|ttl| seconds(view.created) + ttl > self.decided_at);
                is_fresh
                    && is_of(owner, &view.spec)
                    && is_about(&view.spec, wanted, name)
                    && self.reported.iter().any(|one| {
                        one.digest == view.spec.digest
                            && one.owner == *owner
                            && one.run_id == run_id
                            && one.about == about
                            && answers(one, wanted)
                    })
            });
            if !has_said {
                return breach(
                    "approval",
                    format!(
                        "{} was begun for {owner}, and nobody has approved {wanted:?}: {:?}",
                        node.name,
                        seen.approvals.values().map(|one| &one.spec).collect::<Vec<_>>()
                    ),
                );
            }
        }
        Ok(())
    }
}

/// What the objects that gate the owner want approved, but for waves.
fn settings<'a>(seen: &'a Observed, owner: &Owner) -> Vec<&'a ApprovalSettings> {
    match owner.kind {
        OwnerKind::MutexRunConfig => {
            let run = seen.runs.get(&owner.key);
            run.and_then(|run| run.spec.approval.as_ref())
                .into_iter()
                .collect()
        }
        OwnerKind::Plan | OwnerKind::NodeMaintenance(_) | OwnerKind::NodeVersion => {
            let all = fleet::settings(seen, owner);
            all.filter_map(|one| one.approval.as_ref()).collect()
        }
    }
}

/// What an approval of the owner is for, whatever its nodes are: its spec, what gates it, and the editions of its rules.
fn about(seen: &Observed, owner: &Owner) -> Value {
    let maintained = seen.maintenances.get(owner);
    let maintained = maintained.and_then(|view| seen.nodes.get(&view.spec.node_name));
    let of_waves = waves::waves(seen, owner).iter();
    // A NodeMaintenance has one node: what other waves ask is not approved with it.
    let of_waves = of_waves
        .filter(|wave| maintained.is_none_or(|node| waves::selects(wave, node)))
        .take(if maintained.is_some() { 1 } else { usize::MAX });
    let of_waves = of_waves.flat_map(|wave| wave.rules.iter().flatten());
    let mut about = match owner.kind {
        OwnerKind::MutexRunConfig => {
            let run = seen.runs.get(&owner.key);
            let rules = run
                .into_iter()
                .flat_map(|run| run.spec.mutex_rules.iter().flatten());
            let rules = rules.chain(of_waves);
            let rules = rules.map(|rule| {
                let namespace = rule.namespace.as_deref().unwrap_or(&owner.key.namespace);
                Key::new(namespace, rule.name.clone().unwrap_or_default())
            });
            json!({"spec": run.map(|run| &run.spec), "rules": editions(seen, rules)})
        }
        OwnerKind::Plan | OwnerKind::NodeMaintenance(_) | OwnerKind::NodeVersion => {
            let all: Vec<_> = fleet::settings(seen, owner).collect();
            let rules = all
                .iter()
                .flat_map(|one| one.rules.iter().flatten())
                .chain(of_waves);
            let rules =
                rules.map(|rule| Key::new(&seen.settings.namespace, rule.name.clone().unwrap_or_default()));
            let rules = editions(seen, rules);
            let spec = match seen.maintenances.get(owner) {
                Some(view) => json!(view.spec),
                None if owner.kind == OwnerKind::NodeVersion => {
                    let view = seen.fleet.versions.get(&owner.key.name);
                    json!(view.map(|view| &view.spec))
                }
                None => json!(seen.plans.get(&owner.key).map(|plan| &plan.spec)),
            };
            json!({"spec": spec, "gates": all, "rules": rules})
        }
    };
    if let Some(spec) = about["spec"].as_object_mut() {
        spec.remove("suspend");
        spec.remove("dryRun");
    }
    about
}

fn editions(seen: &Observed, rules: impl Iterator<Item = Key>) -> Vec<String> {
    let edition = |key: Key| {
        let rule = seen.rules.get(&key);
        format!(
            "{key} {}",
            rule.map_or_else(String::new, |rule| format!("{}/{}", rule.uid, rule.generation))
        )
    };
    rules.map(edition).collect()
}

fn is_of(owner: &Owner, spec: &MutexApprovalSpec) -> bool {
    let (group, kind) = match owner.kind {
        OwnerKind::MutexRunConfig => (GROUP, "MutexRunConfig"),
        OwnerKind::Plan => (PLAN_GROUP, "Plan"),
        OwnerKind::NodeMaintenance(group) => (group.name(), "NodeMaintenance"),
        OwnerKind::NodeVersion => (UPDATE_GROUP, "NodeVersion"),
    };
    let namespace = Some(owner.key.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let named = &spec.owner;
    named.api_group == group
        && named.kind == kind
        && named.name == owner.key.name
        && named.namespace.as_deref() == namespace
}

fn is_about(spec: &MutexApprovalSpec, wanted: Wanted, name: Option<&str>) -> bool {
    let of_failure = spec.after_failure == Some(true);
    match (wanted, spec.wave.as_deref()) {
        (Wanted::Begin, wave) => wave.is_none() && !of_failure,
        (Wanted::AfterFailure(_), _) => of_failure,
        (Wanted::Wave(number), Some(wave)) => {
            !of_failure && (wave == number.to_string() || name == Some(wave))
        }
        (Wanted::Wave(_), None) => false,
    }
}

/// Whether it was reported for just that.
fn answers(one: &Reported, wanted: Wanted) -> bool {
    match (wanted, &one.point) {
        (Wanted::Begin, Point::Begin) => true,
        (Wanted::AfterFailure(last), Point::AfterFailure { .. }) => one.at >= last,
        (Wanted::Wave(wanted), Point::Wave { number, .. }) => wanted == *number,
        _ => false,
    }
}
