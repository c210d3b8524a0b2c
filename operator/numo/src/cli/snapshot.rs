//! `numo snapshot`: what a preview needs of a cluster, in one file, without what is nobody's business; and reading it again.

use super::{
    cluster::ClusterArgs,
    error::{self, CliError},
    live::settings,
    say,
    status::say_unseen,
};
use crate::{
    frontends,
    shell::{
        kind::Kind,
        list::{self, Recording},
        store::Store,
        watched,
    },
};
use clap::Args;
use jiff::Timestamp;
use kube::core::DynamicObject;
use numo_api::marks;
use numo_core::{observed::Validity, owners::plan::without_user};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

/// Version of the file's format.
const FORMAT: u32 = 1;
/// How annotations begin that are kept: those that numo decides by.
const KEPT: [&str; 11] = [
    "numo.openshift-optional.skrzypek.io/",
    "machineconfiguration.openshift.io/",
    "upgrade.cattle.io/",
    "plan.upgrade.cattle.io/",
    "cluster.x-k8s.io/",
    "cluster-autoscaler.kubernetes.io/",
    "karpenter.sh/",
    "weave.works/",
    "machine.openshift.io/",
    "constellation.edgeless.systems/",
    // Without it the pods of a control plane would have to go in a drain.
    "kubernetes.io/config.mirror",
];
/// What stands where something was taken away.
const SCRUBBED: &str = "scrubbed";

/// Arguments of `numo snapshot`.
#[derive(Debug, Args)]
pub struct SnapshotArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// File to write; - is standard output
    #[arg(short = 'f', long, value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Leave out pods: a preview then says nothing about drains
    #[arg(long)]
    without_pods: bool,
}

/// What is in the file.
#[derive(Debug, Serialize, Deserialize)]
struct File {
    /// Version of the format.
    format: u32,
    /// Version of the numo that wrote it.
    numo: String,
    /// When, by the API server's clock.
    at: Timestamp,
    /// What could not be seen.
    unseen: Vec<String>,
    /// Kind, scope and object.
    objects: Vec<(String, String, DynamicObject)>,
}

/// What tells whose the file is.
#[derive(Debug, Deserialize)]
struct Head {
    format: u32,
    numo: String,
}

/// A snapshot that was read.
#[derive(Debug)]
pub struct Snapshot {
    /// What was seen then.
    pub store: Store,
    /// When.
    pub at: Timestamp,
    /// What could not be seen.
    pub unseen: Vec<String>,
}

/// Writes the file.
pub async fn snapshot(args: SnapshotArgs) -> Result<(), CliError> {
    let (connection, _) = args.cluster.connect("snapshot").await?;
    let mut recording: Recording = Some(Vec::new());
    let (mut store, mut unseen) = list::recorded(&connection.read, settings(), &mut recording)
        .await
        .map_err(error::api("looking at the cluster"))?;
    if let Some(words) = unseen.iter().find(|words| words.starts_with("nodes: ")) {
        return Err(CliError::Wrong(format!(
            "nothing was written, as a snapshot without nodes is of no use: {words}; a cluster administrator grants the \
             ClusterRole numo-viewer"
        )));
    }
    if !args.without_pods {
        let nodes: Vec<String> = store.observed.nodes.keys().cloned().collect();
        let found = list::pods(&connection.read, &mut store, &nodes, &mut recording).await;
        unseen.extend(found.map_err(error::api("pods"))?);
    }
    let mut objects = Vec::new();
    let mut renamed = Vec::new();
    for (kind, scope, mut object) in recording.unwrap_or_default() {
        let before = editions(kind, &object);
        scrub(kind, &mut object);
        renamed.extend(before.into_iter().zip(editions(kind, &object)));
        objects.push((format!("{kind:?}"), scope, object));
    }
    let file = File {
        format: FORMAT,
        numo: env!("CARGO_PKG_VERSION").to_owned(),
        at: connection.clock.now(),
        unseen,
        objects,
    };
    let text = serde_json::to_string(&file)
        .map_err(|error| CliError::Wrong(format!("the snapshot cannot be written: {error}")))?;
    // What is known of a rule that stands in a run is known of the one without its commands.
    let text = renamed
        .iter()
        .fold(text, |text, (before, after)| text.replace(before, after));
    // Whoever has it looks at it on a terminal.
    let text = say::json(&text);
    say_unseen(&file.unseen);
    write(&args.file, &text).map_err(|source| CliError::File {
        path: args.file.clone(),
        source,
    })?;
    if args.file == Path::new("-") {
        return Ok(());
    }
    eprintln!(
        "numo: {} objects in {}; names and labels are in it, values of variables, commands, logs and what persons said are not",
        file.objects.len(),
        args.file.display()
    );
    Ok(())
}

/// Writes a line of text to a file, or to stdout.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if path == Path::new("-") {
        say::bytes(text.as_bytes());
        say::bytes(b"\n");
        return Ok(());
    }
    // Names and labels of a cluster are for who took it.
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut out = options.open(path)?;
    out.write_all(text.as_bytes())?;
    out.write_all(b"\n")
}

/// Reads a file.
pub fn read(path: &Path) -> Result<Snapshot, CliError> {
    let wrong = |words: String| CliError::Usage(format!("--snapshot {}: {words}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let again = "take it again: numo snapshot -f FILE";
    // What another numo wrote may have another shape: its version is looked at first.
    let head: Head = serde_json::from_str(&text).map_err(|error| {
        let what = if error.is_eof() {
            "it ends too early, so it is truncated"
        } else {
            "it is no snapshot of numo's"
        };
        wrong(format!("{what} ({error}); {again}"))
    })?;
    if head.format != FORMAT || head.numo != env!("CARGO_PKG_VERSION") {
        return Err(wrong(format!(
            "numo {} wrote it (format {}), this is numo {} (format {FORMAT}); use that numo, or {again}",
            head.numo,
            head.format,
            env!("CARGO_PKG_VERSION")
        )));
    }
    let file: File = serde_json::from_str(&text).map_err(|error| wrong(format!("{error}; {again}")))?;
    let mut recording = Vec::new();
    for (kind, scope, object) in file.objects {
        let Some(known) = list::kinds().find(|known| format!("{known:?}") == kind) else {
            return Err(wrong(format!(
                "found an object of kind {kind}, which nothing is decided by; {again}"
            )));
        };
        recording.push((known, scope, object));
    }
    Ok(Snapshot {
        store: list::replayed(settings(), recording),
        at: file.at,
        unseen: file.unseen,
    })
}

/// The editions of the rules that stand in a run: each is told by what the rule says.
fn editions(kind: Kind, object: &DynamicObject) -> Vec<String> {
    if kind != Kind::MutexRunConfig {
        return Vec::new();
    }
    let run = serde_json::to_value(object).and_then(serde_json::from_value::<numo_api::MutexRunConfig>);
    let Ok(run) = run else { return Vec::new() };
    let rules = frontends::mutex_rule::inline(&watched::mutex_run_config::view(run));
    let edition =
        |rule: &numo_api::MutexRule| frontends::mutex_rule::parse(rule, Validity::Unknown).edition();
    rules.iter().map(edition).collect()
}

/// Takes away what no decision reads and what may be a secret: managed fields, annotations of others, values of variables,
/// commands, addresses, images, logs and what rules left for themselves.
fn scrub(kind: Kind, object: &mut DynamicObject) {
    // Ignition holds password hashes, keys and pull secrets; its name and its version are all that is decided by.
    // The URL of a sink may be all that it takes to write to it, and nothing is decided by a notifier.
    if matches!(kind, Kind::MachineConfig | Kind::MutexNotifier) {
        object.data = Value::Null;
    }
    scrub_said(kind, object);
    scrub_data(kind, object);
    if let Some(status) = object.data.get_mut("status").and_then(Value::as_object_mut) {
        for key in [
            "addresses",
            "images",
            "hostIP",
            "hostIPs",
            "podIP",
            "podIPs",
            "logTail",
        ] {
            status.remove(key);
        }
    }
    if matches!(kind, Kind::NodePod | Kind::Pod | Kind::PlanPod)
        && let Some(spec) = object.data.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.retain(|key, _| ["nodeName", "volumes", "priority"].contains(&key.as_str()));
    }
}

/// What a volume is made of may be a secret, or name one.
fn scrub_volumes(volumes: &mut Value) {
    let volumes = volumes.as_array_mut().into_iter().flatten();
    for volume in volumes.filter_map(Value::as_object_mut) {
        volume.retain(|key, _| ["name", "emptyDir", "persistentVolumeClaim"].contains(&key.as_str()));
    }
}

/// Annotations and words of people.
fn scrub_said(kind: Kind, object: &mut DynamicObject) {
    let metadata = &mut object.metadata;
    // Who paused a pool stands in its managed fields: names of fields and of programs.
    if kind != Kind::MachineConfigPool {
        metadata.managed_fields = None;
    }
    if let Some(annotations) = &mut metadata.annotations {
        annotations.retain(|key, _| *key != marks::SAID && KEPT.iter().any(|kept| key.starts_with(kept)));
    }
    // What a person wrote, and who it was: that it was said is all that is decided by.
    if let Some(suspended) = metadata
        .annotations
        .as_mut()
        .and_then(|all| all.get_mut(marks::SUSPEND))
    {
        SCRUBBED.clone_into(suspended);
    }
    for pointer in ["/spec/directive", "/spec"] {
        if let Some(said) = object.data.pointer_mut(pointer).and_then(Value::as_object_mut) {
            for field in ["by", "approvedBy", "reason"] {
                if let Some(text) = said.get_mut(field).filter(|text| text.is_string()) {
                    *text = SCRUBBED.into();
                }
            }
        }
    }
}

/// What is set in an object, but for that by which is decided.
fn scrub_data(kind: Kind, object: &mut DynamicObject) {
    // Which Plan another one waits for stands in its arguments.
    let awaited = object.data.pointer("/spec/prepare/args").filter(|args| {
        let args = args.as_array().map_or(&[][..], Vec::as_slice);
        kind == Kind::Plan && args.len() == 2 && args[0] == "prepare"
    });
    let awaited = awaited.cloned();
    scrub_value(&mut object.data);
    if let (Some(awaited), Some(args)) = (awaited, object.data.pointer_mut("/spec/prepare/args")) {
        *args = awaited;
    }
    if let Some(Value::String(channel)) = object.data.pointer_mut("/spec/channel") {
        *channel = without_user(channel).into_owned();
    }
}

fn scrub_value(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields.iter_mut() {
                match key.as_str() {
                    "env" | "envs" | "envFrom" => {
                        for variable in field.as_array_mut().into_iter().flatten() {
                            if let Some(text) = variable.get_mut("value") {
                                *text = SCRUBBED.into();
                            }
                        }
                    }
                    // What rules are given is free text.
                    "wasm" | "cel" => {
                        if let Some(config) = field.get_mut("config") {
                            *config = Value::Null;
                        }
                        scrub_value(field);
                    }
                    // A template has its own.
                    "metadata" => {
                        let annotations = field.get_mut("annotations").and_then(Value::as_object_mut);
                        if let Some(annotations) = annotations {
                            annotations.retain(|key, _| KEPT.iter().any(|kept| key.starts_with(kept)));
                        }
                    }
                    "volumes" => scrub_volumes(field),
                    "command" | "args" => *field = Value::Array(vec![SCRUBBED.into()]),
                    "providerID" | "data" | "stringData" | "httpHeaders" | "headers" => *field = Value::Null,
                    _ => scrub_value(field),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(scrub_value),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_nobodys_business_is_taken_away() {
        let mut pod: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "labels": {"app": "shop"}, "annotations": {
                "vault.example/token": "hvs.secret", "numo.openshift-optional.skrzypek.io/phase": "Pre",
                "kubernetes.io/config.mirror": "m1rr0r",
            }},
            "spec": {"nodeName": "n", "priority": 3, "hostname": "h",
                "volumes": [{"name": "v", "emptyDir": {}}, {"name": "s", "secret": {"secretName": "hidden"}}],
                "containers": [{"env": [{"name": "PASSWORD", "value": "swordfish"}], "command": ["sh", "-c", "curl -u me:pw"]}]},
            "status": {"phase": "Running", "podIP": "10.1.2.3"},
        }))
        .unwrap();
        scrub(Kind::NodePod, &mut pod);
        let text = serde_json::to_string(&pod).unwrap();
        for hidden in ["hvs.secret", "hidden", "swordfish", "me:pw", "10.1.2.3"] {
            assert!(!text.contains(hidden), "{hidden} is left: {text}");
        }
        for kept in [
            "\"app\":\"shop\"",
            "\"phase\":\"Pre\"",
            "emptyDir",
            "Running",
            "m1rr0r",
        ] {
            assert!(
                text.replace("numo.openshift-optional.skrzypek.io/", "")
                    .contains(kept),
                "{kept} is gone: {text}"
            );
        }
        let mut config: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
            "metadata": {"name": "rendered-worker-1", "annotations": {
                "machineconfiguration.openshift.io/release-image-version": "4.17.0"}},
            "spec": {"config": {"passwd": {"users": [{"passwordHash": "$6$salt"}]}}},
        }))
        .unwrap();
        scrub(Kind::MachineConfig, &mut config);
        let text = serde_json::to_string(&config).unwrap();
        assert!(!text.contains("salt") && text.contains("4.17.0"), "{text}");
        let mut change: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "NodeChange",
            "metadata": {"name": "c", "annotations": {marks::SUSPEND: "pause by lovelace: the merger"}},
            "spec": {"directive": {"action": "Hold", "by": "grace", "reason": "a lawsuit"}, "reason": "a fan"},
        }))
        .unwrap();
        scrub(Kind::NodeChange, &mut change);
        let text = serde_json::to_string(&change).unwrap();
        for hidden in ["lovelace", "merger", "grace", "lawsuit", "a fan"] {
            assert!(!text.contains(hidden), "{hidden} is left: {text}");
        }
        assert!(text.contains("Hold") && text.contains(marks::SUSPEND), "{text}");
        let mut approval: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexApproval", "metadata": {"name": "a"},
            "spec": {"digest": "d1g3st", "approvedBy": "hopper", "reason": "a bet"},
        }))
        .unwrap();
        scrub(Kind::MutexApproval, &mut approval);
        let text = serde_json::to_string(&approval).unwrap();
        assert!(
            !text.contains("hopper") && !text.contains("a bet") && text.contains("d1g3st"),
            "{text}"
        );
        let mut rule: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexRule", "metadata": {"name": "r"},
            "spec": {"jobSpec": {"template": {"metadata": {"annotations": {"vault.example/token": "hvs.inner"}}, "spec": {
                "volumes": [{"name": "v", "csi": {"volumeAttributes": {"key": "c5i"}}}, {"name": "w", "emptyDir": {}}],
                "containers": [{"args": ["--token=x1y2"], "env": [{"name": "A", "value": "b2c3"}]}]}}}},
        }))
        .unwrap();
        scrub(Kind::MutexRule, &mut rule);
        let text = serde_json::to_string(&rule).unwrap();
        assert!(
            !text.contains("x1y2") && !text.contains("b2c3") && text.contains("\"A\""),
            "{text}"
        );
        assert!(
            !text.contains("hvs.inner") && !text.contains("c5i") && text.contains("emptyDir"),
            "{text}"
        );
    }

    #[test]
    fn annotations_that_are_decided_by_stay() {
        let keys = [
            marks::CORDONED_BY,
            marks::openshift::CURRENT_CONFIG,
            marks::PLAN_DIGEST,
            marks::SCALE_DOWN_DISABLED,
            marks::DO_NOT_DISRUPT,
            marks::SKIP_REMEDIATION,
            marks::HEALTH_CHECK_PAUSED,
            marks::OPENSHIFT_MACHINE,
            marks::CLUSTER_API_MACHINE,
            marks::CLUSTER_API_NAMESPACE,
            marks::KURED_LOCK,
            numo_api::machines::annotations::NODE_IMAGE,
            numo_api::machines::annotations::SCALING_GROUP_ID,
        ];
        let annotations: serde_json::Map<_, _> =
            keys.iter().map(|key| ((*key).to_owned(), json!("x"))).collect();
        let mut node: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "annotations": annotations},
        }))
        .unwrap();
        scrub(Kind::Node, &mut node);
        let left = node.metadata.annotations.unwrap_or_default();
        for key in keys {
            assert!(left.contains_key(key), "{key} is gone");
        }
    }

    /// Agents that wait for their servers do so in a preview of the file, too.
    #[test]
    fn a_plan_keeps_what_it_waits_for_and_no_secret() {
        let mut plan: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "metadata": {"name": "agents"},
            "spec": {
                "channel": "https://ada:s3cret@channels.example.com/stable",
                "prepare": {"image": "rancher/k3s-upgrade", "args": ["prepare", "servers"]},
                "upgrade": {"image": "rancher/k3s-upgrade", "args": ["prepare", "t0ken"]},
            },
        }))
        .unwrap();
        scrub(Kind::Plan, &mut plan);
        assert_eq!(
            plan.data["spec"]["prepare"]["args"],
            json!(["prepare", "servers"])
        );
        let text = serde_json::to_string(&plan).unwrap();
        assert!(!text.contains("s3cret") && !text.contains("t0ken"), "{text}");
        assert!(text.contains("https://channels.example.com/stable"), "{text}");
        for args in [
            json!(["wait", "t0ken"]),
            json!(["prepare", "a", "t0ken"]),
            json!(["t0ken"]),
        ] {
            plan.data["spec"]["prepare"]["args"] = args;
            scrub(Kind::Plan, &mut plan);
            assert_eq!(plan.data["spec"]["prepare"]["args"], json!([SCRUBBED]));
        }
        let mut notifier: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexNotifier", "metadata": {"name": "n"},
            "spec": {"http": {"url": "https://hooks.example.com/T0/B0/s3cret"}},
        }))
        .unwrap();
        scrub(Kind::MutexNotifier, &mut notifier);
        assert!(!serde_json::to_string(&notifier).unwrap().contains("s3cret"));
    }

    #[test]
    fn a_file_that_is_no_snapshot_is_named_with_the_next_step() {
        let folder = tempfile_dir();
        let path = folder.join("snapshot.json");
        let said = |text: &str| {
            std::fs::write(&path, text).unwrap();
            match read(&path) {
                Err(CliError::Usage(words)) => words,
                other => panic!("wanted a wrong call: {other:?}"),
            }
        };
        assert!(said("{\"format\": 1, \"numo\": \"0.").contains("truncated"));
        assert!(said("hello").contains("no snapshot"));
        assert!(said("{\"format\": 9, \"numo\": \"7.0.0\"}").contains("numo 7.0.0 wrote it"));
        let of_now = env!("CARGO_PKG_VERSION");
        let unknown = format!(
            "{{\"format\": 1, \"numo\": \"{of_now}\", \"at\": \"2026-01-01T00:00:00Z\", \"unseen\": [], \"objects\": [[\"Secret\", \"\", {{\"metadata\": {{}}}}]]}}"
        );
        assert!(said(&unknown).contains("kind Secret"));
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(matches!(read(&path), Err(CliError::Usage(words)) if words.contains("--snapshot")));
    }

    /// Members of etcd and machines are looked at by themselves: a cluster that has some can be previewed too.
    #[test]
    fn every_kind_that_a_look_lists_can_be_read_again() {
        let folder = tempfile_dir().with_extension("kinds");
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("snapshot.json");
        let objects: Vec<Value> = list::kinds()
            .map(|kind| {
                let (group, version, name, _) = kind.resource();
                let version = if group.is_empty() {
                    version.to_owned()
                } else {
                    format!("{group}/{version}")
                };
                json!([format!("{kind:?}"), "", {"apiVersion": version, "kind": name, "metadata": {"name": "a"}}])
            })
            .collect();
        for wanted in ["EtcdPod", "NodeVersion", "PendingNode", "Autoscaler", "Node"] {
            assert!(objects.iter().any(|one| one[0] == wanted), "{wanted}");
        }
        let file = json!({
            "format": FORMAT, "numo": env!("CARGO_PKG_VERSION"), "at": "2026-01-01T00:00:00Z", "unseen": [], "objects": objects,
        });
        std::fs::write(&path, file.to_string()).unwrap();
        let found = read(&path);
        assert!(found.is_ok(), "{found:?}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    fn tempfile_dir() -> PathBuf {
        let folder = std::env::temp_dir().join(format!("numo-snapshot-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }
}
