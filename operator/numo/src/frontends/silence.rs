//! Silences of an Alertmanager for nodes that are out of service: which nodes those are, what the silence of a node looks like, which of
//! those found numo made for this notifier, and what is to be done about each. Pure; `shell/notify/silencer.rs` asks the Alertmanager.
//!
//! A silence is a lease: it ends by itself soon after nobody renews it. What numo did not make it never touches.

use jiff::{SignedDuration, Timestamp, Unit};
use numo_api::{Step, mutex_notifier::Silences};
use numo_core::{
    Owner, OwnerKind, mark,
    observed::{ChangeView, Key, Observed},
    turn::journal,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Silences that one notifier keeps up at once, at most.
pub const SILENCES: usize = 512;
/// Who made them, as Alertmanager shows it.
const AUTHOR: &str = "numo";
/// The label that has the name of an alert.
const ALERTNAME: &str = "alertname";
/// Alerts that are never silenced: numo's own say that a node needs a person.
const OWN_ALERTS: &str = "Numo.*";
/// The label of the node where none is given.
const NODE_LABEL: &str = "node";
/// How long a silence lasts where nothing is given (seconds), and what may be given.
const LASTS: i64 = 300;
const SHORTEST: i64 = 120;
const LONGEST: i64 = 3600;
/// How much longer than it should a silence may last before it is shortened: clocks differ.
const SLACK: SignedDuration = SignedDuration::from_secs(30);
/// Longest id of a silence that is repeated in a request (characters).
const ID_MAX: usize = 64;

/// Nodes to be silenced, each with the owner that has it.
pub type Turns = BTreeMap<String, Owner>;

/// The nodes that owners have taken out of service and not given back yet.
pub fn turns(observed: &Observed) -> Turns {
    let disrupted = observed.turns().filter(|change| is_disrupted(observed, change));
    let of = |change: &ChangeView| {
        let owner = &change.spec.owner_ref;
        let namespace = owner.namespace.clone().unwrap_or_default();
        let owner = Owner {
            kind: OwnerKind::of(owner)?,
            key: Key::new(namespace, &owner.name),
        };
        Some((change.spec.node_name.clone(), owner))
    };
    disrupted.filter_map(of).collect()
}

/// Whether something has happened to the node of a turn that alerts may be about. Before that a node is in service, perhaps for hours:
/// its rules are evaluated.
fn is_disrupted(observed: &Observed, change: &ChangeView) -> bool {
    let step = change.status.step;
    // Rules of phase PreRelease are evaluated on a node that is drained, or, of a run, on one that serves on.
    let is_of_release = step == Some(Step::PreRelease);
    if !is_of_release && step.is_some_and(|step| (Step::Cordoned..=Step::Soaked).contains(&step)) {
        return true;
    }
    let entered = |step: Step| journal::entered(change, step).is_some();
    // A new attempt may begin with a node that numo has cordoned in the one before.
    let cordoned = observed.nodes.get(&change.spec.node_name);
    let cordoned = cordoned
        .filter(|node| node.unschedulable)
        .and_then(mark::cordoned_by);
    [Step::Cordoned, Step::Released, Step::Changed]
        .into_iter()
        .any(entered)
        || cordoned.is_some_and(|mark| !mark.prior)
}

/// How nodes are silenced, by a spec that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    node_label: String,
    matchers: Vec<(String, String)>,
    lasts: SignedDuration,
}

impl Terms {
    /// What the spec says.
    ///
    /// Errors: it cannot be understood; the text names the field, found and wanted. What the schema refuses is refused here too.
    pub fn parse(spec: &Silences) -> Result<Self, String> {
        let at = "spec.alertmanager.silences";
        let node_label = spec.node_label.clone().unwrap_or_else(|| NODE_LABEL.to_owned());
        let given = spec.matchers.iter().flatten();
        let matchers: Vec<(String, String)> = given
            .map(|matcher| (matcher.name.clone(), matcher.value.clone()))
            .collect();
        let names = || matchers.iter().map(|(name, _)| name);
        if let Some(odd) = names().chain([&node_label]).find(|name| !is_label(name)) {
            return Err(format!("{at}: found label {odd:?}, wanted letters, digits and _"));
        }
        if node_label == ALERTNAME || names().any(|name| name == ALERTNAME || *name == node_label) {
            return Err(format!(
                "{at}: found alertname, or nodeLabel in matchers too, wanted other labels"
            ));
        }
        let seconds = spec.duration_seconds.map_or(LASTS, i64::from);
        if !(SHORTEST..=LONGEST).contains(&seconds) {
            return Err(format!(
                "{at}.durationSeconds: found {seconds}, wanted {SHORTEST} to {LONGEST}"
            ));
        }
        Ok(Self {
            node_label,
            matchers,
            lasts: SignedDuration::from_secs(seconds),
        })
    }

    /// How long after it was made or renewed a silence is renewed.
    pub fn renewal(&self) -> SignedDuration {
        self.lasts / 2
    }

    /// What the silence of a node matches.
    fn matchers(&self, node: &str) -> Vec<Matcher> {
        let given = self.matchers.iter();
        let mut all = vec![Matcher::equal(&self.node_label, node)];
        all.extend(given.map(|(name, value)| Matcher::equal(name, value)));
        all.push(Matcher::own_alerts());
        all
    }
}

fn is_label(name: &str) -> bool {
    let mut letters = name.chars();
    letters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// What a list of silences is filtered by, as Alertmanager takes it: each of numo's has this matcher.
pub fn filter() -> String {
    format!("{ALERTNAME}!~\"{OWN_ALERTS}\"")
}

/// A matcher of a silence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Matcher {
    name: String,
    value: String,
    is_regex: bool,
    /// Absent in the answers of an Alertmanager that is too old.
    #[serde(default = "yes")]
    is_equal: bool,
}

const fn yes() -> bool {
    true
}

impl Matcher {
    fn equal(name: &str, value: &str) -> Self {
        Self {
            name: name.to_owned(),
            value: value.to_owned(),
            is_regex: false,
            is_equal: true,
        }
    }

    fn own_alerts() -> Self {
        Self {
            is_regex: true,
            is_equal: false,
            ..Self::equal(ALERTNAME, OWN_ALERTS)
        }
    }

    fn json(&self) -> Value {
        let Self {
            name,
            value,
            is_regex,
            is_equal,
        } = self;
        json!({"name": name, "value": value, "isRegex": is_regex, "isEqual": is_equal})
    }
}

/// A silence as Alertmanager lists it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    id: String,
    status: ListedStatus,
    #[serde(default)]
    matchers: Vec<Matcher>,
    starts_at: Timestamp,
    ends_at: Timestamp,
    #[serde(default)]
    created_by: String,
    #[serde(default)]
    comment: String,
}

/// Whether it is over.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct ListedStatus {
    state: String,
}

/// Ends the comment of each silence of a notifier.
fn marker(uid: &str) -> String {
    format!("[MutexNotifier {uid}]")
}

impl Listed {
    /// Whether numo made it for this notifier, and it is not over. Its id goes into the path of a request.
    fn is_of(&self, uid: &str) -> bool {
        let is_id = !self.id.is_empty()
            && self.id.len() <= ID_MAX
            && self
                .id
                .chars()
                .all(|one| one.is_ascii_alphanumeric() || one == '-');
        is_id
            && self.status.state != "expired"
            && self.created_by == AUTHOR
            && self.comment.ends_with(&marker(uid))
    }

    fn matches(&self, wanted: &[Matcher]) -> bool {
        let sorted = |all: &[Matcher]| {
            let mut all = all.to_vec();
            all.sort();
            all
        };
        self.matchers.len() == wanted.len() && sorted(&self.matchers) == sorted(wanted)
    }
}

/// One request about a silence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Make one, by this body.
    Make(Value),
    /// Have one go on, by this body.
    Renew(Value),
    /// End the one of this id.
    End(String),
}

/// What is wanted of an Alertmanager.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// How nodes are silenced.
    pub terms: &'a Terms,
    /// uid of the notifier.
    pub uid: &'a str,
    /// The nodes.
    pub turns: &'a Turns,
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Requests: renewals first, as they have an end in sight, then new ones, then ends.
    pub deeds: Vec<Deed>,
    /// How many nodes are silenced already, those to be renewed among them.
    pub kept: usize,
    /// When the first of those that need nothing now is to be renewed.
    pub renew: Option<Timestamp>,
}

impl Wanted<'_> {
    /// What is to be done about the silences that were found. Twice in a row it is nothing the second time.
    pub fn plan(&self, found: &[Listed], now: Timestamp) -> Plan {
        let mut all = Plan::default();
        let (mut new, mut ends) = (Vec::new(), Vec::new());
        let mut own: BTreeMap<&str, Vec<&Listed>> = BTreeMap::new();
        for one in found.iter().filter(|one| one.is_of(self.uid)) {
            match self.node_of(one) {
                Some(node) => own.entry(node).or_default().push(one),
                None => ends.push(Deed::End(one.id.clone())),
            }
        }
        for (node, owner) in self.silenced() {
            let mut twins = own.remove(node.as_str()).unwrap_or_default();
            twins.sort_by(|a, b| (b.ends_at, &b.id).cmp(&(a.ends_at, &a.id)));
            let mut twins = twins.into_iter();
            match twins.next() {
                None => new.push(Deed::Make(self.body(node, owner, None, now))),
                Some(one) => {
                    all.kept += 1;
                    match self.renewal(one, now) {
                        Some(at) => all.renew = all.renew.into_iter().chain([at]).min(),
                        None => all
                            .deeds
                            .push(Deed::Renew(self.body(node, owner, Some(one), now))),
                    }
                }
            }
            ends.extend(twins.map(|one| Deed::End(one.id.clone())));
        }
        all.deeds.extend(new);
        all.deeds.extend(ends);
        all
    }

    /// How many nodes are not silenced, as there are too many.
    pub fn over(&self) -> usize {
        self.turns.len().saturating_sub(SILENCES)
    }

    fn silenced(&self) -> impl Iterator<Item = (&String, &Owner)> {
        self.turns.iter().take(SILENCES)
    }

    /// The node that a silence is to go on for; none if it is for none, or by other terms.
    fn node_of<'a>(&'a self, one: &Listed) -> Option<&'a str> {
        let mut matchers = one.matchers.iter();
        let named = matchers.find(|matcher| matcher.name == self.terms.node_label)?;
        let (node, _) = self.turns.get_key_value(&named.value)?;
        let is_in = self.over() == 0 || self.silenced().any(|(one, _)| one == node);
        if !is_in {
            return None;
        }
        one.matches(&self.terms.matchers(node)).then_some(node.as_str())
    }

    /// When a silence is to be renewed; none if that is now.
    fn renewal(&self, one: &Listed, now: Timestamp) -> Option<Timestamp> {
        let terms = self.terms;
        let at = one.ends_at.checked_sub(terms.renewal()).ok()?;
        // One that was made by other terms may last too long.
        let is_too_long = one.ends_at.duration_since(now) > terms.lasts + SLACK;
        (at > now && !is_too_long).then_some(at)
    }

    /// The body of a new silence, or of one that goes on.
    fn body(&self, node: &str, owner: &Owner, before: Option<&Listed>, now: Timestamp) -> Value {
        let terms = self.terms;
        let matchers = terms.matchers(node);
        let matchers: Vec<Value> = matchers.iter().map(Matcher::json).collect();
        let second = |at: Timestamp| at.round(Unit::Second).unwrap_or(at).to_string();
        let ends = now.checked_add(terms.lasts).unwrap_or(now);
        let mut body = json!({
            "matchers": matchers,
            "endsAt": second(ends),
            "createdBy": AUTHOR,
            "comment": format!(
                "{owner} has taken Node {node} out of service. numo renews this silence, and ends it with the turn of the node. {}",
                marker(self.uid)
            ),
        });
        if let Some(before) = before {
            // A silence whose beginning changes is another one, with another id.
            body["id"] = json!(before.id);
            body["startsAt"] = json!(before.starts_at.to_string());
        } else {
            // A beginning that is over is taken for now, by Alertmanager's clock; one to come would be waited for.
            let begins = now.checked_sub(terms.lasts).unwrap_or(now);
            body["startsAt"] = json!(second(begins));
        }
        body
    }
}

#[cfg(test)]
mod tests;
