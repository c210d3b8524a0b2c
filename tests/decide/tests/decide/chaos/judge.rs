//! A judge that asks the core nothing: what the design's invariants (§6) say of one write, by what was seen when it was decided.

use jiff::{Timestamp, civil::Weekday, tz::TimeZone};
use numo_api::{NodeChangeSpec, Step, marks};
use numo_core::{
    Decision, Owner, OwnerKind,
    action::{Action, FleetAction, NodePatch, NodePurpose, PoolPurpose},
    observed::{ChangeView, EtcdVoter, IntOrPercent, Map, NodeView, Observed},
};
use serde_json::Value;

/// Whether all is well; else what is not.
pub type Verdict = Result<(), String>;

fn fail(what: impl Into<String>) -> Verdict {
    Err(what.into())
}

fn demand(is: bool, what: impl FnOnce() -> String) -> Verdict {
    if is { Ok(()) } else { Err(what()) }
}

/// Whether a selector of the few forms that are set here covers the labels; none of one that is odd.
fn covers(selector: &Value, labels: &Map) -> Option<bool> {
    match selector {
        Value::Null => Some(false),
        Value::Object(all) if all.is_empty() => Some(true),
        Value::Object(all) if all.len() == 1 => {
            let wanted = all.get("matchLabels")?.as_object()?;
            let has = |(key, value): (&String, &Value)| labels.get(key).map(String::as_str) == value.as_str();
            Some(wanted.iter().all(has))
        }
        _ => None,
    }
}

/// What is seen of one owner when it decides.
#[derive(Debug)]
pub struct Judge<'a> {
    pub observed: &'a Observed,
    pub owner: &'a Owner,
    pub uid: &'a str,
    pub now: Timestamp,
}

impl<'a> Judge<'a> {
    /// The name on leases.
    fn holders(&self) -> Vec<String> {
        match self.owner.kind {
            OwnerKind::NodeMaintenance(_) => vec![marks::MAINTENANCE_HOLDER.to_owned()],
            kind => vec![format!("numo/{}/{}", kind.name(), self.uid)],
        }
    }

    fn is_here(&self, change: &ChangeView) -> bool {
        let node = self.observed.nodes.get(&change.spec.node_name);
        node.is_some_and(|node| node.uid == change.spec.node_uid)
    }

    /// Whether a turn is under way that numo made.
    fn is_turn(change: &ChangeView) -> bool {
        let begun = match change.status.step {
            None => change.annotations.contains_key(marks::TURN),
            Some(step) => !matches!(step, Step::Selected | Step::Done | Step::Failed | Step::Skipped),
        };
        begun && !change.deleting
    }

    /// Whether a NodeChange stands where numo's do.
    fn is_trusted(&self, change: &ChangeView) -> bool {
        let settings = &self.observed.settings;
        let namespace = &change.key.namespace;
        *namespace == settings.namespace || settings.plan_namespaces.contains(namespace)
    }

    fn turns(&self) -> impl Iterator<Item = &'a ChangeView> {
        let all = self.observed.changes.values();
        all.filter(|change| Self::is_turn(change) && self.is_trusted(change) && self.is_here(change))
    }

    fn own_turn(&self, node: &str) -> bool {
        let mut turns = self.turns();
        turns.any(|change| change.spec.node_name == node && change.spec.owner_ref.uid == self.uid)
    }

    fn is_away(&self, node: &NodeView) -> bool {
        let held = || {
            let mut turns = self.turns();
            turns.any(|change| change.spec.node_name == node.name && !change.spec.in_service)
        };
        !node.ready || node.unschedulable || node.leaving.is_some() || held()
    }

    /// 2: never beyond a budget.
    fn in_budget(&self, node: &NodeView) -> Verdict {
        for budget in self.observed.budgets.values() {
            if covers(&budget.selector, &node.labels) != Some(true) {
                continue;
            }
            let name = &budget.name;
            demand(!budget.paused, || format!("13: begun while {name} is paused"))?;
            let Ok(limit) = &budget.max_unavailable else {
                return fail(format!("2: begun although {name} cannot be understood"));
            };
            let group = |node: &NodeView| {
                let key = budget.group_by.as_ref();
                key.map(|key| node.labels.get(key).cloned().unwrap_or_default())
            };
            let all = self.observed.nodes.values();
            let all = all.filter(|one| covers(&budget.selector, &one.labels) == Some(true));
            let all: Vec<&NodeView> = all.filter(|one| group(one) == group(node)).collect();
            let away = all
                .iter()
                .filter(|one| one.name != node.name && self.is_away(one))
                .count();
            let allowed = match limit {
                IntOrPercent::Int(number) => usize::try_from(*number).expect("a number"),
                IntOrPercent::Percent(0) => 0,
                IntOrPercent::Percent(percent) => {
                    (all.len() * usize::try_from(*percent).expect("a number") / 100).max(1)
                }
            };
            if !self.is_away(node) || allowed == 0 {
                demand(away < allowed, || {
                    format!(
                        "2: {} begun beyond {name}: {away} away, {allowed} allowed",
                        node.name
                    )
                })?;
            }
        }
        Ok(())
    }

    /// 13: never while a MutexWindow of the node is shut.
    fn in_windows(&self, node: &NodeView) -> Verdict {
        let mut open: Option<bool> = None;
        for window in self.observed.windows.values() {
            if covers(&window.selector, &node.labels) != Some(true) {
                continue;
            }
            let name = &window.name;
            demand(window.hours.is_ok(), || {
                format!("13: begun although {name} cannot be understood")
            })?;
            let spec = serde_json::to_value(&window.spec).expect("JSON");
            let text = spec.to_string();
            let time = self.now.to_zoned(TimeZone::UTC);
            if text.contains("\"freezes\"") {
                let day = time.date().to_string();
                demand(day != "2027-01-15" || !text.contains("2027-01-16"), || {
                    format!("13: begun while {name} is frozen")
                })?;
            } else if text.contains("\"mon\"") && text.len() < 80 {
                let is = time.weekday() == Weekday::Monday && time.hour() == 22;
                open = Some(open.unwrap_or_default() || is);
            } else if text.contains("\"fri\"") && text.len() < 80 {
                let is = time.weekday() == Weekday::Friday && (6..20).contains(&time.hour());
                open = Some(open.unwrap_or_default() || is);
            } else {
                return Ok(());
            }
        }
        demand(open != Some(false), || {
            format!("13: {} begun out of hours", node.name)
        })
    }

    /// 13 and 5: never for an owner that is stopped, goes, or stands beside a live rival.
    fn may_begin(&self) -> Verdict {
        let view = self
            .observed
            .owner(self.owner)
            .ok_or("an owner that is not there acts")?;
        demand(!view.deleting, || "5: begun for an owner that goes".to_owned())?;
        demand(!view.suspended, || "13: begun while suspended".to_owned())?;
        demand(!view.annotations.contains_key(marks::SUSPEND), || {
            "13: begun while suspended".to_owned()
        })?;
        let mut rivals = self.observed.foreign_controllers.values();
        demand(
            !rivals.any(|rival| rival.what.kind() == self.owner.kind.name()),
            || "begun beside a rival".to_owned(),
        )
    }

    /// Another's lease that holds.
    fn lease_is_free(&self, node: &str) -> Verdict {
        if self.observed.settings.leases_unavailable.is_some() {
            return Ok(());
        }
        let Some(lease) = self.observed.leases.get(node) else {
            return Ok(());
        };
        let foreign = !lease.holder.is_empty() && !self.holders().contains(&lease.holder);
        let holds = lease.renewed.is_some_and(|at| {
            let ago = self.now.as_second() - at.as_second();
            (-10..lease.duration_seconds).contains(&ago)
        });
        demand(!foreign || !holds, || {
            format!("lease of {node} is held by {}", lease.holder)
        })
    }

    /// 10: never a second member of the control plane.
    fn quorum(&self, node: &NodeView) -> Verdict {
        let is_control_plane = |node: &NodeView| {
            ["master", "control-plane", "etcd"].iter().any(|role| {
                node.labels
                    .contains_key(&format!("node-role.kubernetes.io/{role}"))
            })
        };
        let is_member = node.etcd_voter.is_some_and(|voter| voter != EtcdVoter::No);
        if !is_member || !is_control_plane(node) || !node.ready || node.unschedulable {
            return Ok(());
        }
        let openshift =
            self.observed.cluster_version.is_some() || self.observed.control_plane_topology.is_some();
        if openshift {
            return Ok(());
        }
        let down = self
            .observed
            .etcd_pods
            .values()
            .any(|pod| pod.node == node.name && pod.ready == Some(false));
        let mut others = self.observed.nodes.values();
        let away = others.find(|one| {
            one.name != node.name
                && match one.etcd_voter {
                    Some(EtcdVoter::Yes) => !one.ready || one.unschedulable || one.leaving.is_some(),
                    Some(EtcdVoter::Unknown) => true,
                    Some(EtcdVoter::No) | None => false,
                }
                && is_control_plane(one)
        });
        match away {
            Some(one) if !down => fail(format!("10: {} begun while {} is away", node.name, one.name)),
            _ => Ok(()),
        }
    }

    fn begins(&self, spec: &NodeChangeSpec, again: bool) -> Verdict {
        let node = self.observed.nodes.get(&spec.node_name);
        let node = node
            .filter(|node| node.uid == spec.node_uid)
            .ok_or("3: a node begun that is not there")?;
        demand(spec.owner_ref.uid == self.uid, || {
            "a turn of another owner".to_owned()
        })?;
        // Nodes that another, such as a Job of before, has begun already are taken as they are.
        let jobs = self.observed.plan_jobs.values();
        let begun = jobs
            .filter(|job| job.plan_uid == self.uid)
            .any(|job| job.node == node.name || job.node.is_empty());
        if begun {
            return Ok(());
        }
        self.may_begin()?;
        let mut others = self.turns();
        let other = others.find(|one| one.spec.node_name == node.name && one.spec.owner_ref.uid != self.uid);
        demand(other.is_none(), || {
            format!("{} begun in the turn of another", node.name)
        })?;
        demand(!again || node.leaving.is_none(), || {
            "begun while it leaves".to_owned()
        })?;
        self.in_windows(node)?;
        if self.owner.kind != OwnerKind::MutexRunConfig {
            self.quorum(node)?;
        }
        if spec.in_service {
            Ok(())
        } else {
            self.in_budget(node)
        }
    }

    fn patch(&self, patch: &NodePatch) -> Verdict {
        let node = self.observed.nodes.get(&patch.node);
        let node = node
            .filter(|node| node.uid == patch.uid)
            .ok_or("3: a patch of a node that is not there")?;
        let name = &node.name;
        let cordons = patch.unschedulable == Some(true)
            && !node.unschedulable
            && patch.purpose != NodePurpose::Recordon;
        let releases = patch.purpose == NodePurpose::Release;
        if cordons || releases {
            demand(self.own_turn(name), || format!("1: {name} changed out of turn"))?;
            self.lease_is_free(name)?;
            self.not_stopped(node)?;
        }
        if releases {
            self.may_begin()?;
        }
        if patch.unschedulable == Some(false) && node.unschedulable {
            let mark = node
                .annotations
                .get(marks::CORDONED_BY)
                .map(String::as_str)
                .unwrap_or_default();
            let mark: Value = serde_json::from_str(mark).unwrap_or_default();
            demand(mark["owner"] == self.uid, || {
                format!("4: {name} uncordoned without a mark of ours")
            })?;
            demand(mark["prior"] == false, || {
                format!("4: {name} uncordoned, it was cordoned before")
            })?;
        }
        if let Some((from, to)) = &patch.taints {
            let foreign = |taints: &Value| -> Vec<Value> {
                let all = taints.as_array().cloned().unwrap_or_default();
                let ours = [
                    marks::MEDIK8S_DRAIN,
                    marks::KUBEVIRT_DRAIN,
                    marks::UNSCHEDULABLE,
                    marks::QUARANTINE,
                ];
                all.into_iter()
                    .filter(|taint| !ours.iter().any(|key| taint["key"] == *key))
                    .collect()
            };
            demand(foreign(from) == foreign(to), || {
                format!("4: {name}: taints of others change")
            })?;
            demand(from.is_null() || from.is_array(), || {
                format!("{name}: taints that are no list")
            })?;
        }
        // A mark of another owner is nobody's to take or to write over.
        for change in &patch.annotations {
            let is_mark = [marks::SHIELDED_BY, marks::CORDONED_BY].contains(&change.key.as_str());
            let Some(from) = change
                .from
                .as_ref()
                .filter(|_| is_mark && change.from != change.to)
            else {
                continue;
            };
            let mark: Value = serde_json::from_str(from).unwrap_or_default();
            let owner = mark["owner"].as_str().unwrap_or_default();
            let all = super::disturb::owners(self.observed);
            let is_anothers = all
                .iter()
                .any(|one| one != self.owner && self.observed.uid_of(one) == Some(owner));
            // Whoever takes it over keeps what was there before.
            let to = change.to.as_deref().unwrap_or_default();
            let to: Value = serde_json::from_str(to).unwrap_or_default();
            let is_kept = to["prior"] == mark["prior"];
            demand(!is_anothers || owner == self.uid || is_kept, || {
                format!("4: {name}: mark {from} of another owner is taken off")
            })?;
        }
        Ok(())
    }

    fn not_stopped(&self, node: &NodeView) -> Verdict {
        let mut budgets = self.observed.budgets.values();
        let stop =
            budgets.find(|budget| budget.paused && covers(&budget.selector, &node.labels) == Some(true));
        demand(stop.is_none(), || {
            format!("13: {} changed while stopped", node.name)
        })
    }

    /// Of one write.
    pub fn of(&self, action: &Action) -> Verdict {
        match action {
            Action::CreateChange { spec, key } => {
                demand(key.name.len() <= 253 && is_name(&key.name), || {
                    format!("no name: {}", key.name)
                })?;
                self.begins(spec, false)
            }
            Action::WriteJournal { key, status, .. } => {
                let change = self
                    .observed
                    .changes
                    .get(key)
                    .ok_or("a journal that is not there")?;
                demand(change.spec.owner_ref.uid == self.uid, || {
                    format!("journal {key} of another owner")
                })?;
                let size = serde_json::to_string(status).expect("JSON").len();
                demand(
                    size <= 32 * 1024 || size <= serde_json::to_string(&change.status).expect("JSON").len(),
                    || format!("journal {key} has {size} bytes"),
                )?;
                demand(status.entries.len() <= 64 && status.verdicts.len() <= 32, || {
                    format!("journal {key} grows")
                })?;
                if !Self::is_turn(change) && status.step == Some(Step::Admitted) {
                    self.begins(&change.spec, true)?;
                }
                Ok(())
            }
            Action::DeleteChange { key, .. } => {
                let change = self
                    .observed
                    .changes
                    .get(key)
                    .ok_or("a journal that is not there")?;
                demand(change.spec.owner_ref.uid == self.uid, || {
                    format!("journal {key} of another owner is deleted")
                })
            }
            Action::PatchNode(patch) => self.patch(patch),
            Action::PatchPool(patch) => {
                let pool = self.observed.pools.get(&patch.pool).ok_or("no pool")?;
                let unpauses = patch.paused == Some((true, false));
                let mark = pool
                    .annotations
                    .get(marks::PAUSED_BY)
                    .map(String::as_str)
                    .unwrap_or_default();
                let mark: Value = serde_json::from_str(mark).unwrap_or_default();
                demand(!unpauses || mark["owner"] == self.uid, || {
                    "4: another's pause is lifted".to_owned()
                })?;
                demand(
                    patch.purpose != PoolPurpose::Pause || pool.name != "master",
                    || "master is paused".to_owned(),
                )
            }
            Action::AcquireLease { node, .. } => {
                demand(self.own_turn(node), || {
                    format!("lease of {node} taken out of turn")
                })?;
                self.lease_is_free(node)
            }
            Action::ReleaseLease { node, uid } => {
                let lease = self
                    .observed
                    .leases
                    .get(node)
                    .filter(|lease| lease.uid == *uid)
                    .ok_or("no lease")?;
                demand(self.holders().contains(&lease.holder), || {
                    format!("4: lease of {node}, held by {}, is given back", lease.holder)
                })
            }
            Action::Evict { node, eviction } => {
                let view = self.observed.nodes.get(node).ok_or("3: eviction from no node")?;
                demand(view.unschedulable && self.own_turn(node), || {
                    format!("1: {} evicted out of turn", eviction.pod)
                })?;
                self.not_stopped(view)?;
                self.lease_is_free(node)?;
                let pod = self
                    .observed
                    .pods
                    .get(node)
                    .and_then(|pods| pods.get(&eviction.pod))
                    .ok_or("no pod")?;
                demand(pod.uid == eviction.uid && !pod.mirror, || {
                    format!("12: {} evicted", eviction.pod)
                })
            }
            Action::CreatePlanJob(request) => {
                demand(request.job.name.len() <= 63 && is_name(&request.job.name), || {
                    format!("no name: {}", request.job)
                })?;
                self.upgrades(&request.node)
            }
            Action::StartPlanJob { job, .. } => {
                let job = self.observed.plan_jobs.get(job).ok_or("no job")?;
                self.upgrades(&job.node)
            }
            Action::CreateJob(request) => {
                let rule = self.observed.rules.get(&request.rule).ok_or("a Job of no rule")?;
                demand(request.job.namespace == rule.job_namespace, || {
                    "a Job elsewhere".to_owned()
                })?;
                demand(request.job.name.len() <= 63, || {
                    format!("no name: {}", request.job)
                })
            }
            Action::RemoveFinalizer { .. } => self.leaves(),
            Action::Fleet(FleetAction::DeleteNode { node, .. }) => demand(
                self.own_turn(node) || !self.observed.fleet.pending.is_empty(),
                || format!("1: {node} deleted out of turn"),
            ),
            _ => Ok(()),
        }
    }

    fn upgrades(&self, node: &str) -> Verdict {
        let mut nodes = self.observed.nodes.values();
        let hostname = |view: &&NodeView| view.name == node || view.label("kubernetes.io/hostname") == node;
        let view = nodes.find(hostname).ok_or("3: a Job for no node")?;
        demand(self.own_turn(&view.name), || {
            format!("1: {node} upgraded out of turn")
        })?;
        self.lease_is_free(&view.name)?;
        self.not_stopped(view)
    }

    /// 4: the finalizer goes last.
    fn leaves(&self) -> Verdict {
        for node in self.observed.nodes.values() {
            for key in [marks::SHIELDED_BY, marks::CORDONED_BY] {
                let mark = node.annotations.get(key).map(String::as_str).unwrap_or_default();
                let mark: Value = serde_json::from_str(mark).unwrap_or_default();
                let whole = mark["prior"].is_object() || mark["prior"].is_boolean();
                demand(mark["owner"] != self.uid || !whole, || {
                    format!("4: the finalizer goes before {key} of {}", node.name)
                })?;
            }
        }
        let left =
            self.observed.leases.iter().find(|(_, lease)| {
                lease.holder.starts_with("numo/") && self.holders().contains(&lease.holder)
            });
        demand(left.is_none(), || {
            format!(
                "4: the finalizer goes before the lease of {:?}",
                left.map(|(node, _)| node)
            )
        })
    }

    /// 8: each node that is told of has a reason, in words that fit.
    pub fn report(&self, decision: &Decision) -> Verdict {
        let report = &decision.report;
        for (name, node) in &report.nodes {
            demand(!node.why.message.trim().is_empty(), || {
                format!("8: {name} {:?} has no words", node.why.reason)
            })?;
            demand(node.why.message.len() < 40_000, || {
                format!("8: {name} has {} bytes of words", node.why.message.len())
            })?;
        }
        for why in report.hold.iter().chain(&report.problems) {
            demand(!why.message.trim().is_empty(), || {
                format!("8: {:?} has no words", why.reason)
            })?;
        }
        for change in self
            .turns()
            .filter(|change| change.spec.owner_ref.uid == self.uid)
        {
            let name = &change.spec.node_name;
            let own = match self.owner.key.namespace.as_str() {
                "" => &self.observed.settings.namespace,
                namespace => namespace,
            };
            let told =
                report.nodes.contains_key(name) || report.hold.is_some() || !report.problems.is_empty();
            demand(told || change.key.namespace != *own, || {
                format!("8: nothing is said of {name}, which has its turn")
            })?;
        }
        Ok(())
    }
}

fn is_name(text: &str) -> bool {
    let ends = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    ends(text) && text.chars().all(inner)
}
