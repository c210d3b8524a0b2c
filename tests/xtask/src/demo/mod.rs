//! `cargo xtask demo`: an upgrade of a simulated OpenShift to watch, under real rules on a real API
//! server.

mod course;
mod fault;
mod look;
mod replace;
mod screen;
mod site;
mod summary;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use console::style;
use numo_api::marks;
use numo_e2e::{NAMESPACE, manifests, rules};
use numo_plugin_tests::registry::Kind;
use numo_world::{Breach, Judgement, PoolSpec, TimeFactor, Timings, WorldSpec};
use serde_json::{Value, json};

use self::course::{Course, End};
use self::fault::{Fault, of_kind};
use self::look::Look;
use self::screen::{Head, Screen, clock};
use self::site::{Given, Site};
use crate::{setup, step, timeline};

/// Workers, where nothing else is said.
const NODES: u16 = 6;
const FROM: &str = "4.20.4";
const TO: &str = "4.21.0";
/// The pool that is upgraded.
const POOL: &str = "worker";
/// The rule in examples/demo.yaml.
const RULE: &str = "storage-health";
/// The MutexRunConfig in examples/demo.yaml.
const RUN: &str = "demo";
/// Between two looks.
const TICK: Duration = Duration::from_millis(300);
/// How long looks may fail in a row.
const BLIND: Duration = Duration::from_secs(10);

/// What `cargo xtask demo` takes.
#[derive(clap::Args)]
pub struct Arguments {
    /// What happens
    #[arg(long, value_enum, default_value = "upgrade")]
    scenario: Scenario,
    /// Worker nodes
    #[arg(long, value_name = "N", default_value_t = NODES, value_parser = clap::value_parser!(u16).range(2..=200))]
    nodes: u16,
    /// How a node is released
    #[arg(long, value_enum, default_value = "desired-config")]
    strategy: Strategy,
    /// Let something go wrong, and see what numo says
    #[arg(long, value_enum, value_name = "NAME")]
    fault: Option<Fault>,
    /// Leave everything up afterwards, until Ctrl-C: the cluster, the simulated machines, and numo
    #[arg(long)]
    keep: bool,
    /// Use this cluster, a control plane without nodes, instead of starting one
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Remove the simulated nodes and the ClusterVersion that an earlier demo left in that cluster
    #[arg(long, requires = "kubeconfig")]
    yes_this_cluster: bool,
}

/// What the demo shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scenario {
    /// The nodes of an OpenShift are upgraded
    Upgrade,
    /// The nodes of three groups are replaced by machines of another image
    Replace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Strategy {
    /// numo sets the desired configuration of one node after the other
    DesiredConfig,
    /// numo moves one node after the other into a canary pool, and back
    CanaryPool,
}

impl Strategy {
    fn name(self) -> &'static str {
        match self {
            Self::DesiredConfig => "DesiredConfig",
            Self::CanaryPool => "CanaryPool",
        }
    }
}

/// Tells what is being made ready, with the time it took.
#[derive(Debug)]
pub struct Progress {
    term: console::Term,
}

/// Something being made ready.
#[derive(Debug)]
pub struct Doing<'a> {
    progress: &'a Progress,
    what: &'static str,
    began: Instant,
}

impl Progress {
    fn new() -> Self {
        Self {
            term: console::Term::stdout(),
        }
    }

    /// Begins something.
    pub fn doing(&self, what: &'static str) -> Doing<'_> {
        if self.term.is_term() {
            let _ = self.term.write_str(&format!("  {what} …"));
        }
        Doing {
            progress: self,
            what,
            began: Instant::now(),
        }
    }
}

impl Doing<'_> {
    /// It is ready.
    pub fn done(self, result: &str) {
        let took = summary::seconds(self.began.elapsed().as_secs_f64());
        let mark = style("✓").green();
        let clear = if self.progress.term.is_term() {
            "\r\x1b[2K"
        } else {
            ""
        };
        println!("{clear}{mark} {:<32} {took:>7}   {result}", self.what);
    }
}

/// Runs the demo.
pub async fn run(arguments: Arguments) -> Result<ExitCode> {
    fits(&arguments)?;
    let progress = Progress::new();
    build(&progress, arguments.kubeconfig.is_none()).await?;
    let given = arguments.kubeconfig.clone().map(|kubeconfig| Given {
        kubeconfig,
        yes: arguments.yes_this_cluster,
    });
    let mut stop = Stop::listen()?;
    // What has begun to start is left to finish, so that it can be taken down in order.
    let set = match arguments.scenario {
        Scenario::Upgrade => world(&arguments),
        Scenario::Replace => replace::world(),
    };
    let site = Site::set(given.as_ref(), (arguments.scenario, set), &progress);
    let mut site = std::pin::pin!(site);
    let (site, asked) = tokio::select! {
        site = &mut site => (site?, false),
        () = stop.asked() => {
            eprintln!("\nstopping as soon as what has begun is up; Ctrl-C once more stops on the spot");
            (site.await?, true)
        }
    };
    let mut code = ExitCode::from(130);
    if !asked {
        let shown = tokio::select! {
            shown = show_scenario(&site, &arguments) => Some(shown),
            () = stop.asked() => None,
        };
        if let Some(shown) = shown {
            code = match shown {
                Ok(true) => ExitCode::SUCCESS,
                Ok(false) => ExitCode::FAILURE,
                Err(error) => {
                    eprintln!("error: {error:#}");
                    for line in site.numo_log(20) {
                        eprintln!("numo: {line}");
                    }
                    ExitCode::FAILURE
                }
            };
            if arguments.keep {
                keep_up(&site, &arguments, &mut stop).await;
            }
        } else {
            println!("\nstopping");
        }
    }
    tokio::select! {
        () = site.strike() => Ok(code),
        // Children notice that we are gone.
        () = stop.asked() => Ok(ExitCode::from(130)),
    }
}

/// Whether the arguments are of one scenario.
fn fits(arguments: &Arguments) -> Result<()> {
    let of_upgrade = [
        ("--fault", arguments.fault.is_some()),
        ("--kubeconfig", arguments.kubeconfig.is_some()),
        ("--strategy", arguments.strategy != Strategy::DesiredConfig),
        ("--nodes", arguments.nodes != NODES),
    ];
    let wrong = of_upgrade.iter().find(|(_, is_given)| *is_given);
    match wrong.filter(|_| arguments.scenario == Scenario::Replace) {
        Some((flag, _)) => anyhow::bail!("{flag} is of the scenario upgrade, found --scenario replace"),
        None => Ok(()),
    }
}

/// Shows what the scenario says.
async fn show_scenario(site: &Site, arguments: &Arguments) -> Result<bool> {
    match arguments.scenario {
        Scenario::Upgrade => show(site, arguments).await,
        Scenario::Replace => replace::show(site).await,
    }
}

/// Leaves everything up until it is asked to stop. Machines that are replaced go on to be played.
async fn keep_up(site: &Site, arguments: &Arguments, stop: &mut Stop) {
    if arguments.scenario == Scenario::Upgrade {
        what_to_try(site, arguments.fault);
        return stop.asked().await;
    }
    replace::what_to_try(site);
    loop {
        tokio::select! {
            () = stop.asked() => return,
            () = tokio::time::sleep(TICK) => {}
        }
        // What fails once is played a moment later.
        let _ = site.machines.play().await;
    }
}

/// Rules in WASM that guard the demo's nodes beside its Jobs, by the names of their components.
const COMPONENTS: [&str; 2] = ["cluster-operators", "pdb-headroom"];

/// Builds what the demo runs, in the foreground: a failure shows, and Ctrl-C ends it. All else is built beside the control plane, whose
/// linker leaves a core idle.
async fn build(progress: &Progress, control_plane: bool) -> Result<()> {
    let rules = tokio::spawn(async {
        tokio::task::spawn_blocking(setup::wasm_targets).await??;
        rules::components(&COMPONENTS).await
    });
    let registry = tokio::task::spawn_blocking(|| Kind::GoContainerRegistry.program());
    // Together with ourselves: alone it would be built with other features, and all it needs once more.
    let numo = tokio::task::spawn_blocking(|| {
        let mut cargo = start::by_clippy(step::cargo());
        step::must(cargo.args(["build", "--quiet", "--package", "numo", "--package", "xtask"]))
    });
    if control_plane {
        tokio::task::spawn_blocking(numo_cluster::binary).await??;
    }
    let doing = progress.doing("building numo");
    numo.await??;
    doing.done("");
    rules.await??;
    registry.await??;
    Ok(())
}

/// Ctrl-C and SIGTERM, from now on.
struct Stop {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Stop {
    fn listen() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// A reboot takes two to four seconds, the control plane five: an upgrade of six nodes is over in about
/// a minute.
fn world(arguments: &Arguments) -> WorldSpec {
    WorldSpec {
        pools: vec![PoolSpec::new(POOL, usize::from(arguments.nodes))],
        version: FROM.to_owned(),
        canary: arguments.strategy == Strategy::CanaryPool,
        time_factor: TimeFactor(0.012),
        timings: Timings {
            control_plane: 400.0,
            ..Timings::default()
        },
        ..WorldSpec::default()
    }
}

/// The demo's own objects.
fn objects() -> Result<Vec<Value>> {
    let path = manifests::root().join("examples/demo.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    manifests::parse(&text)
}

/// The rules in WASM with their rights, and their names.
fn components() -> Result<(Vec<Value>, Vec<Value>)> {
    let mut objects = Vec::new();
    for name in COMPONENTS {
        let path = manifests::root().join(format!("examples/rule-{name}.yaml"));
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        objects.extend(manifests::parse(&text)?);
    }
    let rules = objects.iter().filter(|object| object["kind"] == "MutexRule");
    let names = rules
        .map(|rule| json!({"name": rule["metadata"]["name"]}))
        .collect();
    Ok((objects, names))
}

/// Applies the objects, upgrades, and shows it. Whether all went as it should.
async fn show(site: &Site, arguments: &Arguments) -> Result<bool> {
    let mut objects = objects()?;
    if arguments.strategy == Strategy::CanaryPool {
        of_kind(&mut objects, "MutexRunConfig")?["spec"]["canary"] = json!({"name": "canary"});
    }
    // Nodes have their turn by zone: the second is not worker-1.
    let victim = second_in_turn(site);
    if let Some(fault) = arguments.fault {
        fault.change(&mut objects, &victim)?;
    }
    let (mut rules, names) = components()?;
    let guards = of_kind(&mut objects, "MutexRunConfig")?["spec"]["mutexRules"]
        .as_array_mut()
        .context("examples/demo.yaml names no rules")?;
    guards.extend(names);
    site.rules.point(&mut rules);
    manifests::apply(&site.client, &site.rules.pull_secret(), NAMESPACE).await?;
    manifests::apply(&site.client, &rules, NAMESPACE).await?;
    manifests::apply(&site.client, &objects, NAMESPACE).await?;
    ready(site).await?;
    match arguments.fault {
        Some(Fault::Cordoned) => site.cordon(&victim).await?,
        Some(Fault::PoolPaused) => site.pause(POOL).await?,
        _ => {}
    }
    site.world.remember().await?;
    site.world.upgrade_to(TO).await?;
    let fault = arguments.fault.and_then(|fault| fault.of_the_world(&victim));
    let mut title = format!(
        "{} workers   {FROM} → {TO}   {}",
        arguments.nodes,
        arguments.strategy.name()
    );
    if let Some(fault) = arguments
        .fault
        .as_ref()
        .and_then(clap::ValueEnum::to_possible_value)
    {
        title = format!("{title}   {}", fault.get_name());
    }
    println!();
    let began = Instant::now();
    let (course, look, end) = watch(site, &title, began, fault).await?;
    let breaches = judge(site, arguments, &look, &end).await?;
    println!();
    tell(site, &course, &look, &breaches);
    let took = clock(began.elapsed());
    match end {
        End::Succeeded if breaches.is_empty() => {
            println!("{} in {took}", style("succeeded").green().bold());
            Ok(true)
        }
        End::Succeeded => {
            println!("{}", style("succeeded, against the rules").red().bold());
            Ok(false)
        }
        End::Stalled { reason, message } => {
            let word = style("stalled").red().bold();
            println!("{word} after {took}");
            let mut facts: Vec<(&str, String)> = Vec::new();
            if let Some(reason) = reason {
                facts.push(("why", format!("{reason}: {message}")));
                facts.push(("means", reason.meaning().to_owned()));
                if reason.who() != numo_api::conditions::Actor::Nobody {
                    facts.push(("ends", format!("by {}", reason.who().phrase())));
                }
            } else {
                facts.push(("why", message));
                facts.extend(site.numo_log(5).into_iter().map(|line| ("numo", line)));
            }
            let said: String = facts.iter().map(|(_, text)| text.as_str()).collect();
            for row in look.rows.iter().filter(|row| row.is_wrong()) {
                let is = format!("{} is {}, {}", row.node, row.step.name(), row.reason);
                let more = unsaid(&row.doing, &said);
                let colon = if more.is_empty() { "" } else { ": " };
                facts.push(("node", format!("{is}{colon}{more}")));
            }
            for (name, text) in &facts {
                fact(name, text);
            }
            Ok(false)
        }
    }
}

/// The clauses of a text that have not been said.
fn unsaid(text: &str, said: &str) -> String {
    let clauses = text.split("; ").filter(|clause| !said.contains(clause));
    clauses.collect::<Vec<_>>().join("; ")
}

/// A name and a text beside it, at the width of the terminal.
fn fact(name: &str, text: &str) {
    let term = console::Term::stdout();
    let width = term
        .size_checked()
        .map_or(usize::MAX, |(_, width)| usize::from(width));
    for (index, line) in screen::wrap(text, width.saturating_sub(12)).iter().enumerate() {
        let name = if index == 0 { name } else { "" };
        println!("  {name:<6}  {line}");
    }
}

/// The node that has its turn second: by zone, then oldest first, as numo orders them by default.
fn second_in_turn(site: &Site) -> String {
    use kube::ResourceExt as _;
    let mut nodes: Vec<(String, _, String)> = site
        .world
        .nodes()
        .iter()
        .filter(|node| site.world.membership_of(&node.name_any()).is(POOL))
        .map(|node| {
            let zone = node.labels().get(marks::openshift::ZONE);
            let born = node.creation_timestamp().map(|time| time.0);
            (zone.cloned().unwrap_or_default(), born, node.name_any())
        })
        .collect();
    nodes.sort();
    nodes
        .into_iter()
        .nth(1)
        .map(|(_, _, name)| name)
        .unwrap_or_default()
}

/// Waits until numo has judged the rules and says that there is nothing to do.
async fn ready(site: &Site) -> Result<()> {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let seen = look::look(site, RUN).await;
        let is_judged = matches!(&seen, Ok(look) if look.reason == Some(numo_api::Reason::UpToDate));
        if is_judged && conditions_say_up_to_date(site).await? {
            return Ok(());
        }
        if Instant::now() > deadline {
            let said = seen.map(|look| look.message)?;
            anyhow::bail!("numo has not judged MutexRunConfig {NAMESPACE}/{RUN} within 60 s: {said}");
        }
        tokio::time::sleep(TICK).await;
    }
}

async fn conditions_say_up_to_date(site: &Site) -> Result<bool> {
    let runs: kube::Api<numo_api::MutexRunConfig> = kube::Api::namespaced(site.client.clone(), NAMESPACE);
    let status = runs.get(RUN).await?.status.unwrap_or_default();
    Ok(status
        .conditions
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True"))
}

/// Shows the run until its end. The fault comes once the control plane is through: before, OpenShift
/// itself would stop for it.
async fn watch(
    site: &Site,
    title: &str,
    began: Instant,
    mut fault: Option<numo_world::Fault>,
) -> Result<(Course, Look, End)> {
    let mut screen = Screen::new();
    let mut course = Course::default();
    let mut seen_at = Instant::now();
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        if fault.is_some() && site.world.is_completed(TO) {
            fault
                .take()
                .into_iter()
                .for_each(|fault| site.world.inject(fault));
        }
        let look = match look::look(site, RUN).await {
            Ok(look) => look,
            Err(error) if seen_at.elapsed() > BLIND => return Err(error),
            Err(_) => continue,
        };
        seen_at = Instant::now();
        let elapsed = began.elapsed();
        course.take(elapsed, &look);
        let head = Head {
            title: title.to_owned(),
            elapsed,
        };
        screen.draw(&head, &look, &course);
        let upgraded = site.world.is_updated(POOL, TO);
        if let Some(end) = course.end(&look, upgraded) {
            return Ok((course, look, end));
        }
    }
}

/// What the world has to say about it, from its own records alone.
async fn judge(site: &Site, arguments: &Arguments, look: &Look, end: &End) -> Result<Vec<Breach>> {
    let over = *end == End::Succeeded;
    let behind = look.rows.iter().filter(|row| row.step != numo_api::Step::Done);
    let expected = Judgement {
        pre_rules: vec![RULE.to_owned()],
        post_rules: vec![RULE.to_owned()],
        at_version: over.then(|| TO.to_owned()),
        restored: over,
        held: vec![POOL.to_owned()],
        excused: if over {
            Vec::new()
        } else {
            behind.map(|row| row.node.clone()).collect()
        },
        retries: arguments.fault.is_some(),
        ..Judgement::default()
    };
    site.world.judge(&expected).await
}

/// The summary.
fn tell(site: &Site, course: &Course, look: &Look, breaches: &[Breach]) {
    let section = |title: &str, lines: Vec<String>| {
        if lines.is_empty() {
            return;
        }
        println!("{}", style(title).bold());
        for line in lines {
            println!("  {line}");
        }
        println!();
    };
    let nodes: Vec<String> = look.rows.iter().map(|row| row.node.clone()).collect();
    let spans = timeline::spans(&site.world.records());
    let times = summary::times(&spans, course.waits(), &nodes, jiff::Timestamp::now());
    if !times.is_empty() {
        let title = "where the time went (BEFORE, AFTER: its rules; NUMO: numo itself; TURN: all but WAITED)";
        section(title, summary::time_table(&times));
    }
    section("what was waited for", summary::wait_lines(course.waits()));
    let versions: BTreeMap<String, String> = look
        .rows
        .iter()
        .map(|row| (row.node.clone(), site.world.version_of(&row.node)))
        .collect();
    section("versions", summary::version_lines(&versions));
    let count = match breaches.len() {
        0 => style("0 breaches".to_owned()).green(),
        1 => style("1 breach".to_owned()).red(),
        more => style(format!("{more} breaches")).red(),
    };
    let mut lines = vec![format!(
        "{count} of safety rules, checked against the API server's records and not against what numo says"
    )];
    lines.extend(breaches.iter().map(ToString::to_string));
    section("judgement", lines);
}

fn what_to_try(site: &Site, fault: Option<Fault>) {
    let node = second_in_turn(site);
    println!();
    println!("everything is left up until Ctrl-C; in another terminal:");
    println!();
    println!("  export KUBECONFIG={}", site.kubeconfig.display());
    println!("  export PATH=\"{}:$PATH\"", numo_folder().display());
    println!("  kubectl get mutexrunconfigs,mutexrules,nodechanges -n {NAMESPACE}");
    println!("  kubectl get nodes,machineconfigpools");
    println!("  numo status");
    println!("  numo explain {node}");
    match fault {
        Some(Fault::RuleFails) => {
            println!("  numo skip {node}       # leaves it as it is, goes on with the others");
        }
        Some(Fault::NeverBack) => {
            println!("  numo skip {node}       # goes on with the others, and leaves it as it is");
        }
        Some(Fault::Cordoned) => println!("  kubectl uncordon {node}"),
        Some(Fault::PoolPaused) => {
            println!(
                "  kubectl patch machineconfigpool {POOL} --type merge -p '{{\"spec\":{{\"paused\":false}}}}'"
            );
        }
        _ => {}
    }
    println!("  numo stop          # nothing new begins, until: numo start");
    let upgrade = json!({"spec": {"desiredUpdate": {"version": "4.21.1"}}});
    println!("  kubectl patch clusterversion version --type merge \\\n    -p '{upgrade}'");
}

fn numo_folder() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    own.parent().map(PathBuf::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_not_said_is_said() {
        let said = "1 node failed: worker-1: the rule failed: exit code 3";
        let of = |text| unsaid(text, said);
        assert_eq!(
            of("the rule failed: exit code 3; retry or skip it"),
            "retry or skip it"
        );
        assert_eq!(of("the rule failed: exit code 3"), "");
        assert_eq!(of("the drain is blocked"), "the drain is blocked");
    }
}
