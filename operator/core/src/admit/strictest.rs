//! What several that gate an owner say of one thing of which only one can hold: the strictest counts, whoever says it. What is neither
//! stricter nor the same is named. Nothing here looks at a cluster.

use super::gating::Gating;
use crate::drain::DrainOptions;
use numo_api::DrainSettings;

/// Whether nodes that are not Ready have their turns; none where nobody says so.
pub(crate) fn take_not_ready(all: &[Gating<'_>]) -> Option<bool> {
    let said = all.iter().filter_map(|one| one.settings.take_not_ready);
    said.reduce(|one, other| one && other)
}

/// The drain settings of all MutexBindings that have some.
pub(crate) struct Drains {
    pub settings: DrainSettings,
    /// The field that says them: of the binding whose limit of time counts, or else of the first.
    pub field: String,
    /// What is wrong with those of one binding.
    wrong: Option<String>,
    /// Which settings differ of which none is stricter, and how.
    differ: Vec<(&'static str, String)>,
}

impl Drains {
    /// What is wrong with them, for an owner that takes these settings from bindings.
    pub fn problem(&self, takes: impl Fn(&str) -> bool) -> Option<String> {
        let mut differ = self.differ.iter();
        let differ = || differ.find(|(name, _)| takes(name)).map(|(_, problem)| problem);
        self.wrong.as_ref().or_else(differ).cloned()
    }

    /// Adds what a further binding says: each field of its own, as one may say what another leaves out.
    fn add(&mut self, field: &str, more: &DrainSettings) {
        let both = &mut self.settings;
        let least = |one: bool, other: bool| one && other;
        let most = |one: bool, other: bool| one || other;
        both.force = of_both(both.force, more.force, least);
        both.delete_emptydir_data = of_both(both.delete_emptydir_data, more.delete_emptydir_data, least);
        both.ignore_daemonsets = of_both(both.ignore_daemonsets, more.ignore_daemonsets, least);
        both.disable_eviction = of_both(both.disable_eviction, more.disable_eviction, least);
        both.await_volume_detach = of_both(both.await_volume_detach, more.await_volume_detach, most);
        both.probe = of_both(both.probe, more.probe, most);
        both.max_concurrent = of_both(both.max_concurrent, more.max_concurrent, i64::min);
        let timeout = of_both(both.timeout_seconds, more.timeout_seconds, shorter);
        if timeout != both.timeout_seconds {
            field.clone_into(&mut self.field);
        }
        both.timeout_seconds = timeout;
        both.skip_wait_for_delete_timeout_seconds = of_both(
            both.skip_wait_for_delete_timeout_seconds,
            more.skip_wait_for_delete_timeout_seconds,
            longer,
        );
    }

    /// Takes a setting of which none is stricter from the first that says it; that another says otherwise is noted.
    fn same<T: PartialEq>(
        &mut self,
        all: &[(String, &DrainSettings)],
        name: &'static str,
        of: impl Fn(&DrainSettings) -> Option<T>,
    ) -> Option<usize> {
        let said = all.iter().enumerate();
        let mut said = said.filter_map(|(index, (field, one))| Some((index, field, of(one)?)));
        let (index, first, wanted) = said.next()?;
        if let Some((_, other, _)) = said.find(|(_, _, found)| *found != wanted) {
            let problem = format!(
                "{other}.{name}: found another than in {first}, wanted the same, or only one of them"
            );
            self.differ.push((name, problem));
        }
        Some(index)
    }
}

/// The value that one says, or that of both by this.
fn of_both<T>(one: Option<T>, other: Option<T>, of: impl Fn(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(of(one, other)),
        (one, other) => one.or(other),
    }
}

/// The shorter limit of two; 0 is without one.
fn shorter(one: i64, other: i64) -> i64 {
    match (one > 0, other > 0) {
        (true, true) => one.min(other),
        (true, false) => one,
        (false, _) => other,
    }
}

/// The longer time of two that is waited; 0 is without an end.
fn longer(one: i64, other: i64) -> i64 {
    if one > 0 && other > 0 { one.max(other) } else { 0 }
}

/// The drain settings of all MutexBindings that have some; none where none has.
pub(crate) fn drains(all: &[Gating<'_>]) -> Option<Drains> {
    let given = all.iter();
    let given = given.filter_map(|one| Some((format!("{}.drain", one.field), one.drain?)));
    let given: Vec<(String, &DrainSettings)> = given.collect();
    let (field, _) = given.first()?;
    let mut found = Drains {
        settings: DrainSettings::default(),
        field: field.clone(),
        wrong: given.iter().find_map(|(field, one)| wrong_drain(field, one)),
        differ: Vec::new(),
    };
    for (field, one) in &given {
        found.add(field, one);
    }
    // Its own grace period may be shorter or longer for a pod than one that is given.
    let grace = found.same(&given, "gracePeriodSeconds", |one| {
        one.grace_period_seconds.map(|seconds| seconds.max(-1))
    });
    let selector = found.same(&given, "podSelector", |one| one.pod_selector.clone());
    let order = found.same(&given, "order", |one| {
        let is_given = one.order.is_some() || one.order_label.is_some();
        is_given.then(|| (one.order.unwrap_or_default(), one.order_label.clone()))
    });
    let of = |index: Option<usize>| index.and_then(|index| Some(given.get(index)?.1));
    let both = &mut found.settings;
    both.grace_period_seconds = of(grace).and_then(|one| one.grace_period_seconds);
    both.pod_selector = of(selector).and_then(|one| one.pod_selector.clone());
    both.order = of(order).and_then(|one| one.order);
    both.order_label = of(order).and_then(|one| one.order_label.clone());
    Some(found)
}

/// How nodes of an owner are drained.
pub(crate) struct Drain {
    pub options: DrainOptions,
    /// The field that says so, with the object in front if that is a MutexBinding.
    pub field: String,
    /// What is wrong with it: field, found, wanted.
    pub problem: Option<String>,
}

/// How nodes of an owner are drained: as it says itself, or else as the MutexBindings say together that have settings for it.
pub(crate) fn drain(own: Option<&DrainSettings>, all: &[Gating<'_>]) -> Drain {
    let of_own = "spec.drain";
    let bound = own.is_none().then(|| drains(all)).flatten();
    match (own, bound) {
        (None, Some(bound)) => Drain {
            options: DrainOptions::of(Some(&bound.settings)),
            problem: bound.problem(|_| true),
            field: bound.field,
        },
        (own, _) => Drain {
            options: DrainOptions::of(own),
            problem: own.and_then(|settings| wrong_drain(of_own, settings)),
            field: of_own.to_owned(),
        },
    }
}

/// What is wrong with the settings of a drain that stand in `field`.
pub(crate) fn wrong_drain(field: &str, settings: &DrainSettings) -> Option<String> {
    let problem = DrainOptions::problem(settings)?;
    Some(format!("{field}.{problem}"))
}
