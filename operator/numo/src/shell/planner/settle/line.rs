//! The statuses of rules and targets. There may be many of them and each may be of a large object, so they stand in a line, and each
//! pass writes the first few: whoever writes many rules holds up nobody.

use super::announce::{Changed, Refused};
use crate::{
    frontends,
    shell::{kind::Kind, planner::context::Context, status, store::Store},
};
use jiff::Timestamp;
use numo_api::{Condition, MutexRuleStatus, MutexTargetStatus};
use numo_core::{observed::Key, rules::inline};
use std::collections::{BTreeSet, VecDeque};

/// Statuses that are written in one pass: each may be of an object of 1.5 MiB.
const WRITTEN_AT_ONCE: usize = 4;

/// The rules and targets whose status is to be written. One that cannot be written stands behind the others, once.
#[derive(Debug, Default)]
pub struct Line {
    order: VecDeque<(Kind, Key)>,
    known: BTreeSet<(Kind, Key)>,
}

impl Line {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Puts every rule and target whose status differs at the end.
    pub fn line_up(&mut self, context: &Context) {
        let (store, now) = (&context.store, context.now());
        // What is said of a rule that stands in a run is in the run's status.
        let own = store.rules().filter(|(key, _)| !inline::is_inline(key));
        for (key, _) in own {
            if rule_due(store, key, now).is_some() {
                self.add(Kind::MutexRule, key);
            }
        }
        for key in store.observed.targets.keys() {
            if target_due(store, key, now).is_some() {
                self.add(Kind::MutexTarget, key);
            }
        }
    }

    /// Writes the status of the first few.
    pub async fn write(&mut self, context: &mut Context, refused: &mut Refused) {
        let mut written = 0;
        while written < WRITTEN_AT_ONCE
            && let Some((kind, key)) = self.next()
        {
            let has_written = match kind {
                Kind::MutexTarget => write_target(context, refused, &key).await,
                _ => write_rule(context, refused, &key).await,
            };
            written += usize::from(has_written.is_some());
        }
    }

    fn add(&mut self, kind: Kind, key: &Key) {
        if self.known.insert((kind, key.clone())) {
            self.order.push_back((kind, key.clone()));
        }
    }

    fn next(&mut self) -> Option<(Kind, Key)> {
        let next = self.order.pop_front()?;
        self.known.remove(&next);
        Some(next)
    }
}

/// Writes the status of a rule; none if it does not differ any more.
async fn write_rule(context: &mut Context, refused: &mut Refused, key: &Key) -> Option<()> {
    let now = context.now();
    let (uid, before, status) = rule_due(&context.store, key, now)?;
    let (connection, store) = (&context.connection, &mut context.store);
    let written = status::write(connection, store, Kind::MutexRule, key, &uid, &status).await;
    let changed = Changed {
        kind: Kind::MutexRule,
        key,
        uid: &uid,
        before: &before,
        after: &status.conditions,
    };
    refused.tell(&context.events, &changed, written);
    Some(())
}

/// Writes the status of a target; none if it does not differ any more.
async fn write_target(context: &mut Context, refused: &mut Refused, key: &Key) -> Option<()> {
    let now = context.now();
    let (uid, before, status) = target_due(&context.store, key, now)?;
    let (connection, store) = (&context.connection, &mut context.store);
    let written = status::write(connection, store, Kind::MutexTarget, key, &uid, &status).await;
    let changed = Changed {
        kind: Kind::MutexTarget,
        key,
        uid: &uid,
        before: &before,
        after: &status.conditions,
    };
    refused.tell(&context.events, &changed, written);
    Some(())
}

/// The status of a rule, with its uid and the conditions before, if it differs from the one that is there.
fn rule_due(store: &Store, key: &Key, now: Timestamp) -> Option<(String, Vec<Condition>, MutexRuleStatus)> {
    let rule = store.rule(key)?;
    let view = store.observed.rules.get(key)?;
    let status = frontends::mutex_rule::status(rule, view, store.examined(key), now);
    if rule.status.as_ref() == Some(&status) {
        return None;
    }
    let before = rule.status.as_ref().map(|status| status.conditions.clone());
    Some((view.uid.clone(), before.unwrap_or_default(), status))
}

/// The status of a target, with its uid and the conditions before, if it differs from the one that is there.
fn target_due(
    store: &Store,
    key: &Key,
    now: Timestamp,
) -> Option<(String, Vec<Condition>, MutexTargetStatus)> {
    let target = store.observed.targets.get(key)?;
    let status = frontends::mutex_target::status(target, &store.observed, now);
    let before = target.status.conditions.clone();
    (target.status != status).then(|| (target.uid.clone(), before, status))
}
