//! A look at the cluster, and what the operator's own core decides on it: so the command line says the same as the
//! operator. Writes nothing.

use super::{
    cluster::ClusterArgs,
    error::{self, CliError},
    object::{Found, What},
    place::DEFAULT_NAMESPACE,
};
use crate::{
    frontends::{mutex_run_config, node_version, plan, standing::Standing},
    shell::{
        client::Connection,
        leader::{self, LEADER_LEASE},
        list::{self, Following},
        notice::Notice,
        store::Store,
    },
};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use numo_api::{
    Reason, Step,
    conditions::{Actor, types},
    marks,
    mutex_run_config::WaitCount,
};
use numo_core::{
    Decision, Owner, OwnerKind, Snapshot, decide,
    drain::DrainOptions,
    eta::{self, Eta},
    observed::{ChangeView, ForeignController, Key, MaintenanceView, Observed, Settings},
    report::{NodeReport, Report, Why},
    turn::journal,
    verdict::Answers,
};
use std::{collections::BTreeMap, time::Duration};

/// A look at the cluster with the decision for every run.
pub struct Look {
    /// What was seen.
    pub store: Store,
    /// The decisions for MutexRunConfigs.
    pub runs: Vec<(Key, Decision)>,
    /// The decisions for Plans.
    pub plans: Vec<(Key, Decision)>,
    /// The decisions for NodeVersions that numo serves.
    pub versions: Vec<(Key, Decision)>,
    /// What could not be seen.
    pub unseen: Vec<String>,
    /// That nobody acts on what was seen, in a sentence; none where a numo leads, or who leads may not be looked at.
    pub idle: Option<String>,
    /// The API server's time.
    pub now: Timestamp,
}

/// How often it is looked who leads, while something is followed.
const LEADS_AGAIN: Duration = Duration::from_secs(10);

/// As the operator is told by default; a namespace in which owners are not watched is its to judge: it says so in the
/// status.
pub fn settings() -> Settings {
    Settings {
        namespace: DEFAULT_NAMESPACE.to_owned(),
        only_looks: true,
        ..Settings::default()
    }
}

/// The same of an operator in this namespace: what names none means its own.
pub fn settings_in(namespace: String) -> Settings {
    Settings {
        namespace,
        ..settings()
    }
}

/// Looks at the cluster once.
pub async fn look(cluster: &ClusterArgs, verb: &str) -> Result<Look, CliError> {
    let (connection, _) = cluster.connect(verb).await?;
    look_by(&connection).await
}

impl Look {
    /// What acknowledges how the run of this owner ended, by what was seen of it just now.
    pub fn acknowledgement(&self, found: &Found, namespace: &str) -> Option<String> {
        let all = match found.what {
            What::Plan => &self.plans,
            What::Version => &self.versions,
            _ => &self.runs,
        };
        let name = found.object.metadata.name.as_deref().unwrap_or_default();
        let mut all = all
            .iter()
            .filter(|(key, _)| key.namespace == namespace && key.name == name);
        all.next().map(|(_, decision)| decision.report.acknowledgement())
    }
}

/// Looks at the cluster once, by this connection.
pub async fn look_by(connection: &Connection) -> Result<Look, CliError> {
    let leading = leading(connection).await;
    let settings = settings_in(leading.place());
    let (store, unseen) = list::once(&connection.read, settings)
        .await
        .map_err(error::api("looking at the cluster"))?;
    if let Some(words) = unseen.iter().find(|words| words.starts_with("nodes: ")) {
        return Err(CliError::Wrong(format!(
            "cannot look at the cluster: {words}; a cluster administrator grants the ClusterRole numo-viewer"
        )));
    }
    let mut store = store;
    leading.tell(&mut store.observed.settings);
    let mut look = Look::of(store, unseen, connection.clock.now());
    look.idle = leading.idle;
    Ok(look)
}

/// Says where nobody acts on what was said or seen.
pub async fn say_idle(connection: &Connection) {
    say_unmoved(leading(connection).await.idle.as_deref());
}

/// Says it of a look; it is talk, not data.
pub fn say_unmoved(idle: Option<&str>) {
    if let Some(idle) = idle {
        eprintln!("numo: {idle}");
    }
}

/// The namespace of the numo that leads, or led last; the usual one where nobody ever did, or that may not be seen.
pub async fn place(connection: &Connection) -> String {
    leading(connection).await.place()
}

/// Who leads, and what the one that leads says of itself.
#[derive(Default)]
struct Leading {
    /// That no numo leads, as far as that may be looked at.
    idle: Option<String>,
    /// What the one that leads, or led last, says that it knows.
    notice: Option<Notice>,
    /// The namespace of the one that leads, or led last.
    namespace: Option<String>,
}

impl Leading {
    /// Where numo is; the usual namespace where nobody ever led, or that may not be seen.
    fn place(&self) -> String {
        let known = self.namespace.clone();
        known.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
    }

    /// Has decisions depend on what only the operator knows.
    fn tell(&self, settings: &mut Settings) {
        if let Some(notice) = &self.notice {
            settings.leases_unavailable.clone_from(&notice.leases_unavailable);
        }
    }
}

async fn leading(connection: &Connection) -> Leading {
    let Ok(all) = leader::leases(&connection.read, LEADER_LEASE).await else {
        return Leading::default();
    };
    let now = connection.clock.now();
    let age = |lease: &&Lease| leader::age_seconds(lease, now).unwrap_or(i64::MAX);
    let last = all.iter().min_by_key(age);
    Leading {
        idle: idle(&all, now),
        notice: last.and_then(Notice::of),
        namespace: last.and_then(|lease| lease.metadata.namespace.clone()),
    }
}

fn idle(all: &[Lease], now: Timestamp) -> Option<String> {
    if all.iter().any(|lease| leader::is_alive(lease, now)) {
        return None;
    }
    let last = all
        .iter()
        .filter_map(|lease| leader::age_seconds(lease, now))
        .min();
    let since = last.map_or_else(
        || "none ever did".to_owned(),
        |age| format!("the last one was alive {} ago", numo_core::time::words(age)),
    );
    Some(format!(
        "no numo leads ({since}): nothing of this moves; `numo doctor` says more"
    ))
}

/// Whether every owner could be looked at, so that one that is not seen is gone.
pub fn sees_all_owners(unseen: &[String]) -> bool {
    const OWNERS: [&str; 4] = ["mutexrunconfigs", "plans", "nodemaintenances", "nodeversions"];
    !unseen
        .iter()
        .any(|words| words.ends_with(list::FORBIDDEN) && OWNERS.iter().any(|kind| words.starts_with(kind)))
}

/// That objects of a kind could not be looked at, if so: then nobody knows whether one is there.
pub fn hidden(unseen: &[String], what: What) -> Option<CliError> {
    let kind = format!("{}s: ", what.singular());
    let words = unseen.iter().find(|words| words.starts_with(&kind))?;
    let who = if words.ends_with(list::FORBIDDEN) {
        "; a cluster administrator grants the ClusterRole numo-viewer"
    } else {
        ""
    };
    Some(CliError::Wrong(format!("cannot look at {words}{who}")))
}

/// Looks at the cluster until nobody wants to know any more: `show` is told of each change, and at least every `tick`
/// where one is given, and says whether to go on.
pub async fn follow(
    connection: &Connection,
    tick: Option<Duration>,
    mut show: impl AsyncFnMut(&mut Look) -> Result<bool, CliError>,
) -> Result<(), CliError> {
    let mut first = look_by(connection).await?;
    if !show(&mut first).await? {
        return Ok(());
    }
    let mut unseen = first.unseen;
    let mut who = Leading {
        idle: first.idle,
        ..Leading::default()
    };
    let known = first.store.observed.settings.leases_unavailable.clone();
    let mut rivals = first.store.observed.foreign_controllers.clone();
    let mut asked = tokio::time::Instant::now();
    let settings = settings_in(first.store.observed.settings.namespace.clone());
    let mut following = Following::begin(&connection.read, settings, &unseen);
    if !first.store.observed.fleet.versions.is_empty() {
        following.watch_machines(&unseen);
    }
    loop {
        tokio::select! {
            () = following.changed() => {}
            () = tokio::time::sleep(tick.unwrap_or(Duration::MAX)), if tick.is_some() => {}
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
        if !following.store.is_complete() {
            continue;
        }
        if asked.elapsed() >= LEADS_AGAIN {
            who = leading(connection).await;
            let looked = list::look_for_rivals(&connection.read, &mut following.store).await;
            if looked.is_ok() {
                rivals.clone_from(&following.store.observed.foreign_controllers);
            }
            asked = tokio::time::Instant::now();
        }
        let settings = &mut following.store.observed.settings;
        settings.leases_unavailable.clone_from(&known);
        who.tell(settings);
        following.store.observed.foreign_controllers.clone_from(&rivals);
        let mut look = Look::of(
            std::mem::take(&mut following.store),
            unseen,
            connection.clock.now(),
        );
        look.idle.clone_from(&who.idle);
        let goes_on = show(&mut look).await?;
        Look {
            store: following.store,
            unseen,
            ..
        } = look;
        if !goes_on {
            return Ok(());
        }
    }
}

impl Look {
    /// The annotations of an owner.
    pub fn annotations(&self, owner: &Owner) -> Option<&BTreeMap<String, String>> {
        let observed = &self.store.observed;
        match owner.kind {
            OwnerKind::MutexRunConfig => observed.runs.get(&owner.key).map(|run| &run.annotations),
            OwnerKind::Plan => observed.plans.get(&owner.key).map(|plan| &plan.annotations),
            OwnerKind::NodeMaintenance(_) => observed.maintenances.get(owner).map(|view| &view.annotations),
            OwnerKind::NodeVersion => {
                let view = observed.fleet.versions.get(&owner.key.name);
                view.map(|view| &view.annotations)
            }
        }
    }

    /// The uid of a MutexRunConfig; empty if it was not seen.
    pub fn uid_of_run(&self, key: &Key) -> &str {
        let run = self.store.observed.runs.get(key);
        run.map_or("", |run| run.uid.as_str())
    }

    /// The uid of a Plan; empty if it was not seen.
    pub fn uid_of_plan(&self, key: &Key) -> &str {
        let plan = self.store.observed.plans.get(key);
        plan.map_or("", |plan| plan.uid.as_str())
    }

    /// The uid of a NodeVersion; empty if it was not seen.
    pub fn uid_of_version(&self, key: &Key) -> &str {
        let version = self.store.observed.fleet.versions.get(&key.name);
        version.map_or("", |version| version.uid.as_str())
    }

    /// The owners that are in namespaces: kind, key and uid.
    pub fn owners(&self) -> impl Iterator<Item = (What, &Key, &str)> {
        let runs = self
            .runs
            .iter()
            .map(|(key, _)| (What::Run, key, self.uid_of_run(key)));
        let plans = self
            .plans
            .iter()
            .map(|(key, _)| (What::Plan, key, self.uid_of_plan(key)));
        runs.chain(plans)
    }

    /// The journal of a node of a report.
    pub fn change_of(&self, node: &NodeReport) -> Option<&ChangeView> {
        let named = node.change.as_ref()?;
        let mut changes = self.store.observed.changes.values();
        changes.find(|change| change.key.to_string() == *named)
    }

    /// What is decided on what was seen.
    pub fn of(mut store: Store, unseen: Vec<String>, now: Timestamp) -> Self {
        let keys: Vec<Key> = store.observed.runs.keys().cloned().collect();
        store.observed.settings.run_namespaces = keys.iter().map(|key| key.namespace.clone()).collect();
        let plans: Vec<Key> = store.observed.plans.keys().cloned().collect();
        without_leases(&mut store.observed);
        store.observed.settings.plan_namespaces = plans.iter().map(|key| key.namespace.clone()).collect();
        let answers = Answers::default();
        let decided = |owner: &Owner| {
            let snapshot = Snapshot {
                now,
                observed: &store.observed,
                owner,
                asked: None,
            };
            decide(&snapshot, &answers)
        };
        let plans = plans.into_iter().map(|key| {
            let mut decision = decided(&Owner::plan(key.clone()));
            as_the_journal_has_it(&mut decision, &store.observed);
            (key, decision)
        });
        let plans = plans.collect();
        // One without a word of numo is served by another operator, or by nobody.
        let versions = store.observed.fleet.versions.values();
        let served = versions.filter(|view| {
            let mut all = view.status.conditions.iter();
            all.any(|condition| condition.type_ == types::READY)
        });
        let versions = served.map(|view| {
            let owner = Owner::node_version(view.name.as_str());
            let mut decision = decided(&owner);
            as_the_journal_has_it(&mut decision, &store.observed);
            (owner.key, decision)
        });
        let versions = versions.collect();
        let runs = keys.into_iter().map(|key| {
            let mut decision = decided(&Owner::run(key.clone()));
            let recorded = store
                .observed
                .runs
                .get(&key)
                .and_then(|run| run.status.run.as_ref());
            for wait in recorded.iter().flat_map(|run| &run.waiting) {
                what_only_the_operator_knows(&mut decision, wait);
            }
            as_the_journal_has_it(&mut decision, &store.observed);
            (key, decision)
        });
        let runs = runs.collect();
        Self {
            store,
            runs,
            plans,
            versions,
            unseen,
            idle: None,
            now,
        }
    }
}

/// Where the namespace of node leases is not there, none can be had, whether an operator has found that out or not.
fn without_leases(observed: &mut Observed) {
    let missing =
        !observed.namespaces.is_empty() && !observed.namespaces.contains_key(marks::LEASE_NAMESPACE);
    if missing && observed.settings.leases_unavailable.is_none() {
        let why = format!("Namespace {} is not there", marks::LEASE_NAMESPACE);
        observed.settings.leases_unavailable = Some(why);
    }
}

/// A node that the operator holds is held, whatever is decided here on less than the operator knows: the journal is what it
/// acts on. A directive that it has not obeyed yet is about to change that.
fn as_the_journal_has_it(decision: &mut Decision, observed: &Observed) {
    for node in decision.report.nodes.values_mut() {
        let named = node.change.as_deref().and_then(|named| named.split_once('/'));
        let change = named.and_then(|(namespace, name)| observed.changes.get(&Key::new(namespace, name)));
        let Some(change) = change else { continue };
        let status = &change.status;
        let obeyed = change.spec.directive.is_none()
            || status
                .observed_generation
                .is_some_and(|seen| seen >= change.generation);
        let by_itself = node.why.reason.who() == Actor::Numo;
        let held = status.step == Some(Step::Held) && obeyed && (node.step != Step::Held || by_itself);
        if held && let Some(reason) = journal::reason(change) {
            node.step = Step::Held;
            node.why = Why::new(reason, status.message.clone().unwrap_or_default());
        }
    }
}

/// A refused Job and a drain that would not pass are known to the operator alone: what it recorded takes
/// the place of "is starting" and "is being tried".
fn what_only_the_operator_knows(decision: &mut Decision, wait: &WaitCount) {
    let Some(reason) = Reason::named(&wait.reason) else {
        return;
    };
    let operators = reason.is_of_evaluation()
        || matches!(
            reason,
            Reason::RuleJobCannotStart
                | Reason::JobsForbidden
                | Reason::DrainBlocked
                | Reason::NodeLeaseHeld
                | Reason::WriteRefused
        );
    let Some(node) = decision.report.nodes.get_mut(&wait.node).filter(|_| operators) else {
        return;
    };
    let unsure = match reason {
        // What numo would write next it could not.
        Reason::WriteRefused => node.why.reason.who() == Actor::Numo || node.why.reason == Reason::Changing,
        _ => {
            matches!(
                node.why.reason,
                Reason::RuleStarting | Reason::RuleRunning | Reason::Draining | Reason::Changing
            ) && matches!(node.step, Step::PreRules | Step::PreRelease | Step::PostRules)
        }
    };
    if unsure {
        node.why = Why::new(reason, wait.message.clone());
    }
}

/// When an owner will be done; none where nobody leads and it is not.
pub fn eta(look: &Look, owner: &Owner, report: &Report) -> Option<Eta> {
    let eta = eta::eta(owner, report, &look.store.observed, look.now);
    (look.idle.is_none() || eta == Eta::Done).then_some(eta)
}

/// The words of [`eta`].
pub fn eta_words(eta: Option<&Eta>) -> String {
    eta.map_or_else(|| "not known: no numo leads".to_owned(), Eta::to_string)
}

/// How an owner's nodes are drained; none if they are not.
pub fn drain_options(observed: &Observed, owner: &Owner) -> Option<DrainOptions> {
    match owner.kind {
        OwnerKind::MutexRunConfig => Some(DrainOptions::of_machine_config()),
        OwnerKind::NodeMaintenance(_) => {
            let view = observed.maintenances.get(owner)?;
            Some(DrainOptions::of(view.spec.drain.as_ref()))
        }
        OwnerKind::NodeVersion => {
            let view = observed.fleet.versions.get(&owner.key.name)?;
            Some(numo_core::owners::node_version::drain_options(view, observed))
        }
        OwnerKind::Plan => numo_core::owners::plan::drain_options(observed.plans.get(&owner.key)?, observed),
    }
}

/// What a Plan waits for: as its status has it, and before that as it is decided here.
pub fn plan_words(look: &Look, key: &Key, report: &Report) -> Standing {
    let recorded = || {
        let view = look.store.observed.plans.get(key)?;
        let ready = view.status.conditions.iter().flatten();
        let ready = ready
            .into_iter()
            .find(|condition| condition.type_ == types::READY)?;
        let reason = Reason::ALL
            .iter()
            .find(|reason| ready.reason.as_deref() == Some(reason.name()))?;
        Some((*reason, ready.message.clone().unwrap_or_default()))
    };
    let decided = plan::standing(report);
    match stood_off(report).or_else(recorded) {
        Some(said) => with_who(said, decided),
        None => decided,
    }
}

/// What a NodeVersion waits for: as its status has it.
pub fn version_words(look: &Look, key: &Key, report: &Report) -> Standing {
    let recorded = || {
        let view = look.store.observed.fleet.versions.get(&key.name)?;
        let mut all = view.status.conditions.iter();
        let ready = all.find(|condition| condition.type_ == types::READY)?;
        let reason = Reason::named(ready.reason.as_deref()?)?;
        Some((reason, ready.message.clone().unwrap_or_default()))
    };
    let decided = node_version::standing(report);
    match stood_off(report).or_else(recorded) {
        Some(said) => with_who(said, decided),
        None => decided,
    }
}

/// What the run is doing: in the operator's own words where only it can know, as in `Ready`.
pub fn said(look: &Look, key: &Key, report: &Report) -> Standing {
    let recorded = || {
        let run = look.store.observed.runs.get(key)?;
        let ready = run
            .status
            .conditions
            .iter()
            .find(|condition| condition.type_ == types::READY)?;
        let reason = [
            Reason::NamespaceNotAllowed,
            Reason::WriteRefused,
            Reason::InvariantBreach,
        ]
        .into_iter()
        .find(|reason| ready.reason.as_deref() == Some(reason.name()))?;
        Some((reason, ready.message.clone().unwrap_or_default()))
    };
    let decided = mutex_run_config::standing(report);
    match stood_off(report).or_else(recorded) {
        Some(said) => with_who(said, decided),
        None => decided,
    }
}

/// What the operator said, to be ended by whoever ends it as things are decided here, where that is the same wait.
fn with_who((reason, message): (Reason, String), decided: Standing) -> Standing {
    if reason == decided.reason {
        let mut said = decided;
        said.message = message;
        said
    } else {
        Standing::from((reason, message))
    }
}

/// That an owner is left to the operator that numo replaces, if so: its status is what that one makes of it.
fn stood_off(report: &Report) -> Option<(Reason, String)> {
    let hold = report.hold.as_ref();
    let why = hold.filter(|why| why.reason == Reason::ForeignController)?;
    Some((why.reason, why.message.to_string()))
}

/// What a maintenance waits for, in the operator's own words: reason and sentence.
pub fn maintenance_words(look: &Look, view: &MaintenanceView) -> (Option<Reason>, String) {
    let observed = &look.store.observed;
    if let Some(why) = observed.stood_off(ForeignController::NodeMaintenance) {
        // What the journal says of the node has its way back.
        let mut turns = observed.turns();
        let turn = turns.find(|change| change.spec.owner_ref.uid == view.uid);
        let said = turn.filter(|turn| turn.status.reason.as_deref() == Some(why.reason.name()));
        let said = said.and_then(|turn| turn.status.message.clone());
        return (Some(why.reason), said.unwrap_or_else(|| why.message.to_string()));
    }
    let ready = view
        .status
        .conditions
        .iter()
        .find(|condition| condition.type_ == types::READY);
    let Some(ready) = ready else {
        return (None, "numo has not looked at it yet".to_owned());
    };
    let reason = Reason::ALL
        .iter()
        .find(|reason| ready.reason.as_deref() == Some(reason.name()));
    (reason.copied(), ready.message.clone().unwrap_or_default())
}

/// How long ago, as kubectl writes it.
pub fn ago(since: Option<&str>, now: Timestamp) -> String {
    let Some(at) = since.and_then(|since| since.parse::<Timestamp>().ok()) else {
        return "-".to_owned();
    };
    let seconds = (now.as_second() - at.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}
