//! What others do to what is seen, in no order that a cluster would have.

use super::{dice::Dice, mangle::mangle};
use crate::{
    cluster::{RUN_UID, hours},
    mangled::STEPS,
};
use jiff::{SignedDuration, Timestamp};
use numo_api::{Directive, DirectiveAction, MutexApprovalSpec, MutexApprovalStatus, marks, marks::openshift};
use numo_core::{
    Owner,
    observed::{
        ApprovalView, BindingView, BudgetView, EtcdPodView, EtcdVoter, ForeignController, Heard,
        IntOrPercent, JobEnd, Key, LeaseView, Leaving, Observed, Refusal, Rival, RuleAnswer, RuleWords, Said,
        Unread, Validity, WindowView,
    },
    owners::plan::Window,
    verdict::{Answers, Evidence},
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What is disturbed.
#[derive(Debug)]
pub struct Scene<'s> {
    pub observed: &'s mut Observed,
    pub answers: &'s mut Answers,
    pub now: Timestamp,
    /// Made so far.
    pub number: usize,
}

fn some<'m, K: Ord, V>(map: &'m mut BTreeMap<K, V>, dice: &mut Dice) -> Option<&'m mut V> {
    let index = dice.below(map.len());
    map.values_mut().nth(index)
}

fn forget<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, dice: &mut Dice) {
    let index = dice.below(map.len());
    if let Some(key) = map.keys().nth(index).cloned() {
        map.remove(&key);
    }
}

/// Owners there are.
pub fn owners(observed: &Observed) -> Vec<Owner> {
    let runs = observed.runs.keys().cloned().map(Owner::run);
    let plans = observed.plans.keys().cloned().map(Owner::plan);
    let versions = observed.fleet.versions.keys().map(Owner::node_version);
    let maintenances = observed.maintenances.keys().cloned();
    runs.chain(plans).chain(versions).chain(maintenances).collect()
}

fn uids(observed: &Observed) -> Vec<String> {
    let all = owners(observed).into_iter();
    let mut all: Vec<String> = all
        .filter_map(|owner| observed.uid_of(&owner).map(str::to_owned))
        .collect();
    all.extend(["stranger".to_owned(), String::new(), RUN_UID.to_owned()]);
    all
}

fn odd_text(dice: &mut Dice) -> String {
    match dice.below(9) {
        0 => String::new(),
        1 => "x".repeat(63),
        2 => "x".repeat(5000),
        3 => "\u{202e}ż\n\t\"{}".to_owned(),
        4 => "disabled".to_owned(),
        5 => "true".to_owned(),
        6 => "a".to_owned(),
        7 => "-.-".to_owned(),
        _ => "z1".to_owned(),
    }
}

impl Scene<'_> {
    fn at(&self, dice: &mut Dice) -> Timestamp {
        let ago = dice.one_of(&[0, -1, -30, -61, -700, -4000, -90_000, 9, 61, 5 * 3600]);
        match dice.below(12) {
            0 => Timestamp::UNIX_EPOCH,
            1 => Timestamp::MAX,
            2 => Timestamp::MIN,
            _ => self.now + SignedDuration::from_secs(ago),
        }
    }

    fn at_text(&self, dice: &mut Dice) -> String {
        if dice.one_in(8) {
            odd_text(dice)
        } else {
            self.at(dice).to_string()
        }
    }

    /// Something happens; what, in a word.
    pub fn disturb(&mut self, dice: &mut Dice) -> &'static str {
        self.number += 1;
        match dice.below(8) {
            0 | 1 => self.node(dice),
            2 => self.journal(dice),
            3 => self.owner(dice),
            4 => self.gate(dice),
            5 => self.rule(dice),
            6 => self.openshift(dice),
            _ => self.rest(dice),
        }
    }

    fn node(&mut self, dice: &mut Dice) -> &'static str {
        let all = uids(self.observed);
        let now = self.now;
        if dice.one_in(8) {
            return self.lease(dice);
        }
        let number = self.number;
        let Some(node) = some(&mut self.observed.nodes, dice) else {
            return "no node";
        };
        match dice.below(14) {
            0 => {
                let name = node.name.clone();
                self.observed.nodes.remove(&name);
                "node deleted"
            }
            1 => {
                node.uid = format!("uid-again-{number}");
                node.created = now;
                if !dice.one_in(3) {
                    let ours = |key: &String| key.contains("numo") || key.contains("medik8s");
                    node.labels.retain(|key, _| !ours(key));
                    node.annotations.retain(|key, _| !ours(key));
                    node.unschedulable = false;
                    node.taints = Value::Null;
                }
                "node remade"
            }
            2 | 3 => {
                node.ready = !node.ready;
                node.not_ready_since = (!node.ready && !dice.one_in(4)).then_some(now);
                "ready"
            }
            4 => {
                node.unschedulable = !node.unschedulable;
                "cordon"
            }
            5 => {
                let leaving = Leaving {
                    why: "it is being deleted".to_owned(),
                    since: (!dice.one_in(2)).then_some(now),
                };
                node.leaving = node.leaving.is_none().then_some(leaving);
                "leaving"
            }
            6 => {
                node.taints = dice.one_of(&[
                    Value::Null,
                    json!([]),
                    json!([{"effect": "NoSchedule"}]),
                    json!([{"key": marks::MEDIK8S_DRAIN, "effect": "NoExecute"}, {"key": "someone/else"}]),
                    json!([{"key": marks::QUARANTINE, "value": "x", "effect": "NoSchedule"}]),
                ]);
                "taints"
            }
            7 => {
                let key = dice.one_of(&[
                    openshift::HOSTNAME,
                    openshift::OS,
                    openshift::ZONE,
                    openshift::WORKER,
                    openshift::MASTER,
                    "node-role.kubernetes.io/infra",
                    marks::RELEASE,
                    marks::EXCLUDE_FROM_REMEDIATION,
                    "plan.upgrade.cattle.io/p",
                    "mutexrule.openshift-optional.skrzypek.io/backup.numo",
                ]);
                if dice.one_in(3) {
                    node.labels.remove(key);
                } else {
                    node.labels.insert(key.to_owned(), odd_text(dice));
                }
                "label"
            }
            8 | 9 => {
                let key = dice.one_of(&[
                    marks::SHIELDED_BY,
                    marks::CORDONED_BY,
                    marks::LABELLED_BY,
                    marks::SCALE_DOWN_DISABLED,
                    marks::DO_NOT_DISRUPT,
                ]);
                let uid = dice.one_of(&all);
                let value = match dice.below(8) {
                    0 => json!({"owner": uid, "prior": {"a/b": null, marks::RELEASE: "x"}}).to_string(),
                    1 => json!({"owner": uid, "prior": true}).to_string(),
                    2 => json!({"owner": uid, "prior": false, "corrections": dice.one_of(&[9, u32::MAX]), "done": true}).to_string(),
                    3 => json!({"owner": uid, "prior": false, "taints": ["x", marks::MEDIK8S_DRAIN]}).to_string(),
                    4 => format!("{uid} x {}", u32::MAX),
                    5 => format!("{uid} 1 1"),
                    6 => uid,
                    _ => odd_text(dice),
                };
                if dice.one_in(4) {
                    node.annotations.remove(key);
                } else {
                    node.annotations.insert(key.to_owned(), value);
                    node.has_annotations = true;
                }
                "mark"
            }
            10 => {
                let key = dice.one_of(&[
                    openshift::STATE,
                    openshift::CURRENT_CONFIG,
                    openshift::DESIRED_CONFIG,
                    openshift::DESIRED_DRAIN,
                    openshift::LAST_APPLIED_DRAIN,
                    openshift::CURRENT_IMAGE,
                    openshift::DESIRED_IMAGE,
                ]);
                let value = dice.one_of(&[
                    "",
                    "Done",
                    "Working",
                    "Degraded",
                    "rendered-worker-4170",
                    "rendered-x",
                ]);
                node.annotations.insert(key.to_owned(), value.to_owned());
                "state"
            }
            11 => {
                node.etcd_voter = dice.one_of(&[
                    None,
                    Some(EtcdVoter::Yes),
                    Some(EtcdVoter::No),
                    Some(EtcdVoter::Unknown),
                ]);
                node.labels
                    .insert("node-role.kubernetes.io/control-plane".to_owned(), String::new());
                "voter"
            }
            12 => {
                node.boot_id.push('+');
                node.kubelet_version = odd_text(dice);
                "boot"
            }
            _ => {
                let mut other = node.clone();
                let long = if dice.one_in(4) {
                    "x".repeat(240)
                } else {
                    String::new()
                };
                other.name = format!("n{number}{long}");
                if !dice.one_in(6) {
                    other.uid = format!("uid-n{number}");
                }
                self.observed.nodes.insert(other.name.clone(), other);
                "node joins"
            }
        }
    }

    fn lease(&mut self, dice: &mut Dice) -> &'static str {
        if dice.one_in(4) {
            forget(&mut self.observed.leases, dice);
            return "lease gone";
        }
        let uid = dice.one_of(&uids(self.observed));
        let Some(name) = dice.pick(self.observed.nodes.keys().cloned()) else {
            return "no node";
        };
        let holder = match dice.below(5) {
            0 => String::new(),
            1 => marks::MAINTENANCE_HOLDER.to_owned(),
            2 => format!("numo/Plan/{uid}"),
            3 => format!("numo/MutexRunConfig/{uid}"),
            _ => "somebody".to_owned(),
        };
        let view = LeaseView {
            holder,
            renewed: (!dice.one_in(6)).then(|| self.at(dice)),
            duration_seconds: dice.one_of(&[0, -5, 60, 3600, 3600, i64::from(i32::MAX)]),
            by_numo: dice.one_in(2),
            transitions: 0,
            uid: format!("lease-x{}", self.number),
            resource_version: format!("x{}", self.number),
        };
        self.observed.leases.insert(name, view);
        "lease"
    }

    fn journal(&mut self, dice: &mut Dice) -> &'static str {
        let (time, text) = (self.at_text(dice), odd_text(dice));
        let uid = dice.one_of(&uids(self.observed));
        let number = self.number;
        let names: Vec<String> = self.observed.nodes.keys().cloned().collect();
        let Some(change) = some(&mut self.observed.changes, dice) else {
            return "no journal";
        };
        change.resource_version = format!("x{number}");
        match dice.below(15) {
            0 => {
                let key = change.key.clone();
                self.observed.changes.remove(&key);
                "journal deleted"
            }
            1 => {
                change.deleting = true;
                "journal goes"
            }
            2 | 3 => {
                change.status.step = dice.one_of(&STEPS);
                "step"
            }
            4 => {
                match dice.below(4) {
                    0 => change.status.entries.clear(),
                    1 => change.status.entries.reverse(),
                    2 => change
                        .status
                        .entries
                        .iter_mut()
                        .for_each(|entry| entry.at.clone_from(&time)),
                    _ => change.status.since = Some(time),
                }
                "entries"
            }
            5 => {
                match dice.below(4) {
                    0 => change.spec.node_name = dice.pick(names).unwrap_or_default(),
                    1 => change.spec.node_uid = text,
                    2 => change.spec.owner_ref.uid = uid,
                    _ => change.spec.owner_ref.name = text,
                }
                "journal of another"
            }
            6 => {
                change.status.attempt = dice.one_of(&[-1, 0, 1, 7, i32::MAX]);
                "attempt"
            }
            7 | 8 => {
                change.generation += 1;
                change.spec.directive = dice
                    .one_of(&[
                        None,
                        Some(DirectiveAction::Skip),
                        Some(DirectiveAction::Retry),
                        Some(DirectiveAction::Hold),
                        Some(DirectiveAction::Abort),
                    ])
                    .map(|action| Directive {
                        action,
                        reason: Some(text),
                        by: None,
                    });
                "directive"
            }
            9 => {
                let mut twin = change.clone();
                twin.key.name.push_str("-twin");
                if dice.one_in(3) {
                    "elsewhere".clone_into(&mut twin.key.namespace);
                }
                twin.uid = format!("twin-{number}");
                self.observed.changes.insert(twin.key.clone(), twin);
                "twin"
            }
            10 => {
                change.status.pin = None;
                "pin"
            }
            11 => {
                change.status.closed_since = Some(time);
                "closed"
            }
            12 => {
                change.status.journal_version = dice.one_of(&[0, 1, 99, -1]);
                "version"
            }
            13 => {
                mangle!(change.spec, &[], dice);
                "spec of a journal"
            }
            _ => {
                mangle!(change.status, &[], dice);
                "journal mangled"
            }
        }
    }

    fn owner(&mut self, dice: &mut Dice) -> &'static str {
        let Some(owner) = dice.pick(owners(self.observed)) else {
            return "no owner";
        };
        let now = self.now;
        let number = self.number;
        let time = self.at_text(dice);
        // What every owner has.
        let (uid, generation, deleting, finalizers, annotations, created) = {
            let observed = &mut *self.observed;
            macro_rules! of {
                ($view:expr) => {{
                    let view = $view;
                    (
                        &mut view.uid,
                        &mut view.generation,
                        &mut view.deleting,
                        &mut view.finalizers,
                        &mut view.annotations,
                        &mut view.created,
                    )
                }};
            }
            if let Some(view) = observed.runs.get_mut(&owner.key) {
                of!(view)
            } else if let Some(view) = observed.plans.get_mut(&owner.key) {
                of!(view)
            } else if let Some(view) = observed.maintenances.get_mut(&owner) {
                of!(view)
            } else if let Some(view) = observed.fleet.versions.get_mut(&owner.key.name) {
                of!(view)
            } else {
                return "no owner";
            }
        };
        match dice.below(14) {
            0 => {
                *deleting = true;
                "owner goes"
            }
            1 => {
                *uid = format!("uid-again-{number}");
                *generation = 1;
                *deleting = false;
                finalizers.clear();
                annotations.clear();
                *created = now;
                "owner remade"
            }
            2 => {
                *finalizers = dice.one_of(&[
                    Vec::new(),
                    vec![marks::FINALIZER.to_owned()],
                    vec!["x/y".to_owned()],
                    vec![marks::MAINTENANCE_FINALIZER.to_owned()],
                    vec![marks::FINALIZER.to_owned(), marks::FINALIZER.to_owned()],
                ]);
                "finalizers"
            }
            3..=5 => {
                let key = dice.one_of(&[
                    marks::SUSPEND,
                    marks::SUSPEND,
                    marks::ABORT,
                    marks::RETRY,
                    marks::ACKNOWLEDGED,
                    marks::GATE,
                    marks::EARLIER_GATE,
                    marks::SAID,
                ]);
                if annotations.remove(key).is_none() {
                    annotations.insert(
                        key.to_owned(),
                        dice.one_of(&[time, "x/9999999999".to_owned(), String::new()]),
                    );
                }
                "word"
            }
            6 => {
                *generation += 1;
                "generation"
            }
            7 => {
                self.status(&owner, dice);
                "status"
            }
            8 if dice.one_in(3) => {
                let observed = &mut *self.observed;
                observed.runs.remove(&owner.key);
                observed.plans.remove(&owner.key);
                observed.maintenances.remove(&owner);
                observed.fleet.versions.remove(&owner.key.name);
                "owner gone"
            }
            _ => {
                *generation += 1;
                self.spec(&owner, dice);
                "spec"
            }
        }
    }

    fn status(&mut self, owner: &Owner, dice: &mut Dice) {
        let observed = &mut *self.observed;
        if let Some(view) = observed.runs.get_mut(&owner.key) {
            mangle!(
                view.status,
                &[json!({"run": null}), json!({"settled": null})],
                dice
            );
        }
        if let Some(view) = observed.plans.get_mut(&owner.key) {
            let seeds = [
                json!({"applying": ["nobody", "a", "a"]}),
                json!({"conditions": null}),
                json!({"latestHash": "x"}),
            ];
            mangle!(view.status, &seeds, dice);
        }
        if let Some(view) = observed.maintenances.get_mut(owner) {
            let seeds = [
                json!({"phase": "Succeeded"}),
                json!({"phase": "Failed"}),
                json!({"phase": "Odd"}),
                json!({"errorOnLeaseCount": -1}),
                json!({"errorOnLeaseCount": i64::MAX}),
            ];
            mangle!(view.status, &seeds, dice);
        }
        if let Some(view) = observed.fleet.versions.get_mut(&owner.key.name) {
            mangle!(view.status, &[], dice);
        }
    }

    fn spec(&mut self, owner: &Owner, dice: &mut Dice) {
        let observed = &mut *self.observed;
        let gates = gates(dice);
        if let Some(view) = observed.runs.get_mut(&owner.key) {
            let seeds = [
                json!({"mutexRules": null}),
                json!({"mutexRules": [{"name": "gone"}]}),
                json!({"suspend": true}),
                json!({"suspend": null}),
                json!({"dryRun": true}),
                json!({"dryRun": null}),
                json!({"strategy": "CanaryPool"}),
                json!({"strategy": "DesiredConfig"}),
                json!({"order": "Zone"}),
                json!({"trigger": "AnyConfig"}),
                json!({"hold": "Always"}),
                json!({"onExit": "Unpause"}),
                json!({"adoptPaused": true}),
                json!({"quarantine": "Taint"}),
                json!({"failureBudget": 0}),
                json!({"changeTimeoutSeconds": -1}),
                json!({"mutexTargets": []}),
                json!({"pools": ["worker", "master", "worker"]}),
                json!({"canary": {"name": "canary"}}),
                json!({"notReadyPolicy": "LeaveOutAfter", "leaveOutAfterSeconds": -9}),
                json!({"onRefusal": "Roll"}),
                json!({"pauseHealthChecks": true}),
                gates.clone(),
                gates,
            ];
            mangle!(view.spec, &seeds, dice);
            view.hours = view.spec.window.as_ref().map(hours);
        } else if let Some(view) = observed.plans.get_mut(&owner.key) {
            let seeds = [
                json!({"concurrency": 0}),
                json!({"concurrency": -1}),
                json!({"concurrency": 9}),
                json!({"version": null}),
                json!({"version": "v2"}),
                json!({"cordon": true}),
                json!({"drain": {"force": true}}),
                json!({"drain": null}),
                json!({"drain": {"timeout": "-1s"}}),
                json!({"prepare": {"image": "p"}}),
                json!({"upgrade": null}),
                json!({"exclusive": true}),
                json!({"postCompleteDelay": "99999999999h"}),
                json!({"nodeSelector": null}),
                json!({"secrets": [{"name": "s", "path": "/"}]}),
                json!({"channel": "https://channel"}),
                json!({"mutex": {"drainBy": "Numo"}}),
                json!({"mutex": gates}),
                json!({"mutex": null}),
                json!({"window": {"days": ["x"], "startTime": "9"}}),
                json!({"jobActiveDeadlineSecs": i64::MAX}),
            ];
            mangle!(view.spec, &seeds, dice);
            view.selector = serde_json::to_value(&view.spec.node_selector).expect("JSON");
            view.window = view
                .spec
                .window
                .as_ref()
                .map(|window| Window::parse(window, |_| None));
            let mutex = view.spec.mutex.as_ref();
            view.hours = mutex.and_then(|mutex| mutex.window.as_ref().map(hours));
        } else if let Some(view) = observed.maintenances.get_mut(owner) {
            let seeds = [
                json!({"nodeName": "b"}),
                json!({"nodeName": ""}),
                json!({"nodeName": "nobody"}),
                json!({"mutexRules": [{"name": "r"}]}),
                json!({"mutexRules": null}),
                json!({"drain": {"probe": true}}),
                json!({"drain": {"timeoutSeconds": -1}}),
                json!({"drain": {"maxConcurrent": 0}}),
                json!({"drain": null}),
            ];
            mangle!(view.spec, &seeds, dice);
        } else if let Some(view) = observed.fleet.versions.get_mut(&owner.key.name) {
            let seeds = [
                json!({"image": null}),
                json!({"image": "img3"}),
                json!({"surge": 0}),
                json!({"surge": "100%"}),
                json!({"mutex": gates}),
                json!({"kubernetesComponentsReference": "c3"}),
            ];
            mangle!(view.spec, &seeds, dice);
            let mutex = view.spec.mutex.as_ref();
            view.hours = mutex.and_then(|mutex| mutex.window.as_ref().map(hours));
        }
    }

    fn gate(&mut self, dice: &mut Dice) -> &'static str {
        let observed = &mut *self.observed;
        match dice.below(10) {
            0 | 1 => {
                if dice.one_in(3) {
                    forget(&mut observed.windows, dice);
                    return "window gone";
                }
                let name = dice.one_of(&["w1", "w2"]).to_owned();
                let spec = dice.one_of(&[
                    json!({"openings": [{"days": ["mon"], "startTime": "22", "endTime": "23"}]}),
                    json!({"openings": [{"days": ["fri"], "startTime": "6", "endTime": "20"}]}),
                    json!({"freezes": [{"name": "audit", "from": "2027-01-15T00:00:00Z", "to": "2027-01-16T00:00:00Z", "reason": "x"}]}),
                    json!({"openings": [{"days": ["never"]}]}),
                    json!({"openings": []}),
                    json!({"freezes": [{"name": "odd", "from": "2027-01-15T00:00:00Z", "to": "2020-01-16T00:00:00Z", "reason": "x"}]}),
                ]);
                let mut spec: numo_api::MutexWindowSpec = serde_json::from_value(spec).unwrap_or_default();
                if dice.one_in(3) {
                    mangle!(spec, &[], dice);
                }
                let view = WindowView {
                    name: name.clone(),
                    hours: hours(&spec.hours),
                    spec,
                    selector: selector(dice),
                    uid: format!("{name}-uid"),
                    generation: 1,
                    status: numo_api::MutexWindowStatus::default(),
                };
                observed.windows.insert(name, view);
                "window"
            }
            2..=4 => {
                if dice.one_in(3) {
                    forget(&mut observed.budgets, dice);
                    return "budget gone";
                }
                let name = dice.one_of(&["b1", "b2"]).to_owned();
                let group_by =
                    dice.one_of(&[None, None, Some(openshift::ZONE.to_owned()), Some("!".to_owned())]);
                let view = BudgetView {
                    name: name.clone(),
                    selector: selector(dice),
                    max_unavailable: dice.one_of(&[
                        Ok(IntOrPercent::Int(1)),
                        Ok(IntOrPercent::Int(1)),
                        Ok(IntOrPercent::Int(0)),
                        Ok(IntOrPercent::Percent(100)),
                        Ok(IntOrPercent::Percent(1)),
                        Ok(IntOrPercent::Int(i64::from(i32::MAX))),
                        Err("spec.maxUnavailable: found x".to_owned()),
                    ]),
                    max_groups: dice.one_of(&[None, None, Some(Ok(1)), Some(Err("found 0".to_owned()))]),
                    group_by,
                    paused: dice.one_in(4),
                    annotations: BTreeMap::new(),
                    uid: format!("{name}-uid"),
                    generation: 1,
                    status: numo_api::MutexBudgetStatus::default(),
                };
                observed.budgets.insert(name, view);
                "budget"
            }
            5 | 6 => {
                if dice.one_in(3) {
                    forget(&mut observed.bindings, dice);
                    return "binding gone";
                }
                let mut spec = gates(dice);
                let kind = dice.one_of(&["Plan", "NodeMaintenance", "NodeVersion", "MutexRunConfig"]);
                spec["ownerSelector"] = json!({"kind": kind});
                let Ok(spec) = serde_json::from_value::<numo_api::MutexBindingSpec>(spec) else {
                    return "no binding";
                };
                let hours = spec.settings.window.as_ref().map(hours);
                let view = BindingView {
                    hours,
                    ..BindingView::from(spec)
                };
                observed
                    .bindings
                    .insert(dice.one_of(&["g1", "g2"]).to_owned(), view);
                "binding"
            }
            7 => {
                forget(&mut observed.approvals, dice);
                "approval gone"
            }
            8 => {
                if let Some(view) = some(&mut observed.approvals, dice) {
                    mangle!(view.spec, &[], dice);
                    view.deleting = dice.one_in(4);
                }
                "approval"
            }
            _ => self.approve(dice),
        }
    }

    fn approve(&mut self, dice: &mut Dice) -> &'static str {
        let Some(owner) = dice.pick(owners(self.observed)) else {
            return "no owner";
        };
        let snapshot = numo_core::Snapshot {
            now: self.now,
            observed: self.observed,
            owner: &owner,
            asked: None,
        };
        let Some(waits) = numo_core::decide(&snapshot, self.answers).report.approval else {
            return "nothing to approve";
        };
        let name = format!("a{}", self.number);
        let view = ApprovalView {
            name: name.clone(),
            uid: name.clone(),
            created: self.at(dice),
            deleting: false,
            spec: MutexApprovalSpec {
                owner: owner.approved(),
                wave: dice.one_of(&[None, Some("1".to_owned()), Some("2".to_owned())]),
                after_failure: dice.one_of(&[None, None, Some(true)]),
                digest: waits.digest,
                reason: String::new(),
                approved_by: String::new(),
            },
            generation: 1,
            status: MutexApprovalStatus::default(),
        };
        self.observed.approvals.insert(name, view);
        "approved"
    }

    fn rule(&mut self, dice: &mut Dice) -> &'static str {
        let (time, number) = (self.at(dice), self.number);
        let observed = &mut *self.observed;
        match dice.below(12) {
            0 => {
                forget(&mut observed.rules, dice);
                "rule gone"
            }
            1..=4 => {
                let Some(rule) = some(&mut observed.rules, dice) else {
                    return "no rule";
                };
                match dice.below(9) {
                    0 => rule.generation += 1,
                    1 => rule.uid = format!("rule-again-{number}"),
                    2 => rule.validity = dice.one_of(&[Validity::Unknown, Validity::Valid]),
                    3 => rule.timeout_seconds = dice.one_of(&[1, 60, 604_800]),
                    4 => rule.pass_seconds = dice.one_of(&[600, 604_800]),
                    5 => rule.retries = dice.one_of(&[0, 1, 10]),
                    6 => rule.phases = Vec::new(),
                    7 => rule.is_evaluated = !rule.is_evaluated,
                    _ => rule.job_name = odd_text(dice),
                }
                "rule"
            }
            5..=7 => {
                let failed = || JobEnd::Failed("BackoffLimitExceeded".to_owned(), "it failed".to_owned());
                let ended = dice.one_of(&[None, Some(JobEnd::Complete), Some(failed())]);
                if let Some(job) = some(&mut observed.jobs, dice) {
                    job.ended.clone_from(&ended);
                    job.ended_at = (!dice.one_in(4)).then_some(time);
                    job.deleting = dice.one_in(6).then_some(time);
                    if dice.one_in(4) {
                        job.created = time;
                    }
                    if dice.one_in(6) {
                        "x/1".clone_into(&mut job.edition);
                    }
                }
                if let Some(job) = some(&mut observed.plan_jobs, dice) {
                    job.ended = ended;
                    job.ended_at = (!dice.one_in(4)).then_some(time);
                    job.deleting = dice.one_in(6).then_some(time);
                    job.paused = dice.one_in(6);
                    job.untouched = dice.one_in(3);
                    if dice.one_in(6) {
                        "x".clone_into(&mut job.plan_uid);
                    }
                }
                "jobs"
            }
            8 => {
                forget(&mut observed.jobs, dice);
                forget(&mut observed.plan_jobs, dice);
                "job gone"
            }
            9 | 10 => {
                let words = RuleWords {
                    reason: odd_text(dice),
                    summary: odd_text(dice),
                    ..RuleWords::default()
                };
                let seconds = dice.one_of(&[0, -1, 30, i64::from(i32::MAX)]);
                let answer = dice.one_of(&[
                    RuleAnswer::Pass(words.clone()),
                    RuleAnswer::Wait(words.clone(), seconds),
                    RuleAnswer::Block(words),
                    RuleAnswer::NoVerdict(numo_api::Reason::Trap, "oops".to_owned()),
                ]);
                if let Some(view) = some(&mut observed.evaluations, dice) {
                    view.answer = Some((time, answer));
                    view.under_way = dice.one_in(4);
                    view.failures = dice.one_of(&[0, 1, u32::MAX]);
                }
                "evaluation"
            }
            _ => {
                if let Some(key) = dice.pick(observed.jobs.keys().cloned()) {
                    let refusal = Refusal {
                        code: 403,
                        message: odd_text(dice),
                        at: time,
                        since: time,
                    };
                    observed.refusals.insert(key, refusal);
                }
                "refusal"
            }
        }
    }

    fn openshift(&mut self, dice: &mut Dice) -> &'static str {
        let uid = dice.one_of(&uids(self.observed));
        let observed = &mut *self.observed;
        match dice.below(9) {
            0 => {
                match dice.below(16) {
                    0..=3 => forget(&mut observed.pools, dice),
                    4..=6 => forget(&mut observed.configs, dice),
                    _ => {}
                }
                "pool gone"
            }
            1..=4 => {
                let configs: Vec<String> = observed.configs.keys().cloned().collect();
                let Some(pool) = some(&mut observed.pools, dice) else {
                    return "no pool";
                };
                match dice.below(9) {
                    0 | 1 => {
                        pool.paused = !pool.paused;
                        pool.paused_manager =
                            dice.one_of(&[None, Some("numo".to_owned()), Some("argocd".to_owned())]);
                    }
                    2 => pool.annotations.clear(),
                    3 => pool.config = dice.pick(configs).unwrap_or_default(),
                    4 => "rendered-nowhere".clone_into(&mut pool.config),
                    5 => pool.deleting = !pool.deleting,
                    6 => pool.selector = selector(dice),
                    7 => {
                        let mark = json!({"owner": uid, "name": "x", "prior": dice.one_in(2), "corrections": dice.one_of(&[0, 9, u32::MAX])});
                        pool.annotations
                            .insert(marks::PAUSED_BY.to_owned(), mark.to_string());
                    }
                    _ => {
                        let mark = json!({"owner": uid, "prior": {"matchLabels": {"a": "b"}}, "corrections": dice.one_of(&[0, u32::MAX])});
                        pool.annotations
                            .insert(marks::PRIOR_NODE_SELECTOR.to_owned(), mark.to_string());
                    }
                }
                "pool"
            }
            5 | 6 => {
                if dice.one_in(5) {
                    observed.cluster_version = None;
                }
                if let Some(version) = &mut observed.cluster_version {
                    match dice.below(5) {
                        0 => version.observed_generation += 1,
                        1 => dice
                            .one_of(&["4.18.0", "", "4.16.0", "4.17.0"])
                            .clone_into(&mut version.desired),
                        2 => {
                            version.latest =
                                dice.one_of(&[None, Some(("Partial".to_owned(), "4.17.0".to_owned()))]);
                        }
                        3 => {
                            version.desired_update =
                                dice.one_of(&[None, Some("4.18.0".to_owned()), Some(String::new())]);
                        }
                        _ => version.latest = Some(("Completed".to_owned(), version.desired.clone())),
                    }
                }
                "version"
            }
            7 => {
                match some(&mut observed.targets, dice) {
                    Some(target) if !dice.one_in(4) => {
                        target.pools = dice.one_of(&[
                            Vec::new(),
                            vec!["worker".to_owned(), "gone".to_owned(), "master".to_owned()],
                        ]);
                    }
                    _ => forget(&mut observed.targets, dice),
                }
                "target"
            }
            _ => {
                observed.control_plane_topology = dice.one_of(&[
                    None,
                    Some("External".to_owned()),
                    Some("SingleReplica".to_owned()),
                ]);
                "topology"
            }
        }
    }

    fn rest(&mut self, dice: &mut Dice) -> &'static str {
        let time = self.at(dice);
        let number = self.number;
        let observed = &mut *self.observed;
        match dice.below(16) {
            0 => {
                if let Some(pods) = some(&mut observed.pods, dice) {
                    let found = pods.values().next().cloned();
                    if let Some(mut pod) = found {
                        pod.key.name = format!("late-{number}");
                        pod.uid = format!("late-{number}");
                        pod.deleting = dice.one_of(&[None, None, Some(time)]);
                        pod.mirror = dice.one_in(4);
                        pod.empty_dir = dice.one_in(2);
                        pod.controller = dice.one_of(&[
                            None,
                            Some(("DaemonSet".to_owned(), "d".to_owned(), "uid-d".to_owned())),
                            Some(("ReplicaSet".to_owned(), String::new(), String::new())),
                        ]);
                        pods.insert(pod.key.clone(), pod);
                    }
                }
                "pod"
            }
            1 => {
                forget(&mut observed.pods, dice);
                "pods unknown"
            }
            2 => {
                if let Some(eviction) = some(&mut observed.evictions, dice) {
                    eviction.at = time;
                    eviction.refusals = dice.one_of(&[0, 1, 40, u32::MAX]);
                    eviction.said = dice.one_of(&[
                        Said::Asked,
                        Said::Budget("x".to_owned()),
                        Said::Busy("x".to_owned()),
                        Said::Refused("x".to_owned()),
                        Said::NotMigratable("x".to_owned()),
                        Said::NamespaceTerminating,
                    ]);
                }
                "eviction"
            }
            3 => {
                let Some(node) = dice.pick(observed.nodes.keys().cloned()) else {
                    return "no node";
                };
                let namespace = dice.one_of(&["kube-system", "openshift-etcd"]);
                let view = EtcdPodView {
                    ready: dice.one_of(&[None, Some(true), Some(false)]),
                    labels: BTreeMap::new(),
                    node: node.clone(),
                };
                observed
                    .etcd_pods
                    .insert(Key::new(namespace, format!("etcd-{node}")), view);
                "etcd"
            }
            4 => {
                let key = Key::new("somewhere", "rival");
                if observed.foreign_controllers.remove(&key).is_none() {
                    let what = dice.one_of(&[
                        ForeignController::Plan,
                        ForeignController::MutexRunConfig,
                        ForeignController::NodeMaintenance,
                        ForeignController::NodeVersion,
                    ]);
                    let lingers = dice.one_of(&[None, Some("Pod x terminates".to_owned())]);
                    observed.foreign_controllers.insert(key, Rival { what, lingers });
                }
                "rival"
            }
            5 => {
                let leases = &mut observed.settings.leases_unavailable;
                *leases = leases.is_none().then(|| "there is no namespace".to_owned());
                "leases"
            }
            6 | 7 => {
                let plural = dice.one_of(&[
                    "nodes",
                    "machineconfigpools",
                    "machineconfigs",
                    "jobs",
                    "leases",
                    "mutexrules",
                    "mutexbudgets",
                    "mutexwindows",
                    "mutexbindings",
                    "mutexapprovals",
                    "nodechanges",
                    "pods",
                    "plans",
                    "nodemaintenances",
                    "mutexrunconfigs",
                    "clusterversions",
                    "poddisruptionbudgets",
                    "pods of etcd",
                    "mutextargets",
                    "secrets",
                    "namespaces",
                ]);
                if observed.unlisted.remove(plural).is_none() {
                    observed.unlisted.insert(plural, "forbidden".to_owned());
                }
                "unlisted"
            }
            8 => {
                let plural = dice.one_of(&[
                    "mutexbudgets",
                    "mutexwindows",
                    "mutexbindings",
                    "mutexrules",
                    "nodechanges",
                    "mutexapprovals",
                ]);
                let key = (plural, Key::new("", "odd"));
                if observed.unread.remove(&key).is_none() {
                    observed.unread.insert(
                        key,
                        Unread {
                            uid: "x".to_owned(),
                            words: "too large".to_owned(),
                        },
                    );
                }
                "unread"
            }
            9 => {
                let gone = observed.namespaces.remove("numo").is_some();
                if !gone {
                    observed.namespaces.insert("numo".to_owned(), true);
                }
                "namespace"
            }
            10 => {
                if let Some(node) = dice.pick(observed.nodes.keys().cloned()) {
                    let drain = dice.one_of(&[None, Some("pod shop/db-0: no".to_owned())]);
                    self.answers.drains.insert(node, drain);
                }
                if let Some(job) = dice.pick(observed.jobs.keys().chain(observed.plan_jobs.keys()).cloned()) {
                    let exit_code = dice.one_of(&[None, Some(0), Some(1), Some(-1)]);
                    self.answers.evidence.insert(
                        job,
                        Evidence {
                            exit_code,
                            log_tail: Some(odd_text(dice)),
                        },
                    );
                }
                "answers"
            }
            11 => {
                if let Some(channel) = some(&mut observed.channels, dice) {
                    channel.at = time;
                    let said = odd_text(dice);
                    channel.failures = dice.one_of(&[0, u32::MAX]);
                    channel.answer = dice.one_of(&[None, Some(Ok(said)), Some(Err("no".to_owned()))]);
                }
                "channel"
            }
            _ => self.machines(time, dice),
        }
    }

    fn machines(&mut self, time: Timestamp, dice: &mut Dice) -> &'static str {
        let uid = dice.one_of(&uids(self.observed));
        let fleet = &mut self.observed.fleet;
        match dice.below(9) {
            0 => forget(&mut fleet.hosts, dice),
            1 => fleet.provider.missing = dice.one_of(&[None, Some("none".to_owned())]),
            2 => forget(&mut fleet.pending, dice),
            3 => {
                if let Some(pending) = some(&mut fleet.pending, dice) {
                    mangle!(pending.spec, &[], dice);
                    pending.resource_version.push('x');
                    pending.deleting = dice.one_in(4);
                }
            }
            4 => {
                if let Some(facts) = some(&mut fleet.provider.facts, dice) {
                    *facts = Heard {
                        at: time,
                        said: Err("unknown".to_owned()),
                    };
                }
            }
            5 => {
                fleet.provider.groups = Some(Heard {
                    at: time,
                    said: Ok(Vec::new()),
                });
            }
            6 => {
                if let Some(group) = some(&mut fleet.groups, dice) {
                    mangle!(group.spec, &[], dice);
                }
            }
            7 => {
                if let Some(told) = some(&mut fleet.provider.told, dice) {
                    told.again = time;
                }
            }
            _ => {
                if let Some(machine) = some(&mut self.observed.machines, dice) {
                    machine.deleting = !machine.deleting;
                    let mark = json!({"owner": uid, "prior": {}}).to_string();
                    machine
                        .object
                        .annotations
                        .insert(marks::SHIELDED_BY.to_owned(), mark);
                }
            }
        }
        "machines"
    }
}

fn selector(dice: &mut Dice) -> Value {
    dice.one_of(&[
        json!({}),
        json!({}),
        json!({}),
        Value::Null,
        json!({"matchLabels": {openshift::ZONE: "z1"}}),
        json!({"matchLabels": {openshift::WORKER: ""}}),
        json!("odd"),
        json!({"matchExpressions": [{"key": "a", "operator": "Odd"}]}),
        json!({"matchExpressions": 7}),
    ])
}

/// Settings that gate an owner.
fn gates(dice: &mut Dice) -> Value {
    dice.one_of(&[
        json!({}),
        json!({"window": {"openings": [{"days": ["mon"], "startTime": "22", "endTime": "23"}]}}),
        json!({"window": {"openings": [{"days": ["never"]}]}}),
        json!({"window": {"timeZone": "Nowhere/Else", "openings": [{"days": ["fri"]}]}}),
        json!({"startAfter": "2099-01-01T00:00:00Z"}),
        json!({"startAfter": "soon"}),
        json!({"approval": {"begin": "Manual"}}),
        json!({"approval": {"begin": "Manual", "ttlSeconds": -1}}),
        json!({"approval": {"afterFailure": "Manual"}}),
        json!({"waves": [{"name": "one", "nodes": 1, "approval": "Manual"}]}),
        json!({"waves": [{"nodeSelector": {"matchLabels": {"a": "b"}}, "soakSeconds": -1}, {"nodes": "100%"}]}),
        json!({"waves": []}),
        json!({"domains": {"key": openshift::ZONE}}),
        json!({"domains": {"key": "!"}}),
        json!({"mutexKeys": [openshift::ZONE, ""]}),
        json!({"maxUnavailable": 0}),
        json!({"maxUnavailable": "100%"}),
        json!({"maxUnavailable": "many"}),
        json!({"failureBudget": -1}),
        json!({"soakSeconds": i64::MAX}),
        json!({"rules": [{"name": "gone"}]}),
        json!({"rules": [{"name": "backup", "namespace": "numo"}]}),
        json!({"first": {"matchLabels": {"a": "b"}}}),
        json!({"notReadyPolicy": "LeaveOutAfter", "leaveOutAfterSeconds": 0}),
        json!({"retries": i32::MAX}),
    ])
}
