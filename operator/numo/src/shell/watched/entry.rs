//! What numo must know of a kind to watch it. Each file beside this one says it of one kind, or of a family; the list of all is
//! `watched/mod.rs`.

use super::object::Object;
use crate::shell::{
    item::{Item, Size, Unreadable},
    kind::Kind,
    project,
    store::Store,
};
use kube::{api::ListParams, core::DynamicObject, runtime::watcher};
use numo_core::observed::{Key, Unread};
use serde_json::Value;

/// What numo must know of a kind to watch it.
#[derive(Debug)]
pub struct Watched {
    /// Group, version, kind, plural.
    pub resource: (&'static str, &'static str, &'static str, &'static str),
    /// Where it is watched.
    pub place: Place,
    /// Which of its objects are watched, in the scope of a watch: a namespace, or empty for all.
    pub select: fn(&str) -> Selection,
    /// How many objects are asked for at once: each may have 1.5 MiB where anybody but administrators may write it.
    pub page: u32,
    /// What numo does while it is not served, or may not be seen.
    pub missing: Missing,
    /// How an object is read, and what is left of one that cannot be.
    pub reading: Reading,
    /// The view of an object; none of what is not understood: it is then as if it were not there, also if it was there before.
    pub project: fn(&DynamicObject) -> Option<Object>,
    /// Which objects are kept. Those that are not always kept have a weight, in [`super::weight`].
    pub kept: Kept,
    /// Takes an object away from what was seen; true if a decision could change by it. How one is put there says [`super::put`].
    pub remove: fn(&mut Store, &Key) -> bool,
}

/// A page of objects that only administrators write, or Kubernetes and OpenShift themselves, and that are small.
pub const PAGE_OF_SMALL: u32 = 500;
/// A page of objects that Kubernetes or numo make of what people write.
pub const PAGE_OF_MADE: u32 = 50;
/// A page of objects that people write, or that are large.
pub const PAGE_OF_WRITTEN: u32 = 16;

/// Where a kind is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In all namespaces, from the start. The command line looks at it too.
    Everywhere,
    /// In the namespaces that rules run Jobs in: these hold up the rules of their namespace only.
    RuleJobs,
    /// In namespaces with Plans, where numo may not be invited.
    PlanJobs,
    /// In namespaces with Plans that use some.
    PlanSecrets,
    /// In all namespaces, from the start: it says whether an operator that numo replaces is live.
    Replaced,
    /// Where the planner, the command line or reviews say.
    Named,
}

/// What of a kind is asked for.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The namespace; empty for all.
    pub namespace: String,
    labels: Option<String>,
    fields: Option<String>,
}

impl Selection {
    /// All objects of a namespace, or (empty) of all.
    pub fn all(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..Self::default()
        }
    }

    /// Those with these labels.
    #[must_use]
    pub fn with_labels(self, labels: &str) -> Self {
        Self {
            labels: Some(labels.to_owned()),
            ..self
        }
    }

    /// Those with these fields.
    #[must_use]
    pub fn with_fields(self, fields: &str) -> Self {
        Self {
            fields: Some(fields.to_owned()),
            ..self
        }
    }

    /// To list them.
    pub fn list(&self) -> ListParams {
        ListParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            ..ListParams::default()
        }
    }

    /// To watch them.
    pub fn watch(&self) -> watcher::Config {
        watcher::Config {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            ..watcher::Config::default()
        }
    }
}

/// What numo does while a kind is not served, or may not be seen.
#[derive(Clone, Copy, Debug)]
pub enum Missing {
    /// It waits: whoever takes objects that may not be seen for none makes a mistake.
    Awaited,
    /// It waits, and nobody but the one who asked for this scope is told that a list failed.
    AwaitedAlone,
    /// It takes the kind for empty while it is not served: not every cluster has it.
    EmptyIfUnserved,
    /// The same of a kind that comes with a release of OpenShift or not at all: it is asked for seldom.
    Seldom,
    /// It takes the kind for empty while it is not served, but decides nothing about a run with nodes in flight then: that one of
    /// OpenShift's kinds is not served may be the matter of a moment.
    Needed,
    /// It takes the kind for empty, as where it is not invited.
    Empty,
    /// Nobody waits for it, and nobody is told: no decision reads it.
    Unneeded,
    /// It takes the kind for empty, and whoever has Plans there is told.
    Told {
        /// Notes the words of the API server about a namespace; true if they are news.
        unseen: fn(&mut Store, String, String) -> bool,
        /// The kind was listed in a namespace at last; true if somebody waited for that.
        seen: fn(&mut Store, &str) -> bool,
    },
}

impl Missing {
    /// Whether numo can do its work without seeing the kind; `unserved`: the API server does not know it.
    pub const fn is_optional(&self, unserved: bool) -> bool {
        match self {
            Self::Empty | Self::Unneeded | Self::Told { .. } => true,
            Self::EmptyIfUnserved | Self::Seldom | Self::Needed => unserved,
            Self::Awaited | Self::AwaitedAlone => false,
        }
    }

    /// Whether its owners are told by words of their own when it cannot be seen, or nobody else is.
    pub const fn is_own_business(&self) -> bool {
        matches!(self, Self::Told { .. } | Self::AwaitedAlone | Self::Unneeded)
    }
}

/// How an object is read.
#[derive(Clone, Copy, Debug)]
pub enum Reading {
    /// No more of it than its name, its uid and its annotations: anybody may have written the rest.
    Brief,
    /// Whole. One that cannot be read is passed over.
    Whole,
    /// Whole, or as much of it as this makes of one that cannot be read.
    AtLeast(fn(&Item) -> Option<Object>),
    /// Whole, and it is of numo's own kinds, or an owner: one that cannot be read is not one that is gone.
    Ours {
        /// How large it may be.
        size: Size,
        /// Why an object that was read is none of its kind.
        misread: fn(&DynamicObject) -> Option<String>,
        /// What is left of one that cannot be read.
        left: fn(Kind, &Item, &Unreadable) -> Option<Object>,
        /// Its plural, with its group where two groups have it: by that one that cannot be read is known.
        known_as: &'static str,
    },
}

/// Which objects of a kind are kept.
#[derive(Clone, Copy, Debug)]
pub enum Kept {
    /// All: administrators, or Kubernetes itself, are the authors.
    All,
    /// Of strangers' as many as there is a place for, and those that this says are needed.
    Counted(fn(&Store, &Key) -> bool),
}

/// Nobody needs an object of a stranger's.
pub const fn needed_by_nobody(_: &Store, _: &Key) -> bool {
    false
}

/// That an object is there, and why it cannot be read: who leaves it out takes it for gone, and ends its turn.
#[allow(clippy::unnecessary_wraps, reason = "of other kinds nothing may be left")]
pub fn left_as_it_was(kind: Kind, item: &Item, why: &Unreadable) -> Option<Object> {
    let key = project::key(&item.metadata);
    let what = "an object cannot be read: what was seen of it before is kept";
    let words = project::unread(what, Some(kind), &key, &why.message);
    let uid = item.metadata.uid.clone().unwrap_or_default();
    Some(Object::NotRead(key, Unread { uid, words }))
}

/// Takes the fields of a part of an object out that `T` cannot read, but for those that are needed; what is wrong with each.
pub(super) fn keep_readable<T: serde::de::DeserializeOwned>(
    object: &mut Value,
    part: &str,
    needed: &[&str],
) -> Vec<String> {
    let mut misread = Vec::new();
    let Some(Value::Object(fields)) = object.get_mut(part) else {
        return misread;
    };
    fields.retain(|field, value| {
        let alone = serde_json::json!({ field.as_str(): value.clone() });
        let problem = serde_json::from_value::<T>(alone).err();
        let is_needed = needed.contains(&field.as_str());
        let is_kept = is_needed || problem.is_none();
        let of_field = problem.filter(|_| !is_needed);
        misread.extend(of_field.map(|problem| format!("{part}.{field}: {problem}")));
        is_kept
    });
    misread
}
