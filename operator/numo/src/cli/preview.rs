//! `numo preview`: what an owner would do, before it does it. The operator's own core decides on a copy of the cluster;
//! rules are asked now, Jobs and manifests are judged by server-side dry run. Nothing is written.

use super::{
    cluster::ClusterArgs,
    completion,
    error::{self, CliError},
    look::{self, Look, settings},
    object::{ObjectArg, What},
    output::{self, OutputArgs, paint},
    run::REGISTRIES_ON_LOOPBACK,
    snapshot,
    status::say_unseen,
};
use crate::{
    frontends, runners,
    shell::{
        access, answer, around,
        client::Connection,
        doctor,
        eval::evaluator::{Evaluator, EvaluatorOptions},
        kind::Kind,
        metrics::Metrics,
        observe,
        store::{Seen, Store},
        watch, watched, wire,
    },
};
use clap::Args;
use jiff::Timestamp;
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams, PostParams},
    core::DynamicObject,
};
use numo_api::{Reason, Step, conditions::Who};
use numo_core::{
    Owner, OwnerKind,
    action::{Action, EvaluationRequest, NodePurpose},
    forecast::{Surroundings, Weight, forecast},
    imagine::{self, Imagined, Waves},
    observed::{Key, Observed, RuleAnswer, Validity},
    report::{Report, RunPhase},
    verdict::Question,
};
use serde::Serialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::PathBuf,
    time::Duration,
};
use tokio::sync::mpsc;

/// Waves that are imagined, at most.
const WAVES: usize = 200;
/// Nodes whose pods are looked at, at most, unless more are asked for.
const DRAINED: usize = 50;
/// Writes of one node that are imagined before it is let go.
const STEPS: usize = 300;
/// How long a rule may take to be looked at, or to answer: a component may have to be compiled.
const PATIENCE: Duration = Duration::from_mins(2);

/// Arguments of `numo preview`.
#[derive(Debug, Args)]
pub struct PreviewArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Manifests that are taken for applied; - is standard input
    #[arg(short = 'f', long, value_name = "FILE")]
    filename: Option<PathBuf>,
    /// Decide on this file of `numo snapshot`, without a cluster: rules are not asked
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Namespace of the owner [default: that of the kubeconfig's context]
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// Imagine that a MutexRunConfig goes to this version
    #[arg(long, value_name = "VERSION")]
    to_version: Option<String>,
    /// Nodes whose drains are looked at
    #[arg(long, value_name = "NUMBER", default_value_t = DRAINED)]
    drains: usize,
    /// Ask no rule
    #[arg(long)]
    without_rules: bool,
    /// As numo run takes it
    #[arg(
        long,
        env = REGISTRIES_ON_LOOPBACK,
        hide = true,
        value_parser = clap::builder::BoolishValueParser::new(),
        action = clap::ArgAction::SetTrue
    )]
    registries_on_loopback: bool,
    /// The owner [default: every one in the manifests]
    #[arg(value_name = "KIND/NAME", required_unless_present = "filename", add = clap_complete::ArgValueCompleter::new(completion::owners))]
    object: Option<ObjectArg>,
}

/// What one owner would do.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Preview {
    owner: String,
    /// The version its nodes go to; none if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    /// Whether that was imagined.
    imagined: bool,
    /// Whether nobody asked for that version: no upgrade is under way.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    assumed: bool,
    /// What stands against it as a whole.
    refused: Vec<Said>,
    /// Nodes that would have their turn together, in order.
    waves: Vec<Vec<String>>,
    /// Whether there are more waves than were imagined.
    more: bool,
    /// Nodes that would have no turn, and why.
    left: Vec<NodeSaid>,
    /// What drains would meet.
    drains: Vec<DrainSaid>,
    /// Nodes whose drains were not looked at.
    not_looked_at: usize,
    /// What rules say of the first node now.
    rules: Vec<RuleSaid>,
    /// Admission webhooks that would have no endpoint for a time.
    webhooks: Vec<String>,
    /// Rights and definitions that are missing.
    missing: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Said {
    reason: Reason,
    message: String,
    ends_by: &'static str,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeSaid {
    node: String,
    step: Step,
    reason: Reason,
    message: String,
    ends_by: &'static str,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DrainSaid {
    node: String,
    /// never, now or costs.
    weight: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
    message: String,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RuleSaid {
    rule: String,
    phase: &'static str,
    node: String,
    /// pass, wait, block, error; dry-run for a Job that the API server would take, unknown for one that could not be tried.
    verdict: &'static str,
    message: String,
}

/// Shows what would come of it.
pub async fn preview(args: PreviewArgs) -> Result<(), CliError> {
    let offline = args.snapshot.is_some();
    if let Some(given) = &args.to_version
        && let Err(error) = semver::Version::parse(given)
    {
        return Err(CliError::Usage(format!(
            "--to-version: found {given:?}, wanted a version such as 4.17.0: {error}"
        )));
    }
    // What is wrong with the file is said before the cluster is asked.
    let given = args.filename.as_ref().map(manifests).transpose()?;
    let mut connection = None;
    let mut default = "default".to_owned();
    let (mut store, mut unseen, now) = if let Some(path) = &args.snapshot {
        let read = snapshot::read(path)?;
        (read.store, read.unseen, read.at)
    } else {
        let (found, namespace) = args.cluster.connect("preview").await?;
        default = namespace;
        let (store, unseen) = observe::once(&found.read, settings())
            .await
            .map_err(error::api("looking at the cluster"))?;
        let now = found.clock.now();
        connection = Some(found);
        (store, unseen, now)
    };
    let namespace = args.namespace.clone().unwrap_or(default);
    let mut owners = Vec::new();
    if let Some(path) = &args.filename {
        let objects = given.unwrap_or_default();
        owners = take_in(connection.as_ref(), &mut store, objects, &namespace, now).await?;
        if let Some(connection) = &connection {
            // What these owners refer to has room first.
            observe::give_room(&connection.read, &mut store)
                .await
                .map_err(error::api("reading mutexrules"))?;
        }
        if owners.is_empty() && args.object.is_none() {
            return Err(CliError::Usage(format!(
                "-f {}: found no MutexRunConfig, Plan or NodeMaintenance; name one of the cluster's: mutexrunconfig/NAME",
                path.display()
            )));
        }
    }
    if let Some(object) = &args.object {
        owners = vec![owner_of(&store, &unseen, object, &namespace)?];
    }
    let mut site = None;
    if let Some(connection) = &connection {
        let asking = if args.without_rules {
            None
        } else {
            Some(Asking::begin(connection, &mut store, args.registries_on_loopback).await)
        };
        let place = look::place(connection).await;
        site = Some(Site {
            connection,
            asking,
            around: around::surroundings(&connection.read, &mut unseen).await,
            missing: missing(connection, &place, &mut unseen).await,
            place,
        });
    }
    // Owners are honoured wherever they are: the operator's flags are not known here.
    let Look { mut store, .. } = Look::of(store, Vec::new(), now);
    let mut previews = Vec::new();
    for owner in &owners {
        let one = of_owner(site.as_mut(), &mut store, owner, &args, now, &mut unseen).await?;
        previews.push(one);
    }
    args.output.print(
        &previews,
        |_| previews.iter().map(Preview::text).collect::<Vec<_>>().join("\n"),
        || {
            previews
                .iter()
                .map(|one| one.owner.to_lowercase().replacen(' ', "/", 1))
                .collect()
        },
    )?;
    unseen.sort();
    unseen.dedup();
    say_unseen(&unseen);
    if offline {
        eprintln!(
            "numo: from a snapshot of {now}: rules were not asked, and nothing was judged by an API server"
        );
    }
    let against = previews.iter().map(Preview::against).sum::<usize>();
    match against {
        0 => Ok(()),
        1 => Err(CliError::Closed("one thing stands against it".to_owned())),
        number => Err(CliError::Closed(format!("{number} things stand against it"))),
    }
}

/// All objects of a file.
fn manifests(path: &PathBuf) -> Result<Vec<DynamicObject>, CliError> {
    let wrong = |words: String| CliError::Usage(format!("-f {}: {words}", path.display()));
    let text = if path.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin()).map_err(|error| wrong(error.to_string()))?
    } else {
        std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?
    };
    let values: Vec<serde_json::Value> =
        serde_saphyr::from_multiple(&text).map_err(|error| wrong(error.to_string()))?;
    // As `kubectl get -o yaml` writes several.
    let unfolded = |value: serde_json::Value| match value["items"].as_array() {
        Some(items) if value["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) => items.clone(),
        _ => vec![value],
    };
    let objects = values
        .into_iter()
        .filter(|value| !value.is_null())
        .flat_map(unfolded)
        .map(serde_json::from_value);
    objects
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(format!("found no Kubernetes object: {error}")))
}

/// Takes manifests for applied: judged by the API server's dry run, where there is one. Returns the owners among them.
async fn take_in(
    connection: Option<&Connection>,
    store: &mut Store,
    objects: Vec<DynamicObject>,
    namespace: &str,
    now: Timestamp,
) -> Result<Vec<Owner>, CliError> {
    const OURS: [Kind; 9] = [
        Kind::MutexRule,
        Kind::MutexTarget,
        Kind::MutexRunConfig,
        Kind::MutexBudget,
        Kind::MutexBinding,
        Kind::NodeMaintenance,
        Kind::KubeVirtMaintenance,
        Kind::Plan,
        Kind::Namespace,
    ];
    let mut owners = Vec::new();
    for mut object in objects {
        let types = object.types.clone().unwrap_or_default();
        let known = OURS.into_iter().find(|kind| {
            let (group, _, name, _) = kind.resource();
            let given = types.api_version.split_once('/').map_or("", |(group, _)| group);
            name == types.kind && given == group
        });
        let name = object.name_any();
        let about = format!("{} {name}", types.kind);
        let Some(kind) = known else {
            eprintln!("numo: {about} is passed over: no decision reads it");
            continue;
        };
        let is_namespaced = matches!(
            kind,
            Kind::MutexRule | Kind::MutexTarget | Kind::MutexRunConfig | Kind::Plan
        );
        if is_namespaced {
            object
                .metadata
                .namespace
                .get_or_insert_with(|| namespace.to_owned());
        }
        let place = object.metadata.namespace.clone().unwrap_or_default();
        if let Some(connection) = connection {
            let params = PatchParams {
                dry_run: true,
                force: true,
                field_manager: Some("numo-preview".to_owned()),
                ..PatchParams::default()
            };
            let api = watch::api(&connection.write, kind, if is_namespaced { &place } else { "" });
            object =
                api.patch(&name, &params, &Patch::Apply(&object))
                    .await
                    .map_err(|error| match error {
                        // The manifest is the caller's.
                        kube::Error::Api(status) if matches!(status.code, 400 | 422) => {
                            CliError::Usage(format!("{about}: {}", status.message))
                        }
                        error => error::api(about.as_str())(error),
                    })?;
        } else {
            let metadata = &mut object.metadata;
            metadata.uid.get_or_insert_with(|| format!("imagined-{name}"));
            metadata.generation.get_or_insert(1);
        }
        // What waits for what may be applied with it has waited.
        let earlier = now - jiff::SignedDuration::from_mins(1);
        object.metadata.creation_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(earlier));
        let key = Key::new(if is_namespaced { place.as_str() } else { "" }, name.as_str());
        owners.extend(match kind {
            Kind::MutexRunConfig => Some(Owner::run(key)),
            Kind::Plan => Some(Owner::plan(key)),
            Kind::NodeMaintenance | Kind::KubeVirtMaintenance => Some(Owner {
                kind: OwnerKind::NodeMaintenance(if kind == Kind::NodeMaintenance {
                    numo_core::MaintenanceGroup::Medik8s
                } else {
                    numo_core::MaintenanceGroup::KubeVirt
                }),
                key,
            }),
            _ => None,
        });
        let number = wire::version(&object.metadata).max(1);
        let Some(object) = watched::object(kind, &object) else {
            return Err(CliError::Usage(format!("{} {name} cannot be read", types.kind)));
        };
        // Over what the cluster has, whatever its number.
        store.own(kind, number.saturating_add(1_000_000_000), object);
    }
    Ok(owners)
}

fn owner_of(
    store: &Store,
    unseen: &[String],
    object: &ObjectArg,
    namespace: &str,
) -> Result<Owner, CliError> {
    let observed = &store.observed;
    let key = Key::new(namespace, object.name.as_str());
    let what = object.what.unwrap_or(What::Run);
    let found = match what {
        What::Run => observed.runs.contains_key(&key).then(|| Owner::run(key)),
        What::Plan => observed.plans.contains_key(&key).then(|| Owner::plan(key)),
        What::Maintenance => {
            let mut all = observed.maintenances.keys();
            all.find(|owner| owner.key.name == object.name).cloned()
        }
        _ => {
            return Err(CliError::Usage(format!(
                "found {}/{}, wanted mutexrunconfig/NAME, plan/NAME or nodemaintenance/NAME",
                what.singular(),
                object.name
            )));
        }
    };
    if found.is_none()
        && let Some(hidden) = look::hidden(unseen, what)
    {
        return Err(hidden);
    }
    found.ok_or_else(|| {
        let place = if what.is_namespaced() {
            format!(" in namespace {namespace}")
        } else {
            String::new()
        };
        let mut elsewhere = match what {
            What::Run => observed
                .runs
                .keys()
                .filter(|key| key.name == object.name)
                .collect(),
            What::Plan => observed
                .plans
                .keys()
                .filter(|key| key.name == object.name)
                .collect(),
            _ => Vec::new(),
        };
        elsewhere.truncate(3);
        let elsewhere: Vec<&str> = elsewhere.iter().map(|key| key.namespace.as_str()).collect();
        let hint = if elsewhere.is_empty() {
            "`numo status` lists all, -f FILE previews a manifest".to_owned()
        } else {
            format!("there is one by -n {}", elsewhere.join(", -n "))
        };
        CliError::Usage(format!(
            "found no {} {}{place}; {hint}",
            what.singular(),
            object.name
        ))
    })
}

/// Rules that are asked, as this preview asks them; their answers come as the operator's do.
struct Asking {
    asked: Evaluator,
    sender: mpsc::UnboundedSender<Seen>,
    seen: mpsc::UnboundedReceiver<Seen>,
}

impl Asking {
    /// Has every rule judged that an owner may ask: a component is fetched and compiled, a Job is tried by dry run. What the
    /// operator has judged stays its judgement.
    async fn begin(connection: &Connection, store: &mut Store, on_loopback: bool) -> Self {
        let (sender, mut seen) = mpsc::unbounded_channel();
        let mut options = EvaluatorOptions::default();
        options.artifacts.reach_loopback = on_loopback;
        let asked = Evaluator::new(connection.clone(), options, Metrics::new());
        asked.select_workloads(&store.observed.runs);
        let unjudged = store.unjudged();
        let is_unjudged: BTreeSet<Key> = unjudged.iter().map(|rule| wire::key(&rule.metadata)).collect();
        for rule in unjudged
            .iter()
            .filter(|rule| !frontends::mutex_rule::is_asked(rule))
        {
            let validity = answer::judge(&connection.write, rule).await;
            if validity != Validity::Unknown {
                let edition = wire::edition(&rule.metadata);
                store.judge(&wire::key(&rule.metadata), edition, validity);
            }
        }
        let all = store.rules().map(|(_, rule)| rule);
        let mut looked_at = 0;
        for rule in all.filter(|rule| frontends::mutex_rule::is_asked(rule)) {
            asked.examine(std::sync::Arc::new(rule.clone()), sender.clone());
            looked_at += 1;
        }
        while looked_at > 0 {
            let Ok(Some(one)) = tokio::time::timeout(PATIENCE, seen.recv()).await else {
                break;
            };
            if matches!(&one, Seen::Examined(rule, ..) if is_unjudged.contains(rule)) {
                store.see(one);
            }
            looked_at -= 1;
        }
        Self { asked, sender, seen }
    }

    async fn ask(&mut self, request: &EvaluationRequest) -> RuleSaid {
        self.asked.ask(request.clone(), self.sender.clone());
        let answer = loop {
            match tokio::time::timeout(PATIENCE, self.seen.recv()).await {
                Ok(Some(Seen::Evaluated(key, _, answer))) if key == request.key => break Some(answer),
                Ok(Some(_)) => {}
                _ => break None,
            }
        };
        let (verdict, message) = match answer {
            Some(RuleAnswer::Pass(words)) => ("pass", words.shown()),
            Some(RuleAnswer::Wait(words, seconds)) => (
                "wait",
                format!("{}; asked again after {seconds} s", words.shown()),
            ),
            Some(RuleAnswer::Block(words)) => ("block", words.shown()),
            Some(RuleAnswer::NoVerdict(reason, message)) => ("error", format!("{reason}: {message}")),
            None => ("error", "it did not answer in time".to_owned()),
        };
        RuleSaid {
            rule: request.rule.to_string(),
            phase: request.phase.name(),
            node: request.node.clone(),
            verdict,
            message,
        }
    }
}

/// What is the same for every owner of a preview of a cluster.
struct Site<'c> {
    connection: &'c Connection,
    /// None where no rule is to be asked.
    asking: Option<Asking>,
    around: Surroundings,
    missing: Vec<String>,
    /// The namespace of numo.
    place: String,
}

async fn of_owner(
    site: Option<&mut Site<'_>>,
    store: &mut Store,
    owner: &Owner,
    args: &PreviewArgs,
    now: Timestamp,
    unseen: &mut Vec<String>,
) -> Result<Preview, CliError> {
    let mut imagined = Imagined::new(store.observed.clone(), now);
    let first = imagined.decide(owner).report;
    let mut one = Preview {
        owner: owner.to_string(),
        ..Preview::default()
    };
    let idle = first.phase == RunPhase::Idle && owner.kind == OwnerKind::MutexRunConfig;
    let later = idle.then(|| later(&imagined.observed));
    let assumed = later.is_some() && args.to_version.is_none();
    if let Some(version) = args.to_version.clone().or(later) {
        if owner.kind == OwnerKind::MutexRunConfig {
            one.imagined = true;
            one.assumed = assumed;
            imagined.upgrade_to(&version);
        } else if args.to_version.is_some() {
            return Err(CliError::Usage("--to-version is for a MutexRunConfig".to_owned()));
        }
    }
    let mut report = imagined.decide(owner).report;
    // The cluster's own operators bring the control plane there, and render the pools' configurations.
    let comes = |reason: Reason| matches!(reason, Reason::ControlPlaneUpdating | Reason::PoolNotRendered);
    if let Some(version) = report.target.clone()
        && owner.kind == OwnerKind::MutexRunConfig
        && report.nodes.values().any(|node| comes(node.why.reason))
    {
        one.imagined = true;
        imagined.upgrade_to(&version);
        report = imagined.decide(owner).report;
    }
    one.target.clone_from(&report.target);
    refusals(&mut one, &report);
    let before = imagined.clone();
    let Waves { waves, more, last } = imagined.waves(owner, WAVES, |observed, report| {
        settle(observed, owner, report, now);
    });
    one.more = more;
    if one.target.is_none() {
        one.target.clone_from(&last.target);
    }
    let turns: BTreeSet<&String> = waves.iter().flatten().collect();
    let left = last
        .nodes
        .iter()
        .filter(|(name, node)| !matches!(node.step, Step::Done) && !turns.contains(name) && !more);
    one.left = left
        .map(|(name, node)| NodeSaid {
            node: name.clone(),
            step: node.step,
            reason: node.why.reason,
            message: node.why.message.to_string(),
            ends_by: node.why.who().phrase(),
        })
        .collect();
    let mut order: Vec<String> = waves.iter().flatten().cloned().collect();
    if let OwnerKind::NodeMaintenance(_) = owner.kind
        && let Some(view) = store.observed.maintenances.get(owner)
    {
        order = vec![view.spec.node_name.clone()];
    }
    one.waves = waves;
    let looked_at: Vec<String> = order.iter().take(args.drains).cloned().collect();
    one.not_looked_at = order.len() - looked_at.len();
    if let Some(site) = site {
        let connection = site.connection;
        let found = observe::pods(&connection.read, store, &looked_at, &mut None).await;
        unseen.extend(found.map_err(error::api("pods"))?);
        drains(&mut one, &store.observed, &site.around, owner, &looked_at, now);
        // Who is not drained serves on.
        if look::drain_options(&store.observed, owner).is_some() {
            one.webhooks = around::webhooks(&connection.read, &order, unseen).await;
        }
        if let (Some(asking), Some(node)) = (&mut site.asking, order.first()) {
            one.rules = rules(connection, &site.place, asking, store, before, owner, node).await;
        }
        one.missing.clone_from(&site.missing);
    } else {
        let nothing = Surroundings::default();
        drains(&mut one, &store.observed, &nothing, owner, &looked_at, now);
    }
    Ok(one)
}

/// The minor version after the one that the cluster is at.
fn later(observed: &Observed) -> String {
    let now = observed
        .cluster_version
        .as_ref()
        .map(|cluster| cluster.desired.as_str());
    let mut parts = now
        .unwrap_or_default()
        .split('.')
        .map_while(|part| part.parse::<u64>().ok());
    match (parts.next(), parts.next()) {
        (Some(major), Some(minor)) => format!("{major}.{}.0", minor + 1),
        _ => "999.0.0".to_owned(),
    }
}

/// What the status would say is read by the next decision.
fn settle(observed: &mut Observed, owner: &Owner, report: &Report, now: Timestamp) {
    if let Some(view) = observed
        .plans
        .get_mut(&owner.key)
        .filter(|_| owner.kind == OwnerKind::Plan)
    {
        view.status = frontends::plan::status(view, report, now);
    }
}

fn refusals(one: &mut Preview, report: &Report) {
    let hold = report.hold.iter();
    for why in report.problems.iter().chain(hold).chain(&report.unchecked) {
        // What ends by itself is no refusal.
        let stands = matches!(
            why.who(),
            Who::ClusterAdmin | Who::RuleAuthor | Who::OtherController | Who::OtherRun | Who::OtherPlan
        ) || why.reason.is_of_hours();
        let known = one.refused.iter().any(|said| said.message == *why.message);
        if stands && !known {
            one.refused.push(Said {
                reason: why.reason,
                message: why.message.to_string(),
                ends_by: why.who().phrase(),
            });
        }
    }
}

fn drains(
    one: &mut Preview,
    observed: &Observed,
    around: &Surroundings,
    owner: &Owner,
    nodes: &[String],
    now: Timestamp,
) {
    let Some(options) = look::drain_options(observed, owner) else {
        return;
    };
    for node in nodes.iter().filter_map(|name| observed.nodes.get(name)) {
        let found = forecast(observed, around, node, &options, now);
        let found = found.into_iter().flatten().map(|obstacle| DrainSaid {
            node: node.name.clone(),
            weight: match obstacle.weight {
                Weight::Never => "never",
                Weight::Now => "now",
                Weight::Slow => "slow",
                Weight::Costs => "costs",
            },
            reason: obstacle.reason,
            message: obstacle.message,
        });
        one.drains.extend(found);
    }
}

/// What the rules say of the first node now: components, expressions and queries are asked, Jobs tried by dry run.
async fn rules(
    connection: &Connection,
    place: &str,
    asking: &mut Asking,
    store: &Store,
    mut imagined: Imagined,
    owner: &Owner,
    node: &str,
) -> Vec<RuleSaid> {
    let mut said: Vec<RuleSaid> = Vec::new();
    let now = connection.clock.now();
    for _ in 0..STEPS {
        let decision = imagined.decide(owner);
        settle(&mut imagined.observed, owner, &decision.report, now);
        if decision.actions.is_empty() && decision.questions.is_empty() {
            break;
        }
        for question in &decision.questions {
            if let Question::Evaluate(request) = question
                && (request.node.is_empty() || request.node == node)
            {
                said.push(asking.ask(request).await);
            }
            imagined.pass(question);
        }
        let mut over = false;
        for planned in &decision.actions {
            match &planned.action {
                Action::CreateJob(request) if request.node.is_empty() || request.node == node => {
                    said.push(try_job(connection, place, store, request).await);
                }
                Action::CreatePlanJob(request) if request.node == node => {
                    over = true;
                    continue;
                }
                action if imagine::begins(action) => {
                    over = true;
                    continue;
                }
                Action::PatchNode(patch)
                    if patch.node == node
                        && matches!(patch.purpose, NodePurpose::Release | NodePurpose::Cordon) =>
                {
                    over = true;
                    continue;
                }
                _ => {}
            }
            imagined.apply(&planned.action);
        }
        if over {
            break;
        }
    }
    said
}

async fn try_job(
    connection: &Connection,
    place: &str,
    store: &Store,
    request: &numo_core::action::JobRequest,
) -> RuleSaid {
    let mut said = RuleSaid {
        rule: request.rule.to_string(),
        phase: request.phase.name(),
        node: request.node.clone(),
        verdict: "error",
        message: String::new(),
    };
    let Some(rule) = store.rule(&request.rule) else {
        "the rule is gone".clone_into(&mut said.message);
        return said;
    };
    let body = runners::job::render(rule, request)
        .and_then(|body| serde_json::from_value::<DynamicObject>(body).map_err(|error| error.to_string()));
    let body = match body {
        Ok(body) => body,
        Err(why) => {
            said.message = why;
            return said;
        }
    };
    let params = PostParams {
        dry_run: true,
        field_manager: Some("numo-preview".to_owned()),
    };
    // It is numo that would create it.
    let right = ResourceAttributes {
        group: Some("batch".to_owned()),
        resource: Some("jobs".to_owned()),
        namespace: Some(request.job.namespace.clone()),
        verb: Some("create".to_owned()),
        ..ResourceAttributes::default()
    };
    if let Ok(false) = access::may(&connection.write, place, "numo", right).await {
        said.message = format!(
            "ServiceAccount {place}/numo may not create Jobs in namespace {0}: bind ClusterRole numo-rule-jobs there \
             (examples/invite-namespace.yaml)",
            request.job.namespace
        );
        return said;
    }
    let api = watch::api(&connection.write, Kind::Job, &request.job.namespace);
    match api.create(&params, &body).await {
        Ok(_) => {
            said.verdict = "dry-run";
            said.message = format!(
                "the API server takes Job {}; what it would say is not known",
                request.job
            );
        }
        Err(kube::Error::Api(status)) if status.code == 403 => {
            said.verdict = "unknown";
            said.message = format!(
                "Job {} was not tried, as you may not create one: {}",
                request.job, status.message
            );
        }
        Err(kube::Error::Api(status)) => said.message = format!("Job {}: {}", request.job, status.message),
        Err(error) => said.message = format!("Job {}: {error}", request.job),
    }
    said
}

/// What `numo doctor` finds missing of rights and definitions, where numo is; what nobody may tell is not seen.
async fn missing(connection: &Connection, place: &str, unseen: &mut Vec<String>) -> Vec<String> {
    let mut missing = Vec::new();
    for one in doctor::needs(connection, place).await {
        match one.state {
            doctor::State::Wrong => missing.push(one.message),
            doctor::State::Unknown => unseen.push(one.message),
            doctor::State::Ok | doctor::State::Note => {}
        }
    }
    missing
}

impl Preview {
    /// How many things stand against it.
    fn against(&self) -> usize {
        let never = self.drains.iter().filter(|one| one.weight == "never").count();
        let rules = self
            .rules
            .iter()
            .filter(|one| matches!(one.verdict, "block" | "error"))
            .count();
        // Who waits for those that have no turn is held by what holds them.
        let left = self.left.iter().filter(|one| one.step == Step::Selected);
        let (wait, left): (Vec<_>, Vec<_>) = left.partition(|one| one.reason == Reason::WaitingForTurn);
        let named = self.refused.len() + never + rules + left.len() + self.missing.len();
        if named == 0 { wait.len() } else { named }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let target = self.target.as_deref().unwrap_or("?");
        let imagined = match (self.imagined, self.assumed) {
            (_, true) => {
                " (no upgrade is under way: the next minor version is imagined; --to-version names another)"
            }
            (true, false) => " (imagined: the control plane is there)",
            (false, false) => "",
        };
        let _ = writeln!(
            text,
            "{}: to {target}{imagined}",
            paint(output::head(), &self.owner)
        );
        for said in &self.refused {
            let reason = paint(output::of_reason(said.reason), said.reason.name());
            let _ = writeln!(
                text,
                "  refused {reason}: {}; ended by {}",
                said.message, said.ends_by
            );
        }
        for missing in &self.missing {
            let _ = writeln!(text, "  missing {missing}");
        }
        let number: usize = self.waves.iter().map(Vec::len).sum();
        if number > 0 {
            let more = if self.more { ", and more" } else { "" };
            let _ = writeln!(
                text,
                "  order   {number} nodes in {} waves{more}",
                self.waves.len()
            );
            for (index, wave) in self.waves.iter().enumerate().take(SHOWN) {
                let _ = writeln!(text, "  {:>7} {}", index + 1, wave.join(", "));
            }
            if self.waves.len() > SHOWN {
                let _ = writeln!(
                    text,
                    "          and {} waves more (-o json)",
                    self.waves.len() - SHOWN
                );
            }
        }
        // Nodes of one reason and message are one line.
        let mut alike: BTreeMap<(Reason, &str), Vec<&str>> = BTreeMap::new();
        for left in &self.left {
            let words = (left.reason, left.message.as_str());
            alike.entry(words).or_default().push(&left.node);
        }
        for ((reason, message), nodes) in alike.iter().take(SHOWN) {
            let reason = paint(output::of_reason(*reason), reason.name());
            let named = nodes.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
            let more = match nodes.len().saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let _ = writeln!(text, "  no turn {named}{more}: {reason}: {message}");
        }
        if alike.len() > SHOWN {
            let _ = writeln!(
                text,
                "          and {} reasons more (-o json)",
                alike.len() - SHOWN
            );
        }
        for rule in &self.rules {
            let of = if rule.node.is_empty() {
                String::new()
            } else {
                format!(" of Node {}", rule.node)
            };
            let _ = writeln!(
                text,
                "  rule    {} in {}{of}: {}: {}",
                rule.rule, rule.phase, rule.verdict, rule.message
            );
        }
        for drain in self.drains.iter().take(SHOWN * 2) {
            let weight = if drain.weight == "never" {
                paint(output::bad(), drain.weight)
            } else {
                drain.weight.to_owned()
            };
            let _ = writeln!(text, "  drain   Node {}: {weight}: {}", drain.node, drain.message);
        }
        if self.drains.len() > SHOWN * 2 {
            let _ = writeln!(
                text,
                "          and {} more (-o json)",
                self.drains.len() - SHOWN * 2
            );
        }
        if self.not_looked_at > 0 {
            let _ = writeln!(
                text,
                "          the pods of {} nodes were not looked at (--drains)",
                self.not_looked_at
            );
        }
        for webhook in &self.webhooks {
            let _ = writeln!(text, "  webhook {webhook}");
        }
        text
    }
}

/// Lines of one kind that are shown.
const SHOWN: usize = 20;
