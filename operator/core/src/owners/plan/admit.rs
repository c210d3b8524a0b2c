//! Which nodes of a Plan are begun. Every node that is not is reported with the first thing that keeps it from it.

use super::{
    edge,
    known::{is_gate_lost, reservation},
    leave,
    pass::Pass,
    told, upgrade,
};
use crate::{
    action::{Action, Change},
    admit::{
        first::First,
        gates::{self, Gate},
        leaving::leaving,
        not_ready,
    },
    failures, intent,
    key::Key,
    ledger, names,
    observed::{ChangeView, NodeView, PlanJobView},
    owner::OwnerKind,
    quorum,
    rules::{self, Subject},
    time::later,
    turn::{
        closed::{self, Probes},
        directive::{self, retry_asked, skip_asked},
        journal::{self, Journal},
        lease::{self, Lease},
    },
    verdict::Question,
    why::Why,
};
use numo_api::{
    Order, Reason, Step,
    conditions::Who,
    marks::{self, openshift},
};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// How old a Plan is before its first node is begun (seconds): what is made in one breath with it may be seen after it.
const SETTLED_SECONDS: i64 = 2;

/// Whether the node was left out, or failed for good, in this upgrade, and nobody has asked for it since.
fn stays_out(change: &ChangeView) -> bool {
    // One that was done has lost its label since, or the hash: it is done again.
    let over = matches!(change.status.step, Some(Step::Skipped | Step::Failed));
    let again = [Reason::RunGivenUp, Reason::NotSelected, Reason::Superseded];
    over && !retry_asked(change) && !again.iter().any(|reason| journal::is_for(change, *reason))
}

impl<'a> Pass<'a> {
    /// Begins as many nodes as may be, reports the rest, and says why nothing is begun at all, if so.
    pub(super) fn admit(&mut self) -> Option<Why> {
        let observed = self.observed;
        let (flying, over) = (self.flying.clone(), self.over.clone());
        let in_flight = self.in_flight.clone();
        let mut hold = self.hold.take();
        let all: Vec<&'a NodeView> = observed
            .nodes
            .values()
            .filter(|node| self.selects(node))
            .collect();
        let done = Why::new(Reason::UpToDate, "it is at the version");
        let ended: BTreeMap<&str, &ChangeView> = over
            .iter()
            .filter(|change| change.spec.target.run_id == self.run_id)
            .map(|change| (change.spec.node_uid.as_str(), *change))
            .collect();
        let mut waiting: Vec<&'a NodeView> = Vec::new();
        for node in &all {
            if in_flight.contains(node.name.as_str()) {
                continue;
            }
            if !self.is_behind(node) {
                self.say(node, Step::Done, done.clone(), None);
                continue;
            }
            waiting.push(node);
        }
        let gate = self.marks_gate();
        hold = hold.or(gate);
        let mut room = self.intent.room(all.len()).saturating_sub(in_flight.len());
        if hold.is_none() && self.intent.concurrency <= 0 && !waiting.is_empty() {
            let message = format!(
                "spec.concurrency is {}: no node is selected, and the Plan counts as complete; wanted at least 1",
                self.intent.concurrency
            );
            hold = Some(Why::new(Reason::ConcurrencyZero, message));
        }
        if hold.is_none() && room > 0 {
            self.order(&mut waiting);
        }
        let limit = self.intent.room(all.len());
        let full = Why::new(
            Reason::WaitingForTurn,
            format!(
                "{} of {limit} nodes are in flight: {}",
                in_flight.len(),
                in_flight.iter().take(5).copied().collect::<Vec<_>>().join(", ")
            ),
        );
        let is_kept = |change: &ChangeView| ledger::is_kept(observed, change, self.now);
        let kept = flying.iter().filter(|change| is_kept(change)).count();
        let full = ledger::ended_by_person(full, kept >= in_flight.len());
        let is_left_out = |node: &NodeView| {
            let ended = ended.get(node.uid.as_str());
            ended.is_some_and(|change| stays_out(change) || skip_asked(change))
                || self.given_up(node).is_some()
        };
        let behind = all
            .iter()
            .copied()
            .filter(|node| self.intent.is_first(&node.labels) && self.is_behind(node) && !is_left_out(node));
        let behind = behind.map(|node| {
            // One that is not Ready has no turn, and the others wait for it.
            let can_begin = node.ready || self.intent.take_not_ready;
            let turn = flying.iter().find(|change| change.spec.node_name == node.name);
            (
                node.name.as_str(),
                turn.map_or(can_begin, |change| !is_kept(change)),
            )
        });
        let first = First::of(behind, "spec.mutex.first or a MutexBinding's");
        let mut books = ledger::Ledger::of(observed, self.now);
        let taken = observed.taken(self.now);
        let busy = self.busy();
        let mut hosts: BTreeMap<&str, &str> = BTreeMap::new();
        let mut twice: BTreeMap<&str, [&str; 2]> = BTreeMap::new();
        for node in observed.nodes.values() {
            let host = node.label(openshift::HOSTNAME);
            if let Some(other) = hosts.insert(host, &node.name) {
                twice.insert(host, [other, &node.name]);
            }
        }
        let hosts = twice;
        let mut asking = 0;
        let mut probes = Probes::default();
        // Whose turn was closed for too long stands behind the others.
        waiting.sort_by_key(|node| closed::stood_back(ended.get(node.uid.as_str()).copied()));
        // What was begun by another controller, or under a NodeChange that was deleted, counts from the first.
        let begun = |node: &NodeView| {
            let job = self.jobs.get(&(node.name.as_str(), self.hash.as_str(), false));
            let begun = job.is_some_and(|(_, job)| !job.paused && !job.deleting);
            begun && self.is_ready() && self.leaving.is_none()
        };
        // One that was left out under its Job takes no room from the others.
        let is_left_out = |node: &NodeView| {
            ended
                .get(node.uid.as_str())
                .is_some_and(|change| stays_out(change))
        };
        let adopted: BTreeSet<&str> = waiting
            .iter()
            .filter(|node| begun(node) && !is_left_out(node))
            .map(|node| node.name.as_str())
            .collect();
        room = room.saturating_sub(adopted.len());
        let mut took_control_plane = waiting
            .iter()
            .any(|node| adopted.contains(node.name.as_str()) && quorum::is_control_plane(node));
        let mut window = None;
        let unsettled = self.unsettled();
        for node in waiting {
            let said = ended.get(node.uid.as_str()).copied();
            if let Some(change) = said
                && self.report_left_out(node, change)
            {
                continue;
            }
            let job = self
                .jobs
                .get(&(node.name.as_str(), self.hash.as_str(), false))
                .copied();
            if let Some((key, job)) = job
                && self.is_ready()
                && self.leaving.is_none()
                && self.remove_old_job(node, said, (key, job))
            {
                let message = format!("Job {key} is being deleted: the node is to be upgraded once more");
                self.say(
                    node,
                    Step::Selected,
                    Why::new(Reason::JobBeingDeleted, message),
                    said,
                );
                continue;
            }
            if adopted.contains(node.name.as_str()) {
                // Another controller, or a numo that died, has begun it: it goes on whatever else is so.
                self.take_turn(node, said, &mut books);
                continue;
            }
            if let Some(change) = said.filter(|change| skip_asked(change)) {
                self.skip(node, change);
                continue;
            }
            if let Some(why) = self.given_up(node) {
                self.say(node, Step::Skipped, why, said);
                continue;
            }
            let against = gates::weigh(self.asked == Some(node.name.as_str()), |gate| match gate {
                Gate::Owner => hold.clone(),
                Gate::Waits => {
                    let outside = window.get_or_insert_with(|| self.outside()).clone();
                    outside.or_else(|| unsettled.clone())
                }
                Gate::Stop => ledger::stop(observed, node),
                Gate::Person => said.and_then(directive::held),
                Gate::Unfit => Self::unfit(node, &hosts).or_else(|| self.of_windows(node)),
                Gate::Leaving => {
                    let (why, at) = leaving(node, &taken, self.now)?;
                    if let Some(at) = at {
                        self.out.wake(at);
                    }
                    Some(why)
                }
                Gate::Busy => self.others_job(node).or_else(|| {
                    let other = busy.get(node.name.as_str())?;
                    Some(ledger::busy(observed, &node.name, other, self.now))
                }),
                Gate::State => self.not_ready(node),
                Gate::Quorum => quorum::refusal_of_change(observed, node).or_else(|| {
                    let message = "another control-plane node is begun at this moment";
                    (took_control_plane && quorum::is_control_plane(node))
                        .then(|| Why::new(Reason::EtcdQuorum, message))
                }),
                Gate::Lease => self.leased(node),
                Gate::First => first.refusal(&node.name),
                Gate::Room => (room == 0).then(|| full.clone()),
                // A node that stays in service is none of a budget's.
                Gate::Budget => self.intent.cordons.then(|| books.refusal(node)).flatten(),
                Gate::Drain => {
                    let known = (self.answers, self.now);
                    let tried_again = Some(closed::TRIED_AGAIN_SECONDS);
                    probes.refusal(&mut self.out, said, known, tried_again)
                }
            });
            let Some(why) = against.worst(&mut self.out.report) else {
                if let Some((why, keeps_place)) = self.ask_first(node, said, &mut asking) {
                    if keeps_place {
                        room -= 1;
                    }
                    self.say(node, Step::Selected, why, said);
                    continue;
                }
                room -= 1;
                took_control_plane |= quorum::is_control_plane(node);
                self.take_turn(node, said, &mut books);
                continue;
            };
            self.say(node, Step::Selected, why, said);
        }
        let settled = later(self.view.created, SETTLED_SECONDS);
        if self.now < settled {
            self.out.wake(settled);
        }
        let outside = self.outside();
        if let Some(window) = &self.view.window
            && let Ok(window) = window
            && let Some(at) = window.changes_after(self.now)
        {
            self.out.wake(at);
        }
        hold.or(outside).or(unsettled)
    }

    /// What is made in one breath with a Plan may be seen after it.
    fn unsettled(&self) -> Option<Why> {
        let settled = later(self.view.created, SETTLED_SECONDS);
        (self.now < settled && self.flying.is_empty() && self.over.is_empty()).then(|| {
            let message = "it is new: MutexBindings that are made together with it are waited for";
            Why::new(Reason::Admitting, message)
        })
    }

    /// Why no node is begun at all.
    pub(super) fn hold(&self) -> Option<Why> {
        let view = self.view;
        if let Some(why) = &self.leaving {
            return Some(why.clone());
        }
        if let Some(problem) = &self.intent.invalid {
            let reason = if self.in_cycle {
                Reason::PlanCycle
            } else {
                Reason::InvalidField
            };
            return Some(Why::new(reason, problem.clone()));
        }
        if let Some(why) = &self.intent.of_secrets {
            return Some(why.clone());
        }
        if let Some(why) = self.unresolved() {
            return Some(why);
        }
        if let Some(problem) = &self.intent.of_selector {
            return Some(Why::new(Reason::InvalidField, problem.clone()));
        }

        if let Some(problem) = self.wrong_labels() {
            return Some(Why::new(Reason::InvalidField, problem));
        }
        let suspended = self.intent.suspended.clone();
        if let Some(why) = suspended.or_else(|| self.intent.of_gates.clone()) {
            return Some(why);
        }
        if let Some(why) = self.gate_lost() {
            return Some(why);
        }
        let mut flying = self.flying.iter();
        if let Some(change) = flying.find(|change| journal::is_for(change, Reason::Aborted)) {
            let message = change.status.message.clone().unwrap_or_default();
            return Some(Why::new(Reason::Aborted, message));
        }
        let selected = || {
            let nodes = self.observed.nodes.values();
            nodes.filter(|node| self.selects(node)).count()
        };
        let bounded = !self.intent.failure_budgets.is_empty();
        if let Some(budget) = bounded.then(selected).and_then(|all| self.intent.failures(all)) {
            let current = self.flying.iter().chain(&self.over);
            let current = current
                .filter(|change| change.spec.target.run_id == self.run_id)
                .copied();
            let failed = failures::failed(self.observed, current);
            if failed.len() >= budget {
                let names = failed.iter().take(5).map(|change| change.spec.node_name.as_str());
                let message = format!(
                    "{} of {budget} nodes may fail, and have: {}{}",
                    failed.len(),
                    names.collect::<Vec<_>>().join(", "),
                    failures::way_on(&failed)
                );
                return Some(Why::new(Reason::FailureBudgetSpent, message));
            }
        }
        edge::waits(view, self.observed, &self.resolved.version)
    }

    /// What no node could be labelled with.
    fn wrong_labels(&self) -> Option<String> {
        let name = &self.view.key.name;
        if name.len() > names::LABEL_MAX {
            return Some(format!(
                "metadata.name: found {} characters, wanted at most {}: it is part of a label of nodes and Jobs",
                name.len(),
                names::LABEL_MAX
            ));
        }
        let labels = self.view.spec.post_complete_labels.iter().flatten();
        labels.into_iter().find_map(|(key, value)| {
            let problem = names::wrong_label_key(key).or_else(|| {
                let value = leave::filled(value, &self.hash, &self.resolved.version);
                names::wrong_label_value(&value)
            });
            problem.map(|problem| format!("spec.postCompleteLabels[{key}]: {problem}"))
        })
    }

    /// Why nobody knows what the nodes are to go to.
    pub(super) fn unresolved(&self) -> Option<Why> {
        if self.resolved.version.is_empty() {
            let none = || (Reason::VersionUnresolved, "the version is not known".to_owned());
            let (reason, message) = self.resolved.problem.clone().unwrap_or_else(none);
            return Some(Why::new(reason, message));
        }
        self.hash
            .is_empty()
            .then(|| Why::new(Reason::VersionUnresolved, "the hash is not known"))
    }

    /// The Plan had a gate of its own, and somebody has dropped it.
    pub(super) fn gate_lost(&self) -> Option<Why> {
        is_gate_lost(self.view).then(|| {
            let message = format!(
                "spec.mutex is gone: it was dropped by another controller's CRD or writer, or taken away; put it back, or take annotation {} away too, and spec.mutex out of the manifest that is applied",
                marks::PLAN_GATE
            );
            Why::new(Reason::GateLost, message)
        })
    }

    /// It is outside the window.
    pub(super) fn outside(&self) -> Option<Why> {
        let Some(Ok(window)) = &self.view.window else {
            return None;
        };
        if window.contains(self.now) {
            return None;
        }
        let opens = window.changes_after(self.now);
        let next = opens.map_or_else(|| "never".to_owned(), |at| at.to_string());
        let message = format!(
            "it is outside spec.window ({}), which opens {next}",
            window.words()
        );
        let why = Why::new(Reason::OutsideWindow, message);
        Some(match opens {
            Some(at) => why.until(at),
            None => why.ended_by(Who::ClusterAdmin),
        })
    }

    /// Remembers on the Plan that it has a gate of its own, before the first node is begun.
    fn marks_gate(&mut self) -> Option<Why> {
        let view = self.view;
        let settings = view.spec.mutex.as_ref()?;
        if self.leaving.is_some() {
            return None;
        }
        let value = serde_json::to_string(settings).unwrap_or_default();
        let wanted = crate::names::hash(&["gate", &value], 10);
        let found = view.annotations.get(marks::PLAN_GATE);
        if found == Some(&wanted) {
            return None;
        }
        let action = Action::MarkGate {
            plan: view.key.clone(),
            uid: view.uid.clone(),
            change: Change {
                key: marks::PLAN_GATE.to_owned(),
                from: found.cloned(),
                to: Some(wanted),
            },
            has_annotations: view.has_annotations,
        };
        self.act("owner", action, None);
        Some(Why::new(Reason::Admitting, "spec.mutex is being remembered"))
    }

    /// The order of turns: the reference's by hash, unless one is asked for; those that go first before all.
    fn order(&self, nodes: &mut [&NodeView]) {
        let by_hash = |node: &NodeView| {
            let mut digest = Sha256::new();
            for part in [&node.uid, &self.view.uid, &self.hash] {
                digest.update(part.as_bytes());
            }
            <[u8; 32]>::from(digest.finalize())
        };
        nodes.sort_by_cached_key(|node| {
            let (no_zone, zone, age) = match self.intent.order {
                None => (false, "", 0),
                Some(order) => intent::turn(order, node),
            };
            let hash = match self.intent.order {
                None => by_hash(node),
                Some(Order::Zone | Order::Oldest | Order::Newest | Order::Name) => [0; 32],
            };
            let first = !self.intent.is_first(&node.labels);
            (first, no_zone, zone.to_owned(), age, hash, node.name.clone())
        });
    }

    /// Reports a node that was left out, or failed for good, in this upgrade; true if so. It stays so unless a person asks
    /// for it again.
    fn report_left_out(&mut self, node: &NodeView, change: &ChangeView) -> bool {
        if !stays_out(change) {
            return false;
        }
        let step = change.status.step.unwrap_or(Step::Skipped);
        let reason = Reason::ALL
            .iter()
            .find(|reason| journal::is_for(change, **reason));
        let message = change.status.message.clone().unwrap_or_default();
        self.say(
            node,
            step,
            Why::new(reason.copied().unwrap_or(Reason::SkippedByPerson), message),
            Some(change),
        );
        true
    }

    /// Leaves out a node that has no turn, as a person says.
    fn skip(&mut self, node: &NodeView, change: &ChangeView) {
        let Some(directive) = change.spec.directive.as_ref() else {
            return;
        };
        let words = directive::persons_words("skipped", change, directive);
        let why = Why::new(Reason::SkippedByPerson, words);
        let mut journal = Journal::open(change, self.now);
        journal.obey();
        journal.enter(Step::Skipped, Some(&why));
        self.out.actions.extend(journal.planned(None));
        self.say(node, Step::Skipped, why, Some(change));
    }

    /// A node that is not Ready waits, and the others go on: its Job could start no pod, and would hold the only turn.
    fn not_ready(&mut self, node: &NodeView) -> Option<Why> {
        if node.ready || self.intent.take_not_ready {
            return None;
        }
        if let Some(at) = self
            .intent
            .leave_out_after
            .and_then(|after| not_ready::left_out_at(node, after))
        {
            self.out.wake(at);
        }
        let message = format!(
            "Node {}: found not Ready, wanted Ready (takeNotReady begins it all the same)",
            node.name
        );
        Some(Why::new(Reason::NodeNotReady, message))
    }

    /// Why a node that has no turn is left out for now, as it is not Ready for too long.
    fn given_up(&self, node: &NodeView) -> Option<Why> {
        let after = self
            .intent
            .leave_out_after
            .filter(|_| !self.intent.take_not_ready)?;
        let at = not_ready::left_out_at(node, after)?;
        (at <= self.now).then(|| not_ready::left_out_not_ready(node))
    }

    /// A Windows node needs an image of kubectl of its own.
    fn of_windows(&self, node: &NodeView) -> Option<Why> {
        let settings = &self.observed.settings.plan_jobs;
        let by_job = self.intent.cordons && !self.intent.drains;
        let none = told::is_windows(node) && by_job && settings.kubectl_image_windows.is_empty();
        none.then(|| {
            let message = format!(
                "Node {} runs Windows, and there is no image to cordon it with: set SYSTEM_UPGRADE_JOB_KUBECTL_IMAGE_WINDOWS, or drainBy: Numo",
                node.name
            );
            Why::new(Reason::FieldNotServed, message)
        })
    }

    /// Nodes that have their turn with somebody else. Two that leave a node in service may be there together, as the
    /// reference has it.
    fn busy(&self) -> BTreeMap<&'a str, &'a ChangeView> {
        let others = self.observed.changing().filter(|change| {
            change.spec.owner_ref.uid != self.view.uid && (self.intent.cordons || !change.spec.in_service)
        });
        others
            .map(|change| (change.spec.node_name.as_str(), change))
            .collect()
    }

    /// Deletes the node's Job if it ended, and the node was done and has lost its label since; true while a Job must go
    /// before the node is begun.
    fn remove_old_job(
        &mut self,
        node: &NodeView,
        said: Option<&ChangeView>,
        (key, job): (&Key, &PlanJobView),
    ) -> bool {
        let was_done = said.is_some_and(|change| change.status.step == Some(Step::Done));
        if job.deleting {
            return true;
        }
        if was_done && job.ended.is_some() {
            self.delete_job(node, key, job);
            return true;
        }
        false
    }

    /// A Job of the Plan for another version runs on the node: two must not.
    fn others_job(&self, node: &NodeView) -> Option<Why> {
        let of = node.name.as_str();
        let (key, job) = self
            .jobs_on(of)
            .find(|(_, job)| job.hash != self.hash && !job.paused && job.ended.is_none() && !job.deleting)?;
        let message = format!("Job {key} to version {} still runs on Node {of}", job.version);
        if !node.ready {
            // Nobody can see it end.
            let message = format!("{message}, which is not Ready: {}", upgrade::leave_out(of));
            return Some(Why::new(Reason::NodeNotReady, message));
        }
        Some(Why::new(Reason::NodeBusy, message))
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

    /// Who else holds the lease of a node that would go out of service.
    fn leased(&mut self, node: &NodeView) -> Option<Why> {
        if !self.intent.cordons {
            return None;
        }
        let holder = lease::holder_of(OwnerKind::Plan, &self.view.uid);
        let Lease::Held(found, until) = lease::of(self.observed, &node.name, &holder, self.now) else {
            return None;
        };
        self.out.wake(until);
        let message = format!("the lease of Node {} is held by {}", node.name, found.holder);
        Some(Why::new(Reason::NodeLeaseHeld, message).until(until))
    }

    /// Asks the rules of phase Admit about a node that could have its turn now. If it may not have it yet: why, and
    /// whether its place is kept meanwhile.
    fn ask_first(
        &mut self,
        node: &NodeView,
        said: Option<&ChangeView>,
        asking: &mut usize,
    ) -> Option<(Why, bool)> {
        let attempt = said.map_or(0, |change| change.status.attempt);
        let subject = Subject {
            owner: self.owner,
            owner_uid: &self.view.uid,
            node: &node.name,
            node_uid: &node.uid,
            hostname: node.label(openshift::HOSTNAME),
            pool: "",
            from_version: &node.kubelet_version,
            to_version: &self.resolved.version,
            run: &self.run_id,
            round: attempt.saturating_add(1),
            since: None,
            waits: &[],
        };
        let mut said = rules::admission(&self.intent.rules, &subject, self.observed, self.now);
        let why = said.why.take()?;
        if let Some(full) = said.takes_place(asking) {
            return Some((full, false));
        }
        for request in said.asks {
            self.out.questions.push(Question::Evaluate(Box::new(request)));
        }
        if let Some(wake) = said.wake {
            self.out.wake(wake);
        }
        Some((why, !said.against))
    }

    /// The node's turn begins. Before the first there is our finalizer.
    fn take_turn(&mut self, node: &'a NodeView, said: Option<&ChangeView>, books: &mut ledger::Ledger<'a>) {
        let view = self.view;
        let why = Why::new(Reason::Admitting, "its turn has come");
        if !self.has_finalizer() {
            self.add_finalizer();
            self.say(node, Step::Selected, why, said);
            return;
        }
        books.take(node);
        if let Some(change) = said.filter(|change| change.spec.in_service == self.intent.cordons) {
            // Whether it stays in service is settled when it is made.
            self.forget(node, change);
            self.out.wake(self.now);
        } else if let Some(change) = said {
            let mut journal = Journal::open(change, self.now);
            journal.obey();
            if change.status.step.is_some() {
                journal.next_attempt();
            }
            journal.enter(Step::Admitted, Some(&why));
            self.out.actions.extend(journal.planned(None));
        } else {
            let of = (self.hash.as_str(), self.resolved.version.as_str());
            let (key, spec) = reservation(view, node, of, !self.intent.cordons);
            let action = Action::CreateChange {
                key,
                spec: Box::new(spec),
            };
            self.act(&node.name, action, None);
        }
        self.say(node, Step::Admitted, why, said);
    }
}
