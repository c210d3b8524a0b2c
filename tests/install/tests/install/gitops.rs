//! What Argo CD and Flux are given: health of each kind in each state, as Argo CD's own interpreter of Lua has it, and examples whose values the
//! chart takes and whose fields there are.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use numo_install::{NAMESPACE, gitops, objects, root, said};
use numo_plugin_tests::programs::go_program;
use serde_json::{Value, json};

use crate::{HELMS, chart, equal::by_name, program};

/// What Argo CD's own interpreters make of these lines.
fn argo_cd(asked: &[Value]) -> Result<Vec<Value>> {
    let module = root().join("tests/install/argocd");
    let program = go_program(&module, &["go.mod", "go.sum", "main.go"], ".", "argocd")?;
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let lines: String = asked.iter().map(|line| line.to_string() + "\n").collect();
    let mut stdin = child.stdin.take().context("its input")?;
    let writes = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = child.wait_with_output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    writes.join().expect("the writer")?;
    let answers = String::from_utf8(output.stdout)?;
    answers
        .lines()
        .map(|line| Ok(serde_json::from_str(line)?))
        .collect()
}

/// Health and message of objects, by the script that Argo CD is given for their kinds.
fn health(all: &[Value]) -> Result<Vec<(String, String)>> {
    let config = objects(&fs::read_to_string(root().join(gitops::CONFIG))?)?.remove(0);
    let mut asked = Vec::new();
    for object in all {
        let group = object["apiVersion"].as_str().and_then(|of| of.split_once('/'));
        let kind = object["kind"].as_str().context("a kind")?;
        let key = format!(
            "resource.customizations.health.{}_{kind}",
            group.context("a group")?.0
        );
        let script = config["data"][&key].as_str().with_context(|| key.clone())?;
        asked.push(json!({"script": script, "obj": object}));
    }
    let text = |said: &Value, field: &str| said[field].as_str().unwrap_or_default().to_owned();
    let said = argo_cd(&asked)?;
    Ok(said
        .iter()
        .map(|said| (text(said, "status"), text(said, "message")))
        .collect())
}

fn object(kind: (&str, &str), spec: &Value, status: &Value) -> Value {
    let version = match kind.0 {
        "upgrade.cattle.io" => "v1",
        group if group.starts_with("nodemaintenance") => "v1beta1",
        _ => "v1alpha1",
    };
    json!({
        "apiVersion": format!("{}/{version}", kind.0), "kind": kind.1,
        "metadata": {"name": "one", "generation": 2}, "spec": spec, "status": status,
    })
}

fn conditions(all: &[(&str, &str, &str)]) -> Value {
    let of = |(kind, status, reason): &(&str, &str, &str)| json!({"type": kind, "status": status, "reason": reason, "message": "so"});
    json!({"observedGeneration": 2, "conditions": all.iter().map(of).collect::<Vec<_>>()})
}

/// Spec, status and health of the kinds that have neither Ready nor Stalled; none of the others.
fn states_without_ready(kind: &str) -> Option<Vec<(Value, Value, &'static str)>> {
    let empty = || json!({});
    let status = |status: Value, health| (json!({}), status, health);
    Some(match kind {
        "NodeChange" => [
            ("Selected", "Progressing"),
            ("Drained", "Progressing"),
            ("Done", "Healthy"),
            ("Held", "Degraded"),
            ("Failed", "Degraded"),
            ("Skipped", "Suspended"),
        ]
        .map(|(step, health)| status(json!({"step": step, "message": "so"}), health))
        .into(),
        "MutexApproval" => {
            let holds = |is: &str, reason: &str| conditions(&[("Holds", is, reason)]);
            let mut older = holds("True", "ApprovalHolds");
            older["observedGeneration"] = json!(1);
            vec![
                status(json!(null), "Progressing"),
                status(older, "Progressing"),
                status(holds("True", "ApprovalHolds"), "Healthy"),
                status(holds("True", "ApprovalOver"), "Healthy"),
                status(holds("False", "NothingWaits"), "Suspended"),
                status(holds("False", "ApprovesOther"), "Degraded"),
                status(holds("False", "ApprovalExpired"), "Degraded"),
                status(holds("False", "OwnerNotFound"), "Degraded"),
            ]
        }
        "PendingNode" => {
            let machine = |goal: &str, state: &str, health| {
                let status = json!({"cspState": state, "reachedGoal": false});
                (json!({"goal": goal}), status, health)
            };
            vec![
                (empty(), json!(null), "Healthy"),
                machine("Join", "Creating", "Healthy"),
                machine("Leave", "Terminating", "Healthy"),
                machine("Join", "Failed", "Degraded"),
            ]
        }
        "ScalingGroup" => vec![
            status(json!(null), "Healthy"),
            status(
                conditions(&[("Outdated", "True", "ScalingGroupNodeImageOutOfDate")]),
                "Healthy",
            ),
            status(
                conditions(&[("Outdated", "False", "ScalingGroupNodeImageUpToDate")]),
                "Healthy",
            ),
        ],
        "JoiningNode" => vec![status(json!(null), "Healthy"), status(empty(), "Healthy")],
        "AutoscalingStrategy" => vec![
            (json!({"enabled": true}), json!(null), "Healthy"),
            (
                json!({"enabled": false}),
                json!({"enabled": false, "replicas": 0}),
                "Healthy",
            ),
        ],
        _ => return None,
    })
}

/// What each state of each kind is: the object, and its health.
fn states() -> Vec<(Value, &'static str)> {
    let mut all = Vec::new();
    for kind in gitops::KINDS {
        let with = |spec: Value, status: Value| object(kind, &spec, &status);
        if let Some(states) = states_without_ready(kind.1) {
            let states = states.into_iter();
            all.extend(states.map(|(spec, status, health)| (with(spec, status), health)));
            continue;
        }
        let is_owner = ["MutexRunConfig", "Plan", "NodeMaintenance", "NodeVersion"].contains(&kind.1);
        let ready = conditions(&[("Ready", "True", "UpToDate")]);
        let mut older = ready.clone();
        older["observedGeneration"] = json!(1);
        let unready = if is_owner { "Progressing" } else { "Degraded" };
        for (spec, status, health) in [
            (json!({}), json!(null), "Progressing"),
            (json!({}), ready.clone(), "Healthy"),
            (json!({}), older, "Progressing"),
            (
                json!({}),
                conditions(&[("Ready", "False", "InvalidField")]),
                unready,
            ),
            (
                json!({}),
                conditions(&[
                    ("Ready", "False", "Changing"),
                    ("Reconciling", "True", "Changing"),
                ]),
                unready,
            ),
            (
                json!({}),
                conditions(&[
                    ("Ready", "False", "RuleFailed"),
                    ("Stalled", "True", "RuleFailed"),
                ]),
                "Degraded",
            ),
            (
                json!({}),
                conditions(&[("Ready", "False", "Stopped"), ("Stalled", "True", "Stopped")]),
                "Suspended",
            ),
        ] {
            all.push((with(spec, status), health));
        }
        if is_owner {
            all.push((with(json!({"suspend": true}), ready.clone()), "Suspended"));
            let mut paused = with(json!({}), ready.clone());
            paused["metadata"]["annotations"] =
                json!({"numo.openshift-optional.skrzypek.io/suspend": "pause by anne"});
            all.push((paused, "Suspended"));
        }
        match kind.1 {
            "MutexBudget" => all.push((with(json!({"paused": true}), ready), "Suspended")),
            "Plan" => {
                let complete = [("LatestResolved", "True", "Version"), ("Complete", "True", "")];
                all.push((with(json!({}), conditions(&complete)), "Healthy"));
                all.push((
                    with(json!({}), conditions(&[("Validated", "False", "Error")])),
                    "Degraded",
                ));
                all.push((
                    with(json!({}), conditions(&[("LatestResolved", "False", "Error")])),
                    "Degraded",
                ));
                all.push((
                    with(json!({}), conditions(&[("Complete", "False", "")])),
                    "Progressing",
                ));
            }
            "NodeMaintenance" => {
                for (phase, health) in [
                    ("Running", "Progressing"),
                    ("Succeeded", "Healthy"),
                    ("Failed", "Degraded"),
                ] {
                    all.push((
                        with(json!({}), json!({"phase": phase, "lastError": "so"})),
                        health,
                    ));
                }
            }
            // Its status has no generation of its own; the operator that numo replaces writes the first condition alone.
            "NodeVersion" => {
                let mut older = conditions(&[("Ready", "True", "UpToDate")]);
                older["observedGeneration"] = json!(null);
                older["conditions"][0]["observedGeneration"] = json!(1);
                all.push((with(json!({}), older), "Progressing"));
                for (is_outdated, health) in [("True", "Progressing"), ("False", "Healthy")] {
                    let outdated = conditions(&[("Outdated", is_outdated, "NodeVersionsOutOfDate")]);
                    all.push((with(json!({}), outdated), health));
                }
            }
            _ => {}
        }
    }
    all
}

#[test]
fn argo_cd_finds_the_health_of_each_kind_in_each_state() -> Result<()> {
    let states = states();
    let all: Vec<Value> = states.iter().map(|(object, _)| object.clone()).collect();
    let found = health(&all)?;
    assert_eq!(found.len(), states.len());
    for ((object, wanted), (health, message)) in states.iter().zip(&found) {
        assert_eq!(health, wanted, "{object}: {message}");
        assert!(health == "Healthy" || !message.is_empty(), "{object}");
    }
    // Every kind that numo serves has one.
    let mut served = BTreeSet::new();
    for folder in ["deploy/crds", "deploy/kustomize/components/node-version"] {
        for entry in fs::read_dir(root().join(folder))? {
            for one in objects(&fs::read_to_string(entry?.path())?)? {
                if one["kind"] == "CustomResourceDefinition" {
                    let text = |pointer: &str| {
                        one.pointer(pointer)
                            .and_then(Value::as_str)
                            .unwrap_or_default()
                            .to_owned()
                    };
                    served.insert((text("/spec/group"), text("/spec/names/kind")));
                }
            }
        }
    }
    let told: BTreeSet<(String, String)> = gitops::KINDS
        .iter()
        .map(|(group, kind)| ((*group).to_owned(), (*kind).to_owned()))
        .collect();
    assert_eq!(told, served);
    Ok(())
}

fn example(path: &str) -> Result<Vec<Value>> {
    objects(&fs::read_to_string(root().join("deploy/gitops").join(path))?)
}

/// Every field of an object that is none of these, as dotted paths: what is below a path that ends with `*` is free.
pub(crate) fn strange(object: &Value, known: &[&str]) -> Vec<String> {
    fn walk(value: &Value, at: &str, known: &[&str], out: &mut Vec<String>) {
        if known.contains(&format!("{at}.*").as_str()) {
            return;
        }
        match value {
            Value::Object(fields) => {
                for (name, one) in fields {
                    let at = if at.is_empty() {
                        name.clone()
                    } else {
                        format!("{at}.{name}")
                    };
                    walk(one, &at, known, out);
                }
            }
            Value::Array(all) => all.iter().for_each(|one| walk(one, at, known, out)),
            _ if known.contains(&at) => {}
            _ => out.push(at.to_owned()),
        }
    }
    let mut out = Vec::new();
    let mut object = object.clone();
    for field in ["apiVersion", "kind", "metadata"] {
        object.as_object_mut().map(|fields| fields.remove(field));
    }
    walk(&object, "", known, &mut out);
    out
}

/// Fields of an Application, a HelmRelease, an OCIRepository and a Kustomization, as their references have them.
const APPLICATION: [&str; 20] = [
    "spec.project",
    "spec.destination.server",
    "spec.destination.namespace",
    "spec.source.repoURL",
    "spec.source.chart",
    "spec.source.path",
    "spec.source.targetRevision",
    "spec.source.helm.releaseName",
    "spec.source.helm.valuesObject.*",
    "spec.ignoreDifferences.group",
    "spec.ignoreDifferences.kind",
    "spec.ignoreDifferences.name",
    "spec.ignoreDifferences.namespace",
    "spec.ignoreDifferences.jsonPointers",
    "spec.ignoreDifferences.jqPathExpressions",
    "spec.syncPolicy.automated.prune",
    "spec.syncPolicy.automated.selfHeal",
    "spec.syncPolicy.managedNamespaceMetadata.labels.*",
    "spec.syncPolicy.syncOptions",
    "spec.syncPolicy.retry.limit",
];
const FLUX: [&str; 28] = [
    "spec.interval",
    "spec.url",
    "spec.ref.tag",
    "spec.layerSelector.mediaType",
    "spec.layerSelector.operation",
    "spec.releaseName",
    "spec.targetNamespace",
    "spec.chartRef.kind",
    "spec.chartRef.name",
    "spec.install.createNamespace",
    "spec.test.enable",
    "spec.upgrade.remediation.remediateLastFailure",
    "spec.upgrade.remediation.retries",
    "spec.uninstall.timeout",
    "spec.values.*",
    "spec.path",
    "spec.prune",
    "spec.sourceRef.kind",
    "spec.sourceRef.name",
    "spec.healthChecks.apiVersion",
    "spec.healthChecks.kind",
    "spec.healthChecks.name",
    "spec.healthChecks.namespace",
    "spec.timeout",
    "spec.dependsOn.name",
    "spec.wait",
    "spec.suspend",
    "spec.force",
];

#[test]
fn the_examples_have_fields_that_there_are_and_values_that_the_chart_takes() -> Result<()> {
    let mut values = Vec::new();
    for file in ["argocd/application.yaml", "argocd/runs.yaml"] {
        for one in example(file)? {
            assert_eq!(strange(&one, &APPLICATION), Vec::<String>::new(), "{file}");
            values.extend(one.pointer("/spec/source/helm/valuesObject").cloned());
        }
    }
    for file in ["flux/helm-release.yaml", "flux/runs.yaml"] {
        for one in example(file)? {
            assert_eq!(strange(&one, &FLUX), Vec::<String>::new(), "{file}");
            values.extend(one.pointer("/spec/values").cloned());
        }
    }
    assert_eq!(values.len(), 2);
    for (values, major) in values
        .iter()
        .flat_map(|values| HELMS.map(|major| (values, major)))
    {
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), values.to_string())?;
        let mut helm = program(major)?;
        helm.args(["template", "numo", "--kube-version", "1.36.0"])
            .arg(chart())
            .args(["--namespace", NAMESPACE, "--values"]);
        let all = by_name(objects(&said(helm.arg(file.path()))?)?);
        // An object in a namespace that is not there would be the end of the whole installation.
        let namespaces = ["kube-system", NAMESPACE];
        for (name, object) in &all {
            let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str);
            assert!(
                namespace.is_none_or(|of| namespaces.contains(&of) || all.contains_key(&format!("Namespace {of}"))),
                "Helm {major}: {name} is in {namespace:?}"
            );
        }
        // What is asked for, and nothing else that is shared.
        for (name, is_there) in [
            ("Namespace medik8s-leases", false),
            ("Namespace system-upgrade", false),
            ("CustomResourceDefinition plans.upgrade.cattle.io", false),
            (
                "CustomResourceDefinition nodemaintenances.nodemaintenance.medik8s.io",
                false,
            ),
        ] {
            assert_eq!(all.contains_key(name), is_there, "Helm {major}: {name}");
        }
        // What is ignored, and what is waited for, is something of numo's.
        for application in example("argocd/application.yaml")? {
            for one in application["spec"]["ignoreDifferences"]
                .as_array()
                .context("a list")?
            {
                let name = format!(
                    "{} {}",
                    one["kind"].as_str().unwrap_or_default(),
                    one["name"].as_str().unwrap_or_default()
                );
                assert!(
                    all.keys()
                        .any(|key| key == &name || key.starts_with(&format!("{name} in "))),
                    "{name}"
                );
            }
        }
        // Neither Argo CD nor Flux takes away what is shared, or a definition.
        for (name, one) in &all {
            if name.starts_with("CustomResourceDefinition") || name == "Namespace medik8s-leases" {
                let notes = &one["metadata"]["annotations"];
                assert_eq!(
                    notes["argocd.argoproj.io/sync-options"], "Prune=false,Delete=false",
                    "{name}"
                );
                assert_eq!(notes["kustomize.toolkit.fluxcd.io/prune"], "disabled", "{name}");
            }
        }
    }
    Ok(())
}

/// What people say to numo by annotations, and numo by fields, is no difference to git; all else is.
#[test]
fn argo_cd_ignores_what_people_say_to_numo_and_no_more() -> Result<()> {
    let spoken = json!({
        "metadata": {"annotations": {
            "numo.openshift-optional.skrzypek.io/suspend": "the network is down",
            "example.com/owner": "team-a",
        }},
        "spec": {"x": 1}, "webhooks": [{"name": "a", "clientConfig": {"caBundle": "abc", "service": {}}}],
    });
    let silent = json!({"metadata": {"name": "a"}, "spec": {"x": 1}});
    let mut expressions = Vec::new();
    for file in ["argocd/application.yaml", "argocd/runs.yaml"] {
        for one in example(file)? {
            let all = one.pointer("/spec/ignoreDifferences").and_then(Value::as_array);
            for one in all.into_iter().flatten() {
                let paths = one["jqPathExpressions"].as_array();
                expressions.extend(
                    paths
                        .into_iter()
                        .flatten()
                        .filter_map(Value::as_str)
                        .map(str::to_owned),
                );
            }
        }
    }
    assert_eq!(expressions.len(), 2, "{expressions:?}");
    let ask = |object: &Value| {
        expressions
            .iter()
            .map(|of| json!({"ignored": of, "obj": object}))
            .collect::<Vec<_>>()
    };
    let [webhooks, annotations] = &argo_cd(&ask(&spoken))?[..] else {
        panic!("two answers")
    };
    let mut wanted = spoken.clone();
    wanted["webhooks"][0]["clientConfig"] = json!({"service": {}});
    assert_eq!(webhooks, &wanted);
    let mut wanted = spoken.clone();
    wanted["metadata"]["annotations"] = json!({"example.com/owner": "team-a"});
    assert_eq!(annotations, &wanted);
    // An object that nobody has spoken of is no error: Argo CD would leave the whole rule out.
    assert_eq!(argo_cd(&ask(&silent)[1..])?, [silent]);
    Ok(())
}
