//! When rules are judged: new ones, changed ones, and those that were refused for what somebody else may change. The API server judges
//! Jobs by dry run, and components are examined; what comes of it is taken in like what a watch sees. Nothing here judges.

use super::{context::Context, reading};
use crate::{
    frontends,
    shell::{
        probe,
        project::{self, Edition},
        store::Seen,
    },
};
use numo_api::{MutexRule, Reason};
use numo_core::{
    observed::{Key, Validity},
    place, ready, referred,
};
use numo_plugin::shares::Shares;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// How often a rule that was refused for want of a right or a namespace is judged again.
const JUDGE_AGAIN: Duration = Duration::from_secs(5);
/// How often it is judged that soon, and how often that time doubles then.
const JUDGED_SOON: u32 = 12;
const JUDGE_DOUBLINGS: u32 = 3;
/// How long that may take: two dry runs, each with the time that the API server gives its webhooks.
const JUDGED_WITHIN: Duration = Duration::from_secs(75);
/// Rules that the API server judges at once, by dry run.
const JUDGED_AT_ONCE: u64 = 16;
/// When a component that could not be had is looked at again; each time twice as late, at most so many times.
const EXAMINE_AGAIN: Duration = Duration::from_secs(5);
const EXAMINE_DOUBLINGS: u32 = 6;

/// When each rule was judged last.
#[derive(Debug)]
pub struct Judgements {
    rules: BTreeMap<Key, Judging>,
    /// Whoever writes many rules waits for those, and nobody else does.
    shares: Shares,
}

/// When a rule was judged last.
#[derive(Debug)]
struct Judging {
    edition: Edition,
    /// The operator's policy of signatures that it was judged by.
    policy: u64,
    /// How often before, in this edition.
    times: u32,
    next: Instant,
    /// Held once more while the API server is asked.
    under_way: Arc<()>,
}

impl Default for Judgements {
    fn default() -> Self {
        Self {
            rules: BTreeMap::new(),
            shares: Shares::new(JUDGED_AT_ONCE),
        }
    }
}

impl Judgements {
    /// Takes note of which rules exist and are referred to, and has those judged that are due.
    pub fn follow(&mut self, context: &mut Context) {
        let known: BTreeSet<Key> = context.store.rules().map(|(key, _)| key.clone()).collect();
        self.rules.retain(|key, _| known.contains(key));
        let referred = referred::rules(&context.store.observed);
        context
            .evaluator
            .keep_only(&known, &referred.keys().cloned().collect());
        reading::give_room(context, referred);
        context.evaluator.select_workloads(&context.store.observed.runs);
        count_rules(context, &known);
        self.judge(context);
    }

    /// When the next rule is to be judged again.
    pub fn next(&self, context: &Context) -> Option<Duration> {
        let policy = context.evaluator.policy();
        to_judge(context)
            .iter()
            .filter_map(|rule| self.next_of(rule, policy))
            .map(|at| at.saturating_duration_since(Instant::now()))
            .min()
    }

    /// Has the rules judged that are due.
    fn judge(&mut self, context: &Context) {
        let now = Instant::now();
        for rule in to_judge(context) {
            if self.is_due(context, &rule, now) {
                self.begin(context, rule, now);
            }
        }
    }

    /// When the rule may be judged; none, which is at once, if it never was in this edition.
    fn next_of(&self, rule: &MutexRule, policy: u64) -> Option<Instant> {
        let judging = self.rules.get(&project::key(&rule.metadata))?;
        let is_same = judging.edition == project::edition(&rule.metadata) && judging.policy == policy;
        is_same.then_some(judging.next)
    }

    /// Whether the rule may be judged now.
    fn is_due(&self, context: &Context, rule: &MutexRule, now: Instant) -> bool {
        let view = frontends::mutex_rule::parse(rule, Validity::Unknown);
        // Not even by dry run: the API server's answer would tell the author of a namespace that is not the author's.
        if place::refusal(&view, &context.store.observed).is_some() {
            return false;
        }
        let is_early = self
            .next_of(rule, context.evaluator.policy())
            .is_some_and(|next| now < next);
        let component = frontends::mutex_rule::is_evaluated(rule);
        !is_early && (component || context.store.has_listed_jobs_of(&view.key, &view.job_namespace))
    }

    /// Has one rule judged, unless it is being judged already.
    fn begin(&mut self, context: &Context, rule: Arc<MutexRule>, now: Instant) {
        let key = project::key(&rule.metadata);
        let edition = project::edition(&rule.metadata);
        // A component is looked at once at a time, which includes that it is compiled.
        let component = frontends::mutex_rule::is_evaluated(&rule);
        let policy = context.evaluator.policy();
        let times = self.times(&key, &edition, policy);
        if let Some(judging) = self.rules.get_mut(&key)
            && Arc::strong_count(&judging.under_way) > 1
        {
            // The API server has not answered yet; an edit meanwhile is judged after that.
            (judging.edition, judging.policy, judging.next) = (edition, policy, now + JUDGE_AGAIN);
            return;
        }
        let under_way = self.rules.get(&key).map(|judging| judging.under_way.clone());
        let under_way = under_way.unwrap_or_default();
        let judging = Judging {
            edition: edition.clone(),
            policy,
            times,
            next: now + patience(component, times),
            under_way: under_way.clone(),
        };
        self.rules.insert(key.clone(), judging);
        if component {
            context.evaluator.examine(rule, context.inbox.answered());
        } else {
            self.ask(context, rule, (key, edition), under_way);
        }
    }

    /// Asks the API server for its judgement of a rule.
    fn ask(
        &self,
        context: &Context,
        rule: Arc<MutexRule>,
        (key, edition): (Key, Edition),
        under_way: Arc<()>,
    ) {
        let client = context.connection.write.clone();
        let sender = context.inbox.answered();
        let shares = self.shares.clone();
        tokio::spawn(async move {
            let _share = shares.take(&key.namespace, 1).await;
            let judged = tokio::time::timeout(JUDGED_WITHIN, probe::judge(&client, &rule)).await;
            let validity = judged.unwrap_or(Validity::Unknown);
            // Unknown is no judgement: it is asked for again.
            if validity != Validity::Unknown {
                let _ = sender.send(Seen::Judged(key, edition, validity));
            }
            drop(under_way);
        });
    }

    /// How often the rule was judged in this edition, by this policy of signatures.
    fn times(&self, key: &Key, edition: &Edition, policy: u64) -> u32 {
        let known = self.rules.get(key);
        let known = known.filter(|known| known.edition == *edition && known.policy == policy);
        known.map_or(0, |known| known.times.saturating_add(1))
    }
}

/// Has metrics count these rules and numo's own, and no others.
fn count_rules(context: &Context, known: &BTreeSet<Key>) {
    context.metrics.keep_rules(|rule| {
        let (namespace, name) = rule.split_once('/').unwrap_or(("", rule));
        let key = Key::new(namespace, name);
        known.contains(&key) || key == ready::key()
    });
    let own = ready::rule(None);
    let rules = context.store.observed.rules.values();
    context.metrics.know_rules(rules.chain(std::iter::once(&own)));
}

/// How long after so many judgements the next one waits.
fn patience(component: bool, times: u32) -> Duration {
    if component {
        EXAMINE_AGAIN * 2_u32.pow(times.min(EXAMINE_DOUBLINGS))
    } else {
        JUDGE_AGAIN * 2_u32.pow(times.saturating_sub(JUDGED_SOON).min(JUDGE_DOUBLINGS))
    }
}

/// Rules that the API server is to judge: new, changed, or refused for want of a right or a namespace,
/// which may come any time without an event that numo may see.
fn to_judge(context: &Context) -> Vec<Arc<MutexRule>> {
    let store = &context.store;
    let refused = store.observed.rules.values().filter(|rule| {
        matches!(&rule.validity, Validity::Invalid(_, message) if message.starts_with("spec.jobNamespace"))
            || matches!(&rule.validity, Validity::Invalid(reason, _) if is_of_others(*reason))
    });
    let mut due = store.unjudged();
    due.extend(refused.filter_map(|rule| store.rule(&rule.key).cloned()));
    due
}

/// What is wrong with a rule that ends without an edit of it, and without an event that numo may see.
const fn is_of_others(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::ConfigMapNotFound
            | Reason::WriteRefused
            | Reason::ConfigMapForbidden
            | Reason::RuleUnavailable
            | Reason::RegistryUnavailable
            // A mirror may be named, or its namespace allowed to go there.
            | Reason::RegistryNotAllowed
            | Reason::ImageNotFound
            | Reason::ImageUnauthorised
            | Reason::DigestMismatch
            | Reason::PullSecretNotFound
            | Reason::PullSecretForbidden
            | Reason::PullSecretInvalid
            | Reason::Unsigned
            | Reason::SignatureMismatch
            // A machine that is busy, or short of memory for a moment.
            | Reason::CompileTimeout
            | Reason::CompileFailed
            | Reason::EvaluationTimeout
            | Reason::MemoryLimit
            | Reason::Trap
            | Reason::NamespaceNotAllowed
    )
}
