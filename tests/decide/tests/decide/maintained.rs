//! The lines of a cluster that are about a NodeMaintenance.
//!
//! ```text
//! maintenance a finalizer phase:Running    the NodeMaintenance `nm` of node a
//! maintenance a name:other created:-9      another one
//! maintenance a name:a drains:1            numo made it for another operator to drain node a in attempt 1 of its turn with the NodeVersion;
//!                                          `of:` and `turn:` are other uids, `pods:` is what is yet to go, `error:` the last one
//! kept a cordoned                          node a is shielded, leased, cordoned and tainted by `nm`
//! turn a Drained since:-60                 its NodeChange in that step; `Cordoned` is entered with it
//! pods a                                   the pods of node a are known; each `pod` line says so too
//! pod web-0 on a of:ReplicaSet/web         a pod in namespace shop
//! pdb web allows:0 healthy:1 wants:1       a PodDisruptionBudget of pods with label app=web
//! evicted web-0 Budget at:-3 times:1       what came of its eviction
//! returned a ReplicaSet/web at:-3 times:1  pods of it were evicted since the cordon
//! kept-volumes a pvc-1                     that volume is of a pod that stays on node a; or `unknown:why`
//! etcd a ready                             a static pod of etcd on node a
//! binding all spec {"ownerSelector":{…}}   a MutexBinding
//! foreign                                  node-maintenance-operator runs
//! ```

use crate::cluster::{Cluster, Line, NAMESPACE, at, hours, step};
use numo_api::{
    DrainSettings, Entry, NodeChangeStatus, NodeMaintenanceSpec, NodeMaintenanceStatus, ObjectRef, Step,
    marks,
};
use numo_core::{
    MaintenanceGroup, Owner,
    action::DrainsFor,
    mark::{self, CordonedBy, Shielded},
    observed::{
        BindingView, ChangeView, DisruptionBudgetView, EtcdPodView, EvictionView, ForeignController, JobView,
        Key, LeaseView, MaintenanceView, PodView, Returned, Rival, Said,
    },
    owners::node_maintenance,
};
use serde_json::json;
use std::collections::BTreeMap;

/// Name of the NodeMaintenance under test.
pub const NAME: &str = "nm";
/// Its uid.
pub const UID: &str = "uid-nm";

impl Cluster {
    /// Reads a line about a maintenance; false if it is about something else.
    pub(crate) fn read_maintenance(&mut self, line: &Line<'_>) -> bool {
        match line.word(0) {
            "maintenance" => self.maintenance(line),
            "kept" => self.kept(line),
            "turn" => self.turn(line),
            "kept-volumes" => {
                let known = match line.option("unknown") {
                    Some(problem) => Err(problem.to_owned()),
                    None => Ok(numo_core::verdict::KeptVolumes {
                        names: [line.word(2).to_owned()].into(),
                        unnamed: usize::try_from(line.number("unnamed", 0)).expect("small"),
                    }),
                };
                self.answers.volumes.insert(line.word(1).to_owned(), known);
            }
            "pods" => {
                self.observed.pods.entry(line.word(1).to_owned()).or_default();
            }
            "pod" => self.pod(line),
            "pdb" => self.pdb(line),
            "evicted" => self.evicted(line),
            "returned" => {
                let place = (
                    line.word(1).to_owned(),
                    format!("{} shop/{}", split(line.word(2)).0, split(line.word(2)).1),
                );
                let times = u32::try_from(line.number("times", 1)).expect("small");
                let view = Returned {
                    times,
                    at: at(line.number("at", -1)),
                };
                self.observed.returns.insert(place, view);
            }
            "etcd" => {
                let node = line.word(1).to_owned();
                let namespace = line.option("namespace").unwrap_or("kube-system");
                let view = EtcdPodView {
                    ready: Some(line.has("ready")),
                    labels: [("app".to_owned(), "guard".to_owned())].into(),
                    node: node.clone(),
                };
                let key = Key::new(namespace, format!("etcd-{node}"));
                self.observed.etcd_pods.insert(key, view);
            }
            "binding" => {
                let (_, json) = line.text.split_once(" spec ").expect("a spec");
                let spec: numo_api::MutexBindingSpec =
                    serde_json::from_str(json).expect("a MutexBinding's spec");
                let hours = spec.settings.window.as_ref().map(hours);
                let view = BindingView {
                    hours,
                    ..BindingView::from(spec)
                };
                self.observed.bindings.insert(line.word(1).to_owned(), view);
            }
            "foreign" => {
                let key = Key::new("operators", "node-maintenance-operator-controller-manager");
                let what = ForeignController::NodeMaintenance;
                let rival = Rival { what, lingers: None };
                self.observed.foreign_controllers.insert(key, rival);
            }
            _ => return false,
        }
        true
    }

    fn maintenance(&mut self, line: &Line<'_>) {
        let name = line.option("name").unwrap_or(NAME);
        let group = if line.has("kubevirt") {
            MaintenanceGroup::KubeVirt
        } else {
            MaintenanceGroup::Medik8s
        };
        let owner = Owner::maintenance(group, name);
        let drain: Option<DrainSettings> = line
            .text
            .split_once(" drain ")
            .map(|(_, json)| serde_json::from_str(json).expect("drain settings"));
        let rules: Vec<ObjectRef> = line
            .all("rule")
            .map(|rule| ObjectRef {
                name: Some(rule.to_owned()),
                namespace: None,
            })
            .collect();
        let mut annotations = BTreeMap::new();
        if line.has("suspended") {
            annotations.insert(marks::SUSPEND.to_owned(), "me".to_owned());
        }
        if let Some(attempt) = line.option("drains") {
            let node = line.word(1);
            let text = |option: &str, other: String| line.option(option).map_or(other, str::to_owned);
            let mark = DrainsFor {
                owner: text("of", "uid-nv".to_owned()),
                change: text("turn", format!("change-{node}")),
                attempt: attempt.parse().expect("a number"),
                node: text("uid", format!("uid-{node}")),
            };
            annotations.insert(marks::DRAINS_FOR.to_owned(), mark::render(&mark));
        }
        let view = MaintenanceView {
            pruned: line.has("pruned").then_some("mutexRules"),
            has_annotations: false,
            uid: format!("uid-{name}"),
            generation: 1,
            created: at(line.number("created", -100)),
            deleting: line.has("deleting"),
            finalizers: if line.has("finalizer") {
                vec![marks::MAINTENANCE_FINALIZER.to_owned()]
            } else {
                Vec::new()
            },
            annotations,
            labels: line
                .all("label")
                .filter_map(|label| label.split_once('='))
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
            spec: NodeMaintenanceSpec {
                node_name: line.word(1).to_owned(),
                mutex_rules: Some(rules).filter(|rules| !rules.is_empty()),
                drain,
                ..NodeMaintenanceSpec::default()
            },
            status: NodeMaintenanceStatus {
                phase: line.option("phase").map(str::to_owned),
                last_error: line.option("error").map(str::to_owned),
                pending_pods: line
                    .option("pods")
                    .map(|pods| pods.split(',').map(str::to_owned).collect()),
                eviction_pods: line
                    .option("counted")
                    .map(|count| count.parse().expect("a number")),
                error_on_lease_count: line
                    .option("lease-errors")
                    .map(|count| count.parse().expect("a number")),
                last_update: line
                    .option("updated")
                    .map(|_| at(line.number("updated", 0)).to_string()),
                conditions: if line.has("stalled") {
                    vec![numo_api::conditions::Condition {
                        type_: numo_api::conditions::types::STALLED.to_owned(),
                        status: "True".to_owned(),
                        ..Default::default()
                    }]
                } else {
                    Vec::new()
                },
                ..NodeMaintenanceStatus::default()
            },
            owner: owner.clone(),
        };
        self.observed.maintenances.insert(owner, view);
    }

    /// What the maintenance has put on a node.
    fn kept(&mut self, line: &Line<'_>) {
        let name = line.word(1);
        let node = self.observed.nodes.get_mut(name).expect("a node above");
        let shielded = [
            marks::EXCLUDE_FROM_REMEDIATION,
            marks::SCALE_DOWN_DISABLED,
            marks::DO_NOT_DISRUPT,
        ];
        let shield = Shielded {
            owner: UID.to_owned(),
            prior: shielded.iter().map(|key| ((*key).to_owned(), None)).collect(),
        };
        node.labels
            .insert(marks::EXCLUDE_FROM_REMEDIATION.to_owned(), "true".to_owned());
        for key in [marks::SCALE_DOWN_DISABLED, marks::DO_NOT_DISRUPT] {
            node.annotations.insert(key.to_owned(), "true".to_owned());
        }
        node.annotations
            .insert(marks::SHIELDED_BY.to_owned(), mark::render(&shield));
        if line.has("cordoned") || line.has("uncordoned") {
            let mark = CordonedBy {
                owner: UID.to_owned(),
                prior: line.has("prior"),
                taints: Vec::new(),
                corrections: u32::try_from(line.number("corrections", 0)).expect("small"),
                done: line.has("done"),
            };
            node.annotations
                .insert(marks::CORDONED_BY.to_owned(), mark::render(&mark));
            node.unschedulable = line.has("cordoned");
            let mut taints = node.taints.as_array().cloned().unwrap_or_default();
            if !line.has("untainted") {
                taints.push(json!({"key": marks::MEDIK8S_DRAIN, "effect": "NoSchedule"}));
                taints.push(json!({"key": marks::UNSCHEDULABLE, "effect": "NoSchedule"}));
            }
            node.taints = serde_json::Value::Array(taints);
        }
        if !line.has("unleased") {
            let view = LeaseView {
                by_numo: !line.has("of-other-operator"),
                holder: line
                    .option("holder")
                    .unwrap_or(marks::MAINTENANCE_HOLDER)
                    .to_owned(),
                renewed: Some(at(line.number("renewed", -10))),
                duration_seconds: 3600,
                transitions: 0,
                uid: format!("lease-{name}"),
                resource_version: "1".to_owned(),
            };
            self.observed.leases.insert(name.to_owned(), view);
        }
    }

    fn turn(&mut self, line: &Line<'_>) {
        let name = line.word(1);
        let of = Owner::maintenance(MaintenanceGroup::Medik8s, line.option("of").unwrap_or(NAME));
        let view = &self.observed.maintenances[&of];
        let node = self.observed.nodes.get(name);
        let (key, mut spec) = match node {
            Some(node) => {
                let mut node = node.clone();
                if let Some(uid) = line.option("uid") {
                    uid.clone_into(&mut node.uid);
                }
                node_maintenance::reservation(view, &node, NAMESPACE)
            }
            None => panic!("a node above: {}", line.text),
        };
        if line.has("skip") {
            spec.directive = Some(numo_api::Directive {
                action: numo_api::DirectiveAction::Skip,
                reason: None,
                by: None,
            });
        }
        if line.has("hold") {
            spec.directive = Some(numo_api::Directive {
                action: numo_api::DirectiveAction::Hold,
                reason: None,
                by: None,
            });
        }
        if line.has("abort") {
            spec.directive = Some(numo_api::Directive {
                action: numo_api::DirectiveAction::Abort,
                reason: None,
                by: None,
            });
        }
        if line.has("retry") {
            spec.directive = Some(numo_api::Directive {
                action: numo_api::DirectiveAction::Retry,
                reason: None,
                by: None,
            });
        }
        let namespace = line.option("namespace");
        let key = namespace.map_or_else(|| key.clone(), |namespace| Key::new(namespace, &key.name));
        let step = (line.word(2) != "new").then(|| step(line.word(2)));
        let since = at(line.number("since", -60)).to_string();
        let attempt = i32::try_from(line.number("attempt", 1)).expect("small");
        let mut entries: Vec<Entry> = Vec::new();
        let mut enter = |step, attempt| {
            entries.push(Entry {
                at: since.clone(),
                step,
                attempt,
                reason: None,
            });
        };
        // Of the first attempt.
        for name in line.option("entries").into_iter().flat_map(|all| all.split(',')) {
            enter(self::step(name), 1);
        }
        if matches!(step, Some(Step::Cordoned | Step::Drained)) {
            enter(Step::Cordoned, attempt);
        }
        if step == Some(Step::Drained) {
            enter(Step::Drained, attempt);
        }
        let status = NodeChangeStatus {
            journal_version: 1,
            attempt,
            reason: line.option("reason").map(str::to_owned),
            message: line.option("reason").map(|_| "words of the journal".to_owned()),
            since: Some(since.clone()),
            step,
            entries,
            verdicts: line
                .all("verdict")
                .map(|text| crate::cluster::verdict(text, 1))
                .collect(),
            closed_since: line
                .option("closed")
                .map(|ago| at(-ago.parse::<i64>().expect("a number")).to_string()),
            ..NodeChangeStatus::default()
        };
        let view = ChangeView {
            uid: format!("change-{name}"),
            resource_version: "1".to_owned(),
            generation: line.number("generation", 1),
            created: at(line.number("created", -60)),
            deleting: false,
            annotations: std::collections::BTreeMap::new(),
            key: key.clone(),
            spec,
            status,
            misread: None,
        };
        self.observed.changes.insert(key, view);
    }

    fn pod(&mut self, line: &Line<'_>) {
        let (name, node) = (line.word(1), line.word(3).to_owned());
        let key = Key::new(line.option("namespace").unwrap_or("shop"), name);
        let mut labels: BTreeMap<String, String> = line
            .all("label")
            .map(|label| label.split_once('=').unwrap_or((label, "")))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        if let Some(app) = line.option("app") {
            labels.insert("app".to_owned(), app.to_owned());
        }
        let view = PodView {
            uid: format!("pod-{name}"),
            created: at(line.number("created", -3600)),
            labels,
            controller: line
                .option("of")
                .map(split)
                .map(|(kind, name)| (kind.to_owned(), name.to_owned(), format!("uid-{name}"))),
            mirror: line.has("mirror"),
            finished: line.has("finished"),
            pending: line.has("pending"),
            ready: !line.has("unready"),
            disrupted: line.has("disrupted"),
            deleting: line.option("deleting").map(|_| at(line.number("deleting", 0))),
            empty_dir: line.has("emptydir"),
            claims: line.all("claim").map(str::to_owned).collect(),
            priority: i32::try_from(line.number("priority", 0)).expect("small"),
            key: key.clone(),
        };
        if let Some((kind, _, uid)) = &view.controller
            && kind == "DaemonSet"
            && !line.has("orphan")
        {
            self.observed.daemon_sets.insert(uid.clone());
        }
        if line.has("ours") {
            let job = JobView {
                uid: format!("uid-{}", line.option("of").map_or("", |of| split(of).1)),
                created: at(-30),
                deleting: None,
                run: "x".to_owned(),
                node: String::new(),
                deadline_seconds: None,
                edition: String::new(),
                rule: String::new(),
                ended: None,
                ended_at: None,
                started: true,
                ttl_seconds: Some(1),
                wanted_ttl_seconds: None,
                trouble: None,
            };
            let name = line.option("of").map_or("", |of| split(of).1);
            self.observed
                .jobs
                .insert(Key::new(&view.key.namespace, name), job);
        }
        self.observed.pods.entry(node).or_default().insert(key, view);
    }

    fn pdb(&mut self, line: &Line<'_>) {
        let name = line.word(1);
        let view = DisruptionBudgetView {
            selector: json!({"matchLabels": {"app": name}}),
            unhealthy_always: line.has("unhealthy-always"),
            allowed: line.number("allows", 0),
            healthy: line.number("healthy", 1),
            desired: line.number("wants", 1),
            expected: line.number("pods", 1),
        };
        let namespace = line.option("namespace").unwrap_or("shop");
        self.observed
            .disruption_budgets
            .insert(Key::new(namespace, name), view);
    }

    fn evicted(&mut self, line: &Line<'_>) {
        let words = format!("words of {}", line.word(2));
        let said = match line.word(2) {
            "Asked" => Said::Asked,
            "Accepted" => Said::Accepted,
            "Budget" => Said::Budget(words),
            "Migrating" => Said::Migrating(words),
            "NotMigratable" => Said::NotMigratable(words),
            "NamespaceTerminating" => Said::NamespaceTerminating,
            "Busy" => Said::Busy(words),
            "Refused" => Said::Refused(words),
            other => panic!("unknown answer {other}"),
        };
        let view = EvictionView {
            at: at(line.number("at", -1)),
            refusals: u32::try_from(line.number("times", 1)).expect("small"),
            said,
            stirred: line.has("stirred"),
        };
        self.observed
            .evictions
            .insert(format!("pod-{}", line.word(1)), view);
    }
}

fn split(text: &str) -> (&str, &str) {
    text.split_once('/').unwrap_or(("ReplicaSet", text))
}
