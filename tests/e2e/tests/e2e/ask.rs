//! The command line's manners: formats, exit codes, who said what and why, dry runs, and errors that name the thing and
//! the next step.

use anyhow::{Context as _, Result};
use k8s_openapi::api::{core::v1::Node, events::v1::Event};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use numo_api::{MutexBudget, marks};
use numo_cluster::{Cluster, Options, User};
use numo_e2e::{NAMESPACE, Stage, manifests, process::call};
use serde_json::{Value, json};

use crate::{Gate, NEW, job, prepare, prepare_gated, rule, rule_began, seen, set, workers};

/// What a verb prints as JSON.
async fn json_of(stage: &Stage, arguments: &[&str]) -> Result<Value> {
    let said = stage.say(&[arguments, &["-o", "json"]].concat()).await?;
    serde_json::from_str(&said).with_context(|| said)
}

/// A call that is wrong says so with exit code 2, on standard error, with these words.
async fn is_wrong(stage: &Stage, code: i32, arguments: &[&str], words: &[&str]) -> Result<()> {
    let said = stage.call(arguments).await?;
    assert_eq!(
        (said.code, said.out.as_str()),
        (Some(code), ""),
        "{arguments:?}: {said:?}"
    );
    for word in words {
        assert!(
            said.err.contains(word),
            "{arguments:?} says nothing of {word}: {said:?}"
        );
    }
    Ok(())
}

/// The reasons and notes of events about an object that a person's words brought about.
async fn told(stage: &Stage, kind: &str, name: &str) -> Result<Vec<(String, String)>> {
    let api: Api<Event> = Api::all(stage.client.clone());
    let mut all = api.list(&ListParams::default()).await?.items;
    all.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
    let of = all.into_iter().filter(|event| {
        let about = event.regarding.as_ref();
        let is = about
            .is_some_and(|about| about.kind.as_deref() == Some(kind) && about.name.as_deref() == Some(name));
        is && event
            .reporting_controller
            .as_deref()
            .is_some_and(|by| by.ends_with("/cli"))
    });
    Ok(of
        .map(|event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default()))
        .collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_is_answered_in_every_format_and_what_is_wrong_is_named() -> Result<()> {
    let mut stage = set(workers(3), Vec::new()).await?;
    let gate = prepare_gated(&stage).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;

    // Data for programs: the reasons are those of the status.
    let status = json_of(&stage, &["status"]).await?;
    let owner = &status["owners"][0];
    assert_eq!(
        (&owner["kind"], &owner["name"], &owner["nodes"], &owner["done"]),
        (&json!("MutexRunConfig"), &json!("upgrade"), &json!(3), &json!(0))
    );
    assert_eq!(owner["steps"]["PreRules"], 1, "{owner:#}");
    assert_eq!(
        owner["behind"][0]["name"], "worker-0",
        "who is under way comes first: {owner:#}"
    );
    assert!(
        owner["eta"]
            .as_str()
            .is_some_and(|eta| eta.contains("no node of it is done yet"))
    );
    let names = stage.say(&["status", "-A", "-o", "name"]).await?;
    assert_eq!(names, "mutexrunconfig.openshift-optional.skrzypek.io/upgrade\n");
    let yaml = stage
        .say(&["status", "mutexrunconfig/upgrade", "-o", "yaml"])
        .await?;
    assert!(yaml.contains("kind: MutexRunConfig"), "{yaml}");
    let wide = stage.say(&["status", "-o", "wide"]).await?;
    assert!(wide.contains("NODECHANGE"), "{wide}");
    let bare = stage.say(&["status", "--no-headers"]).await?;
    assert!(!bare.contains("STEP") && bare.contains("worker-0"), "{bare}");
    let node = json_of(&stage, &["explain", "worker-1"]).await?;
    assert_eq!(node[0]["reason"], "WaitingForTurn", "{node:#}");
    assert_eq!(
        node[0]["object"],
        json!({"kind": "Node", "name": "worker-1"}),
        "{node:#}"
    );
    assert_eq!(node[0]["owner"]["namespace"], NAMESPACE, "{node:#}");
    // What `-o name` says is taken by kubectl, and by numo itself.
    let run = format!("mutexrunconfig.{}/upgrade", numo_api::GROUP);
    for (call, wanted) in [
        (vec!["explain", "worker-1"], "node/worker-1"),
        (vec!["explain", "mrc/upgrade", "-n", NAMESPACE], run.as_str()),
        (vec!["status", "-n", NAMESPACE], run.as_str()),
    ] {
        let named = stage.say(&[&call[..], &["-o", "name"]].concat()).await?;
        assert_eq!(named.trim_end(), wanted, "{call:?}");
    }
    // A node's owners are those of the namespace, where one is given.
    let text = stage.say(&["explain", "worker-1", "-n", "default"]).await?;
    assert!(
        text.contains("no target of a MutexRunConfig of namespace default"),
        "{text}"
    );
    assert!(
        node[0]["chain"]
            .as_array()
            .is_some_and(|chain| chain.iter().any(|link| link["what"] == "behind"
                && link["message"].as_str().is_some_and(|m| m.contains("worker-0")))),
        "{node:#}"
    );
    let flying = json_of(&stage, &["explain", "node/worker-0"]).await?;
    assert!(
        flying[0]["journal"]["entries"]
            .as_array()
            .is_some_and(|all| !all.is_empty()),
        "{flying:#}"
    );
    let text = stage.say(&["explain", "worker-0"]).await?;
    for words in [
        "numo, for MutexRunConfig node-upgrade-mutex-operator/upgrade, holds the lease of the node",
        "MachineConfigPool worker is paused by numo",
        "journal",
        "PreRules",
    ] {
        assert!(text.contains(words), "explain says nothing of {words}: {text}");
    }
    assert!(!text.contains('\u{1b}'), "no colours in a pipe: {text:?}");
    let waits = stage.call(&["explain", "worker-1", "--exit-code"]).await?;
    assert_eq!(waits.code, Some(3), "{waits:?}");
    assert!(
        stage
            .say(&["explain", "reason/poolheld"])
            .await?
            .contains("cluster administrator")
    );
    let version = json_of(&stage, &["version"]).await?;
    assert!(
        version["server"]["version"]
            .as_str()
            .is_some_and(|server| server.starts_with("v1.")),
        "{version}"
    );

    // Live names, as kubectl asks for them.
    let found = stage.say(&["__complete", "explain", "worker-"]).await?;
    assert_eq!(found, "worker-0\nworker-1\nworker-2\n:4\n");
    let found = stage.say(&["__complete", "pause", "mutexrunconfig/"]).await?;
    assert_eq!(found, "mutexrunconfig/upgrade\n:4\n");
    let found = stage.say(&["__complete", "sta"]).await?;
    assert!(found.contains("status\t") && found.contains("start\t"), "{found}");
    for shell in ["bash", "zsh", "fish", "kubectl"] {
        assert!(stage.say(&["completion", shell]).await?.contains("numo"));
    }

    // What is wrong is named, with the next step.
    is_wrong(
        &stage,
        2,
        &["explain", "worker-9"],
        &["no node worker-9", "kubectl get nodes"],
    )
    .await?;
    is_wrong(
        &stage,
        2,
        &["explain", "worker1"],
        &["no node worker1", "did you mean worker-"],
    )
    .await?;
    is_wrong(&stage, 2, &["explain", "upgrade"], &["mutexrunconfig/upgrade"]).await?;
    // What is listed by another command is said with that one.
    let rules = ["explain", "mutexrule/none"];
    is_wrong(
        &stage,
        2,
        &rules,
        &["mutexrule none", "kubectl get mutexrules -A"],
    )
    .await?;
    is_wrong(&stage, 2, &["explain", "reason/RuleWait"], &["RuleWaits"]).await?;
    is_wrong(&stage, 2, &["explain", "reason/xyzzy"], &["xyzzy", "numo status"]).await?;
    let banana = ["preview", "-n", NAMESPACE, "upgrade", "--to-version", "banana"];
    is_wrong(&stage, 2, &banana, &["--to-version", "banana", "4.17.0"]).await?;
    is_wrong(
        &stage,
        2,
        &["explain", "pod/x"],
        &["found kind pod", "mutexrunconfig"],
    )
    .await?;
    is_wrong(
        &stage,
        2,
        &["explain", "plan/none"],
        &["plan none", "numo status"],
    )
    .await?;
    is_wrong(
        &stage,
        2,
        &["status", "mutexrule/gated"],
        &["numo explain mutexrule/NAME"],
    )
    .await?;
    is_wrong(&stage, 2, &["status", "nobody"], &["nobody", "numo status"]).await?;
    is_wrong(&stage, 2, &["pause", "nobody"], &["mutexrunconfig/nobody"]).await?;
    is_wrong(
        &stage,
        2,
        &["pause", "node/worker-0"],
        &["node/worker-0", "plan/NAME"],
    )
    .await?;
    is_wrong(
        &stage,
        2,
        &["start"],
        &["MutexBudget stop is not paused", "nothing is stopped"],
    )
    .await?;
    is_wrong(&stage, 2, &["stop", "-l", "a in b"], &["--selector", "a in b"]).await?;
    // A selector of no node would be a false all-clear.
    let typo = ["stop", "-l", "zone=tpyo"];
    is_wrong(&stage, 2, &typo, &["zone=tpyo selects no node", "--show-labels"]).await?;
    is_wrong(
        &stage,
        2,
        &["preview", "-f", "/none.yaml"],
        &["/none.yaml", "No such file"],
    )
    .await?;
    is_wrong(
        &stage,
        2,
        &["stop", "nobody"],
        &["no MutexBudget nobody", "kubectl get mutexbudgets"],
    )
    .await?;
    is_wrong(&stage, 2, &["retry", "worker-9"], &["no node worker-9"]).await?;
    is_wrong(
        &stage,
        2,
        &["retry", "worker-2"],
        &["has not had its turn", "numo explain worker-2"],
    )
    .await?;
    is_wrong(&stage, 2, &["abort", "nm/x"], &["kubectl delete nm x"]).await?;
    is_wrong(
        &stage,
        2,
        &["status", "--request-timeout", "soon"],
        &["--request-timeout", "soon", "30s"],
    )
    .await?;
    is_wrong(
        &stage,
        1,
        &["status", "--as", "nobody@example.com"],
        &["nodes", "nobody@example.com", "numo-viewer"],
    )
    .await?;
    let nowhere = ["snapshot", "-f", "/dev/null", "--as", "nobody@example.com"];
    is_wrong(&stage, 1, &nowhere, &["nothing was written", "numo-viewer"]).await?;
    let unseen = [
        "preview",
        "-n",
        NAMESPACE,
        "upgrade",
        "--as",
        "nobody@example.com",
    ];
    is_wrong(&stage, 1, &unseen, &["mutexrunconfigs", "numo-viewer"]).await?;
    is_wrong(
        &stage,
        1,
        &["pause", "-n", NAMESPACE, "upgrade", "--as", "nobody@example.com"],
        &["nobody@example.com", "right"],
    )
    .await?;
    gate.open_for_all()?;
    crate::finish(&stage).await?;
    let status = json_of(&stage, &["status"]).await?;
    assert_eq!(status["owners"][0]["eta"], "done");
    // A server that is not there, and one that does not know who asks.
    let given = std::fs::read_to_string(stage.cluster.kubeconfig(User::Admin))?;
    let given: Value = serde_saphyr::from_str(&given)?;
    let folder = tempfile::tempdir()?;
    let (mut gone, mut stranger, mut silent) = (given.clone(), given.clone(), given);
    // It takes connections and says nothing.
    let deaf = std::net::TcpListener::bind("127.0.0.1:0")?;
    let deaf = format!("https://{}", deaf.local_addr()?);
    silent["clusters"][0]["cluster"]["server"] = json!(deaf);
    let path = folder.path().join("silent");
    std::fs::write(&path, silent.to_string())?;
    let path = path.display().to_string();
    for verb in ["status", "doctor"] {
        let asked = [verb, "--kubeconfig", &path, "--request-timeout", "1s"];
        is_wrong(&stage, 1, &asked, &[&deaf, "answer"]).await?;
    }
    gone["clusters"][0]["cluster"]["server"] = json!("https://127.0.0.1:1");
    stranger["users"][0]["user"] = json!({"token": "wrong"});
    for (name, kubeconfig, words) in [
        (
            "gone",
            gone,
            [
                "https://127.0.0.1:1 is not reached: Connection refused",
                "--context",
            ],
        ),
        (
            "stranger",
            stranger,
            ["does not know who asks (401", "log in again"],
        ),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, kubeconfig.to_string())?;
        let path = path.display().to_string();
        for verb in ["status", "doctor", "stop"] {
            is_wrong(&stage, 1, &[verb, "--kubeconfig", &path], &words).await?;
        }
    }
    // What is elsewhere is named, and so is it that nobody acts.
    let elsewhere = format!("-n {NAMESPACE}");
    for verb in ["pause", "preview"] {
        let call = [verb, "-n", "default", "mutexrunconfig/upgrade"];
        is_wrong(&stage, 2, &call, &[&elsewhere]).await?;
    }
    assert!(!stage.call(&["status"]).await?.err.contains("no numo leads"));
    stage.stop_numo().await?;
    let said = stage.call(&["status"]).await?;
    assert!(
        said.err.contains("no numo leads") && said.code == Some(0),
        "{said:?}"
    );
    let status = json_of(&stage, &["status"]).await?;
    assert!(
        status["idle"]
            .as_str()
            .unwrap_or_default()
            .contains("no numo leads"),
        "{status}"
    );
    let said = stage.call(&["stop", "--reason", "nobody is there"]).await?;
    assert!(
        said.err.contains("no numo leads") && said.code == Some(0),
        "{said:?}"
    );
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn who_paused_what_and_why_is_kept_and_told_and_a_dry_run_writes_nothing() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let gate = prepare_gated(&stage).await?;
    let budgets: Api<MutexBudget> = Api::all(stage.client.clone());

    // Dry runs: said, judged, not written.
    for how in ["--dry-run", "--dry-run=server"] {
        let before = stage.run("upgrade").await?.metadata.resource_version;
        let said = stage.say(&["pause", "-n", NAMESPACE, "upgrade", how]).await?;
        assert!(said.contains("dry run"), "{said}");
        assert_eq!(stage.run("upgrade").await?.metadata.resource_version, before);
        stage.say(&["stop", how]).await?;
        assert!(budgets.list(&ListParams::default()).await?.items.is_empty());
    }
    assert_eq!(told(&stage, "MutexRunConfig", "upgrade").await?, []);

    // Paused: nothing begins, and it says who and why.
    let why = "the database is being moved";
    stage
        .say(&[
            "pause",
            "-n",
            NAMESPACE,
            "mutexrunconfig/upgrade",
            "--reason",
            why,
        ])
        .await?;
    stage.world.upgrade_to(NEW).await?;
    let message = stage.condition("upgrade", "Ready", "False", "Suspended").await?;
    assert!(message.contains("admin") && message.contains(why), "{message}");
    assert!(crate::released_after_a_while(&stage).await.is_empty());
    let text = stage.say(&["explain", "mutexrunconfig/upgrade"]).await?;
    assert!(text.contains("pause by admin") && text.contains(why), "{text}");
    let resume = format!("do      numo resume mutexrunconfig/upgrade -n {NAMESPACE}\n");
    assert!(text.contains(&resume), "{text}");
    assert_eq!(
        told(&stage, "MutexRunConfig", "upgrade").await?,
        [("Suspended".to_owned(), format!("pause by admin: {why}"))]
    );
    stage
        .say(&["resume", "-n", NAMESPACE, "upgrade", "--reason", "it is done"])
        .await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    is_wrong(
        &stage,
        2,
        &["resume", "-n", NAMESPACE, "upgrade"],
        &["is not paused", "numo explain"],
    )
    .await?;
    let said = stage
        .run("upgrade")
        .await?
        .metadata
        .annotations
        .unwrap_or_default();
    let said: Value = serde_json::from_str(&said[marks::SAID])?;
    let verbs: Vec<&str> = said
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|word| word["verb"].as_str())
        .collect();
    assert_eq!(verbs, ["pause", "resume"], "{said:#}");

    // What the spec itself says is whoever wrote it to change: the gate is closed.
    stage
        .patch_run("upgrade", json!({"spec": {"suspend": true}}))
        .await?;
    is_wrong(
        &stage,
        3,
        &["resume", "-n", NAMESPACE, "upgrade"],
        &["spec.suspend"],
    )
    .await?;
    stage
        .patch_run("upgrade", json!({"spec": {"suspend": false}}))
        .await?;

    // Stopped by a selector: only those nodes; another word for the same nodes is the same budget.
    let nodes: Api<Node> = Api::all(stage.client.clone());
    assert_eq!(
        nodes
            .list(&ListParams::default().labels("kubernetes.io/hostname=worker-1"))
            .await?
            .items
            .len(),
        1
    );
    let one = [
        "stop",
        "-l",
        "kubernetes.io/hostname=worker-1",
        "--reason",
        "a disk",
    ];
    stage.say(&one).await?;
    gate.open_for_all()?;
    let why = crate::explained(&stage, "worker-1", "Stopped", 60).await?;
    assert!(why.contains("by admin: a disk"), "{why}");
    let named = stage.say(&["status"]).await?;
    assert!(
        named.contains("`numo start stop-"),
        "the command is of that budget: {named}"
    );
    seen(&stage, "worker-0 is let go", |w| {
        crate::released(w) == ["worker-0"]
    })
    .await?;
    let made = budgets.list(&ListParams::default()).await?.items;
    let [made] = made.as_slice() else {
        anyhow::bail!("wanted one budget: {made:?}");
    };
    let name = made.metadata.name.clone().unwrap_or_default();
    let told = told(&stage, "MutexBudget", &name).await?;
    assert_eq!(told, [("Stopped".to_owned(), "stop by admin: a disk".to_owned())]);
    let text = stage.say(&["explain", "worker-1"]).await?;
    assert!(text.contains(&format!("do      numo start {name}\n")), "{text}");
    assert!(text.contains("stop by admin: a disk"), "{text}");
    // What else stands against it is told with it: who ends the stop need not come again for that.
    let cordon = |cordoned: bool| Patch::Merge(json!({"spec": {"unschedulable": cordoned}}));
    nodes
        .patch("worker-1", &PatchParams::default(), &cordon(true))
        .await?;
    stage
        .until("the cordon is told beside the stop", 30, || async {
            let text = stage.say(&["explain", "worker-1"]).await?;
            let told = "also    CordonedByOther: Node worker-1 is cordoned";
            anyhow::ensure!(
                text.contains("why     Stopped: ") && text.contains(told),
                "{text}"
            );
            Ok(Some(()))
        })
        .await?;
    let node = json_of(&stage, &["explain", "worker-1"]).await?;
    let also = &node[0]["also"][0];
    assert_eq!(also["reason"], "CordonedByOther", "{node:#}");
    assert!(also["endsBy"].is_string(), "{node:#}");
    nodes
        .patch("worker-1", &PatchParams::default(), &cordon(false))
        .await?;
    let text = stage.say(&["explain", &format!("mutexbudget/{name}")]).await?;
    assert!(text.contains("Stopped") && text.contains("numo start"), "{text}");
    assert!(text.contains("stop by admin: a disk"), "{text}");
    let text = stage.say(&["status", "-o", "wide"]).await?;
    assert!(text.contains("SELECTOR") && text.contains("worker-1"), "{text}");
    is_wrong(&stage, 2, &["start"], &["is not paused", &name]).await?;
    stage
        .say(&["start", "-l", "kubernetes.io/hostname=worker-1"])
        .await?;
    crate::finish(&stage).await?;
    stage.strike().await
}

/// An API server without numo's definitions, and one who may see nodes and no more: what is missing is said, not that nothing
/// is there.
#[tokio::test(flavor = "multi_thread")]
async fn without_definitions_or_rights_that_is_what_is_said() -> Result<()> {
    let cluster = Cluster::start(Options::default()).await?;
    let kubeconfig = cluster.kubeconfig(User::Admin);
    for (arguments, code) in [
        (&["status"][..], 1),
        (&["status", "mutexrunconfig/upgrade"], 1),
        (&["explain", "mutexrunconfig/upgrade"], 1),
        (&["explain", "mutexbudget/all"], 1),
        (&["preview", "mutexrunconfig/upgrade"], 1),
        (&["pause", "upgrade"], 1),
        (&["abort", "upgrade"], 1),
        (&["retry", "worker-0"], 1),
        (&["skip", "worker-0"], 1),
        (&["stop"], 1),
        (&["start"], 1),
    ] {
        let said = call(&kubeconfig, arguments).await?;
        assert_eq!(said.code, Some(code), "{arguments:?}: {said:?}");
        assert!(
            said.err.contains("does not serve the kind") && said.err.contains("numo doctor"),
            "{arguments:?}: {said:?}"
        );
    }
    let said = call(&kubeconfig, &["doctor"]).await?;
    assert!(
        said.code == Some(1) && said.out.contains("are not there"),
        "{said:?}"
    );

    let client = cluster.client(User::Admin).await?;
    manifests::apply(
        &client,
        &manifests::kustomize(&manifests::root().join("deploy/crds"))?,
        "default",
    )
    .await?;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "nodes"},
        "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "nodes"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "nodes"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ada"}],
    });
    manifests::apply(&client, &[role, binding], "default").await?;
    for arguments in [
        &["status"][..],
        &["status", "mutexrunconfig/upgrade"],
        &["explain", "mutexrunconfig/upgrade"],
        &["preview", "mutexrunconfig/upgrade"],
    ] {
        let said = call(&kubeconfig, &[arguments, &["--as", "ada"]].concat()).await?;
        assert_eq!(said.code, Some(1), "{arguments:?}: {said:?}");
        assert!(
            said.err.contains("cannot look at mutexrunconfigs") && said.err.contains("numo-viewer"),
            "{arguments:?}: {said:?}"
        );
    }
    cluster.stop().await;
    Ok(())
}

/// Every verb that writes: a dry run writes nothing, and else who and why are on the object, in an event and in an explanation.
#[tokio::test(flavor = "multi_thread")]
async fn every_verb_keeps_who_and_why_and_a_dry_run_of_each_writes_nothing() -> Result<()> {
    let stage = set(workers(2), Vec::new()).await?;
    let gate = Gate::new()?;
    let gated = rule("gated", json!({"jobSpec": job(&gate.wait())}));
    prepare(&stage, &[gated], json!({"order": "Name"})).await?;
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "a rule runs", |w| rule_began(w, "gated", "worker-0")).await?;
    let run = ["-n", NAMESPACE, "upgrade"];
    let of_run = |verb: &'static str| [&[verb], &run[..]].concat();
    for (words, kind, event, explained) in [
        (
            of_run("pause"),
            "MutexRunConfig",
            "Suspended",
            "mutexrunconfig/upgrade",
        ),
        (
            of_run("resume"),
            "MutexRunConfig",
            "Resumed",
            "mutexrunconfig/upgrade",
        ),
        (vec!["stop"], "MutexBudget", "Stopped", "worker-1"),
        (vec!["start"], "MutexBudget", "Started", "mutexbudget/stop"),
        (vec!["skip", "worker-1"], "NodeChange", "SkipAsked", "worker-1"),
        (vec!["retry", "worker-1"], "NodeChange", "RetryAsked", "worker-1"),
        (
            of_run("abort"),
            "MutexRunConfig",
            "AbortAsked",
            "mutexrunconfig/upgrade",
        ),
        (
            [&of_run("abort")[..], &["--undo"]].concat(),
            "MutexRunConfig",
            "AbortTakenBack",
            "mutexrunconfig/upgrade",
        ),
    ] {
        let before = stage.cluster.audit()?.len();
        for how in ["--dry-run=client", "--dry-run=server"] {
            let said = stage
                .say(&[&words[..], &[how, "--reason", "not yet"]].concat())
                .await?;
            assert!(said.contains("dry run"), "{words:?}: {said}");
        }
        let wrote: Vec<String> = stage.cluster.audit()?[before..]
            .iter()
            .filter(|one| one.user_agent.ends_with(&format!(" {}", words[0])))
            .filter(|one| !["get", "list", "watch"].contains(&one.verb.as_str()))
            .filter(|one| one.resource != "selfsubjectreviews" && !one.uri.contains("dryRun=All"))
            .map(|one| format!("{} {}", one.verb, one.uri))
            .collect();
        assert_eq!(wrote, Vec::<String>::new(), "{words:?}");

        let why = format!("because of {}", words.join(" "));
        stage.say(&[&words[..], &["--reason", &why]].concat()).await?;
        let api: Api<Event> = Api::all(stage.client.clone());
        let all = api.list(&ListParams::default()).await?.items;
        let told = all.iter().find(|one| {
            let about = one.regarding.as_ref().and_then(|about| about.kind.as_deref());
            one.reason.as_deref() == Some(event) && about == Some(kind)
        });
        let note = told.and_then(|one| one.note.clone()).unwrap_or_default();
        assert!(
            note.contains("by admin") && note.contains(&why),
            "{words:?}: {note}"
        );
        let text = stage.say(&["explain", explained]).await?;
        assert!(text.contains(&why), "{words:?}: {text}");
    }
    // One word does not take the place of another in the journal.
    let text = stage.say(&["explain", "worker-1"]).await?;
    for word in [
        "skip by admin: because of skip",
        "retry by admin: because of retry",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    gate.open_for_all()?;
    crate::finish(&stage).await?;
    stage.strike().await
}
