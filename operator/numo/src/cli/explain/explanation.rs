//! What is said of one object, as data and as text. It looks at nothing.

use crate::{
    cli::{
        live::ago,
        named::Named,
        output::{self, paint},
        remarked::Remark,
    },
    frontends::{shortfall, standing::Standing},
};
use jiff::Timestamp;
use numo_api::{Reason, Step, conditions::Actor};
use numo_core::report::{Report, Why};
use serde::Serialize;
use std::fmt::Write as _;

/// Things of one kind that are named, at most.
pub(super) const NAMED: usize = 10;

/// Why one thing is where it is, for one owner.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explanation {
    pub(super) object: Named,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<Named>,
    /// What its NodeMaintenance is for, where that says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) purpose: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) step: Option<Step>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) phase: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<Reason>,
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) means: Option<&'static str>,
    /// Who can end it; none where nothing is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ends_by: Option<&'static str>,
    /// Commands that end it, where a person at a terminal can.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) commands: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) earliest: Option<Earliest>,
    /// What else stands against the node's turn, worst first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) also: Vec<Gate>,
    /// What else holds it or stands around it, in order.
    pub(super) chain: Vec<Link>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) journal: Option<Journal>,
    /// What persons said of it, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) directives: Vec<Remark>,
}

/// One thing that stands against a node's turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Gate {
    pub(super) reason: Reason,
    pub(super) message: String,
    /// Who can end it.
    pub(super) ends_by: &'static str,
}

impl From<Why> for Gate {
    fn from(why: Why) -> Self {
        Self {
            ends_by: why.who().phrase(),
            reason: why.reason,
            message: why.message.to_string(),
        }
    }
}

/// When it could move at the earliest.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Earliest {
    /// The time, where one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<String>,
    /// What happens then, or what it hangs on.
    pub(super) why: String,
}

impl Earliest {
    pub(super) fn words(&self, now: Timestamp) -> String {
        let Self { at, why } = self;
        let at = at.as_ref().map_or_else(String::new, |at| {
            let in_ = at.parse::<Timestamp>().map_or_else(
                |_| String::new(),
                |at| {
                    format!(
                        ", in {}",
                        numo_core::time::words(at.as_second() - now.as_second())
                    )
                },
            );
            format!("{at}{in_}: ")
        });
        format!(" {at}{why}")
    }

    pub(super) fn at(at: Timestamp, why: impl Into<String>) -> Self {
        Self {
            at: Some(second(at)),
            why: why.into(),
        }
    }

    pub(super) fn hangs_on(why: impl Into<String>) -> Self {
        Self {
            at: None,
            why: why.into(),
        }
    }
}

/// A time to the second.
pub(super) fn second(at: Timestamp) -> String {
    at.round(jiff::Unit::Second).unwrap_or(at).to_string()
}

/// One thing of the chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Link {
    pub(super) what: &'static str,
    pub(super) message: String,
}

/// The journal of a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Journal {
    pub(super) change: String,
    pub(super) attempt: i32,
    pub(super) entries: Vec<Entry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) log: Vec<String>,
}

impl Journal {
    fn write(&self, line: &mut impl FnMut(&str, &str), now: Timestamp) {
        line(
            "journal",
            &format!("NodeChange {}, attempt {}", self.change, self.attempt),
        );
        for entry in &self.entries {
            line(
                "",
                &format!("{:>4} ago  {}", ago(Some(&entry.at), now), entry.message),
            );
        }
        if !self.log.is_empty() {
            line("log", "the end of the last output:");
            // A rule writes what it likes: nobody takes it for an entry of numo's.
            for words in &self.log {
                line("", &format!("| {words}"));
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    pub(super) at: String,
    pub(super) message: String,
}

impl Explanation {
    pub(super) fn of(object: Named, why: (Option<Reason>, String)) -> Self {
        let (reason, message) = why;
        let who = reason.map(Reason::who).filter(|who| *who != Actor::Nobody);
        Self {
            object,
            reason,
            message,
            means: reason.map(Reason::meaning),
            ends_by: who.map(Actor::phrase),
            ..Self::default()
        }
    }

    /// How an owner stands: ended by whoever ends it here, not by whoever ends its reason as a rule.
    pub(super) fn of_owner(object: Named, standing: Standing) -> Self {
        let Standing {
            reason, message, who, ..
        } = standing;
        Self {
            ends_by: Some(who).filter(|who| *who != Actor::Nobody).map(Actor::phrase),
            ..Self::of(object, (Some(reason), message))
        }
    }

    /// Whether this stands against the node beside its reason.
    pub(super) fn tells(&self, reason: Reason) -> bool {
        self.also.iter().any(|gate| gate.reason == reason)
    }

    /// Tells that a person has paused the owner, where something worse is the reason.
    pub(super) fn tell_pause(&mut self, paused: Option<Why>) {
        let Some(why) = paused else { return };
        if self.reason.is_some_and(|reason| reason != why.reason) && !self.tells(why.reason) {
            self.also.push(Gate::from(why));
        }
    }

    pub(super) fn link(&mut self, what: &'static str, message: impl Into<String>) {
        self.chain.push(Link {
            what,
            message: message.into(),
        });
    }

    /// In flight nodes of the same owner, but for `but`.
    pub(super) fn behind(&mut self, what: &'static str, report: &Report, but: &str) {
        let nodes = report
            .nodes
            .iter()
            .filter(|(name, node)| node.in_flight() && *name != but);
        for (name, node) in nodes.take(NAMED) {
            let message = format!(
                "Node {name}: {}, {}: {}",
                node.step.name(),
                node.why.reason,
                node.why.message
            );
            self.link(what, message);
        }
    }

    /// The nodes of the owner that were left out: a status names but the first of them with the reason.
    pub(super) fn left_out(&mut self, report: &Report) {
        for (name, node) in shortfall::left_out(report) {
            let message = format!("Node {name}: {}: {}", node.why.reason, node.why.message);
            self.link("left", message);
        }
    }

    pub(super) fn text(&self, now: Timestamp) -> String {
        let mut text = String::new();
        let mut line = |label: &str, words: &str| {
            let _ = writeln!(text, "  {label:<7} {words}");
        };
        let reason = self.reason.map_or_else(String::new, |reason| {
            format!("{}: ", paint(output::of_reason(reason), reason.name()))
        });
        line("why", &format!("{reason}{}", self.message));
        if let Some(means) = self.means {
            line("means", means);
        }
        if let Some(who) = self.ends_by {
            line("ends", &format!("by {who}"));
        }
        for command in &self.commands {
            line("do", command);
        }
        for Gate {
            reason,
            message,
            ends_by,
        } in &self.also
        {
            let reason = paint(output::of_reason(*reason), reason.name());
            line("also", &format!("{reason}: {message}; ends by {ends_by}"));
        }
        if let Some(earliest) = &self.earliest {
            line("earliest", &earliest.words(now));
        }
        for Link { what, message } in &self.chain {
            line(what, message);
        }
        for word in &self.directives {
            line(
                "person",
                &format!("{} ago: {}", ago(Some(&word.at), now), word.sentence()),
            );
        }
        if let Some(journal) = &self.journal {
            journal.write(&mut line, now);
        }
        format!(
            "{}\n{text}",
            crate::cli::say::line(format_args!("{}", self.head(now)))
        )
    }

    fn head(&self, now: Timestamp) -> String {
        let mut head = paint(output::head(), &self.object.to_string());
        let state = self.step.map(|step| paint(output::of_step(step), step.name()));
        if let Some(state) = state.or_else(|| self.phase.clone()) {
            let _ = write!(head, ": {state}");
            if let Some(since) = &self.since {
                let _ = write!(head, ", for {}", ago(Some(since), now));
            }
        }
        let pool = self.pool.as_ref().map(|pool| format!("pool {pool}"));
        let target = self.target.as_ref().map(|target| format!("to {target}"));
        let purpose = self.purpose.as_ref();
        let purpose = purpose.map_or_else(String::new, |purpose| format!(" \"{purpose}\""));
        let owner = self.owner.as_ref().map(|owner| format!("{owner}{purpose}"));
        let of: Vec<String> = [pool, owner, target].into_iter().flatten().collect();
        if !of.is_empty() {
            let _ = write!(head, " ({})", of.join(", "));
        }
        head
    }
}
