//! What is checked of the writes that only a Plan makes.

use super::{
    intent::{Intent, rules_of, schedule},
    jobs::has_job,
};
use crate::{
    action::{Action, NodePatch, NodePurpose, PlanParts},
    admit::{schedule::Schedule, wave_rules::surely_of},
    lint::{
        checks::{Checked, breach, here, in_hours, not_stopped, passed},
        table::{Checks, Seen},
    },
    mark,
    observed::{ChangeView, NodeView, PlanView},
    own_gate,
    owner::OwnerKind,
    quorum, rules,
    turn::lease,
};
use numo_api::{Phase, Reason, Step, marks};

/// A Plan whose writes are checked.
pub(crate) struct Lint<'a> {
    pub(crate) seen: Seen<'a>,
    pub(crate) view: &'a PlanView,
}

impl Lint<'_> {
    fn passed(&self, node: &str, change: &ChangeView, phases: &[Phase]) -> Checked {
        let observed = self.seen.observed;
        let mut rules = rules_of(self.view, observed);
        if let Some(found) = observed.nodes.get(node) {
            let waves = Intent::parse(self.view, observed).waves;
            rules = surely_of((found, change), &rules, &waves, observed);
        }
        passed(&rules, node, (change, phases), self.seen.now)
    }

    /// 13: the first disruption of a node comes while the hours of its Plan are open.
    fn begins_in_hours(&self, node: &NodeView, change: &ChangeView, what: &str) -> Checked {
        if is_disrupted(change) {
            return Ok(());
        }
        in_hours(self.schedule(), (self.seen.observed, node), what, self.seen.now)
    }

    /// 1, 10 and 13: a Job begins in the node's turn, after its rules.
    fn starts_job(&self, node: &NodeView, parts: PlanParts) -> Checked {
        let (observed, name) = (self.seen.observed, &node.name);
        let Some(change) = self.seen.turn(node) else {
            return breach(1, format!("{name} has no turn"));
        };
        not_stopped(observed, node, "upgraded")?;
        if let Some(why) = quorum::refusal_of_turn(observed, node, change) {
            return breach(10, why.message.to_string());
        }
        if own_gate::lost(self.seen.owner, self.seen.view).is_some() {
            return breach(1, format!("{name}: the gate of its Plan is lost"));
        }
        self.begins_in_hours(node, change, "upgraded")?;
        let phases: &[Phase] = if parts == PlanParts::Prepare {
            &[Phase::Pre]
        } else {
            &rules::BEFORE_RELEASE
        };
        self.passed(name, change, phases)
    }
}

/// Whether the journal tells of a disruption of the node, in this attempt or an earlier one; or of a Job that nobody has seen, and that may
/// have cordoned the node: it is brought to its end like one that has.
fn is_disrupted(change: &ChangeView) -> bool {
    let lost = Reason::JobLost.name();
    let mut entries = change.status.entries.iter();
    entries.any(|entry| {
        matches!(entry.step, Step::Cordoned | Step::Released) || entry.reason.as_deref() == Some(lost)
    })
}

impl Checks for Lint<'_> {
    fn holder(&self) -> String {
        lease::holder_of(OwnerKind::Plan, &self.view.uid)
    }

    fn was_begun(&self, node: &NodeView, run_id: &str) -> bool {
        has_job(self.seen.observed, self.view, node, run_id)
    }

    fn schedule(&self) -> Result<Schedule<'_>, String> {
        schedule(self.view, self.seen.observed)
    }

    /// 10: a control-plane node goes only while etcd keeps its quorum.
    fn begin(&self, node: &NodeView) -> Checked {
        match quorum::refusal_of_change(self.seen.observed, node) {
            Some(why) => breach(10, why.message.to_string()),
            None => Ok(()),
        }
    }

    /// 1 and 4: a node is cordoned in its turn, and only our own is taken off.
    fn patch_node(&self, node: &NodeView, patch: &NodePatch) -> Checked {
        let name = &patch.node;
        let ours = |owner: Option<String>| owner.is_none_or(|owner| owner == self.view.uid);
        match (patch.purpose, self.seen.turn(node)) {
            (NodePurpose::Shield | NodePurpose::Cordon, None) => breach(1, format!("{name} has no turn")),
            (NodePurpose::Cordon, Some(change)) => {
                not_stopped(self.seen.observed, node, "cordoned")?;
                // The cordon is the first disruption; one that somebody took off is put back whatever the rules say by now. The mark on
                // the node does not tell: it is there from the shield on.
                if is_disrupted(change) {
                    return Ok(());
                }
                self.begins_in_hours(node, change, "cordoned")?;
                self.passed(name, change, &[Phase::Pre])
            }
            (NodePurpose::Uncordon, _) => {
                let uncordons = patch.unschedulable == Some(false);
                let mark = mark::cordoned_by(node);
                if uncordons
                    && mark
                        .as_ref()
                        .is_none_or(|mark| mark.owner != self.view.uid || mark.prior)
                {
                    return breach(4, format!("the cordon of {name} is not ours"));
                }
                let touches = |key: &str| patch.annotations.iter().any(|change| change.key == key);
                if touches(marks::CORDONED_BY) && !ours(mark.map(|mark| mark.owner)) {
                    return breach(4, format!("the mark on {name} is not ours"));
                }
                if touches(marks::SHIELDED_BY) && !ours(mark::shielded(node).map(|mark| mark.owner)) {
                    return breach(4, format!("the shield of {name} is not ours"));
                }
                Ok(())
            }
            (NodePurpose::Shield, Some(_)) => Ok(()),
            (other, _) => breach(4, format!("{name}: {other:?} is nothing to a Plan")),
        }
    }

    fn evict(&self, _node: &NodeView) -> Checked {
        Ok(())
    }

    fn of_plan(&self, action: &Action) -> Checked {
        let observed = self.seen.observed;
        match action {
            Action::CreatePlanJob(request) => {
                let node = here(observed, &request.node, None)?;
                if request.hash.is_empty() || request.version.is_empty() {
                    let message = format!("{} would be upgraded to nobody knows what", node.name);
                    return breach(1, message);
                }
                if observed.plan_jobs.contains_key(&request.job) {
                    return breach(3, format!("Job {} exists already", request.job));
                }
                self.starts_job(node, request.parts)
            }
            Action::StartPlanJob { job, .. } => {
                let node = observed
                    .plan_jobs
                    .get(job)
                    .map_or("", |known| known.node.as_str());
                self.starts_job(here(observed, node, None)?, PlanParts::All)
            }
            Action::DeletePlanJob { job, .. } => {
                let runs = observed.plan_jobs.get(job).is_some_and(|known| {
                    // What no kubelet has taken up, and none can now, does not run.
                    let stays = |node: &NodeView| node.ready || !known.untouched;
                    let node = observed.nodes.get(&known.node);
                    !known.paused && known.ended.is_none() && node.is_some_and(stays)
                });
                if runs {
                    return breach(5, format!("Job {job} would be killed while it runs"));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
