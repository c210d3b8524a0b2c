//! `numo preview`: what would come of it, before it does, and without a write; on the cluster and from a snapshot of it.

use anyhow::{Context as _, Result};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use numo_e2e::{NAMESPACE, Stage};
use numo_world::{PoolSpec, WorldSpec};
use serde_json::{Value, json};

use crate::{NEW, apply, job, maintenance, prepare, rule, run_of, set, target, with_component, workers};

/// What a preview says of one owner, and its exit code.
pub(crate) async fn preview(stage: &Stage, arguments: &[&str]) -> Result<(Value, Option<i32>)> {
    let said = stage
        .call(&[&["preview", "-o", "json"], arguments].concat())
        .await?;
    let mut found: Vec<Value> = serde_json::from_str(&said.out).with_context(|| format!("{said:?}"))?;
    Ok((found.pop().with_context(|| format!("{said:?}"))?, said.code))
}

/// The nodes of each batch of a preview.
pub(crate) fn together(found: &Value) -> Value {
    let batches = found["batches"].as_array().into_iter().flatten();
    batches.map(|batch| batch["nodes"].clone()).collect()
}

fn texts<'a>(found: &'a Value, list: &str, field: &str) -> Vec<&'a str> {
    let all = found[list].as_array().into_iter().flatten();
    all.filter_map(|one| one[field].as_str()).collect()
}

/// What a verb asked of the API server that could write.
fn writes(stage: &Stage, verb: &str, from: usize) -> Result<Vec<String>> {
    let all = stage.cluster.audit()?;
    let of = all[from..].iter().filter(|event| event.user_agent.contains(verb));
    let of = of
        .filter(|event| !["get", "list", "watch"].contains(&event.verb.as_str()))
        .filter(|event| event.resource != "subjectaccessreviews" && !event.uri.contains("dryRun=All"));
    Ok(of.map(|event| format!("{} {}", event.verb, event.uri)).collect())
}

/// What makes a drain cost something, or never pass: a pod of nobody, one that is alone, and a volume that is on the node.
fn around(node: &str) -> Vec<Value> {
    let lonely = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lonely", "namespace": "default"},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "app", "image": "app", "command": ["sleep", "36000"]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}],
        },
    });
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "disk", "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "disk",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": "",
            "claimRef": {"namespace": "default", "name": "disk"},
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]},
            ]}]}},
        },
    });
    vec![
        volume,
        claim,
        lonely,
        maintenance::deployment("single", 1, maintenance::on(node)),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_seen_before_it_runs_and_nothing_is_written() -> Result<()> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new("worker", 5)],
        ..WorldSpec::default()
    };
    let stage = set(world, Vec::new()).await?;
    let open =
        json!({"type": "cel", "cel": {"validations": [{"expression": "node.metadata.name != 'worker-9'"}]}});
    let shut = json!({"type": "cel", "cel": {"validations": [
        {"expression": "false", "message": "not on a Sunday", "otherwise": "Wait"}]}});
    // A component, from a registry.
    let (_published, component) = with_component(&stage).await?;
    let rules = [
        component,
        rule("open", open),
        rule("checked", json!({"jobSpec": job("true")})),
        rule("shut", shut),
    ];
    prepare(&stage, &rules, json!({"maxUnavailable": 2, "order": "Name"})).await?;
    // A pod behind a budget that can never open, and one that is alone.
    let pod = maintenance::on("worker-0");
    apply(&stage, &[maintenance::deployment("shop", 2, pod.clone())]).await?;
    maintenance::running(&stage, "shop", "worker-0", 2).await?;
    apply(&stage, &[maintenance::budget("shop", json!(0))]).await?;
    let hook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "theirs"},
        "webhooks": [{
            "name": "judge.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail",
            "clientConfig": {"service": {"name": "judge", "namespace": "default", "path": "/"}},
            "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["things"], "operations": ["CREATE"]}],
        }],
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "judge-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "judge"}},
        "endpoints": [{"addresses": ["10.1.1.1"], "nodeName": "worker-3", "conditions": {"ready": true}}],
        "ports": [{"port": 443}],
    });
    apply(&stage, &[hook, slice]).await?;
    apply(&stage, &around("worker-1")).await?;
    maintenance::running(&stage, "single", "worker-1", 1).await?;

    let before = stage.cluster.audit()?.len();
    // Nothing is to be done yet: a later version is assumed.
    let (found, code) = preview(
        &stage,
        &[
            "mutexrunconfig/upgrade",
            "-n",
            NAMESPACE,
            "--to-version",
            "4.18.0",
        ],
    )
    .await?;
    assert_eq!(
        (&found["assumed"], &found["target"]),
        (&json!(true), &json!("4.18.0")),
        "{found:#}"
    );
    let batches = json!([["worker-0", "worker-1"], ["worker-2", "worker-3"], ["worker-4"]]);
    assert_eq!(together(&found), batches, "{found:#}");
    // Nobody knows how long a node takes: the beginning of the first batch alone is told.
    assert!(found["forecast"].is_null(), "{found:#}");
    let begins = |batch: usize| found["batches"][batch]["begins"].is_string();
    assert!(begins(0) && !begins(1), "{found:#}");
    assert!(found["batches"][0]["doneBy"].is_null(), "{found:#}");
    assert_eq!(found["refused"], json!([]), "{found:#}");
    let said: Vec<(&str, &str)> = texts(&found, "rules", "rule")
        .into_iter()
        .zip(texts(&found, "rules", "verdict"))
        .collect();
    let of = |name: &str, verdict: &str| said.contains(&(format!("{NAMESPACE}/{name}").as_str(), verdict));
    assert!(
        of("component", "pass") && of("open", "pass") && of("checked", "dry-run") && of("shut", "wait"),
        "{said:?}"
    );
    assert_eq!(found["missing"], json!([]), "numo has what it needs");
    let drains = texts(&found, "drains", "message");
    for words in [
        "Pod default/lonely",
        "default/single",
        "volume disk, which is on one node",
    ] {
        assert!(
            drains.iter().any(|one| one.contains(words)),
            "{words}: {drains:#?}"
        );
    }
    assert!(
        drains
            .iter()
            .any(|one| one.contains("can never be evicted") && one.contains("PodDisruptionBudget")),
        "{drains:#?}"
    );
    let webhooks = found["webhooks"].to_string();
    assert!(
        webhooks.contains("judge.example.com") && webhooks.contains("worker-3"),
        "{webhooks}"
    );
    assert_eq!(code, Some(3), "the budget stands against it");

    // A manifest that is not applied yet, and one that cannot be.
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("run.yaml");
    let mut manifest = run_of(&["open", "missing"], json!({}));
    manifest["metadata"]["name"] = json!("next");
    std::fs::write(&file, manifest.to_string())?;
    let path = file.to_string_lossy().into_owned();
    let (found, code) = preview(&stage, &["-f", &path, "-n", NAMESPACE]).await?;
    assert_eq!(
        found["object"],
        json!({"apiGroup": numo_api::GROUP, "kind": "MutexRunConfig", "namespace": NAMESPACE, "name": "next"}),
        "{found:#}"
    );
    assert!(
        texts(&found, "refused", "reason").contains(&"RuleNotFound"),
        "{found:#}"
    );
    assert_eq!(code, Some(3));
    manifest["spec"]["window"] = json!({"timeZone": "Mars/Base", "openings": [{"days": ["mon"]}]});
    std::fs::write(&file, manifest.to_string())?;
    let (found, code) = preview(&stage, &["-f", &path, "-n", NAMESPACE]).await?;
    assert!(
        code == Some(3) && texts(&found, "refused", "reason").contains(&"InvalidField"),
        "{found:#}"
    );
    // What the API server itself refuses is said in its words.
    manifest["spec"].as_object_mut().unwrap().remove("window");
    for (limit, words) in [
        (json!({"a": 1}), "maxUnavailable"),
        (json!("many"), "found many, wanted a whole number such as 2"),
    ] {
        manifest["spec"]["maxUnavailable"] = limit;
        std::fs::write(&file, manifest.to_string())?;
        let said = stage.call(&["preview", "-f", &path, "-n", NAMESPACE]).await?;
        assert!(said.code == Some(2) && said.err.contains(words), "{said:?}");
    }
    std::fs::write(&file, "kind: [")?;
    let said = stage.call(&["preview", "-f", &path]).await?;
    assert!(said.code == Some(2) && said.err.contains("run.yaml"), "{said:?}");

    // Several in a list, as kubectl writes them.
    manifest["spec"]["maxUnavailable"] = json!(1);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [manifest]});
    std::fs::write(&file, list.to_string())?;
    let (found, _) = preview(&stage, &["-f", &path, "-n", NAMESPACE]).await?;
    assert_eq!(
        found["object"],
        json!({"apiGroup": numo_api::GROUP, "kind": "MutexRunConfig", "namespace": NAMESPACE, "name": "next"}),
        "{found:#}"
    );

    // Who may look and no more is told what nobody could ask for them; it does not stand against anything.
    let viewer = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "looks"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "numo-viewer"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "viewer@example.com"}],
    });
    apply(&stage, &[viewer]).await?;
    let asked = [
        "mutexrunconfig/upgrade",
        "-n",
        NAMESPACE,
        "--to-version",
        NEW,
        "--as",
        "viewer@example.com",
    ];
    let (found, _) = preview(&stage, &asked).await?;
    assert_eq!(found["missing"], json!([]), "{found:#}");
    let verdicts = found["rules"].as_array().cloned().unwrap_or_default();
    let of_job = verdicts
        .iter()
        .find(|one| one["rule"] == format!("{NAMESPACE}/checked"));
    assert_eq!(
        of_job.map(|one| &one["verdict"]),
        Some(&json!("unknown")),
        "{verdicts:#?}"
    );
    let said = stage.call(&[&["preview"], &asked[..]].concat()).await?;
    assert!(said.err.contains("could not see"), "{said:?}");

    // A right that numo lacks is missing, and so is the invitation of a namespace.
    let roles: Api<ClusterRole> = Api::all(stage.client.clone());
    let looks = json!([{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "watch"]}]);
    let mut whole = Vec::new();
    // Plans need Jobs, too, and are invited by a role of their own.
    for name in ["numo-rule-jobs", "numo-plans"] {
        whole.push((name, roles.get(name).await?.rules));
        let patch = Patch::Merge(json!({"rules": looks}));
        roles.patch(name, &PatchParams::default(), &patch).await?;
    }
    let asked = ["mutexrunconfig/upgrade", "-n", NAMESPACE, "--to-version", NEW];
    let lacks = || async {
        let (found, code) = preview(&stage, &asked).await?;
        let missing = found["missing"].to_string();
        let verdicts = found["rules"].to_string();
        let is = missing.contains("create jobs") && verdicts.contains("bind ClusterRole numo-rule-jobs");
        Ok((is && code == Some(3)).then_some(()))
    };
    stage.until("what numo lacks is missing", 60, lacks).await?;
    for (name, rules) in whole {
        let patch = Patch::Merge(json!({"rules": rules}));
        roles.patch(name, &PatchParams::default(), &patch).await?;
    }

    // A plain text for people.
    let said = stage
        .call(&["preview", "-n", NAMESPACE, "upgrade", "--to-version", NEW])
        .await?;
    for words in [
        "order   5 nodes in 3 batches",
        "times   not known",
        "rule    ",
        "drain   Node worker-0: never",
    ] {
        assert!(
            said.out.contains(words),
            "preview says nothing of {words}: {said:?}"
        );
    }
    assert_eq!(writes(&stage, "preview", before)?, Vec::<String>::new());
    assert!(!stage.world.state().pools["worker"].paused);
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_previewed_without_the_cluster() -> Result<()> {
    let stage = set(workers(3), Vec::new()).await?;
    let secret = rule("checked", json!({"jobSpec": job("curl -H 'token: swordfish' x")}));
    prepare(&stage, &[secret], json!({"order": "Name"})).await?;
    stage.world.upgrade_to(NEW).await?;
    apply(&stage, &[target("others", &["worker"])]).await?;
    let before = stage.cluster.audit()?.len();
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("cluster.json");
    let path = file.to_string_lossy().into_owned();
    stage.say(&["snapshot", "-f", &path]).await?;
    assert_eq!(writes(&stage, "snapshot", before)?, Vec::<String>::new());
    let text = std::fs::read_to_string(&file)?;
    assert!(
        !text.contains("swordfish") && text.contains("worker-2"),
        "it is scrubbed"
    );
    // No cluster is needed: an address where nobody is.
    let said = stage
        .call(&[
            "preview",
            "--snapshot",
            &path,
            "-n",
            NAMESPACE,
            "upgrade",
            "-o",
            "json",
            "--kubeconfig",
            "/nowhere",
        ])
        .await?;
    let found: Vec<Value> = serde_json::from_str(&said.out).with_context(|| format!("{said:?}"))?;
    let turns: usize = found[0]["batches"].as_array().map_or(0, |batches| {
        let nodes = batches.iter().map(|batch| batch["nodes"].as_array());
        nodes.map(|nodes| nodes.map_or(0, Vec::len)).sum()
    });
    assert_eq!(turns, 3, "{:#}", found[0]);
    assert_eq!(found[0]["target"], NEW);
    // Truncated, and of another version.
    std::fs::write(&file, &text[..text.len() / 2])?;
    let said = stage.call(&["preview", "--snapshot", &path, "upgrade"]).await?;
    assert!(
        said.code == Some(2) && said.err.contains("truncated") && said.err.contains("numo snapshot"),
        "{said:?}"
    );
    std::fs::write(&file, text.replacen("\"format\":1", "\"format\":7", 1))?;
    let said = stage.call(&["preview", "--snapshot", &path, "upgrade"]).await?;
    assert!(said.code == Some(2) && said.err.contains("format 7"), "{said:?}");
    stage.strike().await
}
