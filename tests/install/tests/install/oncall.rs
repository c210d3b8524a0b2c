//! The roles that ship for people, on a real API server: each verb of those on call works with theirs and nothing else does, and the cluster's
//! own roles have their part of numo's kinds.

use std::process::Command;

use anyhow::{Context as _, Result};
use numo_cluster::{Cluster, Options, User};
use numo_install::{NAMESPACE, said};
use serde_json::{Value, json};

use crate::{
    helm::numo,
    kustomize::{apply, install_with_machines, kubectl, run, until},
};

/// Who is on call.
const ANNE: &str = "anne@example.com";
/// Who may patch, and is not on call.
const PETER: &str = "peter@example.com";
/// Both kinds of the same name are served.
const MAINTENANCE: &str = "nodemaintenance.nodemaintenance.medik8s.io";

/// Runs numo's command line as who is on call.
fn say(cluster: &Cluster, words: &[&str]) -> Result<String> {
    let mut numo = Command::new(numo());
    numo.args(words).args(["--as", ANNE, "--kubeconfig"]);
    said(numo.arg(cluster.kubeconfig(User::Admin))).with_context(|| words.join(" "))
}

fn status(cluster: &Cluster, kind: &str, name: &str, status: &Value) -> Result<()> {
    let patch = json!({"status": status}).to_string();
    let words = [
        "patch",
        kind,
        name,
        "-n",
        NAMESPACE,
        "--subresource=status",
        "--type=merge",
        "-p",
        &patch,
    ];
    run(cluster, &words)?;
    Ok(())
}

fn bound(cluster: &Cluster, role: &str, user: &str) -> Result<()> {
    let name = format!("{role}-of-{}", &user[..user.find('@').unwrap_or(user.len())]);
    run(
        cluster,
        &[
            "create",
            "clusterrolebinding",
            &name,
            "--clusterrole",
            role,
            "--user",
            user,
        ],
    )?;
    Ok(())
}

fn named(kind: &str, version: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
}

const RUNS: &str = "openshift-optional.skrzypek.io/v1alpha1";
const OWN: &str = "numo.openshift-optional.skrzypek.io/v1alpha1";

fn plan(image: &str) -> Value {
    json!({
        "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "metadata": {"name": "os", "namespace": "system-upgrade"},
        "spec": {"version": "1", "concurrency": 1, "nodeSelector": {}, "upgrade": {"image": image}},
    })
}

fn version(image: &str) -> Value {
    json!({
        "apiVersion": "update.edgeless.systems/v1alpha1", "kind": "NodeVersion", "metadata": {"name": "machines"},
        "spec": {"image": image},
    })
}

fn change(name: &str, run_uid: &str, directive: Option<&str>) -> Value {
    let mut spec = json!({
        "nodeName": "worker-0", "nodeUID": "", "inService": true,
        "ownerRef": {"apiVersion": RUNS, "kind": "MutexRunConfig", "name": "upgrade", "namespace": NAMESPACE, "uid": run_uid},
        "target": {"runID": "run-1", "version": "4.19.3", "pool": "worker"},
    });
    if let Some(action) = directive {
        spec["directive"] = json!({"action": action});
    }
    named("NodeChange", OWN, name, &spec)
}

/// What those on call meet: a run whose first rule failed, a node of it that is held, a Plan, a NodeMaintenance, a NodeVersion, a budget.
async fn stage(cluster: &Cluster) -> Result<String> {
    install_with_machines(cluster).await?;
    run(cluster, &["delete", "validatingwebhookconfiguration", "numo"])?;
    apply(
        cluster,
        &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-0"}}),
        &[],
    )?;
    let spec = json!({"mutexRules": [{"name": "rule"}], "mutexTargets": [{"name": "workers"}]});
    apply(cluster, &named("MutexRunConfig", RUNS, "upgrade", &spec), &[])?;
    apply(cluster, &plan("registry.example.com/os"), &[])?;
    let budget = json!({"nodeSelector": {}, "maxUnavailable": 1});
    apply(cluster, &named("MutexBudget", OWN, "all", &budget), &[])?;
    let maintenance = named(
        "NodeMaintenance",
        "nodemaintenance.medik8s.io/v1beta1",
        "fan",
        &json!({"nodeName": "worker-0"}),
    );
    apply(cluster, &maintenance, &[])?;
    apply(cluster, &version("img2"), &[])?;
    let verdict = json!({
        "at": "2026-11-22T00:00:00Z", "attempt": 1, "round": 1, "outcome": "Failure", "phase": "PreRun", "reason": "RuleFailed",
        "rule": {"name": "rule", "namespace": NAMESPACE},
    });
    let running = json!({"run": {"id": "run-1", "target": "4.19.3", "verdicts": [verdict]}});
    status(cluster, "mutexrunconfig", "upgrade", &running).or_else(|_| {
        let mut running = running.clone();
        running["run"]["verdicts"][0]["rule"] = json!("rule");
        status(cluster, "mutexrunconfig", "upgrade", &running)
    })?;
    let uid = run(
        cluster,
        &[
            "get",
            "mutexrunconfig",
            "upgrade",
            "-n",
            NAMESPACE,
            "-o",
            "jsonpath={.metadata.uid}",
        ],
    )?;
    apply(cluster, &change("worker-0-of-upgrade", &uid, None), &[])?;
    status(
        cluster,
        "nodechange",
        "worker-0-of-upgrade",
        &json!({"step": "Held", "reason": "ChangeTimedOut"}),
    )?;
    for role in ["numo-oncall", "numo-viewer"] {
        bound(cluster, role, ANNE)?;
    }
    Ok(uid)
}

fn each_verb_works(cluster: &Cluster) -> Result<()> {
    let run_name = "mutexrunconfig/upgrade";
    for words in [
        ["stop", "--reason", "a fire"].as_slice(),
        &["start"],
        &["stop", "all"],
        &["start", "all"],
        &["pause", run_name, "-n", NAMESPACE],
        &["resume", run_name, "-n", NAMESPACE],
        &["pause", "plan/os", "-n", "system-upgrade"],
        &["resume", "plan/os", "-n", "system-upgrade"],
        &["pause", "nodemaintenance/fan"],
        &["resume", "nodemaintenance/fan"],
        &["pause", "nodeversion/machines"],
        &["resume", "nodeversion/machines"],
        &["retry", run_name, "-n", NAMESPACE],
        &["retry", "worker-0"],
        &["skip", "worker-0"],
        &["abort", "upgrade", "-n", NAMESPACE],
        &["abort", "upgrade", "-n", NAMESPACE, "--undo"],
    ] {
        say(cluster, words)?;
    }
    let said_by = run(
        cluster,
        &[
            "get",
            "mutexbudget",
            "all",
            "-o",
            "jsonpath={.metadata.annotations}",
        ],
    )?;
    assert!(said_by.contains(ANNE), "who said it is kept: {said_by}");
    Ok(())
}

/// What kubectl is told when it patches as a user.
fn patched(cluster: &Cluster, user: &str, place: &[&str], patch: &Value) -> Result<String> {
    let mut command = kubectl(cluster);
    command
        .arg("patch")
        .args(place)
        .args(["--as", user, "--type=merge", "-p"]);
    said(command.arg(patch.to_string()))
}

fn nothing_else_does(cluster: &Cluster, uid: &str) -> Result<()> {
    let run_place = ["mutexrunconfig", "upgrade", "-n", NAMESPACE];
    let plan_place = ["plan", "os", "-n", "system-upgrade"];
    let change_place = ["nodechange", "worker-0-of-upgrade", "-n", NAMESPACE];
    let other = json!({"metadata": {"annotations": {"numo.openshift-optional.skrzypek.io/paused-by": "me"}}});
    let seen = json!({"metadata": {"annotations": {"numo.openshift-optional.skrzypek.io/acknowledged": "run-1 worker-0"}}});
    for (place, patch) in [
        (
            plan_place.as_slice(),
            json!({"spec": {"upgrade": {"image": "registry.example.com/evil"}}}),
        ),
        (&plan_place, json!({"spec": {"concurrency": null}})),
        (&plan_place, json!({"metadata": {"labels": {"a": "b"}}})),
        (&run_place, json!({"spec": {"mutexRules": []}})),
        (&run_place, json!({"spec": {"suspend": true}})),
        (
            &run_place,
            json!({"metadata": {"finalizers": ["example.com/mine"]}}),
        ),
        (&run_place, other.clone()),
        (&run_place, seen.clone()),
        (&plan_place, seen.clone()),
        (&["nodeversion", "machines"], seen.clone()),
        (&[MAINTENANCE, "fan"], json!({"spec": {"reason": "mine"}})),
        (
            &["nodeversion", "machines"],
            json!({"spec": {"image": "registry.example.com/evil"}}),
        ),
        (
            &["nodeversion", "machines"],
            json!({"metadata": {"labels": {"a": "b"}}}),
        ),
        (&["nodeversion", "machines"], other.clone()),
        (
            &["mutexbudget", "all"],
            json!({"spec": {"maxUnavailable": "100%"}}),
        ),
        (
            &["mutexbudget", "all"],
            json!({"spec": {"nodeSelector": {"matchLabels": {"a": "b"}}}}),
        ),
        (&change_place, json!({"metadata": {"labels": {"a": "b"}}})),
        (&change_place, json!({"spec": {"directive": {"action": "Hold"}}})),
    ] {
        let refused = patched(cluster, ANNE, place, &patch).expect_err("it is refused");
        let why = format!("{refused:#}");
        assert!(
            why.contains("numo-oncall") || why.contains("who is on call"),
            "{place:?}: {patch}: {why}"
        );
    }
    let budget = json!({"nodeSelector": {}, "maxUnavailable": 1});
    let rule = json!({"type": "cel", "phases": ["Pre"], "cel": {"validations": [{"expression": "true"}]}});
    for (object, why) in [
        (named("MutexBudget", OWN, "mine", &budget), "who is on call"),
        (change("forged", uid, None), "who is on call"),
        (change("forged", uid, Some("Retry")), "who is on call"),
        (named("MutexRule", RUNS, "mine", &rule), "forbidden"),
        (
            named(
                "NodeMaintenance",
                "nodemaintenance.medik8s.io/v1beta1",
                "mine",
                &json!({"nodeName": "worker-0"}),
            ),
            "forbidden",
        ),
    ] {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), object.to_string())?;
        let mut create = kubectl(cluster);
        create.args(["create", "--as", ANNE, "-f"]).arg(file.path());
        let refused = said(&mut create).expect_err("it is refused");
        assert!(format!("{refused:#}").contains(why), "{object}: {refused:#}");
    }
    for (verb, kind) in [
        ("update", "mutexrunconfigs"),
        ("delete", "mutexrunconfigs"),
        ("delete", "plans"),
        ("update", "nodeversions"),
        ("delete", "nodeversions"),
        ("patch", "scalinggroups"),
        ("delete", "mutexbudgets"),
        ("delete", "nodechanges"),
        ("patch", "mutexrules"),
        ("patch", "mutexbindings"),
        ("patch", "nodes"),
        ("get", "secrets"),
        ("create", "pods"),
        ("create", "jobs.batch"),
    ] {
        let mut command = kubectl(cluster);
        command.args(["auth", "can-i", verb, kind, "-A", "--as", ANNE]);
        let answer = said(&mut command);
        assert!(answer.is_err(), "{verb} {kind}: {answer:?}");
    }
    let journal = [
        "auth",
        "can-i",
        "patch",
        "nodechanges",
        "--subresource=status",
        "-A",
        "--as",
        ANNE,
    ];
    said(kubectl(cluster).args(journal)).expect_err("numo alone writes it");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_on_call_may_say_each_word_and_do_nothing_else() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let uid = stage(&cluster).await?;
    // Roles and policies are heard of a moment later.
    until(
        &cluster,
        &[
            "auth",
            "can-i",
            "patch",
            "plans",
            "-n",
            "system-upgrade",
            "--as",
            ANNE,
        ],
        "yes",
    )
    .await?;
    let mut is_bounded = false;
    for _ in 0..300 {
        let unsuited = json!({"metadata": {"labels": {"a": "b"}}});
        let place = ["mutexbudget", "all", "--dry-run=server"];
        if patched(&cluster, ANNE, &place, &unsuited).is_err() {
            is_bounded = true;
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(is_bounded, "the policy counts");
    each_verb_works(&cluster)?;
    nothing_else_does(&cluster, &uid)?;
    // The policy is about those on call alone.
    run(
        &cluster,
        &[
            "create",
            "clusterrole",
            "patches",
            "--verb=get,patch",
            "--resource=plans.upgrade.cattle.io",
        ],
    )?;
    bound(&cluster, "patches", PETER)?;
    let patch = json!({"spec": {"upgrade": {"image": "registry.example.com/other"}}});
    patched(&cluster, PETER, &["plan", "os", "-n", "system-upgrade"], &patch)?;
    cluster.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_roles_view_edit_and_admin_have_their_part() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    install_with_machines(&cluster).await?;
    for role in ["view", "edit", "admin"] {
        bound(&cluster, role, &format!("{role}@example.com"))?;
    }
    let can = |role: &str, verb: &str, kind: &str| {
        let user = format!("{role}@example.com");
        run(&cluster, &["auth", "can-i", verb, kind, "-A", "--as", &user]).is_ok()
    };
    let words = [
        "auth",
        "can-i",
        "create",
        "plans",
        "-A",
        "--as",
        "admin@example.com",
    ];
    until(&cluster, &words, "yes").await?;
    let own = ["mutexrunconfigs", "mutexrules", "mutextargets"];
    let whole = [
        "mutexbudgets",
        "mutexwindows",
        "mutexbindings",
        "mutexnotifiers",
        MAINTENANCE,
        "plans",
        "nodeversions",
        "scalinggroups",
        "autoscalingstrategies",
    ];
    let of_numo = ["nodechanges", "pendingnodes", "joiningnodes"];
    for kind in own.iter().chain(&whole).chain(&of_numo) {
        for role in ["view", "edit", "admin"] {
            assert!(can(role, "list", kind), "{role} lists {kind}");
        }
        assert!(!can("view", "patch", kind), "view patches {kind}");
    }
    for kind in own {
        assert!(
            can("edit", "create", kind) && can("admin", "delete", kind),
            "{kind}"
        );
    }
    for kind in whole {
        assert!(
            !can("edit", "create", kind) && can("admin", "create", kind),
            "{kind}"
        );
    }
    for kind in of_numo {
        for role in ["edit", "admin"] {
            assert!(!can(role, "patch", kind), "{role} writes {kind}");
        }
    }
    // One that numo cannot end is a person's to delete.
    assert!(can("admin", "delete", "pendingnodes") && !can("edit", "delete", "pendingnodes"));
    cluster.stop().await;
    Ok(())
}
