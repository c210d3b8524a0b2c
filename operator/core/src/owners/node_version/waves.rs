//! In which order the nodes of a NodeVersion have their turns, which have failed, and what a person has approved of it.
//!
//! A node that was replaced is gone. The new one that has its place stands for it in its wave, under its name: so that a wave has the
//! same nodes after each turn as before, and an approval is for the same.

use super::{
    pass::Pass,
    sets::{Class, Sets},
};
use crate::{
    admit::{
        approval::{About, Approvals},
        domains::Domains,
        gating::Gating,
        notes,
        rows::{Row, Stand},
        wave::Wave,
        wave_rules,
        waves::Waves,
    },
    failures, intent, ledger,
    observed::{ChangeView, NodeView},
    quorum,
    turn::{
        directive::{skip_asked, stays_out},
        journal,
        reservation::by_node,
    },
    why::Why,
};
use numo_api::{Order, Reason, Step};
use std::collections::{BTreeMap, BTreeSet};

/// What is said of the nodes that are replaced before any wave.
const CONTROL_PLANE: &str = "the control plane";

impl<'a> Pass<'a> {
    /// The turns of the run that are over, by the uid of their node.
    pub(super) fn ended(&self) -> BTreeMap<&'a str, &'a ChangeView> {
        by_node(&self.over, &self.run_id)
    }

    /// The node of a turn: the old one, and once that is gone the new one that has its place.
    fn node_of(&self, change: &ChangeView) -> Option<&'a NodeView> {
        let heir = || {
            journal::entered(change, Step::Released)?;
            let pin = change.status.pin.as_ref()?;
            self.observed.nodes.get(pin.heir.as_deref()?)
        };
        self.observed.node_of(change).or_else(heir)
    }

    /// The nodes that have their turn, each with whether it goes on by a person's word only.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = (&'a NodeView, bool)> {
        self.flying.iter().filter_map(|change| {
            let node = self.node_of(change)?;
            Some((node, ledger::is_kept(self.observed, change, self.now)))
        })
    }

    /// Whether as many nodes have failed as may.
    pub(super) fn failures_spent(&self) -> Option<Why> {
        let budget = failures::lowest(&self.intent.failure_budgets, self.sets.base())?;
        let failed = self.failed_turns();
        budget.spent(&failures::names(&failed), failures::gone(&failed), "")
    }

    fn failed_turns(&self) -> Vec<&'a ChangeView> {
        let current = self.flying.iter().chain(&self.over).copied();
        let current = current.filter(|change| change.spec.target.run_id == self.run_id);
        // A node that was let go is gone because it was done. What fails then, such as a rule after the change, has failed.
        let is_released_machine = |change: &ChangeView| {
            journal::reason(change) == Some(Reason::NodeGone)
                && journal::entered(change, Step::Changed).is_some()
        };
        let current = current.filter(|change| !is_released_machine(change));
        failures::failed(self.observed, current)
    }

    /// The order of turns: nodes whose place is taken already, those that are to go, and then as it is asked for, or by name.
    pub(super) fn order(&self, nodes: &mut [&'a NodeView]) {
        let order = self.intent.order.unwrap_or(Order::Name);
        nodes.sort_by_cached_key(|node| {
            let (no_zone, zone, age) = intent::turn(order, node);
            let class = self.sets.class_of(node);
            let rank = match class {
                Some(Class::Donor) => 0,
                Some(Class::Obsolete) => 1,
                _ => 2,
            };
            (rank, no_zone, zone.to_owned(), age, node.name.clone())
        });
    }

    /// The nodes that are or were to be replaced, in the order of their turns, each as it stands.
    fn rows(&self) -> Vec<Row<'a>> {
        let (mut turns, mut ended) = (BTreeMap::new(), BTreeMap::new());
        for change in &self.flying {
            turns.extend(self.node_of(change).map(|node| (node.name.as_str(), *change)));
        }
        let of_run = |change: &&ChangeView| change.spec.target.run_id == self.run_id;
        for change in self.over.iter().filter(|change| of_run(change)) {
            ended.extend(self.node_of(change).map(|node| (node.name.as_str(), *change)));
        }
        let failed = self.failed_turns();
        let failed: BTreeSet<&str> = failed.iter().map(|change| change.key.name.as_str()).collect();
        let mut nodes: Vec<&NodeView> = self.sets.all().map(|(node, _)| node).collect();
        self.order(&mut nodes);
        let row = |node: &'a NodeView| {
            let turn = turns.get(node.name.as_str()).copied();
            let ended = ended.get(node.name.as_str()).copied();
            let is_behind = self.sets.class_of(node).is_some_and(Class::is_behind);
            // Nodes that come meanwhile, and are as they shall be, are nobody's.
            let change = turn.filter(of_run).or(ended);
            if change.is_none() && !is_behind {
                return None;
            }
            Some(Row {
                node,
                name: change.map_or(node.name.as_str(), |change| change.spec.node_name.as_str()),
                pool: "",
                change,
                in_flight: turn.is_some(),
                has_failed: change.is_some_and(|change| failed.contains(change.key.name.as_str())),
                stand: self.stand(node, (turn, ended), is_behind),
            })
        };
        nodes.into_iter().filter_map(row).collect()
    }

    /// How a node stands. One that was replaced is not done before the rules of the new one have passed and it has soaked.
    fn stand(
        &self,
        node: &NodeView,
        (turn, ended): (Option<&ChangeView>, Option<&ChangeView>),
        is_behind: bool,
    ) -> Stand {
        if !is_behind && turn.is_none() {
            return Stand::Done(ended.and_then(journal::done_at));
        }
        let is_left_out = ended.is_some_and(|change| stays_out(change) || skip_asked(change));
        if turn.is_none() && (is_left_out || self.given_up(node).is_some()) {
            return Stand::LeftOut(ended.and_then(journal::ended_at));
        }
        let can_begin = node.ready || self.intent.take_not_ready;
        let goes_on = turn.map_or(can_begin, |change| {
            !ledger::is_kept(self.observed, change, self.now)
        });
        Stand::Behind { goes_on }
    }

    /// The waves of the nodes that are or were to be replaced. The control plane is the first, where there is an order at all: no
    /// kubelet is to be newer than the API server, and its nodes would else wait for those that wait for it.
    pub(super) fn waves(&self) -> Waves<'a> {
        let is_ordered = !self.intent.waves.is_empty() || self.intent.domains.is_some();
        if !is_ordered && !self.intent.approval.is_any() {
            return Waves::default();
        }
        let mut waves = self.intent.waves.clone();
        let mut nodes = self.sets.all();
        if is_ordered && nodes.any(|(node, _)| quorum::is_control_plane(node)) {
            waves.insert(0, of_control_plane(&self.sets, &self.intent.waves));
        }
        Waves::of(&waves, &self.rows(), self.now)
    }

    /// How far the NodeVersion is with its domains, in the wave under way; none if nobody asks for an order of such.
    pub(super) fn domains(&self) -> Option<Domains<'a>> {
        let order = self.intent.domains.clone()?;
        let rows = self.rows().into_iter();
        let behind = rows
            .filter(|row| !self.waves.keeps_waiting(row.name))
            .filter_map(|row| match row.stand {
                Stand::Behind { goes_on } => Some((row.node, goes_on)),
                Stand::Done(_) | Stand::LeftOut(_) => None,
            });
        Some(Domains::of(order, behind, self.in_turn()))
    }

    /// What of the NodeVersion was approved, and what waits for that.
    pub(super) fn approvals(&self) -> Approvals {
        let subject = || {
            let spec = serde_json::to_value(&self.view.spec).unwrap_or_default();
            let settings = self.intent.settings.iter().map(Gating::approved);
            let version = self.view.spec.image_version.as_deref();
            About {
                owner: self.owner,
                uid: &self.view.uid,
                specs: std::iter::once(("spec", spec)).chain(settings).collect(),
                target: [&self.run_id, version.unwrap_or_default()],
                rules: wave_rules::of_all(&self.intent.rules, &self.intent.waves, self.observed),
                failed: self.failed_turns(),
            }
        };
        Approvals::of(
            &self.intent.approval,
            &self.waves,
            self.observed,
            self.now,
            subject,
        )
    }

    /// Says how far the NodeVersion is with its waves, and what waits for a MutexApproval.
    pub(super) fn report_waves(&mut self) {
        let given = notes::Given {
            waves: &self.intent.waves,
            keys: (
                "mutexKeys of spec.mutex or a MutexBinding",
                self.intent.mutex_keys.clone(),
            ),
        };
        let nodes: Vec<&NodeView> = self.sets.all().map(|(node, _)| node).collect();
        let report = &mut self.out.report;
        report.notes = notes::of_nobody(&given, &nodes.iter().copied());
        report.wave = self.waves.report();
        report.approval = self.approvals.report();
        report.approved = self.approvals.given();
        report.heard = self.approvals.heard();
        let soaking = self.waves.soaking();
        let soaked = soaking.as_ref().and_then(|why| why.until);
        self.idle = soaking.or_else(|| self.approvals.hold());
        self.waves.say_over(&mut self.out, self.now);
        for at in [self.approvals.ends(), soaked].into_iter().flatten() {
            self.out.wake(at);
        }
    }
}

/// The wave of the control plane. Approval, rules and soak of the waves that its nodes would else be of hold for it: who asks for them of
/// all nodes has them for these, too. Of their limits only one of 0 does, which lets no node begin.
pub(super) fn of_control_plane(sets: &Sets<'_>, waves: &[Wave]) -> Wave {
    let mut all = Wave::first(quorum::control_plane_selectors(), CONTROL_PLANE);
    let nodes = sets.all().map(|(node, _)| node);
    for node in nodes.filter(|node| quorum::is_control_plane(node)) {
        let Some(of) = waves.iter().find(|wave| wave.may_take(&node.labels)) else {
            continue;
        };
        if of.needs_approval && !all.needs_approval {
            all.needs_approval = true;
            all.field.clone_from(&of.field);
        }
        if of.closed.is_some() && all.closed.is_none() {
            all.closed.clone_from(&of.closed);
            all.max_unavailable = of.max_unavailable;
        }
        all.soak_seconds = all.soak_seconds.max(of.soak_seconds);
        for rule in &of.rules {
            if !all.rules.contains(rule) {
                all.rules.push(rule.clone());
            }
        }
    }
    all
}
