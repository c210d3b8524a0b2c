//! MutexRunConfigs, whoever wrote them: strangers' have their share of the memory.

use super::{
    entry::{
        Kept, Missing, PAGE_OF_WRITTEN, Place, Reading, Selection, Watched, keep_readable, left_as_it_was,
        needed_by_nobody,
    },
    object::Object,
};
use crate::{
    frontends::{self, LAST_APPLIED, hours::hours},
    shell::{
        item::{Item, Size, weight_of_map as map},
        project::{created, kept, key, misread, read, typed},
        store::{Store, replace},
        weigh,
    },
};
use numo_api::{
    MutexRunConfig,
    gate::{OF_RUN, TAKEN_AWAY},
};
use numo_core::{
    observed::{Key, RunConfigView},
    ready,
};

/// How MutexRunConfigs are watched.
pub const MUTEX_RUN_CONFIG: Watched = Watched {
    resource: (
        numo_api::GROUP,
        numo_api::VERSION,
        "MutexRunConfig",
        "mutexrunconfigs",
    ),
    place: Place::Everywhere,
    select: Selection::all,
    page: PAGE_OF_WRITTEN,
    missing: Missing::Awaited,
    reading: Reading::Ours {
        size: SIZE,
        misread: misread::<MutexRunConfig>,
        left: |kind, item, why| partly_read(item).or_else(|| left_as_it_was(kind, item, why)),
        known_as: "mutexrunconfigs",
    },
    project: |object| Some(Object::Run(Box::new(view(typed(object)?)))),
    kept: Kept::Counted(needed_by_nobody),
    remove,
};

const SIZE: Size = Size::Written;

/// Puts one where decisions see it; true if one could change by it.
pub fn put(store: &mut Store, run: RunConfigView) -> bool {
    let has_rules = store.put_inline(&run.key, frontends::mutex_rule::inline(&run));
    replace(&mut store.observed.runs, run.key.clone(), run) || has_rules
}

fn remove(store: &mut Store, key: &Key) -> bool {
    let had_rules = store.put_inline(key, Vec::new());
    store.observed.runs.remove(key).is_some() || had_rules
}

/// Whether a run differs from what is known of it by more than its status.
pub fn has_news(store: &Store, run: &RunConfigView) -> bool {
    store.observed.runs.get(&run.key).is_some_and(|known| {
        let known = RunConfigView {
            status: run.status.clone(),
            ..known.clone()
        };
        known != *run
    })
}

/// What a run takes of memory (bytes).
pub fn weight(run: &RunConfigView) -> usize {
    weigh::all([
        weigh::value(&run.spec),
        // Once more: each is kept as a rule beside the run.
        weigh::value(&run.spec.rules),
        weigh::value(&run.status),
        map(&run.annotations),
        weigh::texts(&run.finalizers),
    ])
}

/// A field that gates a run and that an older definition has dropped, of a run that was applied. Who takes one out by a patch, beside the
/// manifest, is told so as well. One that people take away to have a run go on is missed while nobody has edited the run.
fn pruned(run: &MutexRunConfig) -> Option<&'static str> {
    let annotations = run.metadata.annotations.as_ref()?;
    annotations.get(LAST_APPLIED)?;
    let spec = serde_json::to_value(&run.spec).ok()?;
    let is_as_made = run.metadata.generation == Some(1);
    let asked = OF_RUN
        .into_iter()
        .filter(|field| is_as_made || !TAKEN_AWAY.contains(field));
    let own: Vec<_> = asked.map(|field| (field, spec.get(field).is_some())).collect();
    frontends::pruned(annotations, &own)
}

/// The view of a run.
pub fn view(run: MutexRunConfig) -> RunConfigView {
    RunConfigView {
        pruned: pruned(&run),
        key: key(&run.metadata),
        uid: run.metadata.uid.clone().unwrap_or_default(),
        generation: run.metadata.generation.unwrap_or(0),
        created: created(&run.metadata),
        deleting: run.metadata.deletion_timestamp.is_some(),
        finalizers: run.metadata.finalizers.clone().unwrap_or_default(),
        has_annotations: run
            .metadata
            .annotations
            .as_ref()
            .is_some_and(|all| !all.is_empty()),
        annotations: kept(run.metadata.annotations.unwrap_or_default()),
        workloads_check: Some(Box::new(ready::rule(run.spec.awaited_workloads.as_ref()))),
        misread: None,
        keeps_status: false,
        hours: hours(run.spec.window.as_ref()),
        spec: run.spec,
        status: run.status.unwrap_or_default(),
    }
}

/// A MutexRunConfig of a later numo, with a field that this one cannot read: without that field, and with its words. Its pools
/// are known, and are held. None if it is something else that cannot be read, or nobody knows then which pools it means.
fn partly_read(item: &Item) -> Option<Object> {
    let mut found = item.read_as(SIZE).ok()?;
    // Without its targets or pools nobody knows its pools, and without its canary who is in it.
    let needed = ["mutexTargets", "pools", "canary"];
    let mut misread = keep_readable::<numo_api::MutexRunConfigSpec>(&mut found.data, "spec", &needed);
    let of_status = keep_readable::<numo_api::MutexRunConfigStatus>(&mut found.data, "status", &[]);
    let keeps_status = !of_status.is_empty();
    misread.extend(of_status);
    if misread.is_empty() {
        return None;
    }
    let words = format!(
        "{}; wanted what this numo knows: change it, or upgrade numo",
        misread.join("; ")
    );
    let mut view = view(read::<MutexRunConfig>(&found).ok()?);
    view.misread = Some(numo_core::rules::clip(&words, 1024));
    view.keeps_status = keeps_status;
    Some(Object::Run(Box::new(view)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::{kind::Kind, project::condition_words, watched::item};

    fn run_of(spec: &serde_json::Value) -> Option<Object> {
        let object = serde_json::json!({
            "apiVersion": "openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexRunConfig",
            "metadata": {"name": "upgrade", "namespace": "ns", "uid": "u"},
            "spec": spec,
        });
        item(
            Kind::MutexRunConfig,
            &serde_json::from_value::<Item>(object).unwrap(),
        )
    }

    #[test]
    fn a_field_that_gates_a_run_and_that_an_older_definition_dropped_is_missed() {
        let pruned_at = |generation: i64, annotations: &serde_json::Value, spec: &serde_json::Value| {
            let object = serde_json::json!({
                "apiVersion": "openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexRunConfig",
                "metadata": {"name": "upgrade", "namespace": "ns", "generation": generation, "annotations": annotations},
                "spec": spec,
            });
            let view = super::view(serde_json::from_value(object).unwrap());
            assert_eq!(view.misread, None);
            view.pruned
        };
        let pruned =
            |annotations: &serde_json::Value, spec: &serde_json::Value| pruned_at(2, annotations, spec);
        let fields = serde_json::json!({
            "rules": [{"name": "backup", "jobSpec": {}}], "approval": {"before": ["Run"]}, "mutexKeys": ["zone"], "failureBudget": 1,
            "waves": [{"name": "first", "nodes": 1}], "domains": {"key": "topology.kubernetes.io/zone", "atOnce": 1}, "first": {"count": 1},
        });
        let people_take = serde_json::json!({
            "suspend": true, "startAfter": "2027-01-15T08:00:00Z", "window": {"openings": []}, "dryRun": true, "pools": ["worker"], "hold": "Always",
            "soakSeconds": 1, "maxUnavailable": 1, "trigger": "AnyConfig",
        });
        let all = fields.as_object().unwrap().len() + people_take.as_object().unwrap().len();
        assert_eq!(all, OF_RUN.len(), "each field is in one of both");
        let targets = serde_json::json!({"mutexTargets": [{"name": "workers"}]});
        for (field, value) in fields.as_object().unwrap() {
            let mut whole = targets.clone();
            whole[field] = value.clone();
            let manifest = serde_json::json!({"spec": whole}).to_string();
            let applied = serde_json::json!({LAST_APPLIED: manifest});
            assert_eq!(pruned(&applied, &targets), Some(field.as_str()));
            assert_eq!(pruned(&serde_json::json!({}), &targets), None);
            if serde_json::from_value::<numo_api::MutexRunConfigSpec>(whole.clone()).is_ok() {
                assert_eq!(pruned(&applied, &whole), None, "{field}");
            }
        }
        // Those that people take away to have the run go on are missed until somebody edits it.
        for (field, value) in people_take.as_object().unwrap() {
            let mut whole = targets.clone();
            whole[field] = value.clone();
            let manifest = serde_json::json!({"spec": whole}).to_string();
            let applied = serde_json::json!({LAST_APPLIED: manifest});
            assert_eq!(pruned_at(1, &applied, &targets), Some(field.as_str()));
            assert_eq!(pruned_at(2, &applied, &targets), None);
        }
        let manifest = serde_json::json!({"spec": people_take}).to_string();
        assert_eq!(
            pruned(&serde_json::json!({LAST_APPLIED: manifest}), &targets),
            None
        );
        // One that asks for nothing is none.
        let manifest = serde_json::json!({"spec": {"suspend": false, "rules": []}}).to_string();
        assert_eq!(
            pruned(&serde_json::json!({LAST_APPLIED: manifest}), &targets),
            None
        );
    }

    #[test]
    fn a_run_that_a_later_numo_wrote_keeps_its_pools() {
        let found = run_of(&serde_json::json!({
            "mutexTargets": [{"name": "workers"}], "order": "ByMoon", "soakSeconds": 5,
        }));
        let Some(Object::Run(run)) = found else {
            panic!("{found:?}");
        };
        assert_eq!(run.spec.mutex_targets.as_ref().map(Vec::len), Some(1));
        assert_eq!((run.spec.order, run.spec.soak_seconds), (None, Some(5)));
        let words = run.misread.unwrap_or_default();
        assert!(
            words.starts_with("spec.order: ") && words.contains("ByMoon"),
            "{words}"
        );
        // Without its targets nobody knows which pools it means: what was seen of it before is kept.
        for unknown in [
            serde_json::json!({"mutexTargets": "workers", "order": "ByMoon"}),
            serde_json::json!({"pools": "worker", "order": "ByMoon"}),
            serde_json::json!({"mutexTargets": [{"name": "workers"}], "canary": 7}),
        ] {
            let found = run_of(&unknown);
            assert!(matches!(found, Some(Object::NotRead(..))), "{found:?}");
        }
        let conditions = serde_json::json!({"status": {"conditions": [
            {"type": "Updated", "status": "False", "reason": "", "message": "no"},
            {"type": "RenderDegraded", "status": "True", "reason": "MergeFailed", "message": "x".repeat(2000)},
        ]}});
        let words = condition_words(&conditions, "RenderDegraded", "True").expect("it is degraded");
        assert!(
            words.starts_with("MergeFailed: xxx") && words.chars().count() <= 512,
            "{words}"
        );
        assert_eq!(condition_words(&conditions, "RenderDegraded", "False"), None);
        assert_eq!(condition_words(&conditions, "Failing", "True"), None);
        // Nothing is written over a status that a later numo wrote.
        let object = serde_json::json!({
            "apiVersion": "openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexRunConfig",
            "metadata": {"name": "upgrade", "namespace": "ns", "uid": "u"},
            "spec": {"mutexTargets": [{"name": "workers"}]},
            "status": {"observedGeneration": 3, "run": {"id": "r", "result": "Levitated"}},
        });
        let found = item(
            Kind::MutexRunConfig,
            &serde_json::from_value::<Item>(object).unwrap(),
        );
        let Some(Object::Run(run)) = found else {
            panic!("{found:?}");
        };
        assert!(run.keeps_status && run.status.run.is_none());
        assert_eq!(run.status.observed_generation, Some(3));
        assert!(run.misread.is_some_and(|words| words.starts_with("status.run: ")));
        let whole = run_of(&serde_json::json!({"mutexTargets": [{"name": "workers"}]}));
        assert!(matches!(whole, Some(Object::Run(run)) if run.misread.is_none()));
    }
}
