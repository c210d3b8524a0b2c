//! The cluster autoscaler, which rests while nodes are replaced: it would take new machines away, or make more.

use super::pass::Pass;
use crate::{
    action::{Action, Change, FleetAction},
    decision::Snapshot,
    key::Key,
    observed::{
        AutoscalerView, ChangeView, FleetView, MOST_AUTOSCALERS, NodeView, ScalingGroupView, StrategyView,
    },
    owner::Owner,
    time::later,
    turn::journal,
    why::Why,
};
use numo_api::{Reason, Step, conditions::Actor, marks};

/// How long a cluster autoscaler that is switched off may be seen running in a turn before a person is told (seconds).
const STOP_SECONDS: i64 = 300;

/// What the cluster autoscaler is started with (`spec/constellation.md` §2): its groups and the further flags, in order.
///
/// Errors: a group whose sizes cannot be.
pub fn command(strategy: &StrategyView, fleet: &FleetView) -> Result<Vec<String>, String> {
    let extras = strategy.spec.autoscaler_extra_args.iter().flatten();
    let mut flags: Vec<String> = extras.map(|(key, value)| format!("--{key}={value}")).collect();
    let groups = fleet.groups.values();
    let scaled = groups.filter(|group| group.spec.autoscaling == Some(true) && !group.is_control_plane());
    for group in scaled {
        flags.push(nodes_flag(group)?);
    }
    flags.sort();
    let mut command = vec!["./cluster-autoscaler".to_owned()];
    command.extend(flags);
    Ok(command)
}

/// What is wrong with the sizes of a group, if anything.
fn wrong_sizes(group: &ScalingGroupView, (min, max): (i32, i32)) -> Option<String> {
    let name = &group.name;
    let wanted = if min < 0 { "at least 0" } else { "at most that" };
    (min < 0 || min > max)
        .then(|| format!("ScalingGroup {name} spec.min: found {min} with spec.max {max}, wanted {wanted}"))
}

fn nodes_flag(group: &ScalingGroupView) -> Result<String, String> {
    let (min, max) = (group.spec.min.unwrap_or(0), group.spec.max.unwrap_or(0));
    if let Some(problem) = wrong_sizes(group, (min, max)) {
        return Err(problem);
    }
    let named = group.spec.autoscaler_group_name.as_deref();
    let name = named.filter(|name| !name.is_empty()).ok_or_else(|| {
        let group = &group.name;
        format!("ScalingGroup {group} spec.autoscalerGroupName: found none, wanted its name there, as spec.autoscaling is true")
    })?;
    Ok(format!("--nodes={min}:{max}:{name}"))
}

/// What is to become of cluster autoscalers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// They run.
    Running,
    /// They rest.
    Resting,
    /// They stay as they are: a node may begin, and none does.
    AsTheyAre,
}

impl Pass<'_> {
    /// Has cluster autoscalers rest while nodes are replaced, and run otherwise.
    pub(super) fn keep_autoscalers(&mut self) {
        let Some(wanted) = self.autoscalers_wanted() else {
            return;
        };
        if wanted == Wanted::Resting && !self.may_stop_autoscalers() {
            return;
        }
        if wanted == Wanted::Running {
            self.start_unclaimed();
        }
        for strategy in self.fleet.strategies.values() {
            let wanted = match wanted {
                Wanted::Running => true,
                Wanted::Resting => false,
                Wanted::AsTheyAre => strategy.spec.enabled,
            };
            let chain = format!("autoscaler {}", strategy.name);
            if strategy.spec.enabled != wanted {
                let action = FleetAction::EnableAutoscaler {
                    strategy: strategy.name.clone(),
                    uid: strategy.uid.clone(),
                    enabled: wanted,
                };
                self.fleet(&chain, action);
            }
            if self.tell_second(strategy) {
                continue;
            }
            if let Some(deployment) = self.fleet.autoscalers.get(&strategy.deployment()) {
                self.keep_autoscaler(&chain, strategy, deployment, i32::from(wanted));
            } else if self.is_followed(strategy) && strategy.status.replicas.unwrap_or(0) != 0 {
                // It is gone.
                let action = FleetAction::WriteStrategyStatus {
                    strategy: strategy.name.clone(),
                    uid: strategy.uid.clone(),
                    replicas: 0,
                };
                self.fleet(&chain, action);
            }
        }
    }

    /// Says that another AutoscalingStrategy has the Deployment of this one, if so: only the first is seen to, or the two would write its command
    /// in turns, for ever.
    fn tell_second(&mut self, strategy: &StrategyView) -> bool {
        let mut all = self.fleet.strategies.values();
        let first = all.find(|one| one.deployment() == strategy.deployment());
        let Some(first) = first.filter(|first| first.name != strategy.name) else {
            return false;
        };
        let message = format!(
            "AutoscalingStrategy {} spec.deploymentName: found {}, which AutoscalingStrategy {} has, too: only that one is seen to; delete one of \
             them",
            strategy.name,
            strategy.deployment(),
            first.name
        );
        self.tell_problem(Reason::InvalidField, message);
        true
    }

    /// Whether cluster autoscalers may be stopped: only a NodeVersion that cannot be gone at once has them run again.
    fn may_stop_autoscalers(&mut self) -> bool {
        if self.has_finalizer() || self.view.deleting || self.autoscaler_runs().is_none() {
            return true;
        }
        self.add_finalizer();
        false
    }

    fn keep_autoscaler(
        &mut self,
        chain: &str,
        strategy: &StrategyView,
        deployment: &AutoscalerView,
        replicas: i32,
    ) {
        let status = &strategy.status;
        if status.replicas != Some(deployment.replicas) || status.enabled != Some(deployment.replicas > 0) {
            let action = FleetAction::WriteStrategyStatus {
                strategy: strategy.name.clone(),
                uid: strategy.uid.clone(),
                replicas: deployment.replicas,
            };
            self.fleet(chain, action);
        }
        let wanted = command(strategy, self.fleet).unwrap_or_else(|problem| {
            self.tell_once(problem);
            deployment.command.clone()
        });
        self.set_autoscaler(chain, (strategy.deployment(), deployment), replicas, wanted);
    }

    /// Changes the Deployment of a cluster autoscaler. One that is stopped says how many replicas it had.
    fn set_autoscaler(
        &mut self,
        chain: &str,
        (key, deployment): (Key, &AutoscalerView),
        replicas: i32,
        command: Vec<String>,
    ) {
        let known = deployment.annotations.get(marks::PRIOR_REPLICAS).cloned();
        let had = Some(deployment.replicas).filter(|had| *had > 0);
        let prior = had.map(|had| had.to_string()).or(known).filter(|_| replicas == 0);
        let prior = Change::of(&deployment.annotations, marks::PRIOR_REPLICAS, prior);
        let is_noted = prior.from == prior.to;
        if deployment.replicas != replicas || deployment.command != command || !is_noted {
            let action = FleetAction::SetAutoscaler {
                deployment: key,
                uid: deployment.uid.clone(),
                replicas: (deployment.replicas, replicas),
                annotations: vec![prior].into_iter().filter(|_| !is_noted).collect(),
                command: (deployment.command.clone(), command),
            };
            self.fleet(chain, action);
        }
    }

    /// Starts cluster autoscalers that numo has stopped, and whose AutoscalingStrategy is gone since.
    fn start_unclaimed(&mut self) {
        let fleet = self.fleet;
        for (key, deployment) in &fleet.autoscalers {
            let mut strategies = fleet.strategies.values();
            let is_claimed = strategies.any(|strategy| strategy.deployment() == *key);
            let prior = deployment.annotations.get(marks::PRIOR_REPLICAS);
            if let Some(prior) = prior.filter(|_| !is_claimed) {
                let replicas = match deployment.replicas {
                    0 => prior.parse().unwrap_or(1).max(1),
                    // Somebody has started it.
                    running => running,
                };
                let of = (key.clone(), deployment);
                self.set_autoscaler("autoscaler", of, replicas, deployment.command.clone());
            }
        }
    }

    /// Says that the sizes of a group cannot be, whether an autoscaler is to keep to them or not.
    pub(super) fn tell_sizes(&mut self, group: &ScalingGroupView) {
        let sizes = group.spec.min.zip(group.spec.max);
        let problem = sizes.and_then(|sizes| wrong_sizes(group, sizes));
        if let Some(problem) = problem {
            self.tell_once(problem);
        }
    }

    fn tell_once(&mut self, problem: String) {
        let problems = &mut self.out.report.problems;
        if !problems.iter().any(|known| *known.message == *problem) {
            problems.push(Why::new(Reason::InvalidField, problem));
        }
    }

    /// That a cluster autoscaler is yet to be switched on, if so: by numo, or by a person where something stops it again.
    pub(super) fn autoscaler_rests(&self) -> Option<Why> {
        let mut actions = self.out.actions.iter();
        actions.find(|planned| matches!(&planned.action, Action::Fleet(action) if action.restores()))?;
        let mut strategies = self.fleet.strategies.values();
        // Both are written in one chain: one that is enabled had its replicas, too.
        let stopped = strategies.find(|strategy| {
            let deployment = self.fleet.autoscalers.get(&strategy.deployment());
            strategy.spec.enabled && deployment.is_some_and(|deployment| deployment.replicas == 0)
        });
        let Some(strategy) = stopped else {
            let message = "the cluster autoscaler is being switched on, then the NodeVersion is gone";
            return Some(Why::new(Reason::Deleting, message));
        };
        let message = format!(
            "the NodeVersion is gone once the cluster autoscaler runs: AutoscalingStrategy {} is enabled, and Deployment {} spec.replicas: \
             found 0, wanted 1. numo sets that again and again: end what scales it down, or delete the AutoscalingStrategy",
            strategy.name,
            strategy.deployment()
        );
        Some(Why::new(Reason::Deleting, message).ended_by(Actor::ClusterAdmin))
    }

    /// What is to become of cluster autoscalers; none while that is for another operator to say, or for another NodeVersion, which
    /// replaces nodes or may do so now.
    /// They are not stopped before a node begins: where hours open and nothing begins in them, they would be stopped and started for nothing.
    fn autoscalers_wanted(&self) -> Option<Wanted> {
        // The operator that numo replaces says so while it is live: it would stop what numo starts, again and again.
        if self.rival().is_some() {
            return None;
        }
        // No operator is left that would switch them on later.
        if self.fleet.abandoned {
            return Some(Wanted::Running);
        }
        if self.is_in_hand() || self.begins_any() {
            return Some(Wanted::Resting);
        }
        if self.may_begin() {
            return Some(Wanted::AsTheyAre);
        }
        let others = self.fleet.versions.values();
        let mut others = others.filter(|other| other.name != self.view.name);
        let is_others = others.any(|other| {
            let owner = Owner::node_version(other.name.as_str());
            let snapshot = Snapshot {
                now: self.now,
                observed: self.observed,
                owner: &owner,
                asked: None,
            };
            let other = Pass::of(&snapshot, other, self.answers);
            other.is_in_hand() || (!other.view.deleting && other.may_replace())
        });
        (!is_others).then_some(Wanted::Running)
    }

    /// Whether a node or a machine of the NodeVersion is on its way.
    fn is_in_hand(&self) -> bool {
        !self.flying.is_empty() || !self.sets.pending.is_empty()
    }

    /// Whether the NodeVersion may begin with a node now, as far as a time, a person's word or a dead node keeps it from that.
    fn may_replace(mut self) -> bool {
        if self.hold.is_some() {
            return false;
        }
        self.waves = self.waves();
        self.approvals = self.approvals();
        let first = self.sets.control_plane_behind();
        let is_first = |node: &NodeView| first.is_none_or(|first| first.uid == node.uid);
        let mut behind = self.sets.all().filter(|(_, class)| class.is_behind());
        behind.any(|(node, _)| {
            let closed = self.intent.schedule.closed_to(node, self.observed, self.now);
            let waits = closed
                .or_else(|| self.waves.refusal(&node.name))
                .or_else(|| self.approvals.refusal(&self.waves, &node.name));
            let is_out = self.is_left_out(node) || self.given_up(node).is_some();
            let is_dead = !node.ready && !self.intent.take_not_ready;
            waits.is_none() && is_first(node) && !is_out && !is_dead
        })
    }

    /// Whether a node has its turn from this decision on.
    fn begins_any(&self) -> bool {
        let mut nodes = self.out.report.nodes.values();
        nodes.any(|node| node.why.reason == Reason::Admitting)
    }

    /// Whether a node of this NodeVersion may begin. The cluster is not to stand without its autoscaler for as long as none may: while a
    /// window is closed, a wave soaks, or a person is waited for.
    fn may_begin(&self) -> bool {
        let begins = self.hold.is_none()
            && self.leaving.is_none()
            && self.idle.is_none()
            && self.intent.schedule.closed(self.now).is_none();
        begins && self.sets.is_outdated() && self.can_any_begin()
    }

    /// Whether a node that is behind waits for neither a time nor a person, nor until it is Ready.
    fn can_any_begin(&self) -> bool {
        let waits = |reason: Reason| {
            // The node of the control plane that goes first says for itself what it waits for.
            let by_node = matches!(reason, Reason::NodeNotReady | Reason::ControlPlaneFirst);
            reason.is_of_hours() || reason.is_of_order() || reason.is_of_approval() || by_node
        };
        let mut behind = self.sets.all().filter(|(_, class)| class.is_behind());
        behind.any(|(node, _)| {
            let said = self.out.report.nodes.get(&node.name);
            said.is_none_or(|said| {
                !said.step.is_terminal() && !waits(said.why.reason) && !said.why.who().is_person()
            })
        })
    }

    /// Tells of cluster autoscalers that numo can neither see nor stop.
    pub(super) fn tell_unseen_autoscaler(&mut self) {
        let unseen = self.unseen_autoscaler();
        self.out.report.problems.extend(unseen);
    }

    /// Whether the Deployment of a strategy is looked for: nobody else knows whether it is gone.
    fn is_followed(&self, strategy: &StrategyView) -> bool {
        self.fleet.followed.contains(&strategy.deployment())
    }

    /// A cluster autoscaler that numo can neither see nor stop.
    pub(super) fn unseen_autoscaler(&self) -> Option<Why> {
        let mut strategies = self.fleet.strategies.values();
        let unseen = strategies.find(|strategy| !self.is_followed(strategy))?;
        let deployment = unseen.deployment();
        let wanted = if self.fleet.followed.len() <= MOST_AUTOSCALERS {
            ", wanted the namespace and the name of a Deployment".to_owned()
        } else {
            format!(", and numo watches {MOST_AUTOSCALERS} others since it was started: restart it")
        };
        let message = format!(
            "AutoscalingStrategy {} spec.deploymentNamespace and spec.deploymentName: found {deployment}{wanted}",
            unseen.name
        );
        Some(Why::new(Reason::InvalidField, message).ended_by(Actor::ClusterAdmin))
    }

    /// The same for a turn that has begun, whose autoscaler was stopped then. One that runs for long all the same, though numo has seen that and
    /// stopped it, is for a person: something starts it again and again.
    pub(super) fn autoscaler_runs_in(&self, change: &ChangeView) -> Option<Why> {
        let why = self.autoscaler_runs()?;
        let begun = journal::entered(change, Step::Admitted);
        let begun = begun.and_then(|entry| journal::time(Some(&entry.at)));
        let due = later(begun.unwrap_or(change.created), STOP_SECONDS);
        if why.reason != Reason::AutoscalerRuns || !self.autoscaler_fights() {
            return Some(why);
        }
        if due > self.now {
            return Some(why.until(due).ended_by(Actor::Numo));
        }
        let message = format!(
            "{}, and something starts it again and again: end that, or scale it down yourself and delete the AutoscalingStrategy",
            why.message
        );
        Some(Why::new(why.reason, message).ended_by(Actor::ClusterAdmin))
    }

    /// Whether a cluster autoscaler runs that numo has switched off and has seen running since.
    fn autoscaler_fights(&self) -> bool {
        let mut strategies = self.fleet.strategies.values();
        strategies.any(|strategy| {
            let deployment = self.fleet.autoscalers.get(&strategy.deployment());
            let found = deployment.map_or(0, |deployment| deployment.replicas);
            !strategy.spec.enabled && found > 0 && strategy.status.replicas == Some(found)
        })
    }

    /// Why no machine is made yet: a cluster autoscaler still runs, by what is seen of it. One whose Deployment is gone does not.
    pub(super) fn autoscaler_runs(&self) -> Option<Why> {
        if let Some(unseen) = self.unseen_autoscaler() {
            return Some(unseen);
        }
        let mut strategies = self.fleet.strategies.values();
        let running = strategies.find(|strategy| {
            let deployment = self.fleet.autoscalers.get(&strategy.deployment());
            strategy.spec.enabled || deployment.is_some_and(|deployment| deployment.replicas > 0)
        })?;
        let message = format!(
            "the cluster autoscaler (Deployment {}) is being stopped first",
            running.deployment()
        );
        Some(Why::new(Reason::AutoscalerRuns, message))
    }
}
