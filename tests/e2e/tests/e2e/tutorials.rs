//! The tutorials, run as they are written: each on a cluster as it says, every manifest saved under the name that the page gives it.

use anyhow::{Context, Result, ensure};
use numo_e2e::{Page, manifests};
use numo_world::{World, WorldSpec};

use crate::{NEW, commands::Site, workers};

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
            .find(|word| word.ends_with(".yaml") && !word.contains(' '))
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
    page.run_until(t, "kubectl apply -k deploy/kustomize/kubernetes", &[])
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
    let back = page.run(t, "kubectl delete nm replace-a-fan", &[]).await?;
    ensure!(!back.contains("SchedulingDisabled"), "{back}");
    let journal = page.run(t, "kubectl get nodechanges", &[]).await?;
    assert!(journal.contains("worker-1"), "{journal}");
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
    page.run_until(t, "kubectl apply -k deploy/kustomize/self-managed", &[])
        .await?;
    assert_eq!(save(&site, name, &[])?, 3);
    let rule = page.run(t, "kubectl apply -f account.yaml", held).await?;
    assert!(rule.contains("not-on-hold"), "{rule}");
    let said = t.call(&page.take("numo preview", &[])?).await?;
    assert!(said.out.contains("master-0"), "{said:?}");
    page.run(t, "numo status\n", held).await?;
    let done = "kubectl get nodes -l plan.upgrade.cattle.io/server-plan -o name | wc -l";
    site.until(done, "2").await?;
    let why = site
        .until("numo explain master-1", "ops.example.com/hold")
        .await?;
    assert!(
        why.contains("ends by whoever owns the rule") || why.contains("whoever owns the rule"),
        "{why}"
    );
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
    page.run_until(t, "oc apply -k deploy/kustomize/openshift", &[])
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
