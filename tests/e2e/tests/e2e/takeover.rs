//! What an earlier numo left in mid-run is taken up and finished: journals, marks and leases as commit 653fe9a wrote them,
//! of every owner kind (`fixtures/653fe9a`).

use std::collections::{BTreeMap, VecDeque};

use anyhow::{Context, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    core::{DynamicObject, GroupVersionKind},
    discovery::ApiResource,
};
use numo_api::{NodeChange, Outcome, Phase, Step, marks, node_maintenance::MEDIK8S_GROUP};
use numo_core::names::{self, JobIdentity};
use numo_e2e::{NAMESPACE, Stage, StageOptions, has_leases, manifests};
use serde_json::{Value, json};

use crate::{
    NEW, apply,
    crashes::{binding, jobs_ever, nothing_is_left, web},
    finish,
    maintenance::{delete, node, phase, running},
    plans, quick, seen, target, verdicts, workers,
};

/// The node that was in its turn.
const NODE: &str = "worker-0";

/// Recorded objects that are put back one after the other.
struct Record {
    documents: VecDeque<String>,
    /// What differs from cluster to cluster, by the words that stand for it.
    known: BTreeMap<&'static str, String>,
}

impl Record {
    /// Reads a file of the fixture. All that was recorded was recorded now.
    fn read(name: &str) -> Result<Self> {
        let folder = manifests::root().join("tests/e2e/fixtures/653fe9a");
        let text = std::fs::read_to_string(folder.join(name)).with_context(|| name.to_owned())?;
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ");
        Ok(Self {
            documents: text.split("\n---\n").map(ToOwned::to_owned).collect(),
            known: [("now", now.to_string())].into(),
        })
    }

    fn knows(&mut self, word: &'static str, value: &str) {
        self.known.insert(word, value.to_owned());
    }

    /// Puts the owner back, which comes first. What is named after it is known by then; `target` is what its run goes to.
    async fn put_owner(&mut self, stage: &Stage, kind: &str, name: &str, target: &str) -> Result<()> {
        let owner = self.put(stage).await?;
        let node = node(stage, NODE).await?.uid().context("a uid")?;
        let run = names::run_id(&owner, target);
        let job = names::job_name(
            "quick",
            &JobIdentity {
                owner_uid: &owner,
                node_uid: &node,
                run: &run,
                rule: &format!("{NAMESPACE}/quick"),
                phase: Phase::Pre,
                round: 1,
                attempt: 1,
            },
        );
        self.knows("change", &names::change_name(kind, name, &owner, &node, &run));
        self.knows("nodeHash", &names::node_hash(NODE));
        self.knows("job", &job);
        self.knows("run", &run);
        self.knows("node", &node);
        self.knows("owner", &owner);
        Ok(())
    }

    /// Puts the next object back; its uid.
    async fn put(&mut self, stage: &Stage) -> Result<String> {
        let text = self.documents.pop_front().context("one more object")?;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let mut text = lines.collect::<Vec<_>>().join("\n");
        for (word, value) in &self.known {
            text = text.replace(&format!("${{{word}}}"), value);
        }
        ensure!(!text.contains("${"), "something is not known: {text}");
        let object = manifests::parse(&text)?.pop().context("an object")?;
        put(stage, &object).await
    }

    /// Puts all others back; the uid of the journal.
    async fn put_rest(&mut self, stage: &Stage) -> Result<String> {
        let mut journal = None;
        while let Some(text) = self.documents.front() {
            let is_journal = text.contains("kind: NodeChange\n");
            if text.contains("kind: Lease\n") && !has_leases() {
                self.documents.pop_front();
                continue;
            }
            let uid = self.put(stage).await?;
            if is_journal {
                journal = Some(uid);
            }
        }
        journal.context("a journal")
    }
}

/// Makes or changes an object as numo did; its uid.
async fn put(stage: &Stage, object: &Value) -> Result<String> {
    let whole: DynamicObject = serde_json::from_value(object.clone())?;
    let types = whole.types.clone().context("apiVersion and kind")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
    let name = whole.name_any();
    let api: Api<DynamicObject> = match whole.metadata.namespace.as_deref() {
        Some(namespace) => Api::namespaced_with(stage.client.clone(), namespace, &resource),
        None => Api::all_with(stage.client.clone(), &resource),
    };
    let manager = Some(marks::FIELD_MANAGER.to_owned());
    let params = PatchParams {
        field_manager: manager.clone(),
        ..PatchParams::default()
    };
    let about = || format!("{} {name}", types.kind);
    // The nodes and pools are the world's, and what has a status only was made before.
    let is_there = ["Node", "MachineConfigPool"].contains(&types.kind.as_str());
    let mut uid = None;
    if is_there {
        let patched = api.patch(&name, &params, &Patch::Merge(object)).await;
        uid = patched.with_context(about)?.uid();
    } else if object.get("spec").is_some() {
        let params = PostParams {
            field_manager: manager,
            ..PostParams::default()
        };
        uid = api.create(&params, &whole).await.with_context(about)?.uid();
    }
    if let Some(status) = object.get("status") {
        let status = json!({"status": status});
        let patched = api.patch_status(&name, &params, &Patch::Merge(&status)).await;
        uid = patched.with_context(about)?.uid();
    }
    uid.with_context(about)
}

/// Two workers, the rule, a pod that is to leave the node, and no numo yet.
async fn idle() -> Result<Stage> {
    let stage = Stage::set(StageOptions {
        world: workers(2),
        without_numo: true,
        ..StageOptions::default()
    })
    .await?;
    plans::open(&stage).await?;
    apply(&stage, &[quick()]).await?;
    Ok(stage)
}

async fn with_pod() -> Result<Stage> {
    let stage = idle().await?;
    apply(&stage, &[web()]).await?;
    running(&stage, "web", NODE, 1).await?;
    Ok(stage)
}

/// The journal of the node, which is the one that was left and no other.
async fn taken_up(stage: &Stage, uid: &str) -> Result<NodeChange> {
    let mut journals = stage.journals().await?;
    journals.retain(|one| one.spec.node_name == NODE);
    let uids: Vec<_> = journals.iter().filter_map(ResourceExt::uid).collect();
    ensure!(uids == [uid], "journals of {NODE}: {uids:?}, wanted {uid} alone");
    journals.pop().context("a journal")
}

/// How many Jobs there were for this; see [`jobs_ever`].
fn made(stage: &Stage, what: &str) -> usize {
    jobs_ever(stage)
        .get(what)
        .map_or(0, std::collections::BTreeSet::len)
}

/// How many Jobs of the rule there were in a phase for a node.
fn ran(stage: &Stage, phase: &str, node: &str) -> usize {
    made(stage, &format!("{NAMESPACE}/quick {phase} {node}"))
}

/// What the rule said; see [`verdicts`].
fn passes(change: &NodeChange, phase: Phase) -> Vec<(i32, Outcome, Option<i32>)> {
    verdicts(change, "quick", phase)
}

const fn pass(attempt: i32) -> (i32, Outcome, Option<i32>) {
    (attempt, Outcome::Pass, Some(0))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_an_earlier_numo_left_is_finished() -> Result<()> {
    let mut stage = idle().await?;
    apply(&stage, &[target("workers", &["worker"])]).await?;
    let mut record = Record::read("mutex-run-config.yaml")?;
    record.put_owner(&stage, "MutexRunConfig", "upgrade", NEW).await?;
    record.put(&stage).await?;
    let from = stage.world.state().nodes[NODE].current.clone();
    stage.world.upgrade_to(NEW).await?;
    seen(&stage, "the control plane is done and the pool rendered", |w| {
        let config = w.pool("worker").map(|pool| pool.spec.configuration.name.clone());
        w.is_completed(NEW) && config.is_some_and(|config| w.state().version_of(&config) == NEW)
    })
    .await?;
    let pool = crate::pool(&stage, "worker").await?;
    record.knows("config", &pool.spec.configuration.name);
    record.knows("fromConfig", &from);
    let journal = record.put_rest(&stage).await?;

    stage.start_numo()?;
    finish(&stage).await?;
    nothing_is_left(&stage).await?;
    let change = taken_up(&stage, &journal).await?;
    let status = change.status.clone().context("a status")?;
    assert_eq!((status.step, status.attempt), (Some(Step::Done), 1));
    assert_eq!(passes(&change, Phase::Pre), [pass(1)]);
    assert_eq!(passes(&change, Phase::Post), [pass(1)]);
    assert_eq!(ran(&stage, "Pre", NODE), 0, "it was let go already");
    assert_eq!(ran(&stage, "Post", NODE), 1);
    for phase in ["Pre", "Post"] {
        assert_eq!(ran(&stage, phase, "worker-1"), 1, "{phase}");
    }
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_an_earlier_numo_left_is_finished() -> Result<()> {
    let mut stage = with_pod().await?;
    apply(&stage, &[binding()]).await?;
    let mut record = Record::read("plan.yaml")?;
    let hash = "e940b0077ab7ed5beb4d87daa6d802f9e4ea5112200353f7868e0d82";
    record.put_owner(&stage, "Plan", "k3s", hash).await?;
    let journal = record.put_rest(&stage).await?;

    stage.start_numo()?;
    let done = plans::complete(&stage, "k3s").await?;
    assert_eq!(done.latest_hash.as_deref(), Some(hash));
    nothing_is_left(&stage).await?;
    let change = taken_up(&stage, &journal).await?;
    let status = change.status.clone().context("a status")?;
    assert_eq!((status.step, status.attempt), (Some(Step::Done), 1));
    // The earlier numo did not write which edition of the rule had passed: it is asked for once more before the release.
    assert_eq!(passes(&change, Phase::Pre), [pass(1), pass(2)]);
    assert_eq!(passes(&change, Phase::Post), [pass(1)]);
    for node in [NODE, "worker-1"] {
        assert_eq!(made(&stage, &format!("apply {node}")), 1, "{node}");
        for phase in ["Pre", "Post"] {
            assert_eq!(ran(&stage, phase, node), 1, "{phase} {node}");
        }
    }
    stage.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_maintenance_that_an_earlier_numo_left_is_finished() -> Result<()> {
    let mut stage = with_pod().await?;
    let mut record = Record::read("node-maintenance.yaml")?;
    record
        .put_owner(&stage, "NodeMaintenance", "nm", "maintenance")
        .await?;
    let journal = record.put_rest(&stage).await?;

    stage.start_numo()?;
    phase(&stage, MEDIK8S_GROUP, "nm", "Succeeded").await?;
    stage.step(NODE, Step::Drained).await?;
    let change = taken_up(&stage, &journal).await?;
    assert_eq!(passes(&change, Phase::Pre), [pass(1)]);
    assert_eq!(ran(&stage, "Pre", NODE), 0, "it was cordoned already");
    delete(&stage, MEDIK8S_GROUP, "nm").await?;
    nothing_is_left(&stage).await?;
    assert_eq!(ran(&stage, "Pre", NODE), 0);
    stage.strike().await
}
