//! OLM itself installs numo, upgrades it in mid-run and removes it, by the commands of the page. OLM's own operators run; what
//! stands in is the kubelet, which runs numo's pods as OLM has made them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context as _, Result, ensure};
use kube::{Api, Discovery, ResourceExt, api::ListParams, core::DynamicObject, discovery::Scope};
use numo_api::marks;
use numo_e2e::{
    NAMESPACE, Page, Stage, StageOptions, Terminal, manifests,
    olm::{self, Olm},
};
use numo_world::WorldSpec;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    Gate, NEW, apply, finish, job, jobs, judgement, mark, prepare, released, rule, rule_began, run_of, seen,
    workers,
};

/// The version after it.
const NEXT: &str = "4.18.0";
/// The version of this source.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The version that is installed before it.
const PREVIOUS: &str = "0.0.9";
/// The image of a bundle in the checked-in catalogue, without its version.
const BUNDLE_IMAGE: &str = "registry.example.com/numo/bundle";

fn read(path: impl AsRef<Path>) -> Result<String> {
    let path = manifests::root().join(path);
    fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// The checked-in bundle, by the paths of its files.
fn bundle() -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for part in ["manifests", "metadata"] {
        let folder = format!("deploy/olm/bundle/{part}");
        for entry in fs::read_dir(manifests::root().join(&folder))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            files.insert(format!("{part}/{name}"), read(format!("{folder}/{name}"))?);
        }
    }
    Ok(files)
}

/// The bundle as its release before was: with that version, and the definitions as they were released.
fn previous() -> Result<BTreeMap<String, String>> {
    let mut files = bundle()?;
    let mut old = 0;
    for (path, text) in &mut files {
        *text = text.replace(VERSION, PREVIOUS);
        let name = path
            .trim_start_matches("manifests/")
            .trim_end_matches(".crd.yaml");
        if let Some((plural, group)) = name.split_once('.').filter(|_| path.ends_with(".crd.yaml")) {
            *text = read(format!("tests/install/released/0.1.0/{group}_{plural}.yaml"))?;
            old += 1;
        }
    }
    ensure!(old == 6, "{old} definitions");
    Ok(files)
}

/// A cluster with OLM and without numo.
struct Site {
    stage: Stage,
    olm: Olm,
    terminal: Terminal,
    page: Page,
    /// What images of bundles have in them, for as long as it is kept.
    _bundles: TempDir,
}

impl Site {
    /// `definitions` are those of the cluster that OLM's own are beside.
    async fn set(world: WorldSpec, definitions: Vec<Value>) -> Result<Self> {
        let bundles = tempfile::Builder::new().prefix("numo-bundles-").tempdir()?;
        for (version, files) in [(PREVIOUS, previous()?), (VERSION, bundle()?)] {
            olm::bundle(bundles.path(), &format!("{BUNDLE_IMAGE}:{version}"), &files)?;
        }
        let stage = Stage::set(StageOptions {
            world: WorldSpec {
                programs: olm::images(bundles.path())?,
                ..world
            },
            without_install: true,
            ..StageOptions::default()
        })
        .await?;
        let marketplace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": olm::MARKETPLACE}});
        let first = [vec![marketplace], definitions, olm::definitions()?].concat();
        manifests::apply(&stage.client, &first, NAMESPACE).await?;
        let terminal = Terminal::open(&stage.cluster)?;
        terminal
            .run("kubectl wait crd --all --for=jsonpath='{.status.conditions}' --timeout=60s && kubectl wait crd --all --for=condition=Established --timeout=60s")
            .await?;
        Ok(Self {
            olm: Olm::start(&stage.cluster)?,
            page: Page::read("operator/docs/olm.md")?,
            stage,
            terminal,
            _bundles: bundles,
        })
    }

    /// The example for OLM v0, with the catalogue's address in place of its image: nobody pulls one.
    fn example(&self, address: &str) -> Result<String> {
        let mut objects = manifests::parse(&read("deploy/olm/examples/olm-v0.yaml")?)?;
        let source = objects.iter_mut().find(|one| one["kind"] == "CatalogSource");
        let spec = source.and_then(|source| source["spec"].as_object_mut());
        let spec = spec.context("a CatalogSource")?;
        for of_the_image in ["image", "grpcPodConfig", "updateStrategy"] {
            spec.remove(of_the_image).context(of_the_image)?;
        }
        spec.insert("address".to_owned(), json!(address));
        let documents: Vec<String> = objects.iter().map(Value::to_string).collect();
        let file = self.terminal.folder().join("olm-v0.yaml");
        fs::write(&file, documents.join("\n---\n"))?;
        Ok(file.display().to_string())
    }

    /// Runs the block of the page that has this text in it.
    async fn run(&mut self, having: &str, words: &[(&str, &str)]) -> Result<String> {
        let ran = self.page.run(&self.terminal, having, words).await;
        match ran {
            Ok(out) => Ok(out),
            Err(error) => Err(error.context(self.picture().await)),
        }
    }

    /// What OLM has to say when something went wrong.
    async fn picture(&self) -> String {
        let asked = "kubectl get subscriptions,csvs,installplans -A -o yaml | grep -v 'manifest:' | tail -200; \
            kubectl get pods,jobs -A -o wide; kubectl get pods -A -o yaml | grep ' message:'; kubectl get events -A | tail -40";
        let said = self
            .terminal
            .call(asked)
            .await
            .map(|said| said.out)
            .unwrap_or_default();
        let logs = ["olm-operator", "catalog-operator"]
            .map(|name| self.olm.log(name))
            .join("\n");
        format!("{said}\n{logs}")
    }

    async fn strike(self) -> Result<()> {
        self.olm.stop().await?;
        self.stage.strike().await
    }
}

/// Stand-ins for the definitions that every OpenShift has: they take anything.
fn of_openshift() -> Vec<Value> {
    let of = |kind: &str, group: &str, scope: &str| {
        let plural = format!("{}s", kind.to_lowercase());
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": scope,
                "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }}}],
            },
        })
    };
    vec![
        of("ServiceMonitor", "monitoring.coreos.com", "Namespaced"),
        of("PrometheusRule", "monitoring.coreos.com", "Namespaced"),
        of("ConsoleCLIDownload", "console.openshift.io", "Cluster"),
    ]
}

/// Every object of every kind, by kind, namespace and name; without what comes and goes by itself.
async fn objects(stage: &Stage) -> Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for group in Discovery::new(stage.client.clone()).run().await?.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            let passing = [
                "Event",
                "Lease",
                "EndpointSlice",
                "Endpoints",
                "ControllerRevision",
                "ComponentStatus",
                "MachineConfig",
            ];
            if !capabilities.supports_operation("list") || passing.contains(&resource.kind.as_str()) {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(stage.client.clone(), &resource);
            let is_cluster = capabilities.scope == Scope::Cluster;
            let list = match api.list_metadata(&ListParams::default()).await {
                Ok(list) => list,
                // The kind has gone meanwhile.
                Err(kube::Error::Api(status)) if status.code == 404 => continue,
                Err(error) => return Err(error.into()),
            };
            for object in list {
                let namespace = object.namespace().unwrap_or_default();
                let place = if is_cluster {
                    String::new()
                } else {
                    format!(" in {namespace}")
                };
                all.insert(format!("{} {}{place}", resource.kind, object.name_any()));
            }
        }
    }
    Ok(all)
}

/// Waits until nothing that was not there before is left but what is meant to stay: the garbage collector takes its time.
async fn only_stays(
    stage: &Stage,
    before: &BTreeSet<String>,
    stays: impl Fn(&str, &str) -> bool,
) -> Result<()> {
    let asked = stage.until("what OLM made is gone", 90, || async {
        let now = objects(stage).await?;
        let is_left = |object: &&String| {
            !object
                .split_once(' ')
                .is_some_and(|(kind, name)| stays(kind, name))
        };
        let left: Vec<&String> = now.difference(before).filter(is_left).collect();
        ensure!(left.is_empty(), "left: {left:?}");
        Ok(Some(()))
    });
    asked.await
}

/// What must be as it was when OLM has put another numo in the place of the one that had begun: the journal of the node, its marks,
/// the pool's, the Jobs of rules, and what people wrote.
async fn state(stage: &Stage) -> Result<Value> {
    let change = stage.change("worker-0").await?.context("a NodeChange")?;
    let status = change.status.context("a journal")?;
    let run = stage.run("upgrade").await?;
    let jobs = jobs(stage).await?;
    let jobs: BTreeMap<String, Option<String>> = jobs
        .into_iter()
        .map(|job| (job.name_any(), job.metadata.uid))
        .collect();
    Ok(json!({
        "change": change.metadata.uid, "step": status.step, "attempt": status.attempt, "pin": status.pin,
        "marks": stage.world.state().nodes["worker-0"].marks,
        "pool": mark(stage, "worker", marks::PAUSED_BY).await?,
        "run": [json!(run.metadata.uid), json!(run.metadata.generation), json!(run.metadata.finalizers)],
        "jobs": jobs,
    }))
}

/// A rule that waits for its gate with worker-0 in its turn.
async fn in_mid_run(stage: &Stage, name: &str, version: &str) -> Result<()> {
    stage.world.upgrade_to(version).await?;
    seen(stage, "a rule runs", |world| rule_began(world, name, "worker-0")).await
}

/// The new catalogue is there, and an administrator approves: OLM replaces numo while a node has its turn.
async fn upgraded_in_mid_run(site: &mut Site, catalog: &str) -> Result<()> {
    let before = state(&site.stage).await?;
    let new = site.olm.serve(catalog).await?;
    let patch = json!({"spec": {"address": new}});
    site.terminal
        .run(&format!(
            "kubectl -n {} patch catalogsource numo --type=merge -p '{patch}'",
            olm::MARKETPLACE
        ))
        .await?;
    let plan = site.run("UpgradePending", &[]).await?;
    assert!(plan.contains(VERSION), "{plan}");
    site.run("rollout status", &[]).await?;
    let terminal = &site.terminal;
    let only = format!("numo.v{VERSION}");
    let replaced = site.stage.until("only the new version is there", 90, || async {
        let said = terminal
            .run("kubectl -n node-upgrade-mutex-operator get csv -o jsonpath='{.items[*].metadata.name}'")
            .await?;
        Ok((said == only).then_some(()))
    });
    replaced.await?;
    assert_eq!(
        before,
        state(&site.stage).await?,
        "the upgrade has touched what was under way"
    );
    assert!(released(&site.stage.world).is_empty(), "nobody was let go");
    Ok(())
}

/// Of the bundle numo serves no NodeVersions; by the steps of the page it does. Who plays the machines here is nobody: there is none to replace.
async fn serves_node_versions(site: &mut Site) -> Result<()> {
    let doctor = "numo doctor || true";
    let before = site.terminal.run(doctor).await?;
    ensure!(
        !before.contains("NodeVersions are served"),
        "nobody has asked: {before}"
    );
    site.run("node-version-definitions.yaml\nkubectl apply", &[])
        .await?;
    site.terminal
        .run("kubectl apply -f deploy/kustomize/components/node-version-sim/role.yaml")
        .await?;
    let machines = json!({"spec": {"config": {"env": [{"name": "NUMO_MACHINE_PROVIDER", "value": "sim"}]}}});
    fs::write(site.terminal.folder().join("machines.yaml"), machines.to_string())?;
    site.run("--patch-file machines.yaml", &[]).await?;
    let version = r"kubectl apply -f - <<EOF
apiVersion: update.edgeless.systems/v1alpha1
kind: NodeVersion
metadata: {name: constellation-version}
spec: {image: img2}
EOF";
    site.terminal.run(version).await?;
    let terminal = &site.terminal;
    let served = site.stage.until("the NodeVersion has a status", 120, || async {
        let said = terminal
            .run("kubectl get nodeversion constellation-version -o jsonpath='{.status.conditions[*].type}'")
            .await?;
        Ok(said.contains("Outdated").then_some(()))
    });
    served.await?;
    let after = site.terminal.run(doctor).await?;
    ensure!(after.contains("NodeVersions are served"), "{after}");
    // It goes before numo does, whose finalizer it may have.
    site.terminal
        .run("kubectl delete nodeversion constellation-version --timeout=60s")
        .await?;
    site.terminal
        .run("kubectl delete -f deploy/kustomize/components/node-version-sim/role.yaml")
        .await?;
    Ok(())
}

/// OLM takes everything away that it made, by the commands of the page, with a node in its turn.
async fn removed_in_mid_run(site: &mut Site, before: &BTreeSet<String>) -> Result<()> {
    let said = site.run("job/numo-release", &[]).await?;
    assert!(said.contains("worker"), "{said}");
    let run = site.stage.run("upgrade").await?;
    assert_eq!(run.metadata.finalizers, None, "the run can be deleted");
    assert!(site.stage.world.pool("worker").context("a pool")?.spec.paused);
    site.run("delete csv", &[]).await?;
    site.run("olm.managed=true", &[]).await?;
    site.run("numo-node-leases", &[]).await?;
    site.run(
        "delete --ignore-not-found -f deploy/olm/examples/node-version.yaml",
        &[],
    )
    .await?;
    only_stays(&site.stage, before, |kind, name| {
        let is_everybodys = matches!(kind, "Operator" | "Namespace" | "CustomResourceDefinition");
        !name.starts_with("numo") || is_everybodys || name.contains("skrzypek.io")
    })
    .await?;
    let marked = site.stage.world.state().nodes;
    assert!(marked.values().all(|node| node.marks.is_empty()), "{marked:?}");
    // What people wrote is theirs.
    assert_eq!(site.stage.run("upgrade").await?.metadata.uid, run.metadata.uid);
    site.run(
        "delete --ignore-not-found -f deploy/olm/examples/node-version-definitions.yaml",
        &[],
    )
    .await?;
    site.run("kubectl delete crd", &[]).await?;
    only_stays(&site.stage, before, |_, name| name.contains("medik8s-leases")).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "builds OLM, which takes minutes: cargo xtask test --all-tools"]
async fn olm_installs_upgrades_in_mid_run_and_removes_numo() -> Result<()> {
    let world = WorldSpec {
        masters: 3,
        ..workers(2)
    };
    let mut site = Site::set(world, of_openshift()).await?;
    let before = objects(&site.stage).await?;
    let catalog = read("deploy/olm/catalog/catalog.yaml")?;
    let old = site.olm.serve(&catalog.replace(VERSION, PREVIOUS)).await?;
    let file = site.example(&old)?;
    let from = "deploy/olm/examples/olm-v0.yaml";
    site.run(&format!("kubectl apply -f {from}"), &[(from, &file)])
        .await?;
    let plan = site.run("UpgradePending", &[]).await?;
    assert!(plan.contains(PREVIOUS), "{plan}");
    site.run("apply -f deploy/olm/examples/node-leases.yaml", &[])
        .await?;

    let gates = [Gate::new()?, Gate::new()?];
    let gated = |name: &str, gate: &Gate| rule(name, json!({"jobSpec": job(&gate.wait())}));
    prepare(&site.stage, &[gated("gated", &gates[0])], json!({})).await?;
    in_mid_run(&site.stage, "gated", NEW).await?;
    upgraded_in_mid_run(&mut site, &catalog).await?;
    gates[0].open_for_all()?;
    finish(&site.stage).await?;
    site.stage.judge(&judgement(&["gated"], &[])).await?;
    // Leases are refused until they are granted by hand.
    site.stage.may_lack_rights = true;
    let mut beyond = site.stage.beyond_rights()?;
    beyond.retain(|request| !request.contains("/namespaces/medik8s-leases/"));
    assert!(beyond.is_empty(), "{beyond:?}");

    serves_node_versions(&mut site).await?;
    apply(
        &site.stage,
        &[gated("later", &gates[1]), run_of(&["later"], json!({}))],
    )
    .await?;
    in_mid_run(&site.stage, "later", NEXT).await?;
    removed_in_mid_run(&mut site, &before).await?;
    assert_eq!(site.stage.world.version_of("worker-0"), NEW, "nobody was let go");
    // Those for OLM v1 are run by tests/install/tests/install/olm.rs, without its controllers.
    site.page.take("olm-v1.yaml", &[])?;
    site.page.take("clusterextension numo", &[])?;
    let Site { olm, stage, page, .. } = site;
    page.end()?;
    olm.stop().await?;
    stage.strike().await
}

/// On a Kubernetes without the kinds that every OpenShift has, OLM stops and says which kind is missing. So the page asks for OpenShift.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "builds OLM, which takes minutes: cargo xtask test --all-tools"]
async fn without_the_kinds_of_openshift_olm_says_which_one_is_missing() -> Result<()> {
    let mut site = Site::set(workers(1), Vec::new()).await?;
    let address = site.olm.serve(&read("deploy/olm/catalog/catalog.yaml")?).await?;
    let file = site.example(&address)?;
    let asked =
        "kubectl -n node-upgrade-mutex-operator get installplans -o jsonpath='{.items[*].status.message}'";
    site.terminal
        .run(&format!(
            "sed -i s/Manual/Automatic/ {file}; kubectl apply -f {file}"
        ))
        .await?;
    let terminal = &site.terminal;
    let said = site.stage.until("OLM says what is missing", 90, || async {
        let said = terminal.run(asked).await?;
        Ok(said.contains("not found on the cluster").then_some(said))
    });
    let said = said.await?;
    let kinds = ["ConsoleCLIDownload", "ServiceMonitor", "PrometheusRule"];
    assert!(kinds.iter().any(|kind| said.contains(kind)), "{said}");
    site.strike().await
}
