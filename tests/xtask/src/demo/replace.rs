//! `cargo xtask demo --scenario replace`: the nodes of three groups are replaced by machines of another image. The machines are those of
//! the provider `sim`, which the end-to-end tests play, too.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use console::style;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use numo_api::{NodeChange, Outcome, Step};
use numo_e2e::{NAMESPACE, machines::Group, manifests};
use numo_world::{PoolSpec, WorldSpec};
use serde_json::json;

use super::screen::clock;
use super::site::Site;
use super::{BLIND, TICK};

/// The NodeVersion.
const VERSION: &str = "constellation-version";
/// The image that is asked for.
const IMAGE: &str = "img2";
/// The rule in WASM that every node must pass.
const RULE: &str = "pdb-headroom";
/// The groups, the first of them the control plane.
const GROUPS: [(&str, &[&str]); 3] = [
    ("control", &["control-0", "control-1", "control-2"]),
    ("red", &["red-0", "red-1"]),
    ("blue", &["blue-0", "blue-1"]),
];
/// How long nothing at all may change: a machine is asked for its state each half minute.
const SILENCE: Duration = Duration::from_mins(3);

/// A cluster whose control plane is elsewhere, without nodes of its own.
pub fn world() -> WorldSpec {
    WorldSpec {
        masters: 0,
        topology: "External".to_owned(),
        pools: vec![PoolSpec::new("worker", 0)],
        ..WorldSpec::default()
    }
}

/// What is shown of a turn: its step and why.
type Said = BTreeMap<String, (String, String)>;

/// Makes the groups, asks for another image, and shows what happens. Whether all went as it should.
pub async fn show(site: &Site) -> Result<bool> {
    for (place, (name, nodes)) in GROUPS.into_iter().enumerate() {
        let group = Group {
            name,
            is_control_plane: place == 0,
            nodes,
            ..Group::default()
        };
        site.machines.group(group).await?;
    }
    rule(site).await?;
    let number: usize = GROUPS.iter().map(|(_, nodes)| nodes.len()).sum();
    println!();
    println!(
        "{}",
        style(format!(
            "{number} nodes in {} groups   img1 → {IMAGE}   surge 2",
            GROUPS.len()
        ))
        .bold()
    );
    let spec = json!({
        "image": IMAGE, "surge": 2,
        "mutex": {"maxUnavailable": 2, "rules": [{"name": RULE, "namespace": NAMESPACE}]},
    });
    site.machines.ask_for(VERSION, spec).await?;
    let began = Instant::now();
    let Some(said) = watch(site, began, number).await? else {
        println!("{}", style("stalled").red().bold());
        println!(
            "  nothing has changed for {} s: numo explain nodeversion/{VERSION}",
            SILENCE.as_secs()
        );
        return Ok(false);
    };
    let wrong = judge(site, &said, number).await?;
    println!();
    for words in &wrong {
        println!("{}", style(words).red());
    }
    let took = clock(began.elapsed());
    if wrong.is_empty() {
        println!("{} in {took}", style("succeeded").green().bold());
    } else {
        println!("{} in {took}", style("succeeded, against the rules").red().bold());
    }
    Ok(wrong.is_empty())
}

/// Applies the rule with its rights.
async fn rule(site: &Site) -> Result<()> {
    let path = manifests::root().join(format!("examples/rule-{RULE}.yaml"));
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let mut objects = manifests::parse(&text)?;
    site.rules.point(&mut objects);
    manifests::apply(&site.client, &site.rules.pull_secret(), NAMESPACE).await?;
    manifests::apply(&site.client, &objects, NAMESPACE).await
}

/// Plays the machines and tells each step, until the NodeVersion is at rest; none if nothing goes on.
async fn watch(site: &Site, began: Instant, number: usize) -> Result<Option<Said>> {
    let mut said = Said::new();
    let (mut changed, mut seen) = (Instant::now(), Instant::now());
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let changes = match look(site).await {
            Ok(changes) => changes,
            Err(error) if seen.elapsed() > BLIND => return Err(error),
            Err(_) => continue,
        };
        seen = Instant::now();
        for change in changes {
            let status = change.status.unwrap_or_default();
            let step = status.step.map_or("", Step::name).to_owned();
            let new = (step, status.message.unwrap_or_default());
            let node = change.spec.node_name;
            if said.get(&node) == Some(&new) {
                continue;
            }
            println!(
                "{:>7}  {node:<16} {:<12} {}",
                clock(began.elapsed()),
                style(&new.0).cyan(),
                new.1
            );
            said.insert(node, new);
            changed = Instant::now();
        }
        if said.len() >= number && site.machines.is_at_rest(VERSION).await.unwrap_or(false) {
            return Ok(Some(said));
        }
        if changed.elapsed() > SILENCE {
            return Ok(None);
        }
    }
}

/// Plays the machines once, and reads the journals.
async fn look(site: &Site) -> Result<Vec<NodeChange>> {
    site.machines.play().await?;
    let changes: Api<NodeChange> = Api::namespaced(site.client.clone(), NAMESPACE);
    Ok(changes.list(&ListParams::default()).await?.items)
}

/// What is not as it should be: by nodes, machines and verdicts, and not by what numo says.
async fn judge(site: &Site, said: &Said, number: usize) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let shown = site.machines.shown().await?;
    let old = shown
        .iter()
        .filter(|(name, node)| node.image != IMAGE || said.contains_key(*name));
    wrong.extend(old.map(|(name, node)| format!("node {name} is there with image {}", node.image)));
    let made = site.machines.made().await?;
    if shown.len() != number || made.len() != number {
        let (nodes, machines) = (shown.len(), made.len());
        wrong.push(format!(
            "found {nodes} nodes and {machines} machines, wanted {number} of each"
        ));
    }
    let rule = format!("{NAMESPACE}/{RULE}");
    for change in look(site).await? {
        let verdicts = change.status.iter().flat_map(|status| &status.verdicts);
        let mut passed = verdicts.filter(|one| one.rule == rule && one.outcome == Outcome::Pass);
        if passed.next().is_none() {
            wrong.push(format!(
                "NodeChange {} has no Pass of rule {RULE}",
                change.name_any()
            ));
        }
    }
    Ok(wrong)
}

/// What a person may try afterwards.
pub fn what_to_try(site: &Site) {
    println!();
    println!("everything is left up until Ctrl-C; in another terminal:");
    println!();
    println!("  export KUBECONFIG={}", site.kubeconfig.display());
    println!("  export PATH=\"{}:$PATH\"", super::numo_folder().display());
    println!("  kubectl get nodes,nodeversions,scalinggroups,pendingnodes,nodechanges");
    println!("  numo status nodeversion/{VERSION}");
    println!("  numo explain nodeversion/{VERSION}");
    let image = json!({"spec": {"image": "img3"}});
    println!("  kubectl patch nodeversion {VERSION} --type merge -p '{image}'");
}
