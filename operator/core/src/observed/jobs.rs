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
    /// The Jobs that are not complete, by what stands for their attempt in their names. Worked out when it is asked for, and forgotten
    /// when any Job may have become another.
    open: OnceLock<BTreeMap<String, Vec<Key>>>,
}

impl Jobs {
    /// The Jobs of an attempt that have not ended, have failed, or are on their way out, in the order of their names.
    pub(crate) fn of_attempt(&self, attempt: &str) -> impl Iterator<Item = (&Key, &JobView)> {
        let keys = self.open().get(attempt).into_iter().flatten();
        keys.filter_map(|key| self.all.get_key_value(key))
    }

    /// Whether there are none such at all.
    pub(crate) fn are_complete(&self) -> bool {
        self.open().is_empty()
    }

    fn open(&self) -> &BTreeMap<String, Vec<Key>> {
        self.open.get_or_init(|| {
            let mut open: BTreeMap<String, Vec<Key>> = BTreeMap::new();
            let is_complete = |job: &JobView| job.ended == Some(JobEnd::Complete) && job.deleting.is_none();
            for (key, _) in self.all.iter().filter(|(_, job)| !is_complete(job)) {
                if let Some(attempt) = names::attempt_of(&key.name) {
                    open.entry(attempt.to_owned()).or_default().push(key.clone());
                }
            }
            open
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
        self.open = OnceLock::new();
        &mut self.all
    }
}

/// What was worked out says nothing that the Jobs do not.
impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.all.fmt(f)
    }
}
