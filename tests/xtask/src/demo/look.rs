//! One look at the run: what `numo status` would say, and what the simulated machines are at.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use numo::frontends::mutex_run_config::summary;
use numo::shell::list;
use numo_api::{Reason, Step, marks};
use numo_core::observed::{Key, Settings};
use numo_core::verdict::Answers;
use numo_core::{Snapshot, decide};
use numo_e2e::NAMESPACE;
use numo_world::{NodeView, State};

use super::site::Site;

/// What is shown of the run.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// Reason of the run as a whole.
    pub reason: Option<Reason>,
    /// The reason in a sentence.
    pub message: String,
    /// Whether numo itself says that a person is needed.
    pub stalled: bool,
    /// Whether numo itself says that the run is over and good.
    pub succeeded: bool,
    /// The pools.
    pub pools: Vec<Pool>,
    /// The nodes, by name.
    pub rows: Vec<Row>,
}

/// A pool of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Name.
    pub name: String,
    /// Whether it is paused, and by whom.
    pub paused: &'static str,
}

/// A node of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Name.
    pub node: String,
    /// OpenShift version it runs.
    pub version: String,
    /// Its step.
    pub step: Step,
    /// Why it is there.
    pub reason: Reason,
    /// What it is at: the rule, what the machine does, or what it waits for.
    pub doing: String,
    /// The last line of the running rule's log.
    pub says: Option<String>,
}

impl Row {
    /// Whether the node has its turn now.
    pub fn in_flight(&self) -> bool {
        !self.waits() && self.step != Step::Done
    }

    /// Whether the node waits for its turn.
    pub fn waits(&self) -> bool {
        self.step == Step::Selected
    }

    /// Whether something is wrong with the node.
    pub fn is_wrong(&self) -> bool {
        matches!(self.step, Step::Held | Step::Failed | Step::Skipped)
    }
}

/// Looks.
pub async fn look(site: &Site, run: &str) -> Result<Look> {
    let owner = Key::new(NAMESPACE, run);
    let settings = Settings {
        namespace: NAMESPACE.to_owned(),
        ..Settings::default()
    };
    let (store, _) = list::once(&site.client, settings).await?;
    let answers = Answers::default();
    let snapshot = Snapshot {
        now: jiff::Timestamp::now(),
        observed: &store.observed,
        owner: &numo_core::Owner::run(owner.clone()),
        asked: None,
    };
    let report = decide(&snapshot, &answers).report;
    let status = &store
        .observed
        .runs
        .get(&owner)
        .context("the MutexRunConfig is gone")?
        .status;
    let says = |type_: &str, reason: Option<&str>| {
        status.conditions.iter().any(|condition| {
            condition.type_ == type_
                && condition.status == "True"
                && reason.is_none_or(|reason| condition.reason.as_deref() == Some(reason))
        })
    };
    let state = site.world.state();
    let rules = rules(site, &state).await;
    let (mut reason, message) = summary(&report);
    let succeeded = says("Ready", Some(Reason::Succeeded.name()));
    if succeeded && reason == Reason::UpToDate {
        reason = Reason::Succeeded;
    }
    let rows = report.nodes.iter().map(|(name, node)| {
        let rule = rules.get(name);
        let view = state.nodes.get(name);
        Row {
            node: name.clone(),
            version: site.world.version_of(name),
            step: node.step,
            reason: node.why.reason,
            doing: match node.step {
                Step::Done => String::new(),
                _ if node.why.reason == Reason::WaitingForTurn => "waits for its turn".to_owned(),
                Step::PreRules | Step::PostRules => rule.map_or_else(
                    || node.why.message.to_string(),
                    |rule| format!("rule {}", rule.name),
                ),
                Step::Released | Step::Changed | Step::Ready | Step::Uncordoned => {
                    let is_changed = site.world.version_of(name) == super::TO;
                    view.map_or_else(|| node.why.message.to_string(), |view| machine(view, is_changed))
                }
                _ => node.why.message.to_string(),
            },
            says: rule.and_then(|rule| rule.says.clone()),
        }
    });
    Ok(Look {
        reason: Some(reason),
        message,
        stalled: says("Stalled", None),
        succeeded,
        pools: report
            .pools
            .iter()
            .map(|pool| Pool {
                name: pool.name.clone(),
                paused: match (pool.paused, pool.ours) {
                    (true, true) => "paused by numo",
                    (true, false) => "paused by someone else",
                    (false, _) => "not paused",
                },
            })
            .collect(),
        rows: rows.collect(),
    })
}

/// What the machine-config daemon and the machine are at. A machine at the new version that is asked for
/// another configuration leaves the canary pool: same content, no reboot.
fn machine(node: &NodeView, is_changed: bool) -> String {
    let asked_to_drain = node.desired_drain.starts_with("drain-");
    let words = if node.state == "Degraded" || node.state == "Unreconcilable" {
        return format!("{}: {}", node.state, node.reason);
    } else if node.rebooting && !node.ready {
        "rebooting"
    } else if node.rebooting {
        "going down for a reboot"
    } else if asked_to_drain && node.desired_drain != node.last_applied_drain {
        "draining"
    } else if asked_to_drain {
        "writing the new operating system"
    } else if !node.ready {
        "not Ready"
    } else if is_changed && node.current != node.desired {
        "goes home to its pool"
    } else if node.state == "Working" && node.desired_drain == format!("uncordon-{}", node.desired) {
        "rebooted: is being uncordoned"
    } else if node.state == "Working" {
        "the machine-config daemon begins"
    } else if node.current != node.desired {
        "released: the machine-config daemon is told"
    } else {
        "back"
    };
    words.to_owned()
}

struct Rule {
    name: String,
    says: Option<String>,
}

/// The rule that each node is at or was at last, with the last line of its log while it runs.
async fn rules(site: &Site, state: &State) -> BTreeMap<String, Rule> {
    let mut rules = BTreeMap::new();
    for job in state.jobs.values() {
        let (Some(node), Some(rule)) = (
            job.annotations.get(marks::JOB_NODE_NAME),
            job.annotations.get(marks::JOB_RULE),
        ) else {
            continue;
        };
        let name = rule.rsplit('/').next().unwrap_or_default().to_owned();
        let is_newer = !rules.contains_key(node) || !(job.complete || job.failed);
        if is_newer {
            rules.insert(node.clone(), Rule { name, says: None });
        }
    }
    for (key, pod) in state.pods.iter().filter(|(_, pod)| pod.phase == "Running") {
        let Some(rule) = pod.env.get("NODE_NAME").and_then(|node| rules.get_mut(node)) else {
            continue;
        };
        let api: Api<Pod> = Api::namespaced(site.client.clone(), &pod.namespace);
        let params = LogParams {
            tail_lines: Some(1),
            ..LogParams::default()
        };
        let pod = key.rsplit('/').next().unwrap_or_default();
        // A pod that has just ended has no log to be had: its line stays away for one look.
        let log = api.logs(pod, &params).await.unwrap_or_default();
        rule.says = Some(log.trim().to_owned()).filter(|log| !log.is_empty());
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_is_said_to_begin_and_to_come_back() {
        let mut node = NodeView {
            state: "Done".into(),
            current: "old".into(),
            desired: "new".into(),
            desired_drain: "uncordon-old".into(),
            last_applied_drain: "uncordon-old".into(),
            ready: true,
            ..NodeView::default()
        };
        assert_eq!(
            machine(&node, false),
            "released: the machine-config daemon is told"
        );
        node.state = "Working".into();
        assert_eq!(machine(&node, false), "the machine-config daemon begins");
        node.desired_drain = "drain-new".into();
        assert_eq!(machine(&node, false), "draining");
        node.last_applied_drain = "drain-new".into();
        assert_eq!(machine(&node, false), "writing the new operating system");
        node.rebooting = true;
        node.ready = false;
        assert_eq!(machine(&node, false), "rebooting");
        node.rebooting = false;
        node.ready = true;
        node.desired_drain = "uncordon-new".into();
        assert_eq!(machine(&node, false), "rebooted: is being uncordoned");
        node.state = "Done".into();
        node.current = "new".into();
        assert_eq!(machine(&node, true), "back");
        node.desired = "home".into();
        assert_eq!(machine(&node, true), "goes home to its pool");
        node.state = "Working".into();
        assert_eq!(machine(&node, true), "goes home to its pool");
    }
}
