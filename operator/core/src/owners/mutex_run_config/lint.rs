//! What is checked of the writes that only a run makes.

use super::{
    in_force::InForce,
    member::Member,
    run_view::{RunView, lease_holder},
};
use crate::{
    action::{NodePatch, NodePurpose, PoolPatch, PoolPurpose},
    admit::schedule::Schedule,
    decision::Snapshot,
    intent::schedule,
    lint::{
        checks::{Checked, breach, in_hours, not_stopped, passed},
        table::{Checks, Seen},
    },
    mark,
    observed::{NodeView, PoolView, RunConfigView},
    pools, rules,
    turn::quarantine,
};
use numo_api::{
    Outcome, Phase, Strategy,
    marks::{self, openshift},
};
use std::cell::OnceCell;

/// A run whose writes are checked. The view is worked out when the first check needs it: most writes are of a journal or a Job, and a
/// big cluster has many of them.
pub(crate) struct Lint<'s, 'a> {
    pub(crate) seen: Seen<'a>,
    pub(crate) snapshot: &'s Snapshot<'a>,
    pub(crate) run: &'a RunConfigView,
    pub(crate) view: OnceCell<RunView<'a>>,
}

/// 13: nothing is done while the run is suspended.
fn not_suspended(view: &RunView<'_>, name: &str) -> Checked {
    match &view.intent.suspended {
        Some(why) => breach(
            13,
            format!("{name} would be changed while stopped: {}", why.message),
        ),
        None => Ok(()),
    }
}

/// 1: nothing is let go before every rule passed for this owner, node and attempt; 5 and 13.
fn released(view: &RunView<'_>, member: &Member<'_>) -> Checked {
    let name = &member.node.name;
    let Some(change) = member.in_flight() else {
        return breach(1, format!("{name} has no turn"));
    };
    if change.spec.target.run_id != view.run_id {
        return breach(1, format!("{name} has its turn in another run"));
    }
    let terms = change.status.pin.as_ref().and_then(|pin| pin.terms.as_ref());
    let in_force = InForce::of(&view.intent, view.observed, terms).rules;
    passed(&in_force, name, (change, &rules::BEFORE_RELEASE), view.now)?;
    pre_run_passed(view, name)?;
    let pin = change.status.pin.as_ref().map(|pin| pin.rendered_config.as_str());
    if pin != Some(member.pool.config.as_str()) {
        return breach(
            1,
            format!(
                "{name} is pinned to {pin:?}, its pool goes to {}",
                member.pool.config
            ),
        );
    }
    if !member.pool.paused || mark::paused_by(member.pool).is_none_or(|mark| mark.owner != view.run.uid) {
        return breach(
            5,
            format!("pool {} of {name} is not held by this run", member.pool.name),
        );
    }
    if view.leaving().is_some() {
        return breach(5, format!("{name} would be released while the run is being left"));
    }
    not_stopped(view.observed, member.node, "released")?;
    not_suspended(view, name)?;
    if member.node.annotation(openshift::STATE) != "Done" || !member.node.ready || member.node.unschedulable {
        return breach(1, format!("{name} is not Ready, schedulable and Done"));
    }
    if view.intent.strategy == Strategy::CanaryPool {
        return one_pool_after_release(view, member);
    }
    Ok(())
}

/// At no moment does a node match two custom pools, or none.
fn one_pool_after_release(view: &RunView<'_>, member: &Member<'_>) -> Checked {
    let Some(canary) = view.intent.canary else {
        return breach(1, format!("{}: there is no canary pool", member.node.name));
    };
    let mut labels = member.node.labels.clone();
    labels.retain(|key, _| !key.starts_with(marks::RULE_LABEL_PREFIX));
    labels.insert(marks::RELEASE.to_owned(), view.run_id.clone());
    match pools::home_now(view.observed, &labels) {
        pools::Home::Pool(name) if name == canary.name => Ok(()),
        other => breach(
            1,
            format!(
                "{} would fall into {other:?}, wanted pool {}",
                member.node.name, canary.name
            ),
        ),
    }
}

/// 1: what the run asked once stands as it is now, however long ago that was.
fn pre_run_passed(view: &RunView<'_>, name: &str) -> Checked {
    for (key, rule) in &view.intent.rules {
        let mut verdicts = view.run_verdicts.iter();
        let name_of_rule = key.to_string();
        let is_asked = verdicts.any(|one| one.phase == Phase::PreRun && one.rule == name_of_rule);
        let Some(rule) = rule.filter(|rule| is_asked && rule.runs_in(Phase::PreRun)) else {
            continue;
        };
        let last = rules::last_word(view.run_verdicts, key, Phase::PreRun, view.run_round);
        let passed = last.filter(|verdict| verdict.outcome == Outcome::Pass);
        if passed.is_none_or(|verdict| verdict.edition.as_deref() != Some(rule.edition().as_str())) {
            return breach(
                1,
                format!("{name} would be released although PreRun rule {key} has not passed as it is now"),
            );
        }
    }
    Ok(())
}

impl<'a> Lint<'_, 'a> {
    fn view(&self) -> &RunView<'a> {
        self.view.get_or_init(|| RunView::of(self.snapshot, self.run))
    }

    /// 5: no node of a pool rolls without its rules once that is unpaused.
    fn unpauses(&self, pool: &PoolView, patch: &PoolPatch) -> Checked {
        let view = self.view();
        // Of the version that is asked for nothing may be rendered yet: the nodes roll once it is.
        let will_roll = |member: &Member<'_>| {
            let desired = view.desired.as_deref().ok();
            let rendered = view.config_version(&member.pool.config);
            let is_behind = |desired| member.version.is_some_and(|version| version != desired);
            member.outdated() || (rendered != desired && desired.is_some_and(is_behind))
        };
        let members = view.members.iter();
        let rolls = members
            .filter(|member| member.pool.name == pool.name && will_roll(member))
            .count();
        let stays = patch.paused.is_some_and(|(_, to)| to);
        if rolls > 0 && pool.paused && !stays && !view.intent.unpause_on_exit {
            return breach(
                5,
                format!("{rolls} nodes of pool {} would roll without rules", pool.name),
            );
        }
        Ok(())
    }
}

impl Checks for Lint<'_, '_> {
    fn holder(&self) -> String {
        lease_holder(&self.run.uid)
    }

    fn schedule(&self) -> Result<Schedule<'_>, String> {
        schedule(self.run)
    }

    fn begin(&self, node: &NodeView) -> Checked {
        not_suspended(self.view(), &node.name)?;
        if node.unschedulable {
            return breach(4, format!("{} is cordoned by someone else", node.name));
        }
        Ok(())
    }

    fn patch_node(&self, node: &NodeView, patch: &NodePatch) -> Checked {
        let name = &node.name;
        match patch.purpose {
            NodePurpose::Release => {
                let view = self.view();
                let Some(member) = view.members.iter().find(|member| member.node.name == *name) else {
                    return breach(1, format!("{name} is not a node of this run"));
                };
                in_hours(
                    self.schedule(),
                    (self.seen.observed, node),
                    "released",
                    self.seen.now,
                )?;
                released(view, member)
            }
            NodePurpose::Unshield => match mark::shielded(node) {
                Some(mark) if mark.owner == self.run.uid => Ok(()),
                _ => breach(4, format!("the shield of {name} is not ours")),
            },
            NodePurpose::BringHome if node.label(marks::RELEASE).is_empty() => {
                breach(1, format!("{name} is not in the canary pool"))
            }
            NodePurpose::Unlabel if mark::labelled_by(node).is_none_or(|mark| mark.owner != self.run.uid) => {
                breach(4, format!("the labels of {name} are not ours"))
            }
            NodePurpose::Unquarantine if !quarantine::is_quarantined(node, &self.run.uid) => {
                breach(4, format!("the quarantine of {name} is not ours"))
            }
            NodePurpose::Recordon if !super::change::remembers_cordon(node) => {
                breach(4, format!("no cordon of {name} is ours to put back"))
            }
            NodePurpose::Cordon | NodePurpose::Uncordon => {
                breach(4, format!("{name}: the MCO cordons the nodes of a run"))
            }
            NodePurpose::Replace => breach(4, format!("{name}: a run replaces no machine")),
            NodePurpose::Shield
            | NodePurpose::Label
            | NodePurpose::BringHome
            | NodePurpose::Unlabel
            | NodePurpose::Recordon
            | NodePurpose::MindCordon
            | NodePurpose::Quarantine
            | NodePurpose::Unquarantine => Ok(()),
        }
    }

    fn evict(&self, node: &NodeView) -> Checked {
        breach(1, format!("a pod of {} would be evicted by a run", node.name))
    }

    fn patch_pool(&self, patch: &PoolPatch) -> Checked {
        let name = &patch.pool;
        let Some(pool) = self.seen.observed.pools.get(name) else {
            return breach(4, format!("pool {name} does not exist"));
        };
        let ours = |owner: Option<String>| owner.as_deref() == Some(self.run.uid.as_str());
        let paused_by_us = || ours(mark::paused_by(pool).map(|mark| mark.owner));
        let selected_by_us = || ours(mark::prior_selector(pool).map(|mark| mark.owner));
        match patch.purpose {
            PoolPurpose::Unpause => {
                if !paused_by_us() {
                    return breach(4, format!("pool {name} was not paused by this run"));
                }
                self.unpauses(pool, patch)
            }
            PoolPurpose::Hold if !paused_by_us() => {
                breach(4, format!("pool {name} was not paused by this run"))
            }
            PoolPurpose::Unselect if !selected_by_us() => {
                breach(4, format!("the selector of pool {name} was not set by this run"))
            }
            PoolPurpose::Select if crate::pools::BUILT_IN.contains(&name.as_str()) => breach(
                4,
                format!("pool {name} is built in, its selector is not numo's to change"),
            ),
            PoolPurpose::Pause | PoolPurpose::Hold | PoolPurpose::Select | PoolPurpose::Unselect => Ok(()),
        }
    }
}
