//! Where people look: every verb that says something of an object, in every format it has, and which field each of them is meant to show.

use super::{HOSTILE, evil, forged, marker, objects, strings, unseen};
use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use numo_e2e::{NAMESPACE, Stage, manifests, process::Said};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// Calls at once.
const AT_ONCE: usize = 8;
/// The formats of a view; none is that for people.
pub const FORMATS: [&str; 5] = ["", "-o wide", "-o json", "-o yaml", "-o name"];

/// Each field, and the view that shows it: text that nobody is shown proves nothing.
pub const SHOWN: &[(&str, &str)] = &[
    ("run-rule", "explain mutexrunconfig/evil"),
    ("run-rule-namespace", "explain mutexrunconfig/evil"),
    ("run-target", "explain mutexrunconfig/evil"),
    ("run-target-namespace", "explain mutexrunconfig/evil"),
    ("run-canary", "explain mutexrunconfig/evil"),
    ("run-limit", "explain mutexrunconfig/evil"),
    ("run-failures", "explain mutexrunconfig/evil"),
    ("run-first", "explain mutexrunconfig/evil"),
    ("run-awaited", "explain mutexrunconfig/evil"),
    ("target-pool", "explain mutexrunconfig/evil"),
    ("target-pool", "explain mutextarget/evil"),
    ("run-suspend", "explain mutexrunconfig/asleep"),
    ("run-suspend", "status mutexrunconfig/asleep"),
    ("run-verb", "explain mutexrunconfig/asleep"),
    ("run-by", "explain mutexrunconfig/asleep"),
    ("run-reason", "explain mutexrunconfig/asleep"),
    ("object-version", "explain mutexrule/evil-kind"),
    ("object-kind", "explain mutexrule/evil-kind"),
    ("fact", "explain mutexrule/evil-fact"),
    ("matcher", "explain mutexrule/evil-matcher"),
    ("query", "explain mutexrule/evil-query"),
    ("image", "explain mutexrule/evil-image"),
    ("image", "doctor"),
    ("container", "explain mutexrule/evil-job"),
    ("rule-message", "explain worker-0"),
    ("rule-message", "status -o wide"),
    ("daemon-reason", "explain worker-2"),
    ("budget-limit", "explain mutexbudget/evil-limit"),
    ("budget-verb", "explain mutexbudget/evil-limit"),
    ("budget-by", "explain mutexbudget/evil-limit"),
    ("budget-reason", "explain mutexbudget/evil-limit"),
    ("budget-group", "status"),
    ("window-freeze", "explain mutexwindow/evil-freeze"),
    ("window-freeze", "status"),
    ("window-reason", "explain mutexwindow/evil-freeze"),
    ("window-zone", "explain mutexwindow/evil-zone"),
    ("window-zone", "status -o wide"),
    ("notifier-template", "explain mutexnotifier/evil-template"),
    ("binding-labels", "explain mutexbinding/evil-labels"),
    ("binding-rule", "explain mutexbinding/evil-rules"),
    ("binding-rule-namespace", "explain mutexbinding/evil-rules"),
    ("binding-limit", "explain mutexbinding/evil-limit"),
    ("binding-first", "explain mutexbinding/evil-first"),
    ("binding-drain", "explain mutexbinding/evil-drain"),
    ("binding-drain", "doctor"),
    ("plan-delay", "explain plan/evil-delay"),
    ("plan-verb", "explain plan/evil-delay"),
    ("plan-by", "explain plan/evil-delay"),
    ("plan-reason", "explain plan/evil-delay"),
    ("plan-drain", "explain plan/evil-drain"),
    ("plan-start", "explain plan/evil-window"),
    ("plan-selector", "explain plan/evil-selector"),
    ("plan-version", "explain plan/evil-version"),
    ("plan-channel", "explain plan/evil-channel"),
    ("plan-label", "explain plan/evil-label"),
    ("plan-secret", "explain plan/evil-secret"),
    ("plan-suspend", "explain plan/evil-suspend"),
    ("maintenance-node", "status"),
    ("maintenance-node", "explain nodemaintenance/evil"),
    ("maintenance-reason", "explain nodemaintenance/evil"),
    ("maintenance-verb", "explain nodemaintenance/evil"),
    ("maintenance-by", "explain nodemaintenance/evil"),
    ("older-node", "explain nodemaintenance/older"),
    ("older-reason", "explain nodemaintenance/older"),
    ("pause-owner", "status"),
    ("pause-namespace", "status"),
    ("shield-prior", "status"),
    ("shield-owner", "doctor"),
    ("subject", "doctor"),
    ("leader", "doctor"),
    ("kured-node", "doctor"),
    ("change-node", "doctor"),
    ("change-kind", "doctor"),
    ("change-owner", "doctor"),
    ("change-message", "doctor"),
];

/// Where there are leases of nodes.
pub const SHOWN_OF_LEASES: &[(&str, &str)] = &[("lease", "explain worker-3")];

/// Once a stranger has held the node that has its turn.
pub const SHOWN_OF_HELD: &[(&str, &str)] = &[
    ("directive-by", "explain worker-0"),
    ("directive-reason", "explain worker-0"),
    ("directive-by", "status"),
    ("verdict-rule", "explain worker-0"),
    ("verdict-message", "explain worker-0"),
    ("entry-reason", "explain worker-0"),
    ("log", "explain worker-0"),
];

/// Every view of what there is, without a format.
pub fn texts() -> Vec<String> {
    let mut all: Vec<String> = [
        "status",
        "status -A",
        "status -n team",
        "status mutexrunconfig/upgrade",
        "status mutexrunconfig/evil",
        "status mutexrunconfig/asleep",
        "status plan/evil-version",
        "status nodemaintenance/evil",
        "doctor",
        "explain worker-0",
        "explain worker-1",
        "explain worker-2",
        "explain worker-3",
        "explain infra-0",
        "explain mutexrunconfig/upgrade",
        "explain mutexrunconfig/evil",
        "explain mutexrunconfig/asleep",
        "explain mutexrunconfig/stranger",
        "explain mutexrule/stranger",
        "explain mutextarget/evil",
        "explain mutextarget/stranger",
        "explain mutexbudget/evil-limit",
        "explain mutexbudget/evil-group",
        "explain mutexbudget/stop",
        "explain plan/stranger",
        "explain nodemaintenance/evil",
        "explain nodemaintenance/older",
        "explain reason/RuleWaits",
        "preview mutexrunconfig/stranger -n team",
        "preview plan/stranger -n team",
        "preview plan/evil-version -n system-upgrade",
        "preview plan/evil-window -n system-upgrade",
        "preview nodemaintenance/evil",
        "preview nodemaintenance/older",
        "release --offline --dry-run",
    ]
    .map(ToOwned::to_owned)
    .to_vec();
    let of = |kind: &str, names: &[&str]| -> Vec<String> {
        names
            .iter()
            .map(|name| format!("explain {kind}/evil-{name}"))
            .collect()
    };
    let rules = [
        "kind",
        "fact",
        "expression",
        "matcher",
        "query",
        "image",
        "key",
        "job",
    ];
    let plans = [
        "delay", "drain", "window", "selector", "version", "channel", "label", "secret", "suspend",
    ];
    all.extend(of("mutexrule", &rules));
    all.extend(of(
        "mutexbinding",
        &["labels", "rules", "limit", "first", "drain"],
    ));
    all.extend(of("plan", &plans));
    all.extend(
        ["upgrade", "evil", "asleep"].map(|name| format!("preview mutexrunconfig/{name} -n {NAMESPACE}")),
    );
    all
}

/// Every verb that talks and has no format: what it would do, what it refuses, and what a shell completes. None of them writes.
pub fn talks() -> Vec<String> {
    let (why, own) = (evil("said-why"), format!("-n {NAMESPACE}"));
    let mut all = vec![
        "snapshot".to_owned(),
        format!("explain {HOSTILE}"),
        format!("status {HOSTILE}"),
        format!("retry {HOSTILE}"),
        format!("skip {HOSTILE}"),
        format!("explain nodemaintenance/{HOSTILE}"),
        "stop --dry-run".to_owned(),
        "stop evil-limit --dry-run".to_owned(),
        "stop evil-group --dry-run".to_owned(),
        "start --dry-run".to_owned(),
        "start evil-limit --dry-run".to_owned(),
        format!("skip worker-0 --dry-run --reason {why}"),
        format!("retry worker-0 --dry-run --reason {why}"),
        format!("retry worker-3 --dry-run --reason {why}"),
        // It waits for the lease of the stranger's leader, and says who holds it.
        "release --offline --operator-namespace team".to_owned(),
    ];
    let owners = [
        format!("mutexrunconfig/upgrade {own}"),
        format!("mutexrunconfig/evil {own}"),
        format!("mutexrunconfig/asleep {own}"),
        "mutexrunconfig/stranger -n team".to_owned(),
        "plan/evil-delay -n system-upgrade".to_owned(),
        "plan/evil-suspend -n system-upgrade".to_owned(),
        "nodemaintenance/evil".to_owned(),
    ];
    let verbs = [
        "pause",
        "resume",
        "abort",
        "abort --undo",
        "acknowledge",
        "acknowledge --undo",
        "retry",
    ];
    for verb in verbs {
        all.extend(
            owners
                .iter()
                .map(|owner| format!("{verb} {owner} --dry-run --reason {why}")),
        );
    }
    let begun = [
        "explain w",
        "explain mutexrule/",
        "explain mutexbudget/",
        "explain mutexbinding/",
        "explain mutexwindow/",
        "explain mutexnotifier/",
        "status plan/",
        "status nodemaintenance/",
        "stop e",
    ];
    all.extend(begun.map(|begun| format!("__complete {begun}")));
    all
}

/// Calls numo; words are parted by blanks, of which no stranger's text has any.
async fn call(stage: &Stage, view: &str, format: &str) -> Result<Said> {
    // Objects are in several namespaces, and the context of the terminal names one.
    let is_of_all = view.starts_with("status") || view.starts_with("explain");
    let everywhere = is_of_all && !view.contains(" -A") && !view.contains(" -n ");
    let words: Vec<&str> = view
        .split(' ')
        .chain(everywhere.then_some("-A"))
        .chain(format.split(' ').filter(|word| !word.is_empty()))
        .collect();
    stage.call(&words).await.with_context(|| view.to_owned())
}

/// Waits until each field is shown by its view.
pub async fn shown(stage: &Stage, fields: &[(&str, &str)]) -> Result<()> {
    let views: BTreeSet<&str> = fields.iter().map(|(_, view)| *view).collect();
    let (views, fields) = (&views, &fields);
    stage
        .until(
            "every field is shown where it is meant to be",
            120,
            || async move {
                let said: BTreeMap<&str, String> = stream::iter(views.iter().copied())
                    .map(|view| async move {
                        let said = call(stage, view, "").await?;
                        anyhow::Ok((view, said.out + &said.err))
                    })
                    .buffer_unordered(AT_ONCE)
                    .try_collect()
                    .await?;
                let missing = |(field, view): &&(&str, &str)| {
                    said.get(view).is_none_or(|text| !text.contains(&marker(field)))
                };
                let missing: BTreeMap<&str, Vec<&str>> =
                    fields
                        .iter()
                        .filter(missing)
                        .fold(BTreeMap::new(), |mut all, (field, view)| {
                            all.entry(*view).or_insert_with(Vec::new).push(*field);
                            all
                        });
                let told: Vec<String> = missing
                    .iter()
                    .map(|(view, fields)| format!("{view} shows no {fields:?}:\n{}", said[view]))
                    .collect();
                ensure!(told.is_empty(), "{}", told.join("\n"));
                Ok(Some(()))
            },
        )
        .await
}

/// What is wrong with what a view said.
fn faults(view: &str, format: &str, said: &Said) -> Vec<String> {
    let mut faults = Vec::new();
    for text in [&said.out, &said.err] {
        let mut fault = |what: String| faults.push(format!("{view:?} {format}: {what} in {text:?}"));
        if let Some(one) = unseen(text) {
            fault(format!("{one:?}"));
        }
        // Between a name and its help, as shells take it.
        if text.contains('\t') && !view.starts_with("__complete") {
            fault("a tab".to_owned());
        }
        // A text of YAML may have lines; that they are inside of it is for its parser to say.
        if format != "-o yaml"
            && let Some(line) = forged(text)
        {
            fault(format!("the line {line:?}"));
        }
    }
    let out = said.out.as_str();
    let parsed = match format {
        _ if out.is_empty() => Ok(()),
        "-o json" => serde_json::from_str::<serde_json::Value>(out)
            .map(|_| ())
            .map_err(anyhow::Error::from),
        "-o yaml" => manifests::parse(out).map(|_| ()),
        _ => Ok(()),
    };
    if let Err(error) = parsed {
        faults.push(format!("{view:?} {format} cannot be read: {error:#}: {out:?}"));
    }
    // One document: a line of a stranger's ends none, and begins no field at the outside.
    if format == "-o yaml" && out.lines().any(|line| line.starts_with(super::FORGED)) {
        faults.push(format!("{view:?} {format}: a line at the outside in {out:?}"));
    }
    faults
}

/// Looks at all of these in each format, and fails with all that is wrong.
pub async fn look(stage: &Stage, views: &[String], formats: &[&str]) -> Result<()> {
    let formats = if formats.is_empty() { &[""] } else { formats };
    let each = views
        .iter()
        .flat_map(|view| formats.iter().map(move |format| (view.as_str(), *format)));
    let faults: Vec<Vec<String>> = stream::iter(each)
        .map(|(view, format)| async move {
            let said = call(stage, view, format).await?;
            ensure!(
                !said.out.is_empty() || !said.err.is_empty() || said.code == Some(0),
                "{view:?} {format} says nothing: {said:?}"
            );
            Ok(faults(view, format, &said))
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    let faults = faults.concat();
    ensure!(
        faults.is_empty(),
        "{} get through:\n{}",
        faults.len(),
        faults.join("\n")
    );
    Ok(())
}

/// Programs get every character, as an escape.
pub async fn json_loses_nothing(stage: &Stage) -> Result<()> {
    let said = call(stage, "explain nodemaintenance/evil", "-o json").await?;
    let found = serde_json::from_str(&said.out).with_context(|| format!("{said:?}"))?;
    let mut all = Vec::new();
    strings(&found, &mut all);
    let wanted = evil("maintenance-node");
    ensure!(all.iter().any(|text| text.contains(&wanted)), "{said:?}");
    Ok(())
}

/// Files that are previewed: what a stranger sent, and what a snapshot kept.
pub struct Files {
    manifests: PathBuf,
    snapshot: PathBuf,
}

impl Files {
    /// Writes them into a folder.
    pub async fn write(stage: &Stage, folder: &Path) -> Result<Self> {
        let files = Self {
            manifests: folder.join("manifests.yaml"),
            snapshot: folder.join("snapshot.json"),
        };
        std::fs::write(&files.manifests, objects::manifests_of_a_stranger())?;
        stage
            .say(&["snapshot", "-f", &files.snapshot.to_string_lossy()])
            .await?;
        Ok(files)
    }

    /// What a person looks at who was sent manifests.
    pub fn preview_of_manifests(&self) -> String {
        format!("preview -f {} -n {NAMESPACE}", self.manifests.display())
    }

    /// Their views.
    pub fn views(&self) -> Vec<String> {
        let snapshot = self.snapshot.display();
        vec![
            self.preview_of_manifests(),
            format!("preview --snapshot {snapshot} mutexrunconfig/evil -n {NAMESPACE}"),
            format!("preview --snapshot {snapshot} nodemaintenance/evil"),
        ]
    }
}
