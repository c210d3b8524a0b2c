//! Which NodeMaintenances of a MutexBinding go before others, and what a person must approve of one.
//!
//! A node is done once its NodeMaintenance is gone: it is back as it was. So the nodes of a wave, or of a domain, are those whose
//! NodeMaintenance exists. Each is approved by itself: another one that comes meanwhile changes nothing of what was approved.

use super::{
    intent::{gatings, of_binding, of_not_ready, orders_by},
    known::{place, was_given_up},
    pass::Pass,
};
use crate::{
    admit::{
        approval::{About, Approvals},
        domains::Domains,
        gating::Gating,
        rows::{Row, Stand},
        waves::Waves,
    },
    failures,
    ledger::is_kept,
    observed::{ChangeView, MaintenanceView, NodeView, Observed},
    turn::{directive::skip_asked, journal, reservation},
    why::Why,
};
use jiff::Timestamp;
use numo_api::{Reason, Step, conditions::types};
use std::collections::{BTreeMap, BTreeSet};

/// The journals of all NodeMaintenances, by the uids of these: each decision goes through all of them once.
type Journals<'a> = BTreeMap<&'a str, Vec<&'a ChangeView>>;

/// The order of a maintenance among others.
pub(super) struct Order<'a> {
    pub(super) waves: Waves<'a>,
    pub(super) domains: Option<Domains<'a>>,
    pub(super) approvals: Approvals,
    /// The waves of its own node alone, by which it is approved.
    own: Waves<'a>,
}

impl Order<'_> {
    /// Why the node waits for a MutexApproval, if so.
    pub(super) fn not_approved(&self, node: &str) -> Option<Why> {
        self.approvals.refusal(&self.own, node)
    }
}

impl<'a> Pass<'a> {
    /// How the maintenance stands among those that the same MutexBindings speak of, and what a person has approved of it.
    pub(super) fn order(&self, node: &'a NodeView) -> Order<'a> {
        let intent = &self.intent;
        // One MutexBinding at most orders it, so waves and domains have the same nodes.
        let is_ordered = !intent.waves.is_empty() || intent.domains.is_some();
        let rows = if is_ordered { self.rows() } else { Vec::new() };
        let waves = Waves::of_those_there(&intent.waves, &rows, self.now);
        let domains = intent.domains.clone().map(|order| {
            let away = rows.iter().filter(|row| row.in_flight);
            let away = away.map(|row| (row.node, row.stand == Stand::Behind { goes_on: false }));
            let behind = rows.iter().filter(|row| !waves.keeps_waiting(row.name));
            let behind = behind.filter_map(|row| match row.stand {
                Stand::Behind { goes_on } => Some((row.node, goes_on)),
                Stand::Done(_) | Stand::LeftOut(_) => None,
            });
            Domains::of(order, behind, away)
        });
        let own = Waves::of_those_there(&intent.waves, &[alone(node)], self.now);
        Order {
            approvals: self.approvals(node, &own),
            waves,
            domains,
            own,
        }
    }

    /// Asks for a person's word in a turn of the node that has disrupted nothing yet, and says why it waits, if so.
    pub(super) fn ask_approval(&mut self, node: &NodeView) -> Option<Why> {
        let own = Waves::of_those_there(&self.intent.waves, &[alone(node)], self.now);
        let approvals = self.approvals(node, &own);
        let why = approvals.refusal(&own, &node.name);
        self.report_approvals(&approvals);
        why
    }

    fn report_approvals(&mut self, approvals: &Approvals) {
        let report = &mut self.out.report;
        report.approval = approvals.report();
        report.approved = approvals.given();
        report.heard = approvals.heard();
        if let Some(at) = approvals.ends() {
            self.out.wake(at);
        }
    }

    /// The nodes of all maintenances that the binding speaks of which orders this one, in the order of their names. Of several
    /// maintenances of one node it is the one whose turn it is.
    fn rows(&self) -> Vec<Row<'a>> {
        let journals = self.journals();
        let of = |view: &MaintenanceView| journals.get(view.uid.as_str()).into_iter().flatten().copied();
        let turn = |view: &MaintenanceView| of(view).find(|change| change.in_flight());
        let mut of_nodes: BTreeMap<&'a str, &'a MaintenanceView> = BTreeMap::new();
        let bindings = self.intent.settings.iter().filter(|one| orders_by(one).is_some());
        for view in bindings.flat_map(|one| of_binding(self.observed, one.binding.unwrap_or_default())) {
            let of_turn = turn(view).map(|change| change.spec.node_name.as_str());
            let node = of_turn.unwrap_or(&view.spec.node_name);
            let first = of_nodes.entry(node).or_insert(view);
            if place(view, turn(view).is_some()) < place(first, turn(first).is_some()) {
                *first = view;
            }
        }
        let of_rows = of_nodes.values().flat_map(|view| of(view));
        let failed = failures::failed(self.observed, of_rows);
        let failed: BTreeSet<&str> = failed.iter().map(|change| change.key.name.as_str()).collect();
        let rows = of_nodes.into_iter().filter_map(|(name, view)| {
            let node = self.observed.nodes.get(name)?;
            let change = of(view).find(|change| change.spec.node_uid == node.uid);
            Some(Row {
                node,
                name: &node.name,
                pool: "",
                change,
                in_flight: change.is_some_and(ChangeView::in_flight),
                has_failed: change.is_some_and(|change| failed.contains(change.key.name.as_str())),
                stand: stand(view, node, change, (self.observed, self.now))?,
            })
        });
        rows.collect()
    }

    fn journals(&self) -> Journals<'a> {
        let mut journals = Journals::new();
        for change in reservation::of_namespace(self.observed, &self.observed.settings.namespace) {
            let of_owner = journals.entry(change.spec.owner_ref.uid.as_str());
            of_owner.or_default().push(change);
        }
        journals
    }

    /// What of the maintenance was approved, and what waits for that.
    fn approvals(&self, node: &NodeView, own: &Waves<'_>) -> Approvals {
        let intent = &self.intent;
        let subject = || {
            let spec = serde_json::to_value(&self.view.spec).unwrap_or_default();
            let settings = intent.settings.iter().map(Gating::approved);
            let wants = |one: &&Gating<'_>| one.settings.approval.is_some();
            let names = intent.settings.iter().filter(wants).filter_map(|one| one.binding);
            let all = self.journals();
            let journals = names
                .flat_map(|name| of_binding(self.observed, name))
                .flat_map(|view| all.get(view.uid.as_str()).into_iter().flatten().copied());
            About {
                owner: &self.view.owner,
                uid: &self.view.uid,
                specs: std::iter::once(("spec", spec)).chain(settings).collect(),
                // Another machine under the name of the node is another node.
                target: [&self.id, &node.uid],
                rules: intent.rules.clone(),
                failed: failures::failed(self.observed, journals),
            }
        };
        Approvals::of(&intent.approval, own, self.observed, self.now, subject)
    }

    /// Says how far the maintenances are with their waves, and what waits for a MutexApproval.
    pub(super) fn report_order(&mut self, order: &Order<'_>) {
        self.out.report.wave = order.waves.report();
        self.report_approvals(&order.approvals);
    }
}

/// A node that nobody is compared with.
fn alone(node: &NodeView) -> Row<'_> {
    Row {
        node,
        name: &node.name,
        pool: "",
        change: None,
        in_flight: false,
        has_failed: false,
        stand: Stand::Behind { goes_on: true },
    }
}

/// How the node of a maintenance stands; none if that is being deleted, and has nothing in hand.
fn stand(
    view: &MaintenanceView,
    node: &NodeView,
    change: Option<&ChangeView>,
    (observed, now): (&Observed, Timestamp),
) -> Option<Stand> {
    if let Some(turn) = change.filter(|change| change.in_flight()) {
        let goes_on = !is_kept(observed, turn, now);
        return Some(Stand::Behind { goes_on });
    }
    if view.deleting {
        return None;
    }
    let over = change.filter(|change| change.status.step.is_some_and(Step::is_terminal));
    // A rule has ended it, and those after it: a person has the last word.
    let is_ended = |over: &ChangeView| {
        over.status.step == Some(Step::Skipped) && journal::is_for(over, Reason::RuleFailed)
    };
    if over.is_some_and(|over| is_ended(over) && !skip_asked(over)) {
        return Some(Stand::Behind { goes_on: false });
    }
    if over.is_some() || was_given_up(view) {
        return Some(Stand::LeftOut(over.and_then(journal::ended_at)));
    }
    let mut conditions = view.status.conditions.iter();
    let is_stalled = conditions.any(|one| one.type_ == types::STALLED && one.status == "True");
    if node.ready || is_stalled {
        return Some(Stand::Behind { goes_on: !is_stalled });
    }
    let not_ready = of_not_ready(&gatings(view, observed));
    if not_ready.given_up(node, now).is_some() {
        return Some(Stand::LeftOut(None));
    }
    Some(Stand::Behind {
        goes_on: not_ready.takes,
    })
}
