//! What strangers write into a cluster reaches an administrator's terminal as text, and as nothing else: it moves no cursor, hides
//! nothing, and begins no line that could be taken for one of numo's own.

mod objects;
mod views;

use crate::{
    NEW, apply, condition, happened,
    left::metrics,
    maintenance::{self, install_webhook, maintain},
    run_of, seen, set, set_with_slips, target, workers,
};
use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use numo_api::{NodeChange, node_maintenance::MEDIK8S_GROUP, text};
use numo_e2e::{NAMESPACE, Stage, manifests};
use numo_world::{Fault, PoolSpec, WorldSpec};
use serde_json::{Value, json};

/// What a line begins with that a stranger would have taken for numo's.
const FORGED: &str = "FORGED";
/// Every end of a line there is, a window title, a cleared screen, hidden letters, a turned direction, and what nobody sees. The ends of
/// lines come first: what is cut off is the end.
const HOSTILE: &str = "\nFORGED\rFORGED\tFORGED\u{85}FORGED\u{b}FORGED\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[8m\u{9b}31m\u{202e}\u{200b}\
    \u{2028}FORGED\u{e0041}\u{feff}\u{fe0f}\u{3164}\u{34f}\u{e0101}end";

/// The word by which it is known which field is shown. No field's is the beginning of another's.
fn marker(field: &str) -> String {
    format!("evil-{field}.")
}

/// The text of a stranger in a field.
fn evil(field: &str) -> String {
    format!("{}{HOSTILE}", marker(field))
}

/// The same for a field with little room (63 characters).
fn short(field: &str) -> String {
    format!("{}\nFORGED\r\u{1b}[8m\u{202e}", marker(field))
}

/// The first character of a text that nobody is to be shown.
fn unseen(text: &str) -> Option<char> {
    text.chars()
        .find(|one| text::is_unseen(*one) && !matches!(one, '\n' | '\t'))
}

/// The first line of a text that a stranger has begun.
fn forged(text: &str) -> Option<&str> {
    text.lines().find(|line| line.trim_start().starts_with(FORGED))
}

/// Every string in what numo says of an object, but for the end of a log, which has lines.
fn strings(value: &Value, all: &mut Vec<String>) {
    match value {
        Value::String(text) => all.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|one| strings(one, all)),
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(name, _)| *name != "logTail");
            fields.for_each(|(_, one)| strings(one, all));
        }
        _ => {}
    }
}

/// What kubectl prints as it stands (`kubectl describe` each word of a condition): every string of every status that numo wrote, of every
/// kind.
async fn statuses_are_clean(stage: &Stage) -> Result<()> {
    let kinds = [
        ("openshift-optional.skrzypek.io/v1alpha1", "mutexrules"),
        ("openshift-optional.skrzypek.io/v1alpha1", "mutexrunconfigs"),
        ("openshift-optional.skrzypek.io/v1alpha1", "mutextargets"),
        ("numo.openshift-optional.skrzypek.io/v1alpha1", "mutexbindings"),
        ("numo.openshift-optional.skrzypek.io/v1alpha1", "mutexbudgets"),
        ("numo.openshift-optional.skrzypek.io/v1alpha1", "mutexnotifiers"),
        ("numo.openshift-optional.skrzypek.io/v1alpha1", "mutexwindows"),
        ("numo.openshift-optional.skrzypek.io/v1alpha1", "nodechanges"),
        ("nodemaintenance.medik8s.io/v1beta1", "nodemaintenances"),
        ("nodemaintenance.kubevirt.io/v1beta1", "nodemaintenances"),
        ("upgrade.cattle.io/v1", "plans"),
    ];
    let (mut wrong, mut silent) = (Vec::new(), Vec::new());
    for (group, plural) in kinds {
        let request = kube::core::Request::new(format!("/apis/{group}/{plural}"));
        let request = request.list(&ListParams::default())?;
        let list: Value = serde_json::from_str(&stage.client.request_text(request).await?)?;
        let mut said = 0;
        for object in list["items"].as_array().into_iter().flatten() {
            let name = &object["metadata"]["name"];
            // Its status is the stranger's own.
            if plural == "nodechanges" && *name == objects::CHANGE {
                continue;
            }
            let mut all = Vec::new();
            strings(&object["status"], &mut all);
            said += all.len();
            let log = object["status"]["logTail"].as_str().unwrap_or_default();
            let dirty = all
                .iter()
                .filter(|text| unseen(text).is_some() || forged(text).is_some());
            wrong.extend(dirty.map(|text| format!("{group} {plural} {name}: {text:?}")));
            wrong.extend(
                unseen(log).map(|one| format!("{group} {plural} {name} has {one:?} in its log: {log:?}")),
            );
        }
        if said == 0 {
            silent.push((group, plural));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(silent, [], "numo says something of each kind");
    Ok(())
}

/// What numo has said in events, and its command line: one line each.
async fn events_are_clean(stage: &Stage) -> Result<()> {
    let of_cli: Api<Event> = Api::all(stage.client.clone());
    let mut events = of_cli.list(&ListParams::default()).await?.items;
    events.retain(|event| {
        let by = event.reporting_controller.as_deref();
        by == Some("numo.openshift-optional.skrzypek.io/cli")
    });
    assert!(
        !events.is_empty(),
        "the command line has told what it was asked for"
    );
    events.extend(stage.events().await?);
    let notes: Vec<String> = events.into_iter().filter_map(|event| event.note).collect();
    let wrong: Vec<&String> = notes
        .iter()
        .filter(|note| note.chars().any(text::is_unseen))
        .collect();
    assert_eq!(wrong, Vec::<&String>::new());
    assert!(
        notes.iter().any(|note| note.contains("evil-")),
        "an event has words of a stranger: {notes:?}"
    );
    Ok(())
}

/// Begins an upgrade with a rule that waits, beside everything that strangers may write.
async fn upgrade_among_strangers(stage: &Stage) -> Result<()> {
    objects::write(stage).await?;
    apply(
        stage,
        &[target("workers", &["worker"]), run_of(&["says"], json!({}))],
    )
    .await?;
    stage
        .until("numo has looked at the run", 90, || async {
            Ok(condition(&stage.run("upgrade").await?, "Ready").map(|_| ()))
        })
        .await?;
    stage.world.upgrade_to(NEW).await?;
    // A pool that is degraded before holds up the machine-config operator.
    stage
        .until("worker-0 has its turn", 90, || stage.change("worker-0"))
        .await?;
    stage.world.inject(Fault::Degraded {
        node: "worker-2".to_owned(),
    });
    seen(stage, "the daemon says so", |world| {
        happened(world, "worker-2", |event| {
            matches!(event, numo_world::Event::Failing { .. })
        })
    })
    .await?;
    objects::mark(stage).await
}

/// Has a stranger who may write NodeChanges hold the node that has its turn, and write into its journal.
async fn hold(stage: &Stage) -> Result<()> {
    let held = stage
        .until("worker-0 has its turn", 60, || stage.change("worker-0"))
        .await?;
    let name = held.metadata.name.context("a name")?;
    let changes: Api<NodeChange> = stage.api();
    let directive = json!({"spec": {"directive": {
        "action": "Hold", "by": evil("directive-by"), "reason": evil("directive-reason"),
    }}});
    let params = PatchParams::default();
    changes.patch(&name, &params, &Patch::Merge(directive)).await?;
    stage
        .until("worker-0 is held", 90, || async {
            let change = changes.get(&name).await?;
            // Its turn may have been given back meanwhile.
            let message = change
                .status
                .and_then(|status| status.message)
                .unwrap_or_default();
            Ok(message.contains(&marker("directive-by")).then_some(()))
        })
        .await?;
    statuses_are_clean(stage).await?;
    let mut status = serde_json::to_value(changes.get(&name).await?.status)?;
    let journal = [
        (
            "verdicts",
            json!({
                "rule": evil("verdict-rule"), "phase": "Pre", "attempt": 1, "round": 1, "outcome": "Failure",
                "reason": short("verdict-reason"), "message": evil("verdict-message"), "at": "2026-01-01T00:00:00Z",
            }),
        ),
        (
            "entries",
            json!({"at": "2026-01-01T00:00:00Z", "step": "PreRules", "attempt": 1, "reason": evil("entry-reason")}),
        ),
    ];
    for (list, entry) in journal {
        // A node whose turn was given back has no verdicts.
        if status[list].is_null() {
            status[list] = json!([]);
        }
        let list = status[list]
            .as_array_mut()
            .with_context(|| format!("a journal with {list}"))?;
        list.push(entry);
    }
    let journal = json!({"status": {"verdicts": status["verdicts"], "entries": status["entries"], "logTail": evil("log")}});
    changes
        .patch_status(&name, &params, &Patch::Merge(journal))
        .await
        .context("the journal of worker-0")?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_stranger_steers_the_terminal() -> Result<()> {
    let world = WorldSpec {
        pools: vec![PoolSpec::new("worker", 4), PoolSpec::new("infra", 1)],
        canary: true,
        ..WorldSpec::default()
    };
    let mut stage = set_with_slips(world, Vec::new()).await?;
    // Nobody invites it to the stranger's namespace.
    stage.may_lack_rights = true;
    upgrade_among_strangers(&stage).await?;
    let folder = tempfile::tempdir()?;
    let files = views::Files::write(&stage, folder.path()).await?;

    views::shown(&stage, views::SHOWN).await?;
    if numo_e2e::has_leases() {
        views::shown(&stage, views::SHOWN_OF_LEASES).await?;
    }
    let sent = files.preview_of_manifests();
    views::shown(&stage, &[("file-rule", sent.as_str())]).await?;
    // For what it says as an event.
    let aloud = format!(
        "pause mutexrunconfig/asleep -n {NAMESPACE} --reason {}",
        evil("aloud")
    );
    views::look(&stage, &[aloud], &[]).await?;
    views::look(&stage, &views::talks(), &[]).await?;
    views::look(&stage, &[views::texts(), files.views()].concat(), &views::FORMATS).await?;
    views::json_loses_nothing(&stage).await?;

    hold(&stage).await?;
    views::shown(&stage, views::SHOWN_OF_HELD).await?;
    let of_held = ["explain worker-0", "status", "status -A"].map(str::to_owned);
    views::look(&stage, &of_held, &views::FORMATS).await?;

    events_are_clean(&stage).await?;
    for (what, text) in [
        ("a log", stage.numo().context("numo runs")?.log()),
        ("a page of metrics", metrics(&stage).await?.replace("\r\n", "\n")),
    ] {
        assert!(text.contains("numo"), "{what}: {text}");
        assert_eq!(unseen(&text), None, "{what} is read on a terminal: {text}");
        assert_eq!(forged(&text), None, "{what} is read line by line");
    }
    stage.strike().await
}

/// What the admission of NodeMaintenances says is printed by kubectl as it stands.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_stranger_comes_back_from_the_webhook() -> Result<()> {
    const ARGUMENTS: [&str; 4] = ["--webhook-certs", "self", "--webhook-address", "127.0.0.1:0"];
    let mut stage = set(workers(1), Vec::new()).await?;
    stage.stop_numo().await?;
    // The rights first: numo makes its certificate when it starts.
    install_webhook(&stage, "127.0.0.1:1").await?;
    stage.start_numo_with(&ARGUMENTS)?;
    let address = stage
        .until("numo serves its webhook", 60, || async {
            let listeners = stage.numo().context("numo runs")?.listeners();
            let own = listeners.into_iter().find(|(what, _)| what.contains("webhook"));
            Ok(own.map(|(_, address)| address))
        })
        .await?;
    install_webhook(&stage, &address).await?;
    stage
        .until("a NodeMaintenance is admitted", 60, || async {
            let created = maintain(&stage, "first", "worker-0", json!({})).await;
            if let Err(error) = &created {
                let words = format!("{error:#}");
                ensure!(words.contains("failed calling webhook"), "{words}");
            }
            Ok(created.is_ok().then_some(()))
        })
        .await?;
    let object = maintenance::object(MEDIK8S_GROUP, "evil", &evil("admitted-node"), json!({}));
    let refused = manifests::apply(&stage.client, &[object], NAMESPACE).await;
    let error = refused.expect_err("there is no such node");
    let words = error
        .chain()
        .find_map(|cause| match cause.downcast_ref::<kube::Error>() {
            Some(kube::Error::Api(status)) => Some(status.message.clone()),
            _ => None,
        })
        .with_context(|| format!("the API server's word: {error:?}"))?;
    assert!(words.contains(&marker("admitted-node")), "{words:?}");
    assert_eq!(unseen(&words), None, "{words:?}");
    assert_eq!(forged(&words), None, "{words:?}");
    stage.strike().await
}
