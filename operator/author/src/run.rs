//! `numo plugin run`: asks a component about one node of a cluster, with the rights of whoever runs it, or with the
//! answers of a recording. Of the cluster it gets and lists; it changes nothing.

use super::{
    engine::{engine, load_rule},
    expect::{self, Difference},
    fixtures::Gaps,
    outcome::{EvaluationOutcome, OutcomeKind},
    output::OutputArgs,
    recording::{Call, Earlier, Recording, Tape, history},
    source::SourceArgs,
    trial::{self, Trial},
    yaml,
};
use crate::cluster::Cluster;
use clap::Args;
use numo_api::{MutexRule, Reason, WasmRule};
use numo_cli::CliError;
use numo_plugin::{
    Answer, Grants, Input, ObjectRef, Rule, RuleLimits, Services, Terms,
    fetch::{Direct, FetchSetup},
    grants::PrometheusGrant,
    services::{Fetch, Prometheus, Reader},
    spec,
    verdict::Node,
};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Arguments of `numo plugin run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs<C: Args> {
    #[command(flatten)]
    source: SourceArgs,
    /// Node to evaluate the rule for
    #[arg(long, value_name = "NAME", required_unless_present_any = ["replay", "phase"])]
    node: Option<String>,
    /// Phase, such as Pre [default: the first of --rule, or Pre]
    #[arg(long, value_name = "PHASE")]
    phase: Option<String>,
    /// Configuration: JSON, or a file of YAML or JSON
    #[arg(long, value_name = "JSON|FILE")]
    config: Option<String>,
    /// What it is granted: APIVERSION/KIND[@NAMESPACE], a URL of a server, or prometheus; may be given more than once
    /// [default: the kinds it wants, and no server]
    #[arg(long, value_name = "GRANT")]
    grant: Vec<String>,
    /// MutexRule, as YAML, to take configuration, grants, limits and phase from
    #[arg(long, value_name = "FILE", conflicts_with_all = ["grant", "config"])]
    rule: Option<PathBuf>,
    /// Read no more than this ServiceAccount may; you need the right to create SubjectAccessReviews [default: what
    /// you may]
    #[arg(long, value_name = "NS/NAME")]
    service_account: Option<String>,
    /// Its earlier verdicts: a list of {phase, verdict, reason, summary, data, at, attempt, run}, the newest first
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Prometheus that it may query, where that is granted
    #[arg(long, env = "NUMO_PROMETHEUS_URL", value_name = "URL")]
    prometheus_url: Option<url::Url>,
    /// Pool that the rule is told
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Version that the rule is told the node has
    #[arg(long, value_name = "VERSION")]
    from_version: Option<String>,
    /// Version that the rule is told the node goes to
    #[arg(long, value_name = "VERSION")]
    to_version: Option<String>,
    /// Number of the attempt that the rule is told
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    attempt: u32,
    /// Write the question, every read with its answer, and the verdict. The file holds the objects that were read,
    /// whole, and the configuration; credentials that numo attaches to requests are not in it
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    record: Option<PathBuf>,
    /// Replay this recording instead of reading a cluster. Fails if the verdict differs
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "node", "phase", "config", "grant", "rule", "service_account", "history", "prometheus_url", "pool",
        "from_version", "to_version", "attempt",
    ])]
    replay: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    cluster: C,
}

/// Asks. Fails if there is no verdict, or another than the recorded one.
pub(crate) async fn run<C: Cluster>(args: &RunArgs<C>) -> Result<(), CliError> {
    let engine = engine()?;
    let (bytes, _) = args.source.read(&engine).await?;
    let rule = load_rule(&engine, &args.source.component, &bytes).await?;
    match &args.replay {
        Some(path) => replay(args, &rule, &Recording::read(path)?).await,
        None => live(args, &rule).await,
    }
}

async fn live<C: Cluster>(args: &RunArgs<C>, rule: &Rule) -> Result<(), CliError> {
    let trial = trial_of(args, rule).await?;
    let tape = Tape::default();
    let taped = Trial {
        services: tape.over(&trial.services),
        ..trial.clone()
    };
    let (outcome, log) = taped.ask_aloud(rule).await;
    for line in log {
        eprintln!("log {line}");
    }
    let said = EvaluationOutcome::of(&outcome);
    print(
        args,
        rule,
        &trial,
        &said,
        outcome.as_ref().ok(),
        &tape.calls(),
        None,
    )?;
    if let Some(path) = &args.record {
        Recording::new(rule, &trial, &tape, said.clone()).write(path)?;
        eprintln!("recorded in {}", path.display());
    }
    match said.verdict {
        OutcomeKind::Error => Err(CliError::Wrong(format!("no verdict: {}", said.reason))),
        _ => Ok(()),
    }
}

async fn replay<C: Args>(args: &RunArgs<C>, rule: &Rule, recording: &Recording) -> Result<(), CliError> {
    if rule.digest() != recording.component.digest {
        eprintln!(
            "recorded with {}, this is {}",
            recording.component.digest,
            rule.digest()
        );
    }
    let gaps = Gaps::default();
    let trial = recording.trial(&gaps)?;
    let (outcome, log) = trial.clone().ask_aloud(rule).await;
    for line in log {
        eprintln!("log {line}");
    }
    let said = EvaluationOutcome::of(&outcome);
    let differences = expect::from_recorded(&said, &recording.said);
    let answer = outcome.as_ref().ok();
    print(
        args,
        rule,
        &trial,
        &said,
        answer,
        &recording.calls,
        Some(&differences),
    )?;
    let gaps = gaps.all();
    if !gaps.is_empty() {
        return Err(CliError::Wrong(format!(
            "asked, and not recorded: {}",
            gaps.join("; ")
        )));
    }
    if differences.is_empty() {
        Ok(())
    } else {
        Err(CliError::Wrong("the verdict is not the recorded one".to_owned()))
    }
}

/// Prints what came of it: the verdict, what was read, what it took.
fn print<C: Args>(
    args: &RunArgs<C>,
    rule: &Rule,
    trial: &Trial,
    said: &EvaluationOutcome,
    answer: Option<&Answer>,
    calls: &[Call],
    from_recorded: Option<&[Difference]>,
) -> Result<(), CliError> {
    if !args.output.is_text() {
        let reads = calls
            .iter()
            .map(|call| json!({"asked": call.asked, "answer": call.answer.to_string()}));
        let value = json!({
            "component": {"name": rule.description().name, "digest": rule.digest()},
            "said": said,
            "reads": reads.collect::<Vec<_>>(),
            "usage": answer.map(trial::usage_json),
            "asRecorded": from_recorded.map(<[Difference]>::is_empty),
            "differences": from_recorded,
        });
        return args.output.print(&value);
    }
    for line in said.lines() {
        println!("{line}");
    }
    match from_recorded {
        Some([]) => println!("as recorded"),
        Some(differences) => {
            println!("not as recorded:");
            for one in differences {
                println!("  {one}");
            }
        }
        None => {
            println!("{}", if calls.is_empty() { "read nothing" } else { "read:" });
            for call in calls {
                println!("  {}: {}", call.asked, call.answer);
            }
        }
    }
    if let Some(answer) = answer {
        println!("used {}", trial::used(rule, &trial.terms.limits, answer));
    }
    Ok(())
}

/// The question, and who answers in the cluster.
async fn trial_of<C: Cluster>(args: &RunArgs<C>, rule: &Rule) -> Result<Trial, CliError> {
    let wrong = |what: &str, why: String| CliError::Wrong(format!("{what}: {why}"));
    let spec = args.rule.as_deref().map(mutex_rule).transpose()?;
    let phase = phase(args, spec.as_ref().map(|(_, phase)| *phase))?;
    let (config_json, terms) = match &spec {
        Some((wasm, _)) => {
            let terms = spec::terms(wasm, "").map_err(|why| wrong(Reason::InvalidConfig.name(), why))?;
            (spec::config_json(wasm), terms)
        }
        None => (config(args)?, terms(args, rule)?),
    };
    let history_entries: Vec<Earlier> = args
        .history
        .as_deref()
        .map_or_else(|| Ok(Vec::new()), yaml::read)?;
    let connection = args.cluster.connect().await?;
    let own = connection.reader();
    let node = node(args, &phase, own.as_ref()).await?;
    let reader = match &args.service_account {
        None => own,
        Some(text) => {
            let (of, name) = service_account(text)?;
            connection.reader_of(of, name)
        }
    };
    let fetch = fetch()?;
    let now = connection.now();
    let run = "trial".to_owned();
    Ok(Trial {
        services: Services {
            reader: Some(reader),
            prometheus: args.prometheus_url.clone().map(|url| Prometheus {
                url,
                fetch: fetch.clone(),
                credential: None,
            }),
            fetch: Some(fetch),
            history: history(&history_entries, &run, now),
            ..Services::none(now)
        },
        input: Input {
            run,
            owner: trial::owner(connection.namespace()),
            phase,
            attempt: args.attempt,
            node,
            pool: args.pool.clone(),
            from_version: args.from_version.clone(),
            to_version: args.to_version.clone(),
            config_json,
            attributes: Vec::new(),
        },
        terms,
    })
}

/// The phase that is asked about: the one that is named, else the rule's own, else pre.
fn phase<C: Cluster>(args: &RunArgs<C>, own: Option<&str>) -> Result<String, CliError> {
    match (&args.phase, own) {
        (Some(phase), _) => trial::phase(phase).map_err(|why| CliError::Wrong(format!("--phase: {why}"))),
        (None, Some(own)) => Ok(own.to_owned()),
        (None, None) => Ok("pre".to_owned()),
    }
}

/// The namespace and the name of a ServiceAccount.
fn service_account(text: &str) -> Result<(&str, &str), CliError> {
    let found = text
        .split_once('/')
        .filter(|(of, name)| !of.is_empty() && !name.is_empty());
    found.ok_or_else(|| {
        CliError::Wrong(format!(
            "--service-account: found {text:?}, wanted NAMESPACE/NAME"
        ))
    })
}

fn fetch() -> Result<Arc<dyn Fetch>, CliError> {
    let fetch = Direct::new(FetchSetup {
        // It is the machine of who asks.
        loopback: true,
        ..FetchSetup::default()
    })
    .map_err(|error| CliError::Wrong(format!("servers cannot be asked: {error}")))?;
    Ok(Arc::new(fetch))
}

/// The node that is asked about, where the phase is about one.
async fn node<C: Cluster>(
    args: &RunArgs<C>,
    phase: &str,
    reader: &dyn Reader,
) -> Result<Option<Node>, CliError> {
    if !trial::needs_node(phase) {
        return Ok(None);
    }
    let name = args
        .node
        .as_deref()
        .ok_or_else(|| CliError::Wrong(format!("--node: found none, and phase {phase} is about one")))?;
    read_node(reader, name).await.map(Some)
}

async fn read_node(reader: &dyn Reader, name: &str) -> Result<Node, CliError> {
    let object = ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        namespace: None,
        name: name.to_owned(),
    };
    let failed = |why: String| CliError::Wrong(format!("Node {name}: {why}"));
    let found = reader
        .get(&object, true)
        .await
        .map_err(|error| failed(error.message))?;
    let found = found.ok_or_else(|| failed("the cluster has none".to_owned()))?;
    let node = found.value().map_err(|error| failed(error.to_string()))?;
    trial::node(node).map_err(failed)
}

/// The one wasm rule of a file, and its first phase.
fn mutex_rule(path: &Path) -> Result<(WasmRule, &'static str), CliError> {
    let wrong = |why: String| CliError::Wrong(format!("{}: {why}", path.display()));
    let mut rules = Vec::new();
    for document in yaml::read_all::<Value>(path)? {
        if document.get("kind").is_none_or(|kind| kind != "MutexRule") {
            continue;
        }
        let name = document
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let rule: MutexRule =
            serde_json::from_value(document).map_err(|error| wrong(format!("MutexRule {name}: {error}")))?;
        if let Some(wasm) = rule.spec.wasm {
            let phase = rule.spec.phases.and_then(|phases| phases.first().copied());
            rules.push((wasm, spec::phase(phase.unwrap_or(numo_api::Phase::Pre))));
        }
    }
    if rules.len() != 1 {
        return Err(wrong(format!(
            "found {} MutexRules of type wasm, wanted one",
            rules.len()
        )));
    }
    Ok(rules.remove(0))
}

/// `--config`, as the component gets it.
fn config<C: Args>(args: &RunArgs<C>) -> Result<String, CliError> {
    let Some(given) = &args.config else {
        return Ok("{}".to_owned());
    };
    let value: Value = if given.trim_start().starts_with('{') {
        serde_json::from_str(given).map_err(|error| CliError::Wrong(format!("--config: {error}")))?
    } else {
        yaml::read(given.as_ref())?
    };
    Ok(value.to_string())
}

/// What is granted by the command line.
fn terms<C: Args>(args: &RunArgs<C>, rule: &Rule) -> Result<Terms, CliError> {
    let grants = if args.grant.is_empty() {
        // A server may be told what was read: that is only granted by name.
        Grants {
            http: Vec::new(),
            prometheus: None,
            ..trial::all_wanted(&rule.description().wants, &[])?
        }
    } else {
        let mut grants = Grants::default();
        for text in &args.grant {
            add_grant(&mut grants, text)
                .map_err(|why| CliError::Wrong(format!("--grant: found {text:?}, {why}")))?;
        }
        grants
    };
    Ok(Terms {
        tenant: String::new(),
        grants: Arc::new(grants),
        limits: RuleLimits::default(),
    })
}

fn add_grant(grants: &mut Grants, text: &str) -> Result<(), String> {
    const WANTED: &str = "wanted APIVERSION/KIND[@NAMESPACE], https://HOST[:PORT] or prometheus";
    if text == "prometheus" {
        grants.prometheus = Some(PrometheusGrant {});
        return Ok(());
    }
    if text.contains("://") {
        let url = url::Url::parse(text).map_err(|error| format!("{error}"))?;
        let host = url.host_str().ok_or(WANTED)?.trim_matches(['[', ']']);
        let grant = json!({"host": host, "port": url.port_or_known_default(), "scheme": url.scheme()});
        grants
            .http
            .push(serde_json::from_value(grant).map_err(|error| error.to_string())?);
        return Ok(());
    }
    let (kind, namespace) = match text.split_once('@') {
        Some((kind, namespace)) => (kind, vec![namespace.to_owned()]),
        None => (text, Vec::new()),
    };
    let (api_version, kind) = kind.rsplit_once('/').ok_or(WANTED)?;
    let is_version = api_version
        .rsplit('/')
        .next()
        .is_some_and(|version| version.starts_with('v'));
    if !is_version || kind.is_empty() || namespace.iter().any(String::is_empty) {
        return Err(WANTED.to_owned());
    }
    let grant = json!({"apiVersion": api_version, "kind": kind, "namespaces": namespace});
    grants
        .kubernetes
        .push(serde_json::from_value(grant).map_err(|error| error.to_string())?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_read_from_words() {
        let mut grants = Grants::default();
        for text in [
            "v1/Pod",
            "policy/v1/PodDisruptionBudget@shop",
            "https://status.example.com",
            "http://a:8080/x",
            "prometheus",
        ] {
            add_grant(&mut grants, text).unwrap();
        }
        let expected = json!({
            "kubernetes": [
                {"apiVersion": "v1", "kind": "Pod"},
                {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "namespaces": ["shop"]},
            ],
            "http": [
                {"host": "status.example.com", "port": 443, "scheme": "https"},
                {"host": "a", "port": 8080, "scheme": "http"},
            ],
            "prometheus": {},
        });
        assert_eq!(serde_json::to_value(&grants).unwrap(), expected);
        for wrong in ["Pod", "v1/", "v1/Pod@", "apps/Deployment", "ftp://a"] {
            assert!(add_grant(&mut grants, wrong).is_err(), "{wrong}");
        }
    }
}
