//! What several clusters are given, one after the other: what each wave gets is taken by a real API server, Argo CD makes an Application of
//! each cluster, Flux and Open Cluster Management tell a Plan that is done from one that is not, and the rule that waits for another cluster
//! waits as long as it says.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use numo_cluster::{Cluster, Options};
use numo_install::{objects, root, said};
use numo_plugin_tests::programs::go_program;
use serde_json::{Value, json};

use crate::{
    gitops::strange,
    kustomize::{apply, install, run, until},
    monitoring::promtool,
};

const FOLDER: &str = "examples/several-clusters";
const RULE: &str = "examples/rule-another-cluster.yaml";
/// The waves, as folders of `upgrade`.
const WAVES: [&str; 2] = ["canary", "others"];

/// Fields of objects of Argo CD and of Open Cluster Management, as their references have them.
const APPLICATION_SET: [&str; 21] = [
    "spec.goTemplate",
    "spec.goTemplateOptions",
    "spec.generators.clusters.selector.matchExpressions.*",
    "spec.strategy.type",
    "spec.strategy.rollingSync.steps.matchExpressions.*",
    "spec.strategy.rollingSync.steps.maxUpdate",
    "spec.template.metadata.name",
    "spec.template.metadata.labels.*",
    "spec.template.spec.project",
    "spec.template.spec.source.repoURL",
    "spec.template.spec.source.path",
    "spec.template.spec.source.targetRevision",
    "spec.template.spec.destination.server",
    "spec.template.spec.destination.namespace",
    "spec.template.spec.ignoreDifferences.group",
    "spec.template.spec.ignoreDifferences.kind",
    "spec.template.spec.ignoreDifferences.jqPathExpressions",
    "spec.template.spec.syncPolicy.syncOptions",
    "spec.template.spec.syncPolicy.retry.limit",
    "spec.template.spec.syncPolicy.automated.prune",
    "spec.template.spec.syncPolicy.automated.selfHeal",
];
const OPEN_CLUSTER_MANAGEMENT: [&str; 28] = [
    "spec.clusterSet",
    "spec.clusterSets",
    "spec.predicates.requiredClusterSelector.labelSelector.*",
    "spec.tolerations.key",
    "spec.tolerations.operator",
    "spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup",
    "spec.decisionStrategy.groupStrategy.decisionGroups.groupName",
    "spec.decisionStrategy.groupStrategy.decisionGroups.groupClusterSelector.labelSelector.*",
    "spec.placementRefs.name",
    "spec.placementRefs.rolloutStrategy.type",
    "spec.placementRefs.rolloutStrategy.progressivePerGroup.mandatoryDecisionGroups.groupName",
    "spec.placementRefs.rolloutStrategy.progressivePerGroup.minSuccessTime",
    "spec.placementRefs.rolloutStrategy.progressivePerGroup.progressDeadline",
    "spec.placementRefs.rolloutStrategy.progressivePerGroup.maxFailures",
    "spec.manifestWorkTemplate.deleteOption.propagationPolicy",
    "spec.manifestWorkTemplate.manifestConfigs.resourceIdentifier.group",
    "spec.manifestWorkTemplate.manifestConfigs.resourceIdentifier.resource",
    "spec.manifestWorkTemplate.manifestConfigs.resourceIdentifier.namespace",
    "spec.manifestWorkTemplate.manifestConfigs.resourceIdentifier.name",
    "spec.manifestWorkTemplate.manifestConfigs.updateStrategy.type",
    "spec.manifestWorkTemplate.manifestConfigs.feedbackRules.type",
    "spec.manifestWorkTemplate.manifestConfigs.feedbackRules.jsonPaths.name",
    "spec.manifestWorkTemplate.manifestConfigs.feedbackRules.jsonPaths.path",
    "spec.manifestWorkTemplate.manifestConfigs.conditionRules.condition",
    "spec.manifestWorkTemplate.manifestConfigs.conditionRules.type",
    "spec.manifestWorkTemplate.manifestConfigs.conditionRules.celExpressions.expression",
    "spec.manifestWorkTemplate.manifestConfigs.conditionRules.message",
    "spec.manifestWorkTemplate.workload.manifests.*",
];

fn example(file: &str) -> Result<Vec<Value>> {
    objects(&fs::read_to_string(root().join(FOLDER).join(file))?)
}

/// The only object of a kind.
fn of_kind(all: &[Value], kind: &str) -> Result<Value> {
    let mut found = all.iter().filter(|one| one["kind"] == kind);
    found.next().cloned().with_context(|| format!("no {kind}"))
}

/// What the tools' own languages make of these lines; an error of one is the test's.
fn fleet(asked: &[Value]) -> Result<Vec<Value>> {
    let module = root().join("tests/install/fleet");
    let program = go_program(&module, &["go.mod", "go.sum", "main.go"], ".", "fleet")?;
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let lines: String = asked.iter().map(|line| line.to_string() + "\n").collect();
    let mut stdin = child.stdin.take().context("its input")?;
    let writes = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{output:?}");
    writes.join().expect("the writer")?;
    let answers = String::from_utf8(output.stdout)?;
    answers
        .lines()
        .zip(asked)
        .map(|(line, asked)| {
            let answer: Value = serde_json::from_str(line)?;
            ensure!(answer.get("error").is_none(), "{asked}: {answer}");
            Ok(answer)
        })
        .collect()
}

/// Everything that reaches a cluster is taken as it stands, and only clusters that go later wait for another.
#[tokio::test(flavor = "multi_thread")]
async fn what_each_cluster_gets_is_taken() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    install(&cluster).await?;
    run(&cluster, &["delete", "validatingwebhookconfiguration", "numo"])?;
    run(&cluster, &["apply", "-k", "deploy/kustomize/plans"])?;
    until(&cluster, &["get", "plans", "-A", "-o", "name"], "").await?;
    let strict = ["--dry-run=server", "--validate=strict"];
    let rule = of_kind(&objects(&fs::read_to_string(root().join(RULE))?)?, "MutexRule")?;
    apply(&cluster, &rule, &strict)?;
    for wave in WAVES {
        let rendered = run(&cluster, &["kustomize", &format!("{FOLDER}/upgrade/{wave}")])?;
        let all = objects(&rendered)?;
        assert!(!all.is_empty(), "{wave}");
        for one in &all {
            apply(&cluster, one, &strict).with_context(|| format!("{wave}: {one}"))?;
        }
        let plan = of_kind(&all, "Plan")?;
        let rules = plan.pointer("/spec/mutex/rules").cloned().unwrap_or_default();
        match wave {
            "canary" => assert_eq!(rules, Value::Null, "the first waits for nobody"),
            _ => assert_eq!(rules, json!([{"name": rule["metadata"]["name"]}]), "{wave}"),
        }
    }
    let work = of_kind(
        &example("open-cluster-management.yaml")?,
        "ManifestWorkReplicaSet",
    )?;
    let manifests = work.pointer("/spec/manifestWorkTemplate/workload/manifests");
    let manifests = manifests.and_then(Value::as_array).context("manifests")?;
    assert!(!manifests.is_empty());
    for one in manifests {
        apply(&cluster, one, &strict).with_context(|| one.to_string())?;
    }
    cluster.stop().await;
    Ok(())
}

/// What is waited for in the Plan is what the rule asks about.
#[test]
fn everything_speaks_of_the_same_plan() -> Result<()> {
    let plan = of_kind(&example("upgrade/base/plan.yaml")?, "Plan")?;
    let metadata = &plan["metadata"];
    let (namespace, name) = (metadata["namespace"].as_str(), metadata["name"].as_str());
    let (namespace, name) = (namespace.context("a namespace")?, name.context("a name")?);
    let rule = fs::read_to_string(root().join(RULE))?;
    let asks = format!("kind=\"Plan\",namespace=\"{namespace}\",name=\"{name}\"");
    assert_eq!(rule.matches(&asks).count(), 2, "{rule}");
    for one in example("flux.yaml")? {
        for check in one["spec"]["healthChecks"].as_array().into_iter().flatten() {
            assert_eq!(
                (&check["namespace"], &check["name"], &check["kind"]),
                (&json!(namespace), &json!(name), &json!("Plan"))
            );
        }
    }
    let work = of_kind(
        &example("open-cluster-management.yaml")?,
        "ManifestWorkReplicaSet",
    )?;
    let template = &work["spec"]["manifestWorkTemplate"];
    assert_eq!(template["workload"]["manifests"], json!([plan]));
    let identifier = &template["manifestConfigs"][0]["resourceIdentifier"];
    assert_eq!(
        identifier,
        &json!({"group": "upgrade.cattle.io", "resource": "plans", "namespace": namespace, "name": name})
    );
    Ok(())
}

#[test]
fn argo_cd_makes_an_application_of_each_cluster_and_each_is_in_one_wave() -> Result<()> {
    let set = of_kind(&example("argocd.yaml")?, "ApplicationSet")?;
    assert_eq!(strange(&set, &APPLICATION_SET), Vec::<String>::new());
    let template = &set["spec"]["template"];
    let text = |pointer: &str| {
        template
            .pointer(pointer)
            .and_then(Value::as_str)
            .context("a text")
    };
    // What the generator of clusters knows of each.
    let vars = |wave: &str| {
        json!({
            "name": "east_1", "nameNormalized": "east-1", "server": "https://east.example.com",
            "metadata": {"labels": {"example.com/wave": wave}, "annotations": {}},
        })
    };
    let mut asked = Vec::new();
    for wave in WAVES {
        for pointer in [
            "/metadata/name",
            "/metadata/labels/wave",
            "/spec/source/path",
            "/spec/destination/server",
        ] {
            asked.push(json!({"template": text(pointer)?, "vars": vars(wave)}));
        }
    }
    let made: Vec<String> = fleet(&asked)?
        .iter()
        .map(|one| one["text"].as_str().unwrap_or_default().to_owned())
        .collect();
    for (wave, made) in WAVES.iter().zip(made.chunks(4)) {
        let path = format!("upgrade/{wave}");
        assert_eq!(
            made,
            ["node-upgrades-east-1", wave, &path, "https://east.example.com"]
        );
        assert!(
            root()
                .join(FOLDER)
                .join(&path)
                .join("kustomization.yaml")
                .is_file()
        );
    }
    // A cluster in no step would be synced by nobody; one without the label is not taken.
    let values = |of: &Value| -> Vec<String> {
        let all = of["values"].as_array().into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let steps = set
        .pointer("/spec/strategy/rollingSync/steps")
        .and_then(Value::as_array);
    let steps: Vec<String> = steps
        .into_iter()
        .flatten()
        .flat_map(|step| values(&step["matchExpressions"][0]))
        .collect();
    let taken = set
        .pointer("/spec/generators/0/clusters/selector/matchExpressions/0")
        .map(values);
    assert_eq!(steps, WAVES);
    assert_eq!(taken, Some(steps));
    Ok(())
}

/// A Plan in a state, and whether it is done, or needs a person.
fn plans() -> Vec<(&'static str, Value, bool, bool)> {
    let plan = |latest: Option<&str>, all: &[(&str, &str, &str)]| {
        let of = |(kind, status, reason): &(&str, &str, &str)| json!({"type": kind, "status": status, "reason": reason});
        let conditions: Vec<Value> = all.iter().map(of).collect();
        json!({
            "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "metadata": {"name": "agents", "generation": 2},
            "spec": {"version": "v1.33.4+k3s1"}, "status": {"latestVersion": latest, "conditions": conditions},
        })
    };
    let now = Some("v1.33.4-k3s1");
    let done = ("Ready", "True", "UpToDate");
    let mut new = plan(None, &[]);
    new["status"] = json!({});
    vec![
        ("new", new, false, false),
        (
            "done with another version",
            plan(Some("v1.33.3-k3s1"), &[done]),
            false,
            false,
        ),
        (
            "under way",
            plan(
                now,
                &[
                    ("Ready", "False", "Progressing"),
                    ("Reconciling", "True", "Progressing"),
                ],
            ),
            false,
            false,
        ),
        (
            "failed",
            plan(
                now,
                &[("Ready", "False", "JobFailed"), ("Stalled", "True", "JobFailed")],
            ),
            false,
            true,
        ),
        ("done", plan(now, &[done]), true, false),
    ]
}

#[test]
fn open_cluster_management_tells_a_plan_that_is_done() -> Result<()> {
    let all = example("open-cluster-management.yaml")?;
    for one in &all {
        assert_eq!(
            strange(one, &OPEN_CLUSTER_MANAGEMENT),
            Vec::<String>::new(),
            "{one}"
        );
    }
    let work = of_kind(&all, "ManifestWorkReplicaSet")?;
    let rules = &work["spec"]["manifestWorkTemplate"]["manifestConfigs"][0]["conditionRules"];
    let is = |condition: &str, object: &Value| -> Result<bool> {
        let mut rules = rules.as_array().into_iter().flatten();
        let rule = rules
            .find(|rule| rule["condition"] == condition)
            .context("a rule")?;
        let expression = &rule["celExpressions"][0]["expression"];
        let said = fleet(&[json!({"expression": expression, "vars": {"object": object}})])?;
        Ok(said[0]["is"] == true)
    };
    let mut states = plans();
    let mut bare = states[0].1.clone();
    bare.as_object_mut().context("an object")?.remove("status");
    states.push(("without a status", bare, false, false));
    for (state, plan, is_done, has_failed) in states {
        assert_eq!(is("Progressing", &plan)?, !is_done, "{state}");
        assert_eq!(is("Degraded", &plan)?, has_failed, "{state}");
    }
    // The groups are those of the Placement, and the first of them is that which must succeed.
    let placement = of_kind(&all, "Placement")?;
    let groups = &placement["spec"]["decisionStrategy"]["groupStrategy"]["decisionGroups"];
    let reference = &work["spec"]["placementRefs"][0];
    assert_eq!(reference["name"], placement["metadata"]["name"]);
    let rollout = &reference["rolloutStrategy"];
    assert_eq!(rollout["type"], "ProgressivePerGroup");
    let first = &rollout["progressivePerGroup"]["mandatoryDecisionGroups"][0]["groupName"];
    assert_eq!(first, &groups[0]["groupName"]);
    Ok(())
}

#[test]
fn flux_tells_a_plan_that_is_done_and_waits_for_the_cluster_before() -> Result<()> {
    let all = example("flux.yaml")?;
    let all: Vec<&Value> = all.iter().filter(|one| one["kind"] == "Kustomization").collect();
    assert_eq!(all.len(), WAVES.len());
    let mut before: Option<&Value> = None;
    for (wave, one) in WAVES.iter().zip(&all) {
        fleet(&[json!({"kustomization": one})])?;
        let spec = &one["spec"];
        assert_eq!(spec["path"], format!("./upgrade/{wave}"));
        let waits_for = before.map(|before| json!([{"name": before["metadata"]["name"]}]));
        assert_eq!(spec.get("dependsOn").cloned(), waits_for);
        before = Some(one);
        let check = &spec["healthCheckExprs"][0];
        // Flux asks in this order, and the first that is true counts.
        let health = |plan: &Value| -> Result<&str> {
            for (field, health) in [
                ("inProgress", "in progress"),
                ("failed", "failed"),
                ("current", "current"),
            ] {
                if fleet(&[json!({"expression": check[field], "vars": plan})])?[0]["is"] == true {
                    return Ok(health);
                }
            }
            Ok("in progress")
        };
        for (state, plan, is_done, has_failed) in plans() {
            let wanted = match (is_done, has_failed) {
                (true, _) => "current",
                (_, true) => "failed",
                _ => "in progress",
            };
            assert_eq!(health(&plan)?, wanted, "{wave}: {state}");
        }
        if *wave == "others" {
            let mut soaks = plans()[3].1.clone();
            for one in [0, 1] {
                soaks["status"]["conditions"][one]["reason"] = json!("RuleWaits");
            }
            assert_eq!(
                health(&soaks)?,
                "in progress",
                "waiting for the other cluster is no failure"
            );
        }
    }
    Ok(())
}

/// The query of the rule about this version, as 1 where it lets the node begin and 0 where it does not.
fn question(version: &str) -> Result<String> {
    let rule = of_kind(&objects(&fs::read_to_string(root().join(RULE))?)?, "MutexRule")?;
    let asks = &rule["spec"]["prometheus"];
    ensure!(asks["operator"] == "GreaterOrEqual", "{asks}");
    ensure!(asks["noData"] == "Wait", "{asks}");
    let query = asks["query"].as_str().context("a query")?;
    Ok(format!(
        "({}) >= bool {}",
        query.replace("${toVersion}", version),
        asks["threshold"]
    ))
}

/// What Prometheus says of the rule after so many minutes, of a cluster whose owner has these reasons and targets by the minute.
struct Story {
    name: &'static str,
    series: &'static [(&'static str, &'static str)],
    /// Minutes, and what is said; none where there is no data.
    said: &'static [(u32, Option<u8>)],
}

const OLD: &str = r#"numo_owner_target_info{cluster="canary",kind="Plan",namespace="system-upgrade",name="agents",version="v1",pod="a"}"#;
const NEW: &str = r#"numo_owner_target_info{cluster="canary",kind="Plan",namespace="system-upgrade",name="agents",version="v2",pod="a"}"#;
const NEW_B: &str = r#"numo_owner_target_info{cluster="canary",kind="Plan",namespace="system-upgrade",name="agents",version="v2",pod="b"}"#;
const ELSEWHERE: &str = r#"numo_owner_target_info{cluster="test",kind="Plan",namespace="system-upgrade",name="agents",version="v2",pod="a"}"#;
const GOES_ON: &str = r#"numo_owner_reason{cluster="canary",kind="Plan",namespace="system-upgrade",name="agents",reason="Progressing",pod="a"}"#;
const NO_NODES: &str = r#"numo_owner_reason{cluster="canary",kind="Plan",namespace="system-upgrade",name="agents",reason="NoNodes",pod="a"}"#;
const DONE: &str = r#"numo_owner_reason{cluster="canary",kind="Plan",namespace="system-upgrade",name="agents",reason="UpToDate",pod="a"}"#;
const DONE_B: &str = r#"numo_owner_reason{cluster="canary",kind="Plan",namespace="system-upgrade",name="agents",reason="UpToDate",pod="b"}"#;
const DONE_ELSEWHERE: &str = r#"numo_owner_reason{cluster="test",kind="Plan",namespace="system-upgrade",name="agents",reason="UpToDate",pod="a"}"#;

const STORIES: [Story; 6] = [
    Story {
        name: "a cluster that has long been done with the version before has not finished",
        series: &[(OLD, "1x300"), (DONE, "1x300")],
        said: &[(200, None)],
    },
    Story {
        name: "it is waited until it is done, and for an hour from then on",
        series: &[
            (OLD, "1x30 stale"),
            (NEW, "_x31 1x300"),
            (DONE, "1x30 stale _x59 1x300"),
            (GOES_ON, "_x31 1x58 stale"),
        ],
        said: &[
            (29, None),
            (60, None),
            (100, Some(0)),
            (145, Some(0)),
            (155, Some(1)),
            (300, Some(1)),
        ],
    },
    Story {
        name: "the soak begins anew where nothing was known of it for a while",
        series: &[(NEW, "1x100 stale _x19 1x200"), (DONE, "1x100 stale _x19 1x200")],
        said: &[
            (90, Some(1)),
            (110, Some(0)),
            (130, Some(0)),
            (175, Some(0)),
            (185, Some(1)),
        ],
    },
    Story {
        name: "it is all the same which replica leads",
        series: &[
            (NEW, "1x50 stale"),
            (DONE, "1x50 stale"),
            (NEW_B, "_x51 1x100"),
            (DONE_B, "_x51 1x100"),
        ],
        said: &[(90, Some(1))],
    },
    Story {
        name: "another cluster is another cluster",
        series: &[(ELSEWHERE, "1x200"), (DONE_ELSEWHERE, "1x200")],
        said: &[(150, None)],
    },
    Story {
        name: "who has no nodes has shown nothing",
        series: &[(NEW, "1x200"), (NO_NODES, "1x200")],
        said: &[(150, None)],
    },
];

#[test]
fn the_rule_waits_until_the_other_cluster_has_finished_and_soaked() -> Result<()> {
    let question = json!(question("v2")?);
    let mut text = String::from("evaluation_interval: 1m\ntests:\n");
    for story in &STORIES {
        writeln!(text, "- name: {}\n  interval: 1m\n  input_series:", story.name)?;
        for (series, values) in story.series {
            writeln!(
                text,
                "  - {{series: {}, values: {}}}",
                json!(series),
                json!(values)
            )?;
        }
        text.push_str("  promql_expr_test:\n");
        for (minutes, value) in story.said {
            let samples = value.map_or_else(|| json!([]), |value| json!([{"labels": "{}", "value": value}]));
            writeln!(
                text,
                "  - {{expr: {question}, eval_time: {minutes}m, exp_samples: {samples}}}"
            )?;
        }
    }
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("stories.yaml"), &text)?;
    said(
        promtool()?
            .current_dir(folder.path())
            .args(["test", "rules", "stories.yaml"]),
    )
    .with_context(|| text.clone())?;
    // What it asks for there is.
    let reference = fs::read_to_string(root().join("operator/docs/reference/metrics.md"))?;
    let named: BTreeSet<&str> = ["numo_owner_reason", "numo_owner_target_info"].into();
    for metric in named {
        assert!(reference.contains(&format!("| `{metric}` |")), "{metric}");
        assert!(question.as_str().is_some_and(|asks| asks.contains(metric)));
    }
    Ok(())
}
