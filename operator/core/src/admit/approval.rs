//! With whose word the nodes of an owner begin: what it wants approved, what has been, and what waits for that.
//!
//! An approval names a digest of what it is about. It holds while the digest is still that, so that nobody approves one thing and gets
//! another. The digest has four parts, so that it can be said which of them has changed. It is asked for until the node is disrupted:
//! what is under way on a node is brought to its end.

use super::{
    wave_rules::Rules,
    waves::{Due, Waves},
};
use crate::{
    key::Key,
    names,
    observed::{ApprovalView, ChangeView, Observed, RuleView},
    owner::Owner,
    report::{ApprovalReport, Approved, Heard, Point},
    text::clip,
    time::later,
    why::{Cause, Why},
};
use jiff::Timestamp;
use numo_api::{ApprovalPolicy, ApprovalSettings, MutexApprovalSpec, Reason};
use serde_json::Value;
use std::collections::BTreeMap;

/// Hex digits of each part of a digest: 128 bits, so that nobody finds two contents of one part.
pub const PART: usize = 32;
/// Longest words of a person in a sentence (characters).
const WORDS: usize = 200;
/// Fields of an owner's spec that change nothing of what is done to a node.
const NOT_MEANT: [&str; 2] = ["suspend", "dryRun"];

/// What an owner wants approved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The field that wants it for the first nodes, if so.
    begin: Option<String>,
    /// The field that wants it after a failure, if so.
    after_failure: Option<String>,
    /// How long an approval holds (seconds), and the field that says so.
    ttl: Option<(i64, String)>,
}

impl Wanted {
    /// Takes in what one object wants, with `field` in front of its fields: of several objects each is obeyed.
    ///
    /// Errors: the field, what was found and what is wanted.
    pub fn add(&mut self, field: &str, given: Option<&ApprovalSettings>) -> Result<(), String> {
        let Some(given) = given else { return Ok(()) };
        let named = |policy, name: &str| {
            (policy == Some(ApprovalPolicy::Manual)).then(|| format!("{field}.approval.{name}"))
        };
        self.begin = self.begin.take().or_else(|| named(given.begin, "begin"));
        let after_failure = || named(given.after_failure, "afterFailure");
        self.after_failure = self.after_failure.take().or_else(after_failure);
        let Some(seconds) = given.ttl_seconds else {
            return Ok(());
        };
        let field = format!("{field}.approval.ttlSeconds");
        if seconds <= 0 {
            return Err(format!("{field}: found {seconds}, wanted 1 or more"));
        }
        if self.ttl.as_ref().is_none_or(|(known, _)| seconds < *known) {
            self.ttl = Some((seconds, field));
        }
        Ok(())
    }

    /// Whether a person lets the next node begin after a failure.
    pub fn is_after_failure(&self) -> bool {
        self.after_failure.is_some()
    }

    /// Whether something other than a wave is to be approved.
    pub fn is_any(&self) -> bool {
        self.begin.is_some() || self.after_failure.is_some()
    }
}

/// What an approval is about.
#[derive(Debug)]
pub(crate) struct About<'a> {
    pub owner: &'a Owner,
    pub uid: &'a str,
    /// Its spec, and the settings of all that gates it, each with the name of the object.
    pub specs: Vec<(&'a str, Value)>,
    /// What the owner goes to: the id of the run, and the version.
    pub target: [&'a str; 2],
    /// The rules that its nodes must pass.
    pub rules: Rules<'a>,
    /// The nodes of it that have failed, as a failure budget counts them.
    pub failed: Vec<&'a ChangeView>,
}

/// Digests of one owner. Three of the parts are the same for all that can be approved.
struct Digests {
    spec: String,
    target: String,
    rules: String,
}

impl Digests {
    fn of(subject: &About<'_>) -> Self {
        let specs = subject.specs.iter().flat_map(|(name, spec)| {
            let mut spec = spec.clone();
            if let Some(fields) = spec.as_object_mut() {
                fields.retain(|field, _| !NOT_MEANT.contains(&field.as_str()));
            }
            [(*name).to_owned(), spec.to_string()]
        });
        let rules = subject.rules.iter().flat_map(|(key, rule)| {
            let edition = rule.map_or_else(String::new, RuleView::edition);
            [key.to_string(), edition]
        });
        let [run_id, version] = subject.target;
        Self {
            spec: part("spec", specs),
            target: part("target", [subject.uid, run_id, version].map(str::to_owned)),
            rules: part("rules", rules),
        }
    }

    fn with(&self, nodes: &str) -> String {
        format!("{}-{}-{nodes}-{}", self.spec, self.target, self.rules)
    }

    /// What an approval of another digest was about, in words; none if it was of another run, and says nothing of this one.
    fn what_changed(&self, wanted: &str, found: &str) -> Option<String> {
        let (wanted, found): (Vec<&str>, Vec<&str>) =
            (wanted.split('-').collect(), found.split('-').collect());
        if found.get(1) != Some(&self.target.as_str()) {
            return None;
        }
        let words = [
            (0, "the spec, or a MutexBinding of it, was edited"),
            (2, "its nodes are others"),
            (3, "its rules are others or were edited"),
        ];
        let changed = words.iter().filter(|(at, _)| wanted.get(*at) != found.get(*at));
        let changed: Vec<&str> = changed.map(|(_, words)| *words).collect();
        Some(changed.join(", and "))
    }
}

fn part(of: &str, all: impl IntoIterator<Item = String>) -> String {
    let all: Vec<String> = std::iter::once(of.to_owned()).chain(all).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    names::hash(&all, PART)
}

/// What an owner has and lacks of approvals.
#[derive(Debug, Default)]
pub(crate) struct Approvals {
    /// What waits, why, and the wave whose nodes it is about; none is all nodes.
    waits: Option<(ApprovalReport, Option<usize>)>,
    given: Vec<Approved>,
    /// What became of each approval of what is wanted now, by name.
    heard: BTreeMap<String, Heard>,
    /// When the first of those that hold runs out.
    ends: Option<Timestamp>,
}

impl Approvals {
    /// Of an owner whose nodes go in these waves. Nothing waits where no node is behind.
    pub fn of<'a>(
        wanted: &Wanted,
        waves: &Waves<'_>,
        observed: &'a Observed,
        now: Timestamp,
        subject: impl FnOnce() -> About<'a>,
    ) -> Self {
        let mut all = Self::default();
        let Some(due) = waves.due() else { return all };
        if !wanted.is_any() && due.approval.is_none() {
            return all;
        }
        let subject = subject();
        let asked = Asked {
            digests: Digests::of(&subject),
            ttl: wanted.ttl.as_ref(),
            subject,
            observed,
            now,
        };
        for (point, field, nodes) in points(wanted, waves, &due, &asked.subject) {
            let of_wave = matches!(point, Point::Wave { .. }).then_some(due.index);
            let digest = asked.digests.with(&nodes);
            let of_this = asked.of(&point);
            for view in &of_this {
                let (heard, ends) = asked.hear(view, &point, &digest);
                all.heard.extend(heard.map(|heard| (view.name.clone(), heard)));
                all.ends = [all.ends, ends].into_iter().flatten().min();
            }
            if all.waits.is_some() {
                continue;
            }
            match asked.weigh(point, &field, (digest, &of_this)) {
                Ok(given) => all.given.push(given),
                Err(waits) => all.waits = Some((waits, of_wave)),
            }
        }
        all
    }

    /// Why the node waits for a MutexApproval, if so.
    pub fn refusal(&self, waves: &Waves<'_>, node: &str) -> Option<Why> {
        let (waits, of_wave) = self.waits.as_ref()?;
        let is_meant = of_wave.is_none_or(|wave| waves.has(wave, node));
        is_meant.then(|| waits.why.clone())
    }

    /// Why nothing begins, if a person's word is waited for.
    pub fn hold(&self) -> Option<Why> {
        self.waits.as_ref().map(|(waits, _)| waits.why.clone())
    }

    /// What waits, for people.
    pub fn report(&self) -> Option<ApprovalReport> {
        self.waits.as_ref().map(|(waits, _)| waits.clone())
    }

    /// What was approved, and holds.
    pub fn given(&self) -> Vec<Approved> {
        self.given.clone()
    }

    /// What became of each approval of what is wanted now, by name.
    pub fn heard(&self) -> BTreeMap<String, Heard> {
        self.heard.clone()
    }

    /// When to look again though nothing changes.
    pub const fn ends(&self) -> Option<Timestamp> {
        self.ends
    }
}

/// What is to be approved, in the order in which it is asked for: each with the field that wants it and its nodes.
fn points(
    wanted: &Wanted,
    waves: &Waves<'_>,
    due: &Due,
    subject: &About<'_>,
) -> Vec<(Point, String, String)> {
    let mut points = Vec::new();
    if let Some(field) = &wanted.begin {
        let names = waves.names(None).into_iter().map(str::to_owned);
        points.push((Point::Begin, field.clone(), part("begin", names)));
    }
    // Who approved the last failure knew of those before.
    let last = subject.failed.iter();
    let last = last.max_by_key(|change| (change.status.since.as_deref(), &change.spec.node_name));
    if let (Some(field), Some(last)) = (&wanted.after_failure, last) {
        let node = last.spec.node_name.clone();
        let attempt = last.status.attempt.to_string();
        let of = [last.spec.node_uid.clone(), node.clone(), attempt];
        points.push((Point::AfterFailure { node }, field.clone(), part("failure", of)));
    }
    if let Some(field) = &due.approval {
        let point = Point::Wave {
            number: due.index + 1,
            of: due.of,
            name: due.name.clone(),
        };
        let names = waves.names(Some(due.index)).into_iter().map(str::to_owned);
        let number = (due.index + 1).to_string();
        let of = part("wave", std::iter::once(number).chain(names));
        points.push((point, field.clone(), of));
    }
    points
}

/// What is asked of the approvals of one owner.
struct Asked<'a> {
    digests: Digests,
    ttl: Option<&'a (i64, String)>,
    subject: About<'a>,
    observed: &'a Observed,
    now: Timestamp,
}

impl<'a> Asked<'a> {
    /// The approvals of this point, whatever their digests: the newest first, as it says most. None while they cannot be listed.
    fn of(&self, point: &Point) -> Vec<&'a ApprovalView> {
        let owner = self.subject.owner.approved();
        let is_of_this =
            |view: &&ApprovalView| !view.deleting && view.spec.owner == owner && is_about(&view.spec, point);
        let all = self.observed.approvals.values();
        let mut of_this: Vec<&ApprovalView> = all.filter(|_| !self.is_blind()).filter(is_of_this).collect();
        of_this.sort_by_key(|view| (std::cmp::Reverse(view.created), &view.name));
        of_this
    }

    fn is_blind(&self) -> bool {
        self.observed.unlisted.contains_key("mutexapprovals")
    }

    /// What becomes of an approval of this point, and when it runs out if it holds; nothing of one of another run.
    fn hear(&self, view: &ApprovalView, point: &Point, digest: &str) -> (Option<Heard>, Option<Timestamp>) {
        if view.spec.digest != digest {
            let changed = self.digests.what_changed(digest, &view.spec.digest);
            let expired = changed.map(|changed| Heard::Expired(point.clone(), format!("{changed} since")));
            return (expired, None);
        }
        let ends = self
            .ttl
            .map(|(seconds, field)| (later(view.created, *seconds), seconds, field));
        match ends {
            Some((at, seconds, field)) if at <= self.now => {
                let why = format!("it is older than {seconds} s ({field})");
                (Some(Heard::Expired(point.clone(), why)), None)
            }
            ends => (Some(Heard::Holds(point.clone())), ends.map(|(at, ..)| at)),
        }
    }

    /// The approval that holds, or what waits.
    fn weigh(
        &self,
        point: Point,
        field: &str,
        (digest, of_this): (String, &[&ApprovalView]),
    ) -> Result<Approved, ApprovalReport> {
        let holds =
            |view: &&&ApprovalView| matches!(self.hear(view, &point, &digest).0, Some(Heard::Holds(_)));
        let why = match of_this.iter().find(holds) {
            _ if self.is_blind() => Why::new(
                Reason::ListFailed,
                "mutexapprovals cannot be listed any more: nobody knows what is still approved",
            ),
            Some(view) => {
                return Ok(Approved {
                    point,
                    name: view.name.clone(),
                    by: words(&view.spec.approved_by),
                    reason: words(&view.spec.reason),
                    at: view.created,
                });
            }
            None => self.lacks(&point, field, (&digest, of_this)),
        };
        Err(ApprovalReport { point, digest, why })
    }

    fn lacks(&self, point: &Point, field: &str, (digest, of_this): (&str, &[&ApprovalView])) -> Why {
        let command = command(self.subject.owner, point);
        for view in of_this {
            let (Some(Heard::Expired(_, why)), _) = self.hear(view, point, digest) else {
                continue;
            };
            let message = format!(
                "The approval of {} for {point} no longer holds (MutexApproval {}): {why}; `{command}` approves it again",
                words(&view.spec.approved_by),
                view.name
            );
            return Why::new(Reason::ApprovalExpired, message).of(Cause::Approval(command));
        }
        let message = match point {
            Point::AfterFailure { node } => {
                format!(
                    "Node {node} has failed, and the next node begins when that is approved ({field}): `{command}`"
                )
            }
            Point::Begin => format!("the first node begins when it is approved ({field}): `{command}`"),
            Point::Wave { .. } => format!("{point} begins when it is approved ({field}): `{command}`"),
        };
        Why::new(Reason::WaitsForApproval, message).of(Cause::Approval(command))
    }
}

/// Words of a person, as they go into a sentence.
fn words(given: &str) -> String {
    clip(given, WORDS)
}

/// The command that approves it, without the words of the person.
fn command(owner: &Owner, point: &Point) -> String {
    let kind = owner.kind.name().to_lowercase();
    let Key { namespace, name } = &owner.key;
    let wave = match point {
        Point::Wave { number, .. } => format!(" --wave {number}"),
        Point::Begin | Point::AfterFailure { .. } => String::new(),
    };
    let place = if namespace.is_empty() {
        String::new()
    } else {
        format!(" -n {namespace}")
    };
    format!("numo approve {kind}/{name}{place}{wave} --reason TEXT")
}

fn is_about(spec: &MutexApprovalSpec, point: &Point) -> bool {
    let after_failure = spec.after_failure == Some(true);
    let wave = spec.wave.as_deref().filter(|wave| !wave.is_empty());
    match point {
        Point::Begin => !after_failure && wave.is_none(),
        Point::AfterFailure { .. } => after_failure,
        Point::Wave { .. } => !after_failure && wave.is_some_and(|wave| point.is_wave(wave)),
    }
}
