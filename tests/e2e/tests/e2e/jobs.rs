//! The Job runner: what reaches a rule's process, where it runs, and Jobs that can never start.

use std::time::{Duration, Instant};

use anyhow::Result;
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Namespace, ResourceQuota},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use numo_api::{Phase, Step, marks};
use numo_e2e::{NAMESPACE, Stage};
use numo_world::{Event, PoolSpec, WorldSpec};
use serde_json::{Value, json};

use crate::{
    Gate, NEW, OLD, apply, finish, happened, job, jobs, judgement, prepare, released, rule, rule_began,
    run_of, seen, set, target, verdicts, waits_in, workers,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_is_told_of_its_node_and_runs_where_it_asks_to() -> Result<()> {
    let stage = set(workers(3), Vec::new()).await?;
    let say = r#"echo "$NODE_NAME|$MUTEX_RULE|$FROM_VERSION|$TO_VERSION|$POOL|$RUN|$ATTEMPT|$MINE""#;
    let mut told = job(say);
    let own =
        json!([{"name": "POOL", "value": "swimming"}, {"name": "MINE", "value": "kept of $(NODE_NAME)"}]);
    told["template"]["spec"]["containers"][0]["env"] = own;
    let here = json!({"jobSpec": job("true"), "placement": "OnTarget"});
    let mut choosy = job("true");
    choosy["template"]["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["worker-1", "worker-2"]}]}]}}});
    let rules = [
        rule("told", json!({"jobSpec": job(say)})),
        rule("own", json!({"jobSpec": told})),
        rule("here", here),
        rule("choosy", json!({"jobSpec": choosy})),
    ];
    prepare(&stage, &rules, json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    finish(&stage).await?;
    stage
        .judge(&judgement(&["told", "own", "here", "choosy"], &[]))
        .await?;

    let run = stage.run("upgrade").await?;
    let id = run.status.and_then(|status| status.run).unwrap_or_default().id;
    for node in ["worker-0", "worker-1", "worker-2"] {
        let pods: Vec<_> = stage
            .world
            .log()
            .into_iter()
            .filter_map(|entry| match entry.event {
                Event::JobPodStarted { env, node: at, .. }
                    if env.get("NODE_NAME").is_some_and(|n| n == node) =>
                {
                    Some((env["MUTEX_RULE"].clone(), env, at))
                }
                _ => None,
            })
            .collect();
        assert_eq!(pods.len(), 4, "{node}: {pods:?}");
        for (rule, env, at) in pods {
            let expected = [
                ("FROM_VERSION", OLD),
                ("TO_VERSION", NEW),
                ("RUN", id.as_str()),
                ("ATTEMPT", "1"),
                ("POOL", if rule == "own" { "swimming" } else { "worker" }),
            ];
            for (name, value) in expected {
                assert_eq!(env.get(name).map(String::as_str), Some(value), "{rule} {name}");
            }
            // The stand-in of a kubelet expands no names in values: that numo's come before it says a unit test of runners/job.rs.
            assert_eq!(env.contains_key("MINE"), rule == "own");
            match rule.as_str() {
                "here" => assert_eq!(at, node, "placement OnTarget"),
                "choosy" => assert!(
                    at != node && ["worker-1", "worker-2"].contains(&at.as_str()),
                    "{at}"
                ),
                _ => assert_ne!(at, node, "placement NotOnTarget is the default"),
            }
        }
    }
    // What the process itself saw is in the end of its log.
    let first = stage.change("worker-0").await?.unwrap();
    let names: Vec<&str> = first
        .status
        .iter()
        .flat_map(|s| &s.verdicts)
        .map(|v| v.rule.as_str())
        .collect();
    let mut expected = ["told", "own", "here", "choosy"]
        .map(|name| format!("{NAMESPACE}/{name}"))
        .to_vec();
    // numo's own check, before and after.
    expected.extend(["workloads-ready".to_owned(), "workloads-ready".to_owned()]);
    assert_eq!(names, expected, "one after the other, as listed");
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_process_saw_is_in_the_journal() -> Result<()> {
    let stage = set(workers(1), Vec::new()).await?;
    // Long lines, of which the last are wanted, and a letter that is no UTF-8.
    let say = r#"i=0; while [ $i -lt 40 ]; do printf '%02000d\n' $i; i=$((i + 1)); done; printf 'gr\303\244n and l\344tin\n'
        echo "$NODE_NAME|$MUTEX_RULE|$FROM_VERSION|$TO_VERSION|$POOL|$ATTEMPT|$MINE""#;
    let mut told = job(say);
    let container = &mut told["template"]["spec"]["containers"][0];
    container["env"] = json!([{"name": "MINE", "value": "kept"}]);
    // Gone at once when it has ended, had its author his way; and never bounded.
    told["ttlSecondsAfterFinished"] = json!(0);
    let rules = [rule("told", json!({"jobSpec": told, "timeoutSeconds": 77}))];
    // One worker: the rule's pod must run on a master.
    let mut rules = rules;
    rules[0]["spec"]["placement"] = json!("Anywhere");
    prepare(&stage, &rules, json!({"soakSeconds": 4})).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "the rule's Job is there", |w| !w.state().jobs.is_empty()).await?;
    let job = jobs(&stage).await?.remove(0);
    let spec = job.spec.clone().unwrap_or_default();
    assert_eq!(
        spec.active_deadline_seconds,
        Some(77),
        "bounded by the rule's timeout"
    );
    let change = stage.step("worker-0", Step::Soaked).await?;
    assert_eq!(
        verdicts(&change, "told", Phase::Pre),
        [(1, numo_api::Outcome::Pass, Some(0))]
    );
    let tail = change.status.unwrap_or_default().log_tail.unwrap_or_default();
    let end = format!("0039\ngr\u{e4}n and l\u{fffd}tin\nworker-0|told|{OLD}|{NEW}|worker|1|kept");
    assert!(tail.ends_with(&end), "{tail}");
    // Its verdict is journaled: now it may go, as its author wished.
    let api = stage.api::<Job>();
    crate::gone(&stage, &api, &job.name_any()).await?;
    finish(&stage).await?;
    let requests = stage.requests()?;
    let at = |is: &dyn Fn(&numo_cluster::AuditEvent) -> bool| requests.iter().position(is);
    let journaled = at(&|r| r.resource == "nodechanges" && r.subresource == "status" && r.code < 300);
    let ttl = at(&|r| r.resource == "jobs" && r.verb == "patch" && r.code < 300);
    assert!(journaled.is_some() && journaled < ttl, "{journaled:?} {ttl:?}");
    stage.judge(&judgement(&["told"], &[])).await?;
    stage.strike().await
}

pub async fn namespace(stage: &Stage, name: &str, labels: Value) -> Result<()> {
    let api: Api<Namespace> = Api::all(stage.client.clone());
    let object: Namespace = serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}}))?;
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}

/// Invites numo to run Jobs in a namespace.
pub async fn invite(stage: &Stage, namespace: &str) -> Result<()> {
    let invitation = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "numo-rule-jobs", "namespace": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "numo-rule-jobs"},
        "subjects": [{"kind": "ServiceAccount", "name": "numo", "namespace": NAMESPACE}],
    });
    apply(stage, &[invitation]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_start_is_seen_within_seconds_and_releases_nothing() -> Result<()> {
    let names = ["image", "quota", "secure", "stranger", "lost"];
    let world = WorldSpec {
        pools: names
            .iter()
            .map(|name| PoolSpec {
                // The last two are refused before anything is paused.
                paused: ["stranger", "lost"].contains(name),
                ..PoolSpec::new(name, 1)
            })
            .collect(),
        ..WorldSpec::default()
    };
    let mut stage = set(world, Vec::new()).await?;
    namespace(&stage, "quota", json!({})).await?;
    namespace(
        &stage,
        "secure",
        json!({"pod-security.kubernetes.io/enforce": "restricted"}),
    )
    .await?;
    namespace(&stage, "stranger", json!({})).await?;
    invite(&stage, "quota").await?;
    invite(&stage, "secure").await?;
    let quota: ResourceQuota =
        serde_json::from_value(json!({"metadata": {"name": "no-pods"}, "spec": {"hard": {"pods": "0"}}}))?;
    let quotas: Api<ResourceQuota> = Api::namespaced(stage.client.clone(), "quota");
    quotas.create(&PostParams::default(), &quota).await?;
    stage
        .until("the quota is enforced", 60, || async {
            let status = quotas.get("no-pods").await?.status.unwrap_or_default();
            Ok(status.hard.filter(|hard| !hard.is_empty()))
        })
        .await?;
    for name in names {
        let mut spec = job("true");
        if name == "image" {
            spec["template"]["spec"]["containers"][0]["image"] = json!("registry.example/does-not-exist:1");
        }
        let place = if name == "image" { NAMESPACE } else { name };
        let mut run = run_of(
            &[name],
            json!({"mutexTargets": [{"name": name}], "adoptPaused": true}),
        );
        run["metadata"]["name"] = json!(name);
        apply(
            &stage,
            &[
                rule(name, json!({"jobNamespace": place, "jobSpec": spec})),
                target(name, &[name]),
                run,
            ],
        )
        .await?;
    }
    for name in &names[..3] {
        stage.condition(name, "Ready", "True", "UpToDate").await?;
    }
    stage.world.upgrade_to(NEW).await?;
    let began = |name: &'static str| {
        move |w: &numo_world::World| {
            w.state()
                .jobs
                .keys()
                .any(|key| key.rsplit('/').next().unwrap_or(key).starts_with(name))
        }
    };
    for name in &names[..3] {
        seen(&stage, "its Job is there", began(name)).await?;
    }
    let clock = Instant::now();
    for (name, words) in [
        ("image", vec!["ErrImagePull", "ImagePullBackOff"]),
        ("quota", vec!["exceeded quota"]),
        ("secure", vec!["violates PodSecurity"]),
    ] {
        let why = waits_in(&stage, name, "RuleJobCannotStart").await?;
        assert!(
            words.iter().any(|word| why.contains(word)),
            "{name}: none of {words:?} in: {why}"
        );
        assert!(
            why.contains(&format!("{NAMESPACE}/{name}")),
            "names the rule: {why}"
        );
        let why = stage
            .condition(name, "Ready", "False", "RuleJobCannotStart")
            .await?;
        assert!(why.contains(&format!("{name}-0")), "names the node: {why}");
        stage.event("MutexRunConfig", name, "RuleJobCannotStart").await?;
        let text = stage.say(&["explain", &format!("{name}-0")]).await?;
        assert!(
            text.contains("RuleJobCannotStart") && words.iter().any(|w| text.contains(w)),
            "{text}"
        );
    }
    assert!(
        clock.elapsed() < Duration::from_secs(30),
        "within seconds: {:?}",
        clock.elapsed()
    );
    for (name, words) in [
        ("stranger", ["spec.jobNamespace", "RoleBinding", "numo-rule-jobs"]),
        ("lost", ["spec.jobNamespace", "found no namespace lost", "wanted"]),
    ] {
        let why = stage.condition(name, "Ready", "False", "RuleInvalid").await?;
        for word in words {
            assert!(why.contains(word), "{name}: no {word} in: {why}");
        }
        let message = stage
            .condition(name, "ConfigValidated", "False", "FetchFailed")
            .await?;
        assert!(message.contains(words[1]), "{message}");
    }
    assert!(released(&stage.world).is_empty(), "nothing is released");

    // Whoever can end it ends it; nobody tells numo.
    quotas.delete("no-pods", &DeleteParams::default()).await?;
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    let relax = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}});
    namespaces
        .patch("secure", &PatchParams::default(), &Patch::Merge(relax))
        .await?;
    invite(&stage, "stranger").await?;
    namespace(&stage, "lost", json!({})).await?;
    invite(&stage, "lost").await?;
    for name in &names[1..] {
        stage.upgraded(name, NEW).await?;
        stage.condition(name, "Ready", "True", "Succeeded").await?;
        assert!(rule_began(&stage.world, name, &format!("{name}-0")));
    }
    assert!(!happened(&stage.world, "image-0", |e| matches!(
        e,
        Event::DesiredConfigSet { .. }
    )));
    let mut expected = judgement(&[], &[]);
    expected.targets = names[1..].iter().map(|name| (*name).to_owned()).collect();
    expected.max_in_flight = 4;
    expected.restored = false;
    stage.judge(&expected).await?;
    // It asked where it was not invited, and was told so.
    stage.may_lack_rights = true;
    stage.strike().await
}

/// At most one Job at a time for each attempt, and none that outlives its rule's time.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_takes_too_long_is_dead_and_its_node_is_held() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let gate = Gate::new()?;
    let rules = [rule(
        "slow",
        json!({"jobSpec": job(&gate.wait()), "timeoutSeconds": 3}),
    )];
    prepare(&stage, &rules, json!({})).await?;
    stage.world.upgrade_to(NEW).await?;
    let held = stage.step("worker-0", Step::Held).await?;
    let status = held.status.unwrap_or_default();
    assert_eq!(status.reason.as_deref(), Some("RuleFailed"));
    assert_eq!(status.verdicts[0].reason, "DeadlineExceeded", "{status:?}");
    seen(&stage, "its pod is gone or has ended", |w| {
        w.state().pods.values().all(|pod| pod.phase != "Running")
    })
    .await?;
    let all = jobs(&stage).await?;
    assert_eq!(all.len(), 1);
    assert!(all[0].labels().contains_key(marks::JOB_RUN));
    assert!(released(&stage.world).is_empty());
    stage.strike().await
}
