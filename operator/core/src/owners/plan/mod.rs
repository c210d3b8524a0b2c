//! The decision for one Plan: its version is found out, its nodes are begun as rules and budgets allow, each by one Job,
//! and each is given back as it was. Nothing here reads or writes anything.
//!
//! The parts of a pass are those of `decide.rs`, the steps of a node those of `turn/steps.rs`. Behaviour
//! and words as in system-upgrade-controller (`spec/system-upgrade-controller.md`); what is otherwise is in the table of deviations in
//! `operator/docs/plans.md`.

mod admit;
mod drain;
mod duration;
mod edge;
mod encode;
mod failed;
mod hold;
mod intent;
mod jobs;
mod known;
mod leave;
mod lint;
mod made;
mod pass;
mod resolve;
mod told;
mod turn;
mod upgrade;
mod waiting;
mod watched;

pub use duration::{duration_millis, duration_text};
pub use intent::{Intent, named_by, order_of, rules_of, schedule, timeout_seconds};
pub(crate) use known::{changes, imagine_upgraded};
pub use known::{job_name, joined, label, prepares, reservation, run_id};
pub use numo_api::plan_window::Window;
pub use resolve::{Resolved, digest, munged, secret_hash, without_user};
pub use watched::{not_watched, stood_off};

use crate::{
    action::{Action, FORGET_CHAIN},
    admit::{approval::Approvals, notes, queue, wave_rules::WaveRules, waves::Waves},
    decision::{Decision, Snapshot},
    finalizer,
    key::Key,
    ledger, mark,
    observed::{ChangeView, NodeView, Observed, PlanView},
    owner::{Owner, OwnerKind},
    report::{NodeReport, PlanReport, RunPhase},
    suspended,
    time::later,
    turn::{
        contradiction, cordon, directive, job, journal, lease, machine,
        steps::{Next, ON, STAY},
        ungated,
    },
    verdict::{Answers, Question},
    why::Why,
};
use admit::SETTLED_SECONDS;
use jiff::Timestamp;
use jobs::{jobs, stale};
use known::EXIT_CODE;
use numo_api::{DirectiveAction, Reason, RunResult, Step, conditions::types};

pub(crate) use lint::Lint;
pub(crate) use pass::Pass;
use std::collections::{BTreeMap, BTreeSet};
use waiting::Waiting;

impl<'a> Pass<'a> {
    /// What is known of a Plan at the beginning of the pass.
    pub(crate) fn of(snapshot: &Snapshot<'a>, view: &'a PlanView, answers: &'a Answers) -> Self {
        let observed = snapshot.observed;
        let resolved = resolve::resolve(view, observed, snapshot.now);
        let mut intent = Intent::parse(view, observed);
        let cycle = edge::cycle(view, observed).filter(|_| intent.invalid.is_none());
        let in_cycle = cycle.is_some();
        intent.invalid = intent.invalid.or(cycle);
        let hash = hash(view, observed, &intent, &resolved);
        let run_id = run_id(&view.uid, &hash);
        let (flying, over) = changes(observed, view).partition(|change| observed.is_under_way(change));
        Self {
            now: snapshot.now,
            observed,
            view,
            owner: snapshot.owner,
            asked: snapshot.asked,
            answers,
            leaving: leaving(view, observed, &run_id),
            intent,
            resolved,
            hash,
            run_id,
            label: label(&view.key.name),
            jobs: jobs(view, observed),
            applying: BTreeMap::new(),
            in_cycle,
            blind: is_blind(view, observed),
            stale: stale(view, observed),
            flying,
            over,
            in_flight: BTreeSet::new(),
            hold: None,
            waves: Waves::default(),
            wave_rules: WaveRules::default(),
            approvals: Approvals::default(),
            kept: false,
            out: Decision::default(),
            pool: "".into(),
        }
    }

    /// Why numo leaves the Plan alone, and whether nobody knows how it stands.
    fn left_alone(&self) -> Option<(Why, bool)> {
        let (view, observed) = (self.view, self.observed);
        if let Some(why) = stood_off(observed).filter(|_| !is_under_way(view, observed)) {
            return Some((why, false));
        }
        let words = observed.unseen_plan_jobs.get(&view.key.namespace)?;
        if self.blind {
            return None;
        }
        // A Job that may not be seen must not be taken for one that is gone.
        let message = format!(
            "numo may not see the Jobs of Plans in namespace {}, wanted a RoleBinding to ClusterRole numo-plans: {words}",
            view.key.namespace
        );
        let why = not_watched(view, observed).unwrap_or_else(|| Why::new(Reason::PlanJobsForbidden, message));
        Some((why, true))
    }
}

/// Whether the Jobs of a Plan may not be seen that is to go: its turns end without them.
fn is_blind(view: &PlanView, observed: &Observed) -> bool {
    let terminating = observed.namespaces.get(&view.key.namespace) == Some(&true);
    observed.unseen_plan_jobs.contains_key(&view.key.namespace) && (view.deleting || terminating)
}

/// Whether numo has a node of the Plan in hand, or something to give back.
fn is_under_way(view: &PlanView, observed: &Observed) -> bool {
    finalizer::is_on(&Owner::plan(view.key.clone()), view.into())
        || changes(observed, view).any(|change| observed.is_under_way(change))
}

fn hash(view: &PlanView, observed: &Observed, intent: &Intent<'_>, resolved: &Resolved) -> String {
    if resolved.version.is_empty() {
        return String::new();
    }
    let status = &view.status;
    let uses_secrets = view.spec.secrets.iter().flatten();
    let uses_secrets = uses_secrets
        .into_iter()
        .any(|secret| secret.ignore_updates != Some(true));
    if intent.of_secrets.is_some() || (observed.settings.only_looks && uses_secrets) {
        // Without the Secrets it cannot be made; what was made of them before may still hold.
        let same = status.latest_version.as_deref() == Some(resolved.version.as_str());
        return status.latest_hash.clone().filter(|_| same).unwrap_or_default();
    }
    let secrets = view.spec.secrets.iter().flatten();
    let needed = secrets.filter(|secret| secret.ignore_updates != Some(true));
    let hashes = needed.filter_map(|secret| {
        let key = Key::new(&view.key.namespace, &secret.name);
        observed.secrets.get(&key).map(String::as_str)
    });
    resolve::digest(view, &resolved.version, hashes)
}

fn leaving(view: &PlanView, observed: &Observed, run_id: &str) -> Option<Why> {
    if view.deleting {
        return Some(Why::new(Reason::Deleting, Reason::Deleting.meaning()));
    }
    if let Some(why) = not_watched(view, observed) {
        return Some(why);
    }
    if observed.namespaces.get(&view.key.namespace) == Some(&true) {
        let message = format!("Namespace {} is being deleted", view.key.namespace);
        return Some(Why::new(Reason::NamespaceTerminating, message));
    }
    suspended::given_up(&Owner::plan(view.key.clone()), &view.annotations, &[run_id])
        .or_else(|| directive::all_given_up(changes(observed, view), run_id))
}

impl crate::pass::Pass for Pass<'_> {
    fn refuse(&mut self) -> Next {
        let Some((why, is_unjudged)) = self.left_alone() else {
            return ON;
        };
        self.out.report.hold = Some(why);
        self.out.report.plan = is_unjudged.then(|| PlanReport {
            is_unjudged,
            ..PlanReport::default()
        });
        STAY
    }

    fn advance_turns(&mut self) {
        let report = &mut self.out.report;
        report.phase = RunPhase::Active;
        report.run_id.clone_from(&self.run_id);
        report.target = Some(self.resolved.version.clone()).filter(|version| !version.is_empty());
        self.ask_channel();
        self.waves = waiting::waves(self);
        self.approvals = waiting::approvals(self);
        self.wave_rules = self.waves.rules();
        self.wave_rules.keep(self.flying.iter().copied());
        let twice = contradiction::twice(self.flying.iter().copied());
        for change in self.flying.clone() {
            match self.observed.node_of(change) {
                Some(node) => {
                    self.in_flight.insert(node.name.as_str());
                    let why = twice.get(node.uid.as_str()).filter(|_| self.leaving.is_none());
                    match why {
                        Some(why) => self.keep_still(node, change, why.clone()),
                        None => self.advance(node, change),
                    }
                }
                None => self.end_orphan(change),
            }
        }
    }

    fn restore_rest(&mut self) {
        let hold = self.holds(&self.waves).next();
        self.hold = hold;
        self.kept = self.restore();
        self.remove_jobs();
    }

    fn go_on(&mut self) {
        self.hold = self.admit();
    }

    fn tidy(&mut self) {
        self.free_jobs();
        self.keep_finalizer();
        let over = self.over.iter().copied();
        for action in journal::forgotten(over, (&self.run_id, self.observed), self.now).collect::<Vec<_>>() {
            self.act(FORGET_CHAIN, action, None);
        }
        self.summarise();
    }

    fn finish(self) -> Decision {
        self.out
    }
}

impl<'a> Pass<'a> {
    /// Begins as many nodes as may be, reports the rest, and says why nothing is begun at all, if so.
    fn admit(&mut self) -> Option<Why> {
        let nodes = self.observed.nodes.values();
        let selected: Vec<&'a NodeView> = nodes.filter(|node| self.selects(node)).collect();
        let hold = self.hold.take();
        let soaking = self.waves.soaking();
        self.out.report.wave = self.waves.report();
        let given = notes::Given {
            waves: &self.intent.waves,
            keys: (
                "mutexKeys of spec.mutex or a MutexBinding",
                self.intent.mutex_keys.clone(),
            ),
        };
        self.out.report.notes = notes::of_nobody(&given, &selected.iter().copied());
        self.waves.say_over(&mut self.out, self.now);
        self.out.report.approval = self.approvals.report();
        self.out.report.approved = self.approvals.given();
        self.out.report.heard = self.approvals.heard();
        let unapproved = self.approvals.hold();
        if let Some(at) = self.approvals.ends() {
            self.out.wake(at);
        }
        if let Some(at) = soaking.as_ref().and_then(|why| why.until) {
            self.out.wake(at);
        }
        let mut waiting = Waiting::of(self, &selected, hold);
        queue::admit(&mut waiting);
        let nobody_begins = waiting.nobody_begins.take();
        let hold = waiting.hold.take().or(nobody_begins);
        let settled = later(self.view.created, SETTLED_SECONDS);
        if self.now < settled {
            self.out.wake(settled);
        }
        if let Some(Ok(window)) = &self.view.window
            && let Some(at) = window.changes_after(self.now)
        {
            self.out.wake(at);
        }
        hold.or_else(|| self.outside())
            .or_else(|| self.intent.schedule.closed(self.now))
            .or(soaking)
            .or(unapproved)
            .or_else(|| self.unsettled().filter(|_| self.out.report.is_any_open()))
    }

    /// Asks the channel of the Plan for its version, when that is due.
    fn ask_channel(&mut self) {
        let view = self.view;
        if self.resolved.asks && self.leaving.is_none() {
            let question = Question::Channel {
                plan: view.key.clone(),
                url: view.spec.channel.clone().unwrap_or_default(),
                latest: view.status.latest_version.clone().unwrap_or_default(),
            };
            self.out.questions.push(question);
        } else if let Some(at) = self.resolved.ask_at {
            self.out.wake(at);
        }
    }

    /// A node that is gone, or was made again under its name, has no turn any more.
    fn end_orphan(&mut self, change: &'a ChangeView) {
        let misnamed = contradiction::misnamed(self.observed, change);
        if let Some((node, why)) = misnamed.filter(|_| self.leaving.is_none()) {
            // What the Plan has put on that node stays.
            self.in_flight.insert(&node.name);
            return self.keep_still(node, change, why);
        }
        let ended = journal::end_gone(change, journal::gone(change), self.observed, self.now);
        self.out.actions.extend(ended);
    }

    /// Nodes that go on to the next version at once: each keeps its cordon until then.
    fn going_on(&self) -> BTreeSet<&'a str> {
        let waits = self.hold.as_ref().is_some_and(|why| {
            let soon = [Reason::PlanStarting, Reason::Validating, Reason::ChannelQueried];
            !soon.contains(&why.reason)
        });
        let is_closed = || self.outside().is_some() || self.intent.schedule.closed(self.now).is_some();
        let nobody_begins = self.intent.concurrency <= 0 || self.intent.closed.is_some();
        if waits || self.leaving.is_some() || nobody_begins || is_closed() {
            return BTreeSet::new();
        }
        let is_kept_back = |change: &&&ChangeView| {
            let directive = change.spec.directive.as_ref();
            directive.is_some_and(|directive| {
                matches!(directive.action, DirectiveAction::Skip | DirectiveAction::Hold)
            })
        };
        // A node that waits for those that go before it is given back: its cordon could take the budget that they wait for.
        let are_next = waiting::are_next(self);
        let is_next = |name: &&str| self.observed.nodes.get(*name).is_none_or(&are_next);
        let name = |change: &&'a ChangeView| change.spec.node_name.as_str();
        let over = self.over.iter();
        let kept_back: BTreeSet<&str> = over.clone().filter(is_kept_back).map(name).collect();
        over.filter(|change| journal::is_for(change, Reason::Superseded))
            .map(name)
            .filter(|name| !kept_back.contains(name))
            .filter(is_next)
            .collect()
    }

    /// Takes our marks off nodes that have no turn any more; true while there are some.
    fn restore(&mut self) -> bool {
        let (view, observed) = (self.view, self.observed);
        let in_flight = self.in_flight.clone();
        let goes_on = self.going_on();
        let jobs = self.jobs.values();
        let running: BTreeSet<&str> = jobs
            .filter(|(_, job)| !job.paused && job.ended.is_none())
            .map(|(_, job)| job.node.as_str())
            .collect();
        let before = self.out.actions.len();
        let mut kept = false;
        for node in observed.nodes.values() {
            let cordon = mark::cordoned_by(node).filter(|mark| mark.owner == view.uid);
            let shield = mark::shielded(node).filter(|mark| mark.owner == view.uid);
            if cordon.is_none() && shield.is_none() {
                continue;
            }
            kept = true;
            if in_flight.contains(node.name.as_str())
                // Its NodeChange was deleted under a Job that runs.
                || running.contains(node.name.as_str())
                || (goes_on.contains(node.name.as_str())
                    && self.is_behind(node)
                    && ledger::stop(observed, node).is_none()
                    && self.intent.schedule.closed_to(node, observed, self.now).is_none())
            {
                continue;
            }
            let patch = cordon::restoring(node, &view.uid);
            self.act(&node.name, Action::PatchNode(patch), None);
        }
        let due = machine::remediation_unshields(observed, &view.uid, |node| !in_flight.contains(node));
        self.out.actions.extend(due);
        let holder = lease::holder_of(OwnerKind::Plan, &view.uid);
        for name in observed.leases.keys() {
            if in_flight.contains(name.as_str()) || running.contains(name.as_str()) {
                continue;
            }
            if let Some(action) = lease::release(observed, name, &holder) {
                self.act(name, action, None);
            }
        }
        kept || self.out.actions.len() > before
    }

    /// Deletes Jobs that nobody waits for: of nodes that are gone, and of versions that are not asked for any more and
    /// never began. What runs is never killed.
    fn remove_jobs(&mut self) {
        let jobs = self.jobs.values();
        let due: Vec<(Key, String)> = jobs
            .filter(|(_, job)| job.deleting.is_none())
            .filter(|(_, job)| {
                let gone = !self.observed.nodes.contains_key(&job.node);
                let idle = job.paused && job.ended.is_none();
                let outdated = !self.hash.is_empty() && job.hash != self.hash;
                // One that ended for another hash must not stand for it if the Plan comes back to that.
                let due = (idle && (outdated || self.leaving.is_some())) || (outdated && job.ended.is_some());
                gone || (due && !self.in_flight.contains(job.node.as_str()))
            })
            .chain(self.stale.iter().filter(|(_, job)| job.deleting.is_none()))
            .map(|(key, job)| ((*key).clone(), job.uid.clone()))
            .collect();
        for (job, uid) in due {
            self.act(&format!("job {job}"), Action::DeletePlanJob { job, uid }, None);
        }
    }

    /// Lets Jobs of rules go whose verdict is journaled, and those of upgrades that are over.
    fn free_jobs(&mut self) {
        let turns = job::Turns {
            flying: &self.flying,
            over: &self.over,
            run_id: &self.run_id,
            is_leaving: self.leaving.is_some(),
        };
        job::free_of(&mut self.out, self.observed, &turns);
    }

    /// Our finalizer is there while a mark of ours may be, and no longer.
    fn keep_finalizer(&mut self) {
        let view = self.view;
        let held = !self.in_flight.is_empty() || self.kept;
        let removal = finalizer::removal(self.owner, view.into());
        let is_there = removal.is_some();
        if let Some(action) = removal
            && !held
            && self.out.actions.is_empty()
        {
            self.act("owner", action, None);
            self.out.report.result = Some(RunResult::Succeeded);
        }
        if held && !is_there && !view.deleting {
            // Somebody has taken it away: without it nobody would give the nodes back.
            self.add_finalizer();
        }
    }

    /// What is said of the Plan as a whole.
    fn summarise(&mut self) {
        let (hold, kept) = (self.hold.take(), self.kept);
        let behind = self.out.report.is_any_open();
        let said = self.plan_report(behind, hold.as_ref());
        let rules = |node: &str| self.wave_rules.of(node, &self.intent.rules, self.observed);
        let report = &mut self.out.report;
        if said.complete && self.leaving.is_none() && !kept {
            report.phase = RunPhase::Idle;
        }
        if self.leaving.is_some() {
            report.phase = RunPhase::Leaving;
        }
        report.upgrade_available = behind;
        let of_run = changes(self.observed, self.view).filter(|change| {
            change.spec.target.run_id == self.run_id
                && self.observed.nodes.contains_key(&change.spec.node_name)
        });
        for change in of_run.filter(|change| journal::tells_ungated(change)) {
            let words = ungated::released_by_other(&rules(&change.spec.node_name), &change.status);
            report
                .ungated
                .entry(change.spec.node_name.clone())
                .or_insert(words);
        }
        report.hold = self.leaving.clone().or(hold);
        report.plan = Some(said);
    }

    /// What its status says of the Plan itself.
    fn plan_report(&self, behind: bool, hold: Option<&Why>) -> PlanReport {
        let (intent, resolved) = (&self.intent, &self.resolved);
        let of_secrets = intent.of_secrets.as_ref();
        let is_listing = |why: &&Why| why.reason == Reason::Validating;
        let refused = of_secrets.filter(|why| !is_listing(why));
        let problem = resolved.problem.as_ref();
        let (complete, reason, message) = self.completion(behind, hold);
        PlanReport {
            invalid: intent
                .invalid
                .clone()
                .or_else(|| Some(refused?.message.to_string())),
            by_channel: resolved.by_channel,
            unresolved: problem.map(|(_, message)| message.clone()),
            is_validating: of_secrets.is_some_and(|why| is_listing(&why)),
            is_asked: problem.is_some_and(|(reason, _)| *reason == Reason::ChannelQueried),
            version: resolved.version.clone(),
            hash: self.hash.clone(),
            applying: self.applying.values().cloned().collect(),
            complete,
            reason,
            message,
            ..PlanReport::default()
        }
    }

    /// Whether the Plan is complete, with reason and message of that condition as the reference has them.
    fn completion(&self, behind: bool, hold: Option<&Why>) -> (bool, &'static str, String) {
        let is_busy = !self.in_flight.is_empty();
        let nodes = || self.out.report.nodes.values();
        let has_failed = |node: &&NodeReport| {
            node.step == Step::Held && matches!(node.why.reason, Reason::JobFailed | Reason::JobLost)
        };
        let latest = self.view.status.latest_version.as_deref();
        if !self.is_ready() {
            (false, "NotReady", "plan is not valid and resolved".to_owned())
        } else if let Some(problem) = &self.intent.of_selector {
            (false, "SelectNodesFailed", problem.clone())
        } else if !is_busy && (!behind || self.intent.concurrency <= 0) {
            (true, "Complete", String::new())
        } else if let Some(failed) = nodes().find(has_failed) {
            let words = &failed.why.message;
            let words = words.split(EXIT_CODE).next().unwrap_or(words);
            (false, "JobFailed", words.to_owned())
        } else if let Some(problem) = nodes().find(|node| node.why.reason == Reason::FieldNotServed) {
            (false, "ValidationFailed", problem.why.message.to_string())
        } else if !self.applying.is_empty() {
            (false, "SyncJob", String::new())
        } else if let Some(why) = hold.filter(|why| why.reason != Reason::PlanStarting) {
            (false, "Waiting", why.message.to_string())
        } else if latest != Some(self.resolved.version.as_str()) {
            (false, "Resolved", String::new())
        } else {
            (false, "SyncJob", String::new())
        }
    }
}

impl PlanView {
    /// When the channel was resolved to the version in the status, if it was.
    pub fn resolved_by_channel(&self) -> Option<Timestamp> {
        let conditions = self.status.conditions.iter().flatten();
        let resolved = conditions
            .into_iter()
            .find(|one| one.type_ == types::LATEST_RESOLVED)?;
        let latest_version = self.status.latest_version.as_deref();
        let named = latest_version.is_some_and(|version| !version.is_empty());
        let good = named && resolved.status == "True" && resolved.reason.as_deref() == Some("Channel");
        if !good {
            return None;
        }
        let at = resolved.last_update_time.as_deref();
        Some(at.and_then(|at| at.parse().ok()).unwrap_or(Timestamp::UNIX_EPOCH))
    }

    /// Whether the status says that the Plan is complete, and for what the spec asks now.
    pub fn is_complete(&self) -> bool {
        let conditions = self.status.conditions.iter().flatten();
        let complete = conditions
            .into_iter()
            .any(|one| one.type_ == types::COMPLETE && one.status == "True");
        let version = self.spec.version.as_deref().filter(|version| !version.is_empty());
        complete
            && version.is_none_or(|version| self.status.latest_version.as_deref() == Some(&munged(version)))
    }
}

/// How a Plan's nodes are drained; none if they are not.
pub fn drain_options(view: &PlanView, observed: &Observed) -> Option<crate::drain::DrainOptions> {
    intent::Intent::parse(view, observed).drain
}
