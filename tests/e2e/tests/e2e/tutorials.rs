//! The tutorials, run as they are written: each on a cluster as it says, every manifest saved under the name that the page gives it.
//! And the page on upgrading numo, in the middle of a Plan.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use numo_e2e::{Page, manifests};
use numo_world::{World, WorldSpec};
use serde_json::json;

use crate::{Gate, NEW, commands::Site, job, rule, rule_began, with, workers};

/// Saves the manifests of a page in the folder of the terminal: each has its name in the last backticks before it.
fn save(site: &Site, page: &str, words: &[(&str, &str)]) -> Result<usize> {
    let text = std::fs::read_to_string(manifests::root().join(page))?;
    let mut parts = text.split("```yaml\n");
    let mut before = parts.next().context("a page")?;
    let mut saved = 0;
    for part in parts {
        let (block, after) = part.split_once("```").context("the end of a block")?;
        let name = before
            .split('`')
            .rev()
            .find(|word| !word.contains(char::is_whitespace) && is_yaml(word))
            .with_context(|| format!("{page}: a manifest without a name: {block}"))?;
        let mut block = block.to_owned();
        for (old, new) in words {
            block = block.replace(old, new);
        }
        std::fs::write(site.terminal.folder().join(name), block)?;
        before = after;
        saved += 1;
    }
    Ok(saved)
}

fn is_yaml(name: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|extension| extension == "yaml")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tutorial_of_a_node_in_maintenance() -> Result<()> {
    let site = Site::set(WorldSpec {
        masters: 3,
        ..workers(2)
    })
    .await?;
    let name = "operator/docs/tutorials/maintenance.md";
    let mut page = Page::read(name)?;
    let t = &site.terminal;
    page.run_until(t, "kubectl apply -k deploy/kustomize/all/kubernetes", &[])
        .await?;
    assert_eq!(save(&site, name, &[])?, 2);
    let pods = page.run(t, "kubectl apply -f web.yaml", &[]).await?;
    assert!(pods.contains("worker-1"), "one pod on each worker: {pods}");
    let preview = page.take("numo preview", &[])?;
    let said = t.call(&preview).await?;
    assert!(
        said.code == Some(3) && said.out.contains("PodDisruptionBudget default/web"),
        "{said:?}"
    );
    let begin = page.take("numo explain worker-1", &[])?;
    site.until(&begin, "EvictionBlocked").await?;
    let left = page.run(t, "kubectl scale deployment/web", &[]).await?;
    assert!(left.contains("Succeeded"), "{left}");
    let back = page.run(t, "kubectl delete nm fan-of-worker-1", &[]).await?;
    ensure!(!back.contains("SchedulingDisabled"), "{back}");
    // The garbage collector may or may not have come by.
    page.run(t, "kubectl get nodechanges", &[]).await?;
    site.nothing_is_left().await?;
    page.end()?;
    site.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tutorial_of_machines_that_are_replaced() -> Result<()> {
    let site = Site::set(WorldSpec {
        masters: 3,
        ..workers(1)
    })
    .await?;
    let name = "operator/docs/tutorials/node-version.md";
    let mut page = Page::read(name)?;
    let t = &site.terminal;
    assert_eq!(save(&site, name, &[])?, 3);
    let installed = page.run_until(t, "kubectl apply -k .", &[]).await?;
    assert!(installed.contains("NodeVersions are served"), "{installed}");
    let nodes = page.run(t, "kubectl apply -f machines.yaml", &[]).await?;
    assert!(nodes.contains("blue-a") && nodes.contains("blue-b"), "{nodes}");
    let said = page.run(t, "numo preview -f version.yaml", &[]).await?;
    assert!(
        said.contains("to node-2") && said.contains("AwaitingAnnotation"),
        "{said}"
    );
    let canary = page.run(t, "kubectl apply -f version.yaml", &[]).await?;
    let images = |said: &str, image: &str| {
        let rows = said.lines().filter(|line| line.starts_with("blue-"));
        rows.filter(|line| line.ends_with(image)).count()
    };
    ensure!(
        images(&canary, "node-1") == 1 && images(&canary, "node-2") == 1,
        "{canary}"
    );
    let all = page.run(t, "numo approve", &[]).await?;
    ensure!(
        images(&all, "node-1") == 0 && images(&all, "node-2") == 2,
        "{all}"
    );
    page.run(t, "kubectl delete nodes", &[]).await?;
    site.nothing_is_left().await?;
    page.end()?;
    site.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tutorial_of_a_plan() -> Result<()> {
    let site = Site::set(WorldSpec {
        masters: 3,
        ..workers(1)
    })
    .await?;
    let name = "operator/docs/tutorials/plan.md";
    let mut page = Page::read(name)?;
    let t = &site.terminal;
    let held = &[("server-1", "master-1")];
    page.run_until(t, "kubectl apply -k deploy/kustomize/all/self-managed", &[])
        .await?;
    assert_eq!(save(&site, name, &[])?, 3);
    let rule = page.run(t, "kubectl apply -f account.yaml", held).await?;
    assert!(rule.contains("not-on-hold"), "{rule}");
    let said = t.call(&page.take("numo preview", &[])?).await?;
    assert!(said.out.contains("master-0"), "{said:?}");
    page.run(t, "numo status -A\n", held).await?;
    site.until(
        "numo explain master-1",
        "OnHold: the node has the annotation ops.example.com/hold",
    )
    .await?;
    let all = page.run(t, "ops.example.com/hold-", held).await?;
    assert_eq!(
        all.lines().filter(|line| line.starts_with("master-")).count(),
        3,
        "{all}"
    );
    site.nothing_is_left().await?;
    page.end()?;
    site.strike().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tutorial_of_an_upgrade_of_openshift() -> Result<()> {
    let site = Site::set(WorldSpec {
        masters: 3,
        ..workers(2)
    })
    .await?;
    let name = "operator/docs/tutorials/openshift.md";
    let mut page = Page::read(name)?;
    let t = &site.terminal;
    page.run_until(t, "oc apply -k deploy/kustomize/all/openshift", &[])
        .await?;
    assert_eq!(save(&site, name, &[])?, 1);
    let begin = page.take("oc apply -f run.yaml", &[])?;
    site.until(&begin, "UpToDate").await?;
    page.run(t, "oc adm upgrade", &[("4.19.3", NEW)]).await?;
    let why = page.run(t, "numo explain worker-0", &[]).await?;
    assert!(why.contains("worker-0"), "{why}");
    page.run(t, "numo pause", &[]).await?;
    let updated = |world: &World| world.is_updated("worker", NEW);
    site.world
        .until(
            "the workers are upgraded",
            std::time::Duration::from_mins(3),
            updated,
        )
        .await?;
    let ready = "oc -n node-upgrade-mutex-operator get mutexrunconfig upgrade -o jsonpath='{.status.conditions[?(@.type==\"Ready\")].reason}'";
    site.until(ready, "Succeeded").await?;
    let end = page.run(t, "oc get mcp worker", &[]).await?;
    assert!(
        end.contains("Succeeded") && end.contains(NEW) && end.ends_with("false"),
        "{end}"
    );
    let rule = site.run("numo explain worker-0").await?;
    assert!(
        rule.contains("Post: worker-0 goes from"),
        "the log of the rule: {rule}"
    );
    site.nothing_is_left().await?;
    page.end()?;
    site.strike().await
}

/// A Plan over the workers, each of which waits for its rule.
async fn begin_a_plan(site: &Site, gate: &Gate) -> Result<()> {
    let waits = with(
        rule("waits", json!({"jobSpec": job(&gate.wait())})),
        json!({"metadata": {"name": "waits", "namespace": "node-upgrade-mutex-operator"}}),
    );
    let binding = json!({
        "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "MutexBinding", "metadata": {"name": "plans"},
        "spec": {"ownerSelector": {"kind": "Plan"}, "rules": [{"name": "waits"}], "order": "Name"},
    });
    let plan = json!({
        "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "metadata": {"name": "agents", "namespace": "system-upgrade"},
        "spec": {
            "concurrency": 1, "cordon": true, "serviceAccountName": "system-upgrade", "version": "v1.33.4+k3s1",
            "nodeSelector": {"matchExpressions": [{"key": "node-role.kubernetes.io/worker", "operator": "Exists"}]},
            "upgrade": {"image": "rancher/k3s-upgrade"},
        },
    });
    site.apply(&[waits, binding, plan]).await
}

/// Who the Jobs of the Plan run as: they cordon their node.
const ACCOUNT: &str = "kubectl -n system-upgrade create serviceaccount system-upgrade && \
    kubectl create clusterrolebinding system-upgrade --clusterrole=cluster-admin --serviceaccount=system-upgrade:system-upgrade";

/// numo's pods are made anew, as by another image.
const RESTART: &str = "kubectl -n node-upgrade-mutex-operator rollout restart deployment/numo && \
    kubectl -n node-upgrade-mutex-operator rollout status deployment/numo";

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_goes_on_while_numo_is_upgraded_and_rolled_back() -> Result<()> {
    let site = Site::set(WorldSpec {
        masters: 3,
        ..workers(2)
    })
    .await?;
    let mut page = Page::read("operator/docs/upgrade.md")?;
    let t = &site.terminal;
    let released = manifests::root()
        .canonicalize()?
        .join("tests/install/released/0.1.0");
    let old_definitions = format!(
        "kubectl apply --force-conflicts --server-side -f {}",
        released.display()
    );
    let install = "kubectl apply -k deploy/kustomize/all/self-managed && echo applied";
    site.until(install, "applied").await?;
    site.run(&old_definitions).await?;
    site.run(RESTART).await?;
    site.run(ACCOUNT).await?;
    let gate = Gate::new()?;
    begin_a_plan(&site, &gate).await?;
    let began = |node: &'static str| move |world: &World| rule_began(world, "waits", node);
    let patience = std::time::Duration::from_mins(2);
    site.world
        .until("the rule about worker-0", patience, began("worker-0"))
        .await?;

    // Forward, while the rule about worker-0 runs.
    page.run(t, "kubectl apply -k deploy/kustomize/all/self-managed", &[])
        .await?;
    site.run(RESTART).await?;
    gate.open("worker-0")?;
    let done = "kubectl get nodes -l plan.upgrade.cattle.io/agents -o name";
    site.until(done, "worker-0").await?;
    site.world
        .until("the rule about worker-1", patience, began("worker-1"))
        .await?;

    // And back, while the rule about worker-1 runs.
    page.run(t, "numo stop", &[]).await?;
    site.run(&old_definitions).await?;
    site.run(RESTART).await?;
    let go_on = page.take("numo start", &[])?;
    for line in go_on.lines().filter(|line| !line.starts_with("numo doctor")) {
        site.run(line).await?;
    }
    gate.open_for_all()?;
    site.run("kubectl -n system-upgrade wait plan/agents --for=condition=Complete --timeout=150s")
        .await?;
    site.until(done, "worker-1").await?;
    let log = site.world.log();
    let of_worker_0 = log.iter().filter(|entry| {
        matches!(&entry.event, numo_world::Event::JobPodStarted { env, .. }
            if env.get("MUTEX_RULE").is_some_and(|name| name == "waits")
                && env.get("NODE_NAME").is_some_and(|name| name == "worker-0"))
    });
    assert_eq!(of_worker_0.count(), 1, "a rule that runs is adopted");
    site.nothing_is_left().await?;
    page.end()?;
    site.strike().await
}
