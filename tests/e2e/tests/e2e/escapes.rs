//! What strangers write into a cluster reaches an administrator's terminal as text, and as nothing else.

use crate::{NEW, jobs::namespace, object, prepare, quick, set, workers};
use anyhow::{Context as _, Result};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kube::{
    Api,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use numo_api::{MutexRule, MutexRunConfig, marks, text};
use numo_e2e::{NAMESPACE, Stage};
use serde_json::{Value, json};

/// A window title, a cleared screen, hidden letters, a turned direction, and what nobody sees.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[8m\u{9b}31m\u{202e}\u{200b}\u{2028}\u{e0041}\u{feff}\u{fe0f}\u{3164}\u{34f}\u{e0101}end";

/// The first character of a text that nobody is to be shown.
fn unseen(text: &str) -> Option<char> {
    text.chars()
        .find(|one| text::is_unseen(*one) && !matches!(one, '\n' | '\t'))
}

/// Every string in what numo says of an object.
fn strings(value: &Value, all: &mut Vec<String>) {
    match value {
        Value::String(text) => all.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|one| strings(one, all)),
        Value::Object(fields) => fields.values().for_each(|one| strings(one, all)),
        _ => {}
    }
}

/// What kubectl prints as it stands: every string of every status that numo wrote, of every kind.
async fn statuses_are_clean(stage: &Stage) -> Result<()> {
    let kinds = [
        ("openshift-optional.skrzypek.io/v1alpha1", "mutexrules"),
        ("openshift-optional.skrzypek.io/v1alpha1", "mutexrunconfigs"),
        ("openshift-optional.skrzypek.io/v1alpha1", "mutextargets"),
        ("numo.openshift-optional.skrzypek.io/v1alpha1", "mutexbindings"),
        ("numo.openshift-optional.skrzypek.io/v1alpha1", "mutexbudgets"),
        ("numo.openshift-optional.skrzypek.io/v1alpha1", "nodechanges"),
        ("nodemaintenance.medik8s.io/v1beta1", "nodemaintenances"),
        ("upgrade.cattle.io/v1", "plans"),
    ];
    for (group, plural) in kinds {
        let request = kube::core::Request::new(format!("/apis/{group}/{plural}"));
        let request = request.list(&ListParams::default())?;
        let list: Value = serde_json::from_str(&stage.client.request_text(request).await?)?;
        for object in list["items"].as_array().into_iter().flatten() {
            let mut all = Vec::new();
            strings(&object["status"], &mut all);
            for text in all {
                assert_eq!(
                    unseen(&text),
                    None,
                    "{plural} {}: {text:?}",
                    object["metadata"]["name"]
                );
            }
        }
    }
    Ok(())
}

/// Objects of a stranger with hostile text in every field that takes any: a Plan, a target, a maintenance.
async fn more_of_a_stranger(stage: &Stage) -> Result<()> {
    let plan = json!({
        "concurrency": 1, "nodeSelector": {}, "serviceAccountName": HOSTILE, "version": HOSTILE,
        "upgrade": {"image": HOSTILE, "command": [HOSTILE]},
    });
    let all = [
        (("upgrade.cattle.io", "v1", "Plan", "plans"), Some("team"), plan),
        (
            (
                "openshift-optional.skrzypek.io",
                "v1alpha1",
                "MutexTarget",
                "mutextargets",
            ),
            Some("team"),
            json!({"machineConfigPools": [HOSTILE]}),
        ),
        (
            (
                "nodemaintenance.medik8s.io",
                "v1beta1",
                "NodeMaintenance",
                "nodemaintenances",
            ),
            None,
            json!({"nodeName": HOSTILE, "reason": HOSTILE}),
        ),
    ];
    for ((group, version, kind, plural), namespace, spec) in all {
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(stage.person.clone(), namespace, &resource),
            None => Api::all_with(stage.person.clone(), &resource),
        };
        let object = DynamicObject::new("stranger", &resource).data(json!({"spec": spec}));
        match api.create(&PostParams::default(), &object).await {
            Ok(_) => {}
            // What the schema refuses nobody is shown.
            Err(kube::Error::Api(status)) if status.code == 422 => {}
            Err(error) => return Err(anyhow::Error::new(error).context(kind)),
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_stranger_steers_the_terminal() -> Result<()> {
    let mut stage = set(workers(2), Vec::new()).await?;
    // Nobody invites it to the stranger's namespace.
    stage.may_lack_rights = true;
    prepare(&stage, &[quick()], json!({})).await?;
    namespace(&stage, "team", json!({})).await?;
    let said = json!([{"at": "2026-01-01T00:00:00Z", "verb": HOSTILE, "by": HOSTILE, "reason": HOSTILE}])
        .to_string();
    let annotations = json!({"annotations": {
        (marks::SUSPEND): HOSTILE, (marks::SAID): said, (marks::ABORT): HOSTILE, (marks::PAUSED_BY): HOSTILE,
    }});
    // Neither is honoured where it stands, and both are shown.
    let mut run = object(
        "MutexRunConfig",
        "stranger",
        json!({"mutexRules": [{"name": HOSTILE}], "mutexTargets": []}),
    );
    run["metadata"]["namespace"] = json!("team");
    run["metadata"]["annotations"] = annotations["annotations"].clone();
    let mut rule = object(
        "MutexRule",
        "stranger",
        json!({"jobName": HOSTILE, "jobSpec": {"template": {"spec": {"containers": [{"name": HOSTILE}]}}}}),
    );
    rule["metadata"]["namespace"] = json!("team");
    let runs: Api<MutexRunConfig> = Api::namespaced(stage.person.clone(), "team");
    runs.create(&PostParams::default(), &serde_json::from_value(run)?)
        .await?;
    let all_rules: Api<MutexRule> = Api::namespaced(stage.person.clone(), "team");
    all_rules
        .create(&PostParams::default(), &serde_json::from_value(rule)?)
        .await?;
    let nodes: Api<Node> = Api::all(stage.person.clone());
    let patch = json!({"metadata": annotations});
    nodes
        .patch("worker-0", &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    let leases: Api<Lease> = Api::namespaced(stage.person.clone(), marks::LEASE_NAMESPACE);
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "node-worker-1"},
        "spec": {"holderIdentity": HOSTILE, "leaseDurationSeconds": 3600, "renewTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()},
    });
    if numo_e2e::has_leases() {
        leases
            .create(&PostParams::default(), &serde_json::from_value(lease)?)
            .await?;
    }
    more_of_a_stranger(&stage).await?;
    stage.world.upgrade_to(NEW).await?;
    stage
        .until("numo says something of the stranger's rule", 60, || async {
            let rule = all_rules.get("stranger").await?;
            let conditions = rule.status.map(|status| status.conditions).unwrap_or_default();
            Ok((!conditions.is_empty()).then_some(()))
        })
        .await?;
    let run = ["mutexrunconfig/upgrade", "-n", NAMESPACE];
    let strangers = ["mutexrunconfig/stranger", "-n", "team"];
    let rules = ["mutexrule/stranger", "-n", "team"];
    let verbs: Vec<Vec<&str>> = vec![
        vec!["status"],
        vec!["doctor"],
        vec!["explain", "worker-0"],
        vec!["explain", "worker-1"],
        [&["explain"][..], &run].concat(),
        [&["explain"][..], &strangers].concat(),
        [&["explain"][..], &rules].concat(),
        vec!["explain", "plan/stranger", "-n", "team"],
        vec!["explain", "nodemaintenance/stranger"],
        [&["preview"][..], &run].concat(),
        [&["preview"][..], &strangers].concat(),
        vec!["snapshot"],
        vec!["retry", HOSTILE],
    ];
    let mut shown = 0;
    for verb in verbs {
        for format in [
            &[][..],
            &["-o", "wide"],
            &["-o", "json"],
            &["-o", "yaml"],
            &["-o", "name"],
        ] {
            let said = stage.call(&[&verb[..], format].concat()).await?;
            for text in [&said.out, &said.err] {
                assert_eq!(unseen(text), None, "{verb:?} {format:?}: {text:?}");
                shown += usize::from(text.contains("end"));
            }
            if format == ["-o", "json"] && said.code == Some(0) && said.out.contains("\\u001b") {
                let lost = serde_json::from_str::<serde_json::Value>(&said.out)?
                    .to_string()
                    .contains("\u{202e}");
                assert!(lost, "JSON keeps what was written: {}", said.out);
            }
        }
    }
    assert!(shown > 3, "what is hostile is shown at all");
    for event in stage.events().await? {
        let note = event.note.unwrap_or_default();
        assert!(
            !note.chars().any(|one| text::is_unseen(one) && one != '\n'),
            "{note:?}"
        );
    }
    statuses_are_clean(&stage).await?;
    let log = stage.numo().context("numo runs")?.log();
    assert_eq!(unseen(&log), None, "a log is read on a terminal");
    stage.strike().await
}
