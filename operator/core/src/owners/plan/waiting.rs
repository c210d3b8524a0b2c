//! The nodes of a Plan that wait for their turn: in which order, what stands against each, and how its turn begins.

use super::{known::reservation, pass::Pass};
use crate::{
    admit::{
        approval::{About, Approvals},
        domains::Domains,
        gates::Gate,
        gating::Gating,
        queue::{self, Queue},
        room::{Room, Words},
        rows::{Row, Stand},
        schedule::Schedule,
        wave::Takes,
        wave_rules,
        waves::Waves,
    },
    decision::Decision,
    key::Key,
    ledger::{self, Ledger},
    names,
    observed::{ChangeView, NodeView, Observed, PlanJobView},
    pace::Whose,
    quorum,
    rules::{self, Admission, Subject},
    turn::{
        directive::{Holds, skip_asked, stays_out},
        journal,
        reservation::by_node,
        steps::{Next, ON, STAY},
    },
    verdict::Answers,
    why::Why,
};
use jiff::Timestamp;
use numo_api::{NodeChangeSpec, Reason, Step, marks::openshift};
use std::collections::{BTreeMap, BTreeSet};

/// The nodes of a Plan that have no turn.
pub(super) struct Waiting<'p, 'a> {
    pass: &'p mut Pass<'a>,
    /// Why no node is begun at all.
    pub(super) hold: Option<Why>,
    /// That the Plan has room for no node, if one waits.
    pub(super) nobody_begins: Option<Why>,
    nodes: Vec<&'a NodeView>,
    /// Their journals of what is asked for now, by the uids of the nodes.
    ended: BTreeMap<&'a str, &'a ChangeView>,
    holds: Holds<'a>,
    waves: Waves<'a>,
    domains: Option<Domains<'a>>,
    approvals: Approvals,
    /// Nodes that have their turn with somebody else.
    busy: BTreeMap<&'a str, &'a ChangeView>,
    /// Nodes with the same host name, by that.
    twice: BTreeMap<&'a str, [&'a str; 2]>,
    /// Nodes that another controller, or a numo that died, has begun.
    adopted: BTreeSet<&'a str>,
    room: Room<'a>,
    /// That the window is closed, and that the Plan is new.
    not_yet: Option<Why>,
    took_control_plane: bool,
}

impl<'p, 'a> Waiting<'p, 'a> {
    /// Those of the selected nodes that are behind. The others are reported as done.
    pub(super) fn of(pass: &'p mut Pass<'a>, selected: &[&'a NodeView], hold: Option<Why>) -> Self {
        let done = Why::new(Reason::UpToDate, "it is at the version");
        let mut nodes: Vec<&'a NodeView> = Vec::new();
        for node in selected {
            if pass.in_flight.contains(node.name.as_str()) {
                continue;
            }
            if pass.is_behind(node) {
                nodes.push(node);
            } else {
                pass.say(node, Step::Done, done.clone(), None);
            }
        }
        let ended = ended(pass);
        let busy = pass.busy();
        let adopted = adopted(pass, &nodes, (&ended, &busy));
        let nobody_begins = no_concurrency(pass).or_else(|| pass.intent.closed.clone());
        let nobody_begins = nobody_begins.filter(|_| !nodes.is_empty());
        let limit = pass.intent.room(selected.len());
        if hold.is_none() && pass.in_flight.len() < limit {
            pass.order(&mut nodes);
        }
        let is_adopted = |node: &&NodeView| adopted.contains(node.name.as_str());
        let mut begun = nodes.iter().copied().filter(is_adopted);
        let room = room(pass, limit, &adopted).closed_by(nobody_begins.clone());
        Self {
            took_control_plane: begun.any(quorum::is_control_plane),
            hold,
            nobody_begins,
            domains: domains(pass, (selected, &ended), &pass.waves, room.away()),
            waves: std::mem::take(&mut pass.waves),
            approvals: std::mem::take(&mut pass.approvals),
            busy,
            twice: same_hosts(pass.observed),
            room,
            not_yet: pass.outside().or_else(|| pass.unsettled()),
            nodes,
            ended,
            adopted,
            holds: Holds::of(pass.over.iter().copied()),
            pass,
        }
    }
}

/// That the Plan selects nobody, as the reference has it.
fn no_concurrency(pass: &Pass<'_>) -> Option<Why> {
    let concurrency = pass.intent.concurrency;
    (concurrency <= 0).then(|| {
        let message = format!(
            "spec.concurrency is {concurrency}: no node is selected, and the Plan counts as complete; wanted at least 1"
        );
        Why::new(Reason::ConcurrencyZero, message)
    })
}

/// What was begun by another controller, or under a NodeChange that was deleted, counts from the first. One that was left out under its
/// Job takes no room from the others. One whose Job has ended is where another owner has it in its turn: it waits for that one's end.
fn adopted<'a>(
    pass: &Pass<'a>,
    nodes: &[&'a NodeView],
    (ended, busy): (&BTreeMap<&str, &ChangeView>, &BTreeMap<&str, &'a ChangeView>),
) -> BTreeSet<&'a str> {
    if !pass.is_ready() || pass.leaving.is_some() {
        return BTreeSet::new();
    }
    let begun = |node: &&&NodeView| {
        let job = pass.jobs.get(&(node.name.as_str(), pass.hash.as_str(), false));
        let is_left_out = || {
            let change = ended.get(node.uid.as_str());
            change.is_some_and(|change| stays_out(change))
        };
        let is_anothers = busy.contains_key(node.name.as_str());
        let goes_on = |job: &PlanJobView| {
            !job.paused && job.deleting.is_none() && (job.ended.is_none() || !is_anothers)
        };
        job.is_some_and(|(_, job)| goes_on(job)) && !is_left_out()
    };
    let nodes = nodes.iter().filter(begun);
    nodes.map(|node| node.name.as_str()).collect()
}

/// The turns of this upgrade that are over, by the uid of their node.
fn ended<'a>(pass: &Pass<'a>) -> BTreeMap<&'a str, &'a ChangeView> {
    by_node(&pass.over, &pass.run_id)
}

/// The waves of the Plan.
pub(super) fn waves<'a>(pass: &Pass<'a>) -> Waves<'a> {
    let waves = &pass.intent.waves;
    if waves.is_empty() && !pass.intent.approval.is_any() {
        return Waves::default();
    }
    let nodes = pass.observed.nodes.values();
    let mut selected: Vec<&NodeView> = nodes.filter(|node| pass.selects(node)).collect();
    if waves.iter().any(|wave| matches!(wave.takes, Takes::Next { .. })) {
        pass.order(&mut selected);
    }
    let ended = ended(pass);
    let flying = pass.flying.iter().copied();
    let turns: BTreeMap<&str, &ChangeView> = flying
        .map(|change| (change.spec.node_name.as_str(), change))
        .collect();
    let failed: BTreeSet<&str> = pass
        .failed_turns()
        .into_iter()
        .map(|change| change.spec.node_uid.as_str())
        .collect();
    let row = |node: &'a NodeView| {
        let turn = turns.get(node.name.as_str()).copied();
        let of_this = turn.filter(|change| change.spec.target.run_id == pass.run_id);
        let ended = ended.get(node.uid.as_str()).copied();
        Row {
            node,
            name: &node.name,
            pool: "",
            change: of_this.or(ended),
            in_flight: turn.is_some(),
            has_failed: failed.contains(node.uid.as_str()),
            stand: stand(pass, node, turn, ended),
        }
    };
    let rows: Vec<Row<'a>> = selected.into_iter().map(row).collect();
    Waves::of(waves, &rows, pass.now)
}

/// What of the Plan was approved, and what waits for that.
pub(super) fn approvals(pass: &Pass<'_>) -> Approvals {
    let subject = || {
        let plan = serde_json::to_value(&pass.view.spec).unwrap_or_default();
        let settings = pass.intent.settings.iter().map(Gating::approved);
        About {
            owner: pass.owner,
            uid: &pass.view.uid,
            specs: std::iter::once(("spec", plan)).chain(settings).collect(),
            target: [&pass.run_id, &pass.resolved.version],
            rules: wave_rules::of_all(&pass.intent.rules, &pass.intent.waves, pass.observed),
            failed: pass.failed_turns(),
        }
    };
    Approvals::of(
        &pass.intent.approval,
        &pass.waves,
        pass.observed,
        pass.now,
        subject,
    )
}

/// A node that has changed is not done before its rules have passed and it has soaked.
fn stand(pass: &Pass<'_>, node: &NodeView, turn: Option<&ChangeView>, ended: Option<&ChangeView>) -> Stand {
    if !pass.is_behind(node) && turn.is_none() {
        return Stand::Done(ended.and_then(journal::done_at));
    }
    let is_left_out = ended.is_some_and(|change| stays_out(change) || skip_asked(change));
    // One that went dark in its turn keeps it: what took it away may be what the next wave is kept from.
    if turn.is_none() && (is_left_out || pass.given_up(node).is_some()) {
        return Stand::LeftOut(ended.and_then(journal::ended_at));
    }
    // One that is not Ready has no turn, and the others wait for it.
    let can_begin = node.ready || pass.intent.take_not_ready;
    let goes_on = turn.map_or(can_begin, |change| {
        !ledger::is_kept(pass.observed, change, pass.now)
    });
    Stand::Behind { goes_on }
}

/// Which nodes of the Plan have their turns now, by its order: those of the wave under way, and among these those of the domains whose
/// turn it is; none of those that wait for a person's word.
pub(super) fn are_next<'p, 'a>(pass: &'p Pass<'a>) -> impl Fn(&'a NodeView) -> bool + use<'p, 'a> {
    let nodes = pass.observed.nodes.values();
    let selected: Vec<&NodeView> = nodes.filter(|node| pass.selects(node)).collect();
    let ended = ended(pass);
    let waves = &pass.waves;
    let domains = domains(pass, (&selected, &ended), waves, in_turn(pass));
    move |node: &'a NodeView| {
        let domains = domains.as_ref();
        !waves.keeps_waiting(&node.name)
            && domains.is_none_or(|domains| domains.refusal(node).is_none())
            && pass.approvals.refusal(waves, &node.name).is_none()
    }
}

/// How far the Plan is with its domains; none if nobody asks for an order of such.
fn domains<'a>(
    pass: &Pass<'a>,
    (selected, ended): (&[&'a NodeView], &BTreeMap<&str, &ChangeView>),
    waves: &Waves<'_>,
    in_turn: impl Iterator<Item = (&'a NodeView, bool)>,
) -> Option<Domains<'a>> {
    let order = pass.intent.domains.clone()?;
    let flying = pass.flying.iter().copied();
    let turns: BTreeMap<&str, &ChangeView> = flying
        .map(|change| (change.spec.node_name.as_str(), change))
        .collect();
    let now = selected
        .iter()
        .copied()
        .filter(|node| !waves.keeps_waiting(&node.name));
    let behind = now.filter_map(|node| {
        let turn = turns.get(node.name.as_str()).copied();
        let ended = ended.get(node.uid.as_str()).copied();
        match stand(pass, node, turn, ended) {
            Stand::Behind { goes_on } => Some((node, goes_on)),
            Stand::Done(_) | Stand::LeftOut(_) => None,
        }
    });
    Some(Domains::of(order, behind, in_turn))
}

/// Nodes with the same label of their host name: the Job of one could run on the other.
fn same_hosts(observed: &Observed) -> BTreeMap<&str, [&str; 2]> {
    let mut hosts: BTreeMap<&str, &str> = BTreeMap::new();
    let mut twice: BTreeMap<&str, [&str; 2]> = BTreeMap::new();
    for node in observed.nodes.values() {
        let host = node.label(openshift::HOSTNAME);
        if let Some(other) = hosts.insert(host, &node.name) {
            twice.insert(host, [other, &node.name]);
        }
    }
    twice
}

/// The nodes of the Plan that are away: those that have their turn, and those that were begun by somebody else.
fn room<'a>(pass: &Pass<'a>, limit: usize, adopted: &BTreeSet<&str>) -> Room<'a> {
    let words = Words {
        state: "in flight",
        whose: String::new(),
        limit: String::new(),
        keys: "mutexKeys of spec.mutex or a MutexBinding".to_owned(),
    };
    let mut room = Room::of(limit, pass.intent.mutex_keys.iter().copied(), words);
    for (node, is_kept) in in_turn(pass) {
        room.keep(node, is_kept);
    }
    for node in pass.observed.nodes.values() {
        if adopted.contains(node.name.as_str()) {
            room.keep(node, false);
        }
    }
    room
}

/// The nodes that have their turn, each with whether it goes on by a person's word only.
fn in_turn<'a>(pass: &Pass<'a>) -> impl Iterator<Item = (&'a NodeView, bool)> {
    pass.flying.iter().filter_map(|change| {
        let node = pass.observed.nodes.get(&change.spec.node_name);
        let node = node.filter(|node| pass.in_flight.contains(node.name.as_str()))?;
        Some((node, ledger::is_kept(pass.observed, change, pass.now)))
    })
}

/// The node cannot have a Job of its own.
fn unfit(node: &NodeView, twice: &BTreeMap<&str, [&str; 2]>) -> Option<Why> {
    let host = node.label(openshift::HOSTNAME);
    let message = if let Some([one, other]) = twice.get(host) {
        format!(
            "Nodes {one} and {other} have the same label {} {host:?}: the Job of one could run on the other",
            openshift::HOSTNAME
        )
    } else if node.name.len() > names::LABEL_MAX {
        format!(
            "Node {}: found a name of {} characters, wanted at most {}: it is a label of its Job",
            node.name,
            node.name.len(),
            names::LABEL_MAX
        )
    } else {
        return None;
    };
    Some(Why::new(Reason::InvalidField, message))
}

impl<'a> Queue<'a> for Waiting<'_, 'a> {
    type One = &'a NodeView;

    fn seen(&self) -> (&'a Observed, &'a Answers, Timestamp) {
        (self.pass.observed, self.pass.answers, self.pass.now)
    }

    fn out(&mut self) -> &mut Decision {
        &mut self.pass.out
    }

    fn waiting(&mut self) -> Vec<&'a NodeView> {
        std::mem::take(&mut self.nodes)
    }

    fn node(&self, node: &'a NodeView) -> &'a NodeView {
        node
    }

    fn change(&self, node: &'a NodeView) -> Option<&'a ChangeView> {
        self.ended.get(node.uid.as_str()).copied()
    }

    fn schedule(&self) -> &Schedule<'a> {
        &self.pass.intent.schedule
    }

    fn whose(&self) -> Option<Whose<'_>> {
        Some(Whose {
            owner_uid: &self.pass.view.uid,
            run_id: &self.pass.run_id,
        })
    }

    fn is_asked(&self, node: &'a NodeView) -> bool {
        self.pass.asked == Some(node.name.as_str())
    }

    fn sort_out(&mut self, node: &'a NodeView, ledger: &mut Ledger<'a>) -> Next {
        let said = self.change(node);
        let pass = &mut *self.pass;
        if said.is_some_and(|change| pass.report_left_out(node, change)) || pass.remove_old_job(node, said) {
            return STAY;
        }
        if self.adopted.contains(node.name.as_str()) {
            // It goes on whatever else is so.
            ledger.take(node);
            queue::begin(self, node);
            return STAY;
        }
        if said.is_some_and(|change| pass.skips(node, change)) {
            return STAY;
        }
        if let Some(why) = pass.given_up(node) {
            pass.say(node, Step::Skipped, why, said);
            return STAY;
        }
        ON
    }

    fn against(&mut self, node: &'a NodeView, gate: Gate) -> Option<Why> {
        let pass = &mut *self.pass;
        match gate {
            Gate::Owner => self.hold.clone(),
            Gate::Waits => self.not_yet.clone(),
            Gate::Person => self.holds.on(node),
            Gate::Unfit => unfit(node, &self.twice).or_else(|| pass.of_windows(node)),
            Gate::Busy => pass.others_job(node).or_else(|| {
                let other = self.busy.get(node.name.as_str())?;
                Some(ledger::busy(pass.observed, &node.name, other, pass.now))
            }),
            Gate::State => pass.not_ready(node),
            Gate::Quorum => quorum::refusal_of_next(pass.observed, node, self.took_control_plane),
            Gate::Lease => pass.leased(node),
            Gate::Wave => self.waves.refusal(&node.name),
            Gate::Domain => self.domains.as_ref()?.refusal(node),
            Gate::Approval => self.approvals.refusal(&self.waves, &node.name),
            Gate::Room => self.room.refusal(node).or_else(|| self.waves.no_room(node)),
            // The page of admission weighs these itself.
            Gate::Stop | Gate::Unread | Gate::Window | Gate::Leaving | Gate::Budget | Gate::Drain => None,
        }
    }

    fn against_owner(&self) -> Vec<Why> {
        self.pass.holds(&self.waves).collect()
    }

    fn leaves_service(&self) -> bool {
        self.pass.intent.cordons
    }

    fn admission(&self, node: &'a NodeView) -> Admission {
        let pass = &self.pass;
        let attempt = self.change(node).map_or(0, |change| change.status.attempt);
        let subject = Subject {
            from_version: &node.kubelet_version,
            to_version: &pass.resolved.version,
            run: &pass.run_id,
            ..Subject::waiting(pass.owner, &pass.view.uid, node, attempt)
        };
        let rules = pass.rules_of(&node.name);
        rules::admission(&rules, &subject, pass.observed, pass.now)
    }

    fn take_place(&mut self, node: &'a NodeView, is_asked_about: bool) {
        let places = (&mut self.room, &mut self.waves, self.domains.as_mut());
        queue::take_places(places, node, is_asked_about);
        self.took_control_plane |= !is_asked_about && quorum::is_control_plane(node);
    }

    fn prepare_turn(&mut self, node: &'a NodeView, admitted: &Why) -> Next {
        let said = self.change(node);
        self.pass.prepare_turn(node, said, admitted)
    }

    fn reservation(&self, node: &'a NodeView) -> (Key, NodeChangeSpec) {
        let pass = &self.pass;
        let of = (pass.hash.as_str(), pass.resolved.version.as_str());
        reservation(pass.view, node, of, !pass.intent.cordons)
    }

    fn say(&mut self, node: &'a NodeView, step: Step, why: Why) {
        let said = self.change(node);
        self.pass.say(node, step, why, said);
    }
}
