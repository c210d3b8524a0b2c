//! A siege: everything hostile at once, as rules of a namespace that no owner refers to and as clients of numo's ports. It
//! asserts nothing.

use crate::{NAMESPACE, Numo, Stage};
use anyhow::{Context, Result, ensure};
use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::DaemonSet,
        core::v1::{ConfigMap, Namespace},
    },
};
use kube::{Api, api::PostParams};
use numo_api::{MutexRule, MutexRunConfig, NodeChange};
use numo_plugin_tests::guest;
use serde_json::{Value, json};
use std::{
    io::Write as _,
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

/// Namespace of the attacker.
pub const TEAM: &str = "team";
/// Bytes of all that a ConfigMap may hold.
const MAP_BYTES: usize = 1 << 20;
/// Levels of types in types that fit in one.
const LEVELS: usize = 200_000;
/// Instructions of one function that fit in one: a compiler takes long over them, or much.
const INSTRUCTIONS: usize = 50_000;

/// A rule that costs more than it says.
#[derive(Debug)]
pub struct Hostile {
    /// Its name, in the namespace of the attacker.
    pub rule: String,
    /// What its condition Ready says of it once it is judged.
    pub ends: Ends,
}

/// What a condition says.
#[derive(Debug)]
pub enum Ends {
    /// Its message has these words.
    Says(String),
    /// Its reason is one of these.
    For(Vec<String>),
}

impl Hostile {
    fn says(rule: String, words: &str) -> Self {
        Self {
            rule,
            ends: Ends::Says(words.to_owned()),
        }
    }
}

fn rule(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("{}/v1alpha1", numo_api::GROUP), "kind": "MutexRule",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": spec,
    })
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!({"a": inner}))
}

/// All of it at once: hostile components, hostile objects, and who takes another's name. Each rule that it returns is judged in the
/// end.
pub async fn besiege(stage: &Stage) -> Result<Vec<Hostile>> {
    team(stage).await?;
    let components = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "numo-rule-components", "namespace": TEAM},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "numo-rule-components"},
        "subjects": [{"kind": "ServiceAccount", "name": "numo", "namespace": NAMESPACE}],
    });
    stage.apply(&components.to_string()).await?;
    impostor(stage).await?;
    let mut all = guests(stage).await?;
    all.extend(objects(stage).await?);
    // Whoever is first keeps the compiler busy: nobody waits for what comes of it.
    component(stage, "bomb", guest::bomb(1, INSTRUCTIONS)?).await?;
    Ok(all)
}

/// The namespace of the attacker.
async fn team(stage: &Stage) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    let team = serde_json::from_value(json!({"metadata": {"name": TEAM}}))?;
    namespaces.create(&PostParams::default(), &team).await?;
    Ok(())
}

/// So many MutexRules of 1.2 MB, and nothing else that is hostile: one text each, which the API server keeps in as many bytes.
pub async fn large_rules(stage: &Stage, number: usize) -> Result<()> {
    team(stage).await?;
    let rules: Api<MutexRule> = Api::namespaced(stage.person.clone(), TEAM);
    let text = "x".repeat(1_200_000);
    for number in 0..number {
        let spec = json!({"type": "wasm", "wasm": {"image": "r.example/x:1", "config": {"a": text}}});
        let name = format!("large-{number}");
        create(&rules, &serde_json::from_value(rule(&name, &spec))?).await?;
    }
    Ok(())
}

/// So many rules and owners of strangers, and nothing else that is hostile. Each of them has a status that numo writes.
pub async fn strangers(stage: &Stage, number: usize) -> Result<()> {
    team(stage).await?;
    let rules: Api<MutexRule> = Api::namespaced(stage.person.clone(), TEAM);
    let runs: Api<MutexRunConfig> = Api::namespaced(stage.person.clone(), TEAM);
    for number in 0..number {
        let spec = json!({"type": "wasm", "wasm": {"image": "r.example/x:1", "config": nested(200)}});
        create(
            &rules,
            &serde_json::from_value(rule(&format!("rule-{number}"), &spec))?,
        )
        .await?;
        let run = json!({"metadata": {"name": format!("owner-{number}")}, "spec": {"mutexTargets": [{"name": "workers"}]}});
        create(&runs, &serde_json::from_value(run)?).await?;
    }
    Ok(())
}

/// Small values of one rule that take just under 1 MiB of memory once they are read; as text they have 9 KiB.
const VALUES: usize = 1300;
/// Rules of that many values that fill the share of one namespace, and namespaces that fill all the room there is for rules, and more.
const SHARE: usize = 18;
const FLOODS: usize = 9;

/// An object that takes just under 1 MiB of memory once it is read.
pub fn heavy() -> Value {
    json!({"a": vec![json!({"a": 0}); VALUES]})
}

/// Rules of other namespaces that take all the memory there is for rules of strangers, and nothing else that is hostile.
pub async fn fill(stage: &Stage) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(stage.client.clone());
    for flood in 0..FLOODS {
        let name = format!("flood-{flood}");
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        namespaces.create(&PostParams::default(), &namespace).await?;
        let rules: Api<MutexRule> = Api::namespaced(stage.person.clone(), &name);
        for number in 0..SHARE {
            let mut rule = rule(&format!("heavy-{number}"), &json!({"jobSpec": heavy()}));
            rule["metadata"]["namespace"] = json!(name);
            create(&rules, &serde_json::from_value(rule)?).await?;
        }
    }
    team(stage).await
}

/// Every guest of `plugins/conformance`, each as a rule with its component in a ConfigMap. Nobody refers to them: those that only
/// misbehave when they are asked are fit.
async fn guests(stage: &Stage) -> Result<Vec<Hostile>> {
    // Megabytes of text are made and read.
    let guests = tokio::task::spawn_blocking(|| {
        let names = guest::all_hostile()?;
        names
            .iter()
            .map(|name| guest::hostile(name))
            .collect::<Result<Vec<_>>>()
    });
    let mut all = Vec::new();
    for one in guests.await?? {
        let bytes = match one.name.as_str() {
            "deep-types" => guest::deep(LEVELS, 0x42),
            "deep-component-types" => guest::deep(LEVELS, 0x41),
            _ => one.component,
        };
        let rule = format!("guest-{}", one.name);
        component(stage, &rule, bytes).await?;
        // Beside all the others, on a machine with too much to do, a large one is not compiled in time.
        let fit = [numo_api::Reason::ValidConfig, numo_api::Reason::CompileTimeout];
        let fit = fit.map(|reason| reason.name().to_owned());
        all.push(if one.says.is_empty() {
            Hostile {
                rule,
                ends: Ends::For(one.reasons.into_iter().chain(fit).collect()),
            }
        } else {
            Hostile::says(rule, &one.says)
        });
    }
    Ok(all)
}

/// A rule and its component, by one name.
async fn component(stage: &Stage, name: &str, bytes: Vec<u8>) -> Result<()> {
    let key = "rule.wasm";
    ensure!(
        bytes.len() + key.len() <= MAP_BYTES,
        "{name} has {} bytes: a ConfigMap does not hold it",
        bytes.len()
    );
    let map = ConfigMap {
        metadata: kube::api::ObjectMeta {
            name: Some(name.to_owned()),
            ..Default::default()
        },
        binary_data: Some([(key.to_owned(), ByteString(bytes))].into()),
        ..Default::default()
    };
    let maps: Api<ConfigMap> = Api::namespaced(stage.client.clone(), TEAM);
    maps.create(&PostParams::default(), &map)
        .await
        .with_context(|| name.to_owned())?;
    let wasm = json!({"type": "wasm", "wasm": {"configMap": {"name": name, "key": key}}});
    stage.apply(&rule(name, &wasm).to_string()).await
}

/// MutexRules that are hostile by themselves: nested, large, and one that would run as numo.
async fn objects(stage: &Stage) -> Result<Vec<Hostile>> {
    let rules: Api<MutexRule> = Api::namespaced(stage.person.clone(), TEAM);
    let mut all = Vec::new();
    let fields = [
        json!({"jobSpec": {"a": nested(200)}}),
        json!({"cleanUpJobSpec": {"a": nested(200)}}),
        json!({"type": "wasm", "wasm": {"image": "r.example/x:1", "config": nested(200)}}),
        json!({"type": "cel", "cel": {"validations": [{"expression": "true"}], "config": nested(200)}}),
    ];
    for (number, spec) in fields.into_iter().enumerate() {
        let name = format!("deep-{number}");
        create(&rules, &serde_json::from_value(rule(&name, &spec))?).await?;
        all.push(Hostile::says(name, "levels of nesting"));
    }
    // An array of small numbers takes forty times its bytes once it is read. More of them, or larger ones, take the API server minutes.
    let zeros = Value::Array(vec![json!(0); 300_000]);
    for number in 0..6 {
        let spec = json!({"type": "wasm", "wasm": {"image": "r.example/x:1", "config": {"a": zeros}}});
        let name = format!("large-{number}");
        create(&rules, &serde_json::from_value(rule(&name, &spec))?).await?;
        all.push(Hostile::says(name, "wanted at most"));
    }
    managed_fields(stage).await?;
    change(stage).await?;
    let job = json!({"template": {"spec": {
        "restartPolicy": "Never", "serviceAccountName": "numo", "containers": [{"name": "a", "image": "a"}],
    }}});
    let spec = json!({"jobNamespace": NAMESPACE, "jobSpec": job});
    let name = "as-numo".to_owned();
    create(&rules, &serde_json::from_value(rule(&name, &spec))?).await?;
    all.push(Hostile {
        rule: name,
        ends: Ends::For(vec![numo_api::Reason::JobsForbidden.name().to_owned()]),
    });
    // Last: they take what room the namespace has, and of what comes after them nothing is kept or judged.
    owners(stage).await?;
    Ok(all)
}

/// Managed fields that are deeper than JSON is read. The API server keeps what it is sent only where each key is a path's, such as `f:a`.
pub fn deep_fields(api_version: &str) -> Value {
    let fields = (0..300).fold(json!({}), |inner, _| json!({"f:a": inner}));
    fields_of(api_version, &fields)
}

fn fields_of(api_version: &str, fields: &Value) -> Value {
    json!([{
        "manager": "them", "operation": "Update", "apiVersion": api_version, "fieldsType": "FieldsV1", "fieldsV1": fields,
    }])
}

/// DaemonSets whose managed fields are deep, or large once they are read.
async fn managed_fields(stage: &Stage) -> Result<()> {
    let wide: serde_json::Map<String, Value> = (0..20_000)
        .map(|number| (format!("f:{number}"), json!({"f:a": {}})))
        .collect();
    let sets: Api<DaemonSet> = Api::namespaced(stage.person.clone(), TEAM);
    for (name, fields) in [
        ("fields-deep", deep_fields("apps/v1")),
        ("fields-wide", fields_of("apps/v1", &Value::Object(wide))),
    ] {
        let set = json!({
            "metadata": {"name": name, "managedFields": fields},
            "spec": {
                "selector": {"matchLabels": {"a": name}},
                "template": {
                    "metadata": {"labels": {"a": name}},
                    "spec": {"nodeSelector": {"none": "such"}, "containers": [{"name": "a", "image": "a"}]},
                },
            },
        });
        let is_deep = create(&sets, &serde_json::from_value(set)?).await?;
        ensure!(is_deep == (name == "fields-deep"), "the API server keeps {name}");
    }
    Ok(())
}

/// Owners in a namespace where numo heeds none, each as large as it can be read, and more of them than there is a place for.
async fn owners(stage: &Stage) -> Result<()> {
    // A list is one entry of its managed fields, which would be too many to be read otherwise.
    let values: Vec<String> = (0..10_000).map(|number| format!("v{number}")).collect();
    // As many of one requirement as its definition takes.
    let requirements = values.chunks(1000);
    let requirements: Vec<Value> = requirements
        .map(|values| json!({"key": "a", "operator": "In", "values": values}))
        .collect();
    let first = json!({"matchExpressions": requirements});
    let runs: Api<MutexRunConfig> = Api::namespaced(stage.person.clone(), TEAM);
    for number in 0..60 {
        let run = json!({
            "metadata": {"name": format!("owner-{number}")},
            "spec": {"mutexTargets": [{"name": "workers"}], "first": first},
        });
        create(&runs, &serde_json::from_value(run)?).await?;
    }
    Ok(())
}

/// A NodeChange that nobody can read, as if a master had its turn: who writes it is nobody whose word numo takes.
async fn change(stage: &Stage) -> Result<()> {
    let api_version = format!("{}/{}", numo_api::NUMO_GROUP, numo_api::VERSION);
    let change = json!({
        "metadata": {"name": "master-0", "managedFields": deep_fields(&api_version)},
        "spec": {
            "ownerRef": {"apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "namespace": TEAM, "name": "plan", "uid": "plan"},
            "nodeName": "master-0", "nodeUID": "master-0", "target": {"version": "1", "runID": "run", "pool": ""},
        },
    });
    let changes: Api<NodeChange> = Api::namespaced(stage.person.clone(), TEAM);
    let is_deep = create(&changes, &serde_json::from_value(change)?).await?;
    ensure!(is_deep, "the API server keeps the fields of a NodeChange");
    Ok(())
}

/// A DaemonSet that calls itself kured, and says that it is about to reboot every node.
async fn impostor(stage: &Stage) -> Result<()> {
    let created = jiff::Timestamp::now().to_string();
    let locks = (0..6).map(
        |node| json!({"nodeID": format!("worker-{node}"), "metadata": {}, "created": created, "TTL": 0}),
    );
    let lock = json!({"maxOwners": 6, "locks": locks.collect::<Vec<_>>()});
    let kured = json!({
        "metadata": {"name": "kured", "annotations": {"weave.works/kured-node-lock": lock.to_string()}},
        "spec": {
            "selector": {"matchLabels": {"name": "kured"}},
            "template": {
                "metadata": {"labels": {"name": "kured"}},
                "spec": {"serviceAccountName": "default", "nodeSelector": {"none": "such"}, "containers": [{"name": "kured", "image": "kured"}]},
            },
        },
    });
    let daemons: Api<DaemonSet> = Api::namespaced(stage.person.clone(), TEAM);
    let kured = serde_json::from_value(kured)?;
    daemons.create(&PostParams::default(), &kured).await?;
    Ok(())
}

/// What the API server answers with may be as deep as what it was given: it is not read. True if it is that deep.
async fn create<K>(api: &Api<K>, object: &K) -> Result<bool>
where
    K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    match api.create(&PostParams::default(), object).await {
        Ok(_) => Ok(false),
        Err(kube::Error::SerdeError(_)) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Half a sentence of HTTP.
const HALF_A_REQUEST: &[u8] = b"GET /metrics HTTP/1.1\r\nhost: ";
/// Half a sentence of TLS: a ClientHello of 508 bytes begins.
const HALF_A_HELLO: &[u8] = &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
/// How long after one of a port the next one says a byte more.
const DRIP: Duration = Duration::from_millis(10);

/// Clients that take every place of every port of numo, say a byte now and then, and come again when they are put out, until they are
/// dropped.
#[derive(Debug)]
pub struct Crowd {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Crowd {
    /// So many on each port that numo has.
    pub fn sit(numo: &Numo, number: usize) -> Result<Self> {
        let mut crowd = Self {
            over: Arc::default(),
            threads: Vec::new(),
        };
        for (what, address) in numo.listeners() {
            let address: SocketAddr = address.parse().with_context(|| address.clone())?;
            let half = if what.contains("webhook") {
                HALF_A_HELLO
            } else {
                HALF_A_REQUEST
            };
            // All are there before anything else happens.
            let mut seats: Vec<Option<TcpStream>> = (0..number).map(|_| begin(address, half)).collect();
            let over = crowd.over.clone();
            crowd.threads.push(std::thread::spawn(move || {
                for at in (0..number).cycle() {
                    std::thread::sleep(DRIP);
                    if over.load(Ordering::Acquire) {
                        break;
                    }
                    let Some(seat) = seats.get_mut(at) else { break };
                    let is_seated = seat.as_mut().is_some_and(|stream| stream.write_all(b"0").is_ok());
                    if !is_seated {
                        *seat = begin(address, half);
                    }
                }
            }));
        }
        ensure!(!crowd.threads.is_empty(), "numo serves nothing");
        Ok(crowd)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A connection that begins to speak.
fn begin(address: SocketAddr, words: &[u8]) -> Option<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    stream.write_all(words).ok()?;
    Some(stream)
}

/// The most memory that numo had, without its children, in MiB.
pub fn peak_mib(stage: &Stage) -> Result<u64> {
    let pid = stage
        .numo()
        .and_then(crate::process::Numo::pid)
        .context("numo runs")?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .context("VmHWM")?;
    let kib: u64 = line.split_whitespace().nth(1).context("a number")?.parse()?;
    Ok(kib >> 10)
}
