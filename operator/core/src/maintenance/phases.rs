//! The rules of a maintenance, phase by phase: what is asked, journaled and waited for.

use super::{
    Action, BTreeSet, ChangeView, EventAction, Journal, NodeView, Outcome, Pass, Phase, Planned, Progress,
    Question, Reason, Step, Subject, Why, changes, decide, openshift, rules, run_id,
};

impl Pass<'_> {
    pub(super) fn subject<'s>(&'s self, node: &'s NodeView, change: &'s ChangeView) -> Subject<'s> {
        let status = &change.status;
        let last = status
            .verdicts
            .last()
            .and_then(|verdict| decide::time(Some(&verdict.at)));
        Subject {
            owner: &self.view.owner,
            owner_uid: &self.view.uid,
            node: &node.name,
            node_uid: &node.uid,
            hostname: node.label(openshift::HOSTNAME),
            pool: "",
            from_version: "",
            to_version: "",
            run: &change.spec.target.run_id,
            round: status.attempt.max(1),
            since: decide::time(status.since.as_deref()).max(last),
            waits: &status.rule_waits,
        }
    }

    pub(super) fn progress(&self, node: &NodeView, change: &ChangeView, phase: Phase) -> Progress {
        rules::progress(
            &self.intent.rules,
            phase,
            &change.status.verdicts,
            &self.subject(node, change),
            self.observed,
            self.answers,
            self.now,
        )
    }

    /// Moves a phase of rules along; true once all have passed.
    pub(super) fn passed(
        &mut self,
        node: &NodeView,
        change: &ChangeView,
        phase: Phase,
        step: Step,
        closed: Option<&Why>,
    ) -> bool {
        let progress = self.progress(node, change, phase);
        self.go_on(change, (phase, step), closed, progress, false)
    }

    /// The same where the node is given back: a rule may make it wait until its time is over, and no longer.
    pub(super) fn passed_or_over(
        &mut self,
        node: &NodeView,
        change: &ChangeView,
        phase: Phase,
        step: Step,
    ) -> bool {
        let known = self
            .intent
            .rules
            .iter()
            .filter(|(_, rule)| rule.is_some())
            .cloned();
        self.intent.rules = known.collect();
        let asks = self
            .intent
            .rules
            .iter()
            .flat_map(|(_, rule)| rule)
            .any(|rule| rule.runs_in(phase));
        if asks && change.status.step != Some(step) {
            // Their time begins now, not when the node was drained.
            let mut journal = Journal::open(change, self.now);
            journal.enter(step, None);
            self.out.actions.extend(journal.planned(None));
            let why = Why::new(Reason::GivingBack, "its rules are asked before it is given back");
            self.say(step, why, Some(change));
            return false;
        }
        let progress = self.progress(node, change, phase);
        self.go_on(change, (phase, step), None, progress, true)
    }

    /// Whether every component's Pass is young enough.
    pub(super) fn is_confirmed(&mut self, node: &NodeView, change: &ChangeView) -> bool {
        let stale = rules::stale(
            &self.intent.rules,
            &change.status.verdicts,
            &self.subject(node, change),
            self.observed,
            self.answers,
            self.now,
        );
        match stale {
            None => true,
            Some((phase, progress)) => self.go_on(change, (phase, Step::PreRules), None, progress, false),
        }
    }

    pub(super) fn go_on(
        &mut self,
        change: &ChangeView,
        (phase, step): (Phase, Step),
        closed: Option<&Why>,
        progress: Progress,
        over: bool,
    ) -> bool {
        let mut journal = Journal::open(change, self.now);
        let why = match progress {
            Progress::Passed => return true,
            Progress::Failed(_, why) if over => {
                // Deletion must end: it is in the journal, and said.
                let _ = why;
                return true;
            }
            Progress::Failed(_, why) => why,
            Progress::Ask(question) => {
                self.out.questions.push(question);
                Why::new(Reason::RuleRunning, "its result is being read")
            }
            Progress::Wait(why, wake) => {
                if let Some(at) = wake {
                    self.wake(at);
                }
                why
            }
            Progress::Start(_) | Progress::Evaluate(_) if closed.is_some() => {
                closed.cloned().unwrap_or_else(|| Why::new(Reason::Suspended, ""))
            }
            Progress::Start(mut job) => {
                let own = job.hostname.clone();
                let hosts = decide::hosts_in_flight(self.observed);
                let others = hosts.into_iter().filter(|host| *host != own);
                job.avoid = others.map(ToOwned::to_owned).collect();
                let why = Why::new(Reason::RuleStarting, format!("rule {} is starting", job.rule));
                self.act(Action::CreateJob(job), None);
                why
            }
            Progress::Evaluate(request) => {
                let why = Why::new(
                    Reason::RuleStarting,
                    format!("rule {} is being asked", request.rule),
                );
                self.out.questions.push(Question::Evaluate(request));
                why
            }
            Progress::Note(wait, why) => {
                journal.note(wait);
                self.out.actions.extend(journal.planned(None));
                self.say(step, why, Some(change));
                return false;
            }
            Progress::Record(verdict, log) => {
                let passed = verdict.outcome == Outcome::Pass;
                let said = log
                    .as_deref()
                    .and_then(|log| log.lines().rfind(|line| !line.trim().is_empty()))
                    .or(verdict.message.as_deref())
                    .unwrap_or_default();
                let word = if passed { "passed" } else { "failed" };
                let note = format!(
                    "rule {} {word} in phase {}: {}",
                    verdict.rule,
                    phase.name(),
                    rules::clip(said.trim(), 256)
                );
                let reason = if passed { "RulePassed" } else { "RuleFailed" };
                let event = self.event(true, !passed, reason, EventAction::EvaluateRule, &note);
                journal.record(*verdict, log);
                if change.status.step != Some(step) {
                    journal.enter(step, None);
                }
                self.out.actions.extend(journal.planned(Some(event)));
                Why::new(Reason::RuleRunning, note)
            }
        };
        self.say(step, why, Some(change));
        false
    }

    /// Lets Jobs go whose verdict is journaled.
    pub(super) fn free_jobs(&mut self) {
        let verdicts = changes(self.observed, &self.view.uid).flat_map(|change| &change.status.verdicts);
        let judged: BTreeSet<&str> = verdicts.filter_map(|verdict| verdict.job.as_deref()).collect();
        let id = run_id(self.view);
        // Once the turn is over nobody waits for a Job any more.
        let over = self.view.deleting && !changes(self.observed, &self.view.uid).any(ChangeView::in_flight);
        let jobs = self.observed.jobs.iter();
        let freed: Vec<Planned> = jobs
            .filter(|(key, job)| judged.contains(key.to_string().as_str()) || over && job.run == id)
            .filter(|(_, job)| job.ttl_seconds.is_none() && !job.deleting)
            .map(|(key, job)| decide::freeing(key.clone(), job))
            .collect();
        for planned in freed {
            let known = |other: &Planned| other.action == planned.action;
            if !self.out.actions.iter().any(known) {
                self.out.actions.push(planned);
            }
        }
    }
}
