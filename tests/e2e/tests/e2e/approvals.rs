//! Approvals: a run and its second wave wait for a person who may approve, and who may edit the run may not.

use anyhow::{Context as _, Result};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::{DynamicObject, GroupVersionKind},
    discovery::ApiResource,
};
use numo_api::{Condition, MutexApproval, MutexBinding, MutexRunConfig, Plan, conditions::types};
use numo_e2e::{Answers, NAMESPACE, Sink, Stage, client_of};
use serde_json::{Value, json};

use crate::{
    NEW, apply, explained, finish, judgement, notifiers::notifier, plans, prepare, released, set, waits,
    workers,
};

/// A user of the cluster, who is bound to these ClusterRoles.
fn bound(user: &str, roles: &[&str]) -> Vec<Value> {
    let binding = |role: &&str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("{user}-{role}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": user, "namespace": NAMESPACE}],
        })
    };
    roles.iter().map(binding).collect()
}

fn account(user: &str) -> String {
    format!("system:serviceaccount:{NAMESPACE}:{user}")
}

/// What `numo approve` says to a user: exit code and words.
async fn approve(stage: &Stage, user: &str, more: &[&str]) -> Result<(Option<i32>, String)> {
    let user = account(user);
    let fixed = [
        "approve",
        "mutexrunconfig/upgrade",
        "-n",
        NAMESPACE,
        "--as",
        &user,
    ];
    let said = stage.call(&[&fixed, more].concat()).await?;
    Ok((said.code, format!("{}{}", said.out, said.err)))
}

/// Who may edit the run edits other fields of it, and not those by which somebody must approve.
async fn takes_out_no_approval(stage: &Stage, user: &str) -> Result<()> {
    let of_user = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": user, "namespace": NAMESPACE}});
    apply(stage, &[of_user]).await?;
    let kubeconfig = stage.cluster.service_account_kubeconfig(NAMESPACE, user).await?;
    let runs: Api<MutexRunConfig> = Api::namespaced(client_of(&kubeconfig).await?, NAMESPACE);
    let edit = async |spec: Value| {
        let patch = Patch::Merge(json!({"spec": spec}));
        runs.patch("upgrade", &PatchParams::default(), &patch).await
    };
    edit(json!({"soakSeconds": 0, "failureBudget": 2})).await?;
    for (field, value) in [
        ("approval", Value::Null),
        ("approval", json!({"begin": "None"})),
        ("approval", json!({"begin": "Manual", "ttlSeconds": 1_000_000})),
        ("waves", json!([{"nodes": 3}])),
        (
            "waves",
            json!([{"nodeSelector": {}}, {"nodes": 2, "approval": "Manual"}]),
        ),
        ("order", json!("Newest")),
        ("mutexTargets", json!([{"name": "others"}])),
    ] {
        let said = edit(json!({field: value})).await.err();
        let said = said.map(|error| error.to_string()).unwrap_or_default();
        let wanted = format!("spec.{field}: found an edit by {}", account(user));
        assert!(said.contains(&wanted), "{field} {value}: {said}");
    }
    // One that is made anew would ask nobody.
    let said = runs.delete("upgrade", &DeleteParams::default()).await.err();
    let said = said.map(|error| error.to_string()).unwrap_or_default();
    assert!(said.contains("spec.approval: found a deletion by "), "{said}");
    of_a_plan(stage, &kubeconfig).await?;
    of_a_binding(stage, &kubeconfig).await?;
    // Who may approve may say that nobody has to.
    stage
        .patch_run(
            "upgrade",
            json!({"spec": {"approval": {"begin": "Manual", "afterFailure": "Manual"}}}),
        )
        .await
}

/// The same for a MutexBinding, which nobody deletes either who may not approve.
async fn of_a_binding(stage: &Stage, editor: &std::path::Path) -> Result<()> {
    let binding = json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBinding", "metadata": {"name": "guarded"},
        "spec": {"ownerSelector": {"kind": "NodeMaintenance"}, "approval": {"begin": "Manual"}},
    });
    apply(stage, &[binding]).await?;
    let bindings: Api<MutexBinding> = Api::all(client_of(editor).await?);
    let edit = async |spec: Value| {
        let patch = Patch::Merge(json!({"spec": spec}));
        bindings.patch("guarded", &PatchParams::default(), &patch).await
    };
    edit(json!({"soakSeconds": 1})).await?;
    for (field, spec) in [
        ("spec.approval", json!({"approval": null})),
        (
            "spec.ownerSelector",
            json!({"ownerSelector": {"labels": {"matchLabels": {"a": "b"}}}}),
        ),
    ] {
        let said = edit(spec.clone()).await.err();
        let said = said.map(|error| error.to_string()).unwrap_or_default();
        assert!(
            said.contains(&format!("{field}: found an edit by ")),
            "{spec}: {said}"
        );
    }
    let said = bindings.delete("guarded", &DeleteParams::default()).await.err();
    let said = said.map(|error| error.to_string()).unwrap_or_default();
    assert!(said.contains("spec.approval: found a deletion by "), "{said}");
    let bindings: Api<MutexBinding> = Api::all(stage.person.clone());
    bindings.delete("guarded", &DeleteParams::default()).await?;
    Ok(())
}

/// The same for a Plan, whose fields are in spec.mutex.
async fn of_a_plan(stage: &Stage, editor: &std::path::Path) -> Result<()> {
    let spec = json!({"mutex": {"waves": [{"nodes": 1, "approval": "Manual"}], "approval": {"afterFailure": "Manual"}}});
    let mut plan = plans::plan("guarded", "true", spec);
    plan["metadata"]["namespace"] = json!(NAMESPACE);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "edits-plans"},
        "rules": [{"apiGroups": ["upgrade.cattle.io"], "resources": ["plans"], "verbs": ["get", "patch"]}],
    });
    apply(stage, &[plan, role]).await?;
    apply(stage, &bound("editor", &["edits-plans"])).await?;
    let plans: Api<Plan> = Api::namespaced(client_of(editor).await?, NAMESPACE);
    let edit = async |spec: Value| {
        let patch = Patch::Merge(json!({"spec": spec}));
        plans.patch("guarded", &PatchParams::default(), &patch).await
    };
    edit(json!({"concurrency": 2, "mutex": {"soakSeconds": 1}})).await?;
    for (field, spec) in [
        ("spec.mutex.approval", json!({"mutex": null})),
        ("spec.mutex.approval", json!({"mutex": {"approval": null}})),
        ("spec.mutex.waves", json!({"mutex": {"waves": null}})),
        ("spec.mutex.waves", json!({"mutex": {"waves": null, "first": {}}})),
        (
            "spec.nodeSelector",
            json!({"nodeSelector": {"matchLabels": {"a": "b"}}}),
        ),
    ] {
        let said = edit(spec.clone()).await.err();
        let said = said.map(|error| error.to_string()).unwrap_or_default();
        assert!(
            said.contains(&format!("{field}: found an edit by ")),
            "{spec}: {said}"
        );
    }
    let plans: Api<Plan> = Api::namespaced(stage.person.clone(), NAMESPACE);
    plans.delete("guarded", &DeleteParams::default()).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_waits_for_who_may_approve_it_and_not_for_who_may_edit_it() -> Result<()> {
    let stage = set(workers(3), Vec::new()).await?;
    let roles = [
        bound(
            "editor",
            &["admin", "edit", "numo-edit", "numo-admin", "numo-viewer"],
        ),
        bound("approver", &["numo-approver", "numo-viewer"]),
    ];
    apply(&stage, &roles.concat()).await?;
    let spec = json!({
        "approval": {"begin": "Manual"},
        "waves": [{"nodes": 1}, {"name": "others", "nodes": 2, "approval": "Manual"}],
    });
    prepare(&stage, &[], spec).await?;
    let (sink, url) = Sink::serve(Answers::Takes).await?;
    apply(
        &stage,
        &[notifier("events", json!({"cloudEvents": {"url": url}}))],
    )
    .await?;
    takes_out_no_approval(&stage, "editor").await?;
    let idle = approve(&stage, "approver", &["--reason", "too early"]).await?;
    assert_eq!(idle.0, Some(2), "{idle:?}");
    assert!(idle.1.contains("waits for no approval"), "{idle:?}");
    stage.world.upgrade_to(NEW).await?;
    let message = waits(&stage, "WaitsForApproval").await?;
    assert!(
        message.contains("numo approve mutexrunconfig/upgrade"),
        "{message}"
    );
    let other = stage.call(&["approve", "--list", "-n", "kube-system"]).await?;
    assert!(
        other
            .out
            .contains("nothing waits for an approval in namespace kube-system"),
        "{other:?}"
    );
    assert!(
        other
            .err
            .contains("in other namespaces 1 owner waits for an approval"),
        "{other:?}"
    );
    let listed = stage.say(&["approve", "--list", "-A"]).await?;
    assert!(listed.contains("upgrade: WaitsForApproval"), "{listed}");
    let listed = stage.say(&["approve", "--list", "-n", NAMESPACE]).await?;
    assert!(listed.contains("upgrade: WaitsForApproval"), "{listed}");

    // Who may edit the run may not approve it, and nobody approves for another.
    let refused = approve(&stage, "editor", &["--reason", "trust me"]).await?;
    assert_eq!(refused.0, Some(1), "{refused:?}");
    assert!(refused.1.contains("forbidden"), "{refused:?}");
    let claim = json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexApproval",
        "metadata": {"name": "claim"},
        "spec": {
            "owner": {"apiGroup": numo_api::GROUP, "kind": "MutexRunConfig", "namespace": NAMESPACE, "name": "upgrade"},
            "digest": "d", "reason": "r", "approvedBy": account("approver"),
        },
    });
    let claimed = apply(&stage, &[claim]).await.expect_err("a false name was taken");
    let words = format!("{claimed:?}");
    assert!(words.contains("nobody approves for another"), "{words}");
    assert!(released(&stage.world).is_empty());

    let given = approve(&stage, "approver", &["--reason", "reviewed"]).await?;
    assert_eq!(given.0, Some(0), "{given:?}");
    explained(
        &stage,
        "worker-1",
        "wave 2 of 2 (others) begins when it is approved",
        120,
    )
    .await?;
    assert_eq!(released(&stage.world).len(), 1);
    let said = stage.say(&["explain", "mutexrunconfig/upgrade"]).await?;
    assert!(
        said.contains(&account("approver")) && said.contains("reviewed"),
        "{said}"
    );
    let other = approve(&stage, "approver", &["--wave", "1", "--reason", "again"]).await?;
    assert_eq!(other.0, Some(2), "{other:?}");
    assert!(
        other.1.contains("waits for the approval of wave 2 of 2 (others)"),
        "{other:?}"
    );
    let given = approve(
        &stage,
        "approver",
        &["--wave", "others", "--reason", "one is fine"],
    )
    .await?;
    assert_eq!(given.0, Some(0), "{given:?}");
    finish(&stage).await?;
    is_told(&stage, &sink).await?;
    stage.judge(&judgement(&[], &[])).await?;
    stage.strike().await
}

/// Each thing that was waited for was told once, and each wave that is done.
async fn is_told(stage: &Stage, sink: &Sink) -> Result<()> {
    sink.until(stage, "Finished", "upgrade").await?;
    let of = |transition: &str| {
        let events = sink.events().into_iter();
        let of = events.filter(|event| {
            event["data"]["transition"] == transition && event["data"]["owner"]["name"] == "upgrade"
        });
        let words = of.map(|event| event["data"]["message"].as_str().unwrap_or_default().to_owned());
        words.collect::<Vec<_>>()
    };
    let waited = of("WaitsForApproval");
    assert_eq!(waited.len(), 2, "{waited:?}");
    assert!(waited[0].starts_with("the first node begins"), "{waited:?}");
    assert!(waited[1].starts_with("wave 2 of 2 (others) begins"), "{waited:?}");
    let waves = of("WaveDone");
    assert_eq!(
        waves,
        ["wave 1: 1 of 1 node done", "wave 2 (others): 2 of 2 nodes done"]
    );
    assert_eq!(of("RunBegan").len(), 1);
    Ok(())
}

/// What an approval says of itself, once it has this status and this reason.
async fn says(stage: &Stage, name: &str, (status, reason): (&str, &str)) -> Result<Condition> {
    let api: Api<MutexApproval> = Api::all(stage.person.clone());
    // One may run out first, after a minute.
    stage
        .until(
            &format!("MutexApproval {name}: {status} {reason}"),
            90,
            || async {
                let all = api.get(name).await?.status.unwrap_or_default();
                let is_it = |one: &Condition| {
                    one.type_ == types::HOLDS && one.status == status && one.reason.as_deref() == Some(reason)
                };
                let is_of_this = all.observed_generation == Some(1);
                Ok(all.conditions.into_iter().find(is_it).filter(|_| is_of_this))
            },
        )
        .await
}

/// Approves what waits of the run as who applies objects here; the name of the object.
async fn approved(stage: &Stage, reason: &str) -> Result<String> {
    let said = stage
        .say(&[
            "approve",
            "mutexrunconfig/upgrade",
            "-n",
            NAMESPACE,
            "--reason",
            reason,
        ])
        .await?;
    let all: Api<MutexApproval> = Api::all(stage.person.clone());
    let all = all.list(&ListParams::default()).await?.items;
    let found = all.into_iter().find(|one| one.spec.reason == reason);
    found.and_then(|one| one.metadata.name).with_context(|| said)
}

/// Nobody approves anything by a status, and who may approve may not write one.
async fn decides_nothing_by_a_status(stage: &Stage, name: &str) -> Result<()> {
    let of_user = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "approver", "namespace": NAMESPACE}});
    apply(stage, &[of_user]).await?;
    let roles = ["numo-approver", "numo-viewer", "admin", "numo-edit", "numo-admin"];
    apply(stage, &bound("approver", &roles)).await?;
    let kubeconfig = stage
        .cluster
        .service_account_kubeconfig(NAMESPACE, "approver")
        .await?;
    let before = stage.run("upgrade").await?.metadata.generation;
    let released_before = released(&stage.world).len();
    let forged = json!({"status": {"conditions": [{
        "type": "Holds", "status": "True", "reason": "ApprovalHolds", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    let patch = Patch::Merge(forged);
    let params = PatchParams::default();
    let of_approver: Api<MutexApproval> = Api::all(client_of(&kubeconfig).await?);
    let refused = of_approver.patch_status(name, &params, &patch).await;
    anyhow::ensure!(
        matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403),
        "{refused:?}"
    );
    let of_admin: Api<MutexApproval> = Api::all(stage.person.clone());
    of_admin.patch_status(name, &params, &patch).await?;
    says(stage, name, ("False", "ApprovalExpired")).await?;
    anyhow::ensure!(released(&stage.world).len() == released_before, "a node began");
    anyhow::ensure!(stage.run("upgrade").await?.metadata.generation == before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_says_in_its_status_whether_it_holds_and_why_not() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let spec = json!({
        "approval": {"begin": "Manual"}, "waves": [{"nodes": 1}, {"nodes": 1, "approval": "Manual"}],
    });
    prepare(&stage, &[], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    waits(&stage, "WaitsForApproval").await?;
    let first = approved(&stage, "reviewed").await?;
    let said = says(&stage, &first, ("True", "ApprovalHolds")).await?;
    let words = said.message.unwrap_or_default();
    assert!(words.contains("the beginning is approved"), "{words}");
    explained(&stage, "worker-1", "wave 2 of 2 begins when it is approved", 120).await?;
    assert_eq!(released(&stage.world).len(), 1);

    // Somebody edits what was approved.
    stage
        .patch_run("upgrade", json!({"spec": {"soakSeconds": 1}}))
        .await?;
    let said = says(&stage, &first, ("False", "ApprovalExpired")).await?;
    let words = said.message.unwrap_or_default();
    assert!(
        words.contains("the spec, or a MutexBinding of it, was edited since"),
        "{words}"
    );
    let listed = stage.say(&["approve", "--list", "-A"]).await?;
    let line = format!("MutexApproval {first} of ");
    assert!(
        listed.contains(&line) && listed.contains("does not hold: ApprovalExpired"),
        "{listed}"
    );
    decides_nothing_by_a_status(&stage, &first).await?;

    let second = approved(&stage, "reviewed again").await?;
    says(&stage, &second, ("True", "ApprovalHolds")).await?;
    let wave = approved(&stage, "the wave is fine").await?;
    finish(&stage).await?;
    for name in [&second, &wave] {
        says(&stage, name, ("True", "ApprovalOver")).await?;
    }
    // Of what is over the last word stays.
    says(&stage, &first, ("False", "ApprovalExpired")).await?;
    stage.judge(&judgement(&[], &[])).await?;
    stage.strike().await
}

/// The run is suspended until the approval is older than it may be.
#[tokio::test(flavor = "multi_thread")]
async fn an_approval_that_is_too_old_lets_no_node_begin_and_is_given_anew() -> Result<()> {
    let stage = set(workers(1), Vec::new()).await?;
    let spec = json!({"approval": {"begin": "Manual", "ttlSeconds": 60}});
    prepare(&stage, &[], spec).await?;
    stage.world.upgrade_to(NEW).await?;
    waits(&stage, "WaitsForApproval").await?;
    stage
        .patch_run("upgrade", json!({"spec": {"suspend": true}}))
        .await?;
    waits(&stage, "Suspended").await?;
    let old = approved(&stage, "reviewed").await?;
    says(&stage, &old, ("True", "ApprovalHolds")).await?;
    let said = says(&stage, &old, ("False", "ApprovalExpired")).await?;
    let words = said.message.unwrap_or_default();
    assert!(
        words.contains("it is older than 60 s (spec.approval.ttlSeconds)"),
        "{words}"
    );

    stage
        .patch_run("upgrade", json!({"spec": {"suspend": false}}))
        .await?;
    let message = waits(&stage, "ApprovalExpired").await?;
    assert!(
        message.contains(&format!(
            "no longer holds (MutexApproval {old}): it is older than 60 s"
        )),
        "{message}"
    );
    stage
        .event("MutexRunConfig", "upgrade", "ApprovalExpired")
        .await?;
    assert!(released(&stage.world).is_empty());
    approved(&stage, "still fine").await?;
    finish(&stage).await?;
    stage.judge(&judgement(&[], &[])).await?;
    stage.strike().await
}

/// The same for a NodeVersion that waits for the approval of a wave: who may edit it neither approves it nor edits that away.
pub async fn of_a_node_version(stage: &Stage, name: &str) -> Result<()> {
    let user = "edits-versions";
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": user},
        "rules": [
            {"apiGroups": ["update.edgeless.systems"], "resources": ["nodeversions"], "verbs": ["patch"]},
            {"apiGroups": ["update.edgeless.systems"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        ],
    });
    let of_user = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": user, "namespace": NAMESPACE}});
    apply(stage, &[of_user, role]).await?;
    apply(stage, &bound(user, &[user, "numo-viewer"])).await?;
    let kubeconfig = stage.cluster.service_account_kubeconfig(NAMESPACE, user).await?;
    let gvk = GroupVersionKind::gvk("update.edgeless.systems", "v1alpha1", "NodeVersion");
    let resource = ApiResource::from_gvk_with_plural(&gvk, "nodeversions");
    let versions: Api<DynamicObject> = Api::all_with(client_of(&kubeconfig).await?, &resource);
    let edit = async |spec: Value| {
        let patch = Patch::Merge(json!({"spec": spec}));
        versions.patch(name, &PatchParams::default(), &patch).await
    };
    edit(json!({"mutex": {"failureBudget": 2}})).await?;
    for spec in [
        json!({"mutex": null}),
        json!({"mutex": {"waves": null}}),
        json!({"mutex": {"waves": [{"nodes": 9}]}}),
    ] {
        let said = edit(spec.clone()).await.err();
        let said = said.map(|error| error.to_string()).unwrap_or_default();
        assert!(
            said.contains("spec.mutex.waves: found an edit by "),
            "{spec}: {said}"
        );
    }
    let object = format!("nodeversion/{name}");
    let asked = ["approve", &object, "--reason", "trust me", "--as", &account(user)];
    let refused = stage.call(&asked).await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("forbidden"), "{refused:?}");
    Ok(())
}

/// The name by which the API server knows who applies objects here.
pub async fn applicant(stage: &Stage) -> Result<String> {
    let api: Api<SelfSubjectReview> = Api::all(stage.client.clone());
    let review = SelfSubjectReview::default();
    let review = api.create(&PostParams::default(), &review).await?;
    let user = review.status.and_then(|status| status.user_info);
    user.and_then(|user| user.username).context("a name")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_that_approves_nothing_is_told_on_it_and_by_doctor() -> Result<()> {
    let stage = set(workers(1), Vec::new()).await?;
    let by = applicant(&stage).await?;
    let approval = |name: &str, run: &str, digest: &str| {
        json!({
            "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexApproval", "metadata": {"name": name},
            "spec": {
                "owner": {"apiGroup": numo_api::GROUP, "kind": "MutexRunConfig", "namespace": NAMESPACE, "name": run},
                "digest": digest, "reason": "by hand", "approvedBy": by,
            },
        })
    };
    prepare(&stage, &[], json!({"approval": {"begin": "Manual"}})).await?;
    let early = [
        approval("lost", "nowhere", "d"),
        approval("early", "upgrade", "d"),
    ];
    apply(&stage, &early).await?;
    let told = async |name: &str, words: &str| {
        let event = stage.event("MutexApproval", name, "ApprovesNothing").await?;
        let note = event.note.unwrap_or_default();
        anyhow::ensure!(note.contains(words), "{name}: {note}");
        anyhow::ensure!(event.type_.as_deref() == Some("Warning"), "{name}: {note}");
        anyhow::Ok(())
    };
    told("lost", "nowhere is not there").await?;
    told("early", "upgrade waits for no approval").await?;
    says(&stage, "lost", ("False", "OwnerNotFound")).await?;
    says(&stage, "early", ("False", "NothingWaits")).await?;
    stage.world.upgrade_to(NEW).await?;
    waits(&stage, "WaitsForApproval").await?;
    stage
        .event("MutexRunConfig", "upgrade", "WaitsForApproval")
        .await?;
    apply(&stage, &[approval("other", "upgrade", "d")]).await?;
    told("other", "spec.digest is not that of its status.approval").await?;
    for name in ["early", "other"] {
        says(&stage, name, ("False", "ApprovesOther")).await?;
    }
    stage
        .until("doctor names each", 60, || async {
            let doctor = stage.call(&["doctor"]).await?;
            let is_named = |name: &&str| {
                let words = format!("MutexApproval {name} of {by} approves nothing");
                doctor.out.contains(&words)
            };
            Ok(["lost", "early", "other"].iter().all(is_named).then_some(()))
        })
        .await?;
    assert!(released(&stage.world).is_empty());

    // One that is made by hand of what waits is as good as one by numo.
    let status = stage.run("upgrade").await?.status.unwrap_or_default();
    let digest = status.approval.context("what waits")?.digest;
    apply(&stage, &[approval("right", "upgrade", &digest)]).await?;
    finish(&stage).await?;
    let events = stage.events().await?.into_iter();
    let told = events.filter(|event| event.reason.as_deref() == Some("ApprovesNothing"));
    assert_eq!(told.count(), 3, "once each, and nothing of the right one");
    stage.judge(&judgement(&[], &[])).await?;
    stage.strike().await
}
