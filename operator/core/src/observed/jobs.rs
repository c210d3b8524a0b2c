//! The Jobs that numo created for rules, and which of them are of an attempt: each node that has its turn asks for those of its own.

use super::job::{JobEnd, JobView};
use crate::{key::Key, names};
use std::{
    collections::BTreeMap,
    ops::{Deref, DerefMut},
    sync::OnceLock,
};

/// Jobs by name.
#[derive(Clone, Default)]
pub struct Jobs {
    all: BTreeMap<Key, JobView>,
    /// Worked out when it is asked for, and forgotten when any Job may have become another.
    index: OnceLock<Index>,
}

/// The names of Jobs by what is asked of them.
#[derive(Clone, Default)]
struct Index {
    /// Those that are not complete, by what stands for their attempt in their names.
    open: BTreeMap<String, Vec<Key>>,
    /// Those of which a pod may still run, by their node ([`JobView::node`]).
    running: BTreeMap<String, Vec<Key>>,
}

impl Jobs {
    /// The Jobs of an attempt that have not ended, have failed, or are on their way out, in the order of their names.
    pub(crate) fn of_attempt(&self, attempt: &str) -> impl Iterator<Item = (&Key, &JobView)> {
        self.found(self.index().open.get(attempt))
    }

    /// Whether there are none such at all.
    pub(crate) fn are_complete(&self) -> bool {
        self.index().open.is_empty()
    }

    /// The Jobs of which a pod may still run, in the order of their names: those of a node, or of none.
    pub(crate) fn running(&self, node: &str) -> impl Iterator<Item = (&Key, &JobView)> {
        self.found(self.index().running.get(node))
    }

    /// Whether there are any such of the node of this name.
    pub(crate) fn any_runs_on(&self, node: &str) -> bool {
        self.any_runs() && self.index().running.contains_key(&names::node_hash(node))
    }

    /// Whether there are any such at all.
    pub(crate) fn any_runs(&self) -> bool {
        !self.index().running.is_empty()
    }

    fn found(&self, keys: Option<&Vec<Key>>) -> impl Iterator<Item = (&Key, &JobView)> {
        let keys = keys.into_iter().flatten();
        keys.filter_map(|key| self.all.get_key_value(key))
    }

    fn index(&self) -> &Index {
        self.index.get_or_init(|| {
            let mut index = Index::default();
            let is_complete = |job: &JobView| job.ended == Some(JobEnd::Complete) && job.deleting.is_none();
            for (key, job) in self.all.iter().filter(|(_, job)| !is_complete(job)) {
                if let Some(attempt) = names::attempt_of(&key.name) {
                    index
                        .open
                        .entry(attempt.to_owned())
                        .or_default()
                        .push(key.clone());
                }
                if job.runs() {
                    index
                        .running
                        .entry(job.node.clone())
                        .or_default()
                        .push(key.clone());
                }
            }
            index
        })
    }
}

impl Deref for Jobs {
    type Target = BTreeMap<Key, JobView>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl DerefMut for Jobs {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.index = OnceLock::new();
        &mut self.all
    }
}

/// What was worked out says nothing that the Jobs do not.
impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.all.fmt(f)
    }
}
