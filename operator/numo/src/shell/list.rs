//! One look at a cluster, by lists instead of watches: what the command line decides on. It sees what the
//! operator sees, as far as its user may.

use super::{
    claim::Judged,
    inbox::Inbox,
    kind::Kind,
    project::{self, Edition},
    rival,
    store::{Seen, Store},
    watch,
    watched::{self, FLEET_KINDS, Missing, Place, etcd_pod::KUBE_SYSTEM},
};
use crate::frontends;
use kube::{Client, core::DynamicObject};
use numo_api::{
    MutexRule, Reason,
    conditions::types::VALID_CONFIG,
    machines::{UPDATE_GROUP, UPDATE_VERSION},
};
use numo_core::{
    observed::{Key, Settings, Validity},
    quorum::OPENSHIFT_ETCD,
    rules::inline,
};
use std::{collections::BTreeSet, time::Duration};

/// Looks at everything a decision reads. What may not be seen is named in the second part.
pub async fn once(client: &Client, settings: Settings) -> Result<(Store, Vec<String>), kube::Error> {
    recorded(client, settings, &mut None).await
}

/// How the words end of what may not be seen.
pub const FORBIDDEN: &str = " (403)";

/// What was listed, as the API server gave it.
pub type Recording = Option<Vec<(Kind, String, DynamicObject)>>;

/// The same, with what was listed put down where that is wanted.
pub async fn recorded(
    client: &Client,
    settings: Settings,
    recording: &mut Recording,
) -> Result<(Store, Vec<String>), kube::Error> {
    let mut store = Store::new(settings);
    let mut unseen = Vec::new();
    let mut looking = Looking {
        store: &mut store,
        unseen: &mut unseen,
        recording,
    };
    for kind in watched::at(Place::Everywhere) {
        list(client, kind, "", &mut looking).await?;
    }
    if serves_machines(client).await? {
        for kind in FLEET_KINDS {
            list(client, kind, "", &mut looking).await?;
        }
        autoscalers(client, &mut looking).await?;
    }
    list(
        client,
        Kind::Lease,
        numo_api::marks::LEASE_NAMESPACE,
        &mut looking,
    )
    .await?;
    for namespace in [KUBE_SYSTEM, OPENSHIFT_ETCD] {
        list(client, Kind::EtcdPod, namespace, &mut looking).await?;
    }
    // The guard of etcd: the operator decides with it whether a control-plane node may go.
    list(client, Kind::DisruptionBudget, OPENSHIFT_ETCD, &mut looking).await?;
    for namespace in job_namespaces(looking.store) {
        for kind in watched::at(Place::RuleJobs) {
            list(client, kind, &namespace, &mut looking).await?;
        }
    }
    let plans = looking.store.observed.plans.keys();
    let with_plans: BTreeSet<String> = plans.map(|key| key.namespace.clone()).collect();
    for namespace in with_plans {
        for kind in watched::at(Place::PlanJobs) {
            list(client, kind, &namespace, &mut looking).await?;
        }
    }
    rivals(client, &mut looking).await?;
    give_room(client, &mut store).await?;
    settle(&mut store);
    Ok((store, unseen))
}

/// Every kind that a look may list.
pub fn kinds() -> impl Iterator<Item = Kind> {
    let more = [
        Kind::Autoscaler,
        Kind::Lease,
        Kind::EtcdPod,
        Kind::NodePod,
        Kind::DaemonSet,
        Kind::DisruptionBudget,
    ];
    let places = [
        Place::Everywhere,
        Place::RuleJobs,
        Place::PlanJobs,
        Place::Replaced,
    ];
    places
        .into_iter()
        .flat_map(watched::at)
        .chain(FLEET_KINDS)
        .chain(more)
}

/// Looks at the Deployments of cluster autoscalers that strategies name.
async fn autoscalers(client: &Client, looking: &mut Looking<'_>) -> Result<(), kube::Error> {
    for deployment in looking.store.observed.fleet.to_follow() {
        list(client, Kind::Autoscaler, &deployment.to_string(), looking).await?;
        looking.store.observed.fleet.followed.insert(deployment);
    }
    Ok(())
}

/// Whether the kinds of machines that are replaced are there: in most clusters they are not, and nobody is told that they may not be seen.
///
/// # Errors
/// If the API server does not say: nobody is to take a NodeVersion for gone that could not be seen.
async fn serves_machines(client: &Client) -> Result<bool, kube::Error> {
    let group = format!("{UPDATE_GROUP}/{UPDATE_VERSION}");
    match client.list_api_group_resources(&group).await {
        Ok(found) => Ok(!found.resources.is_empty()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Where rules run Jobs, and where Plans do: what keeps a Job there from having a pod is told by its Events too. What can be no namespace is
/// nobody's: whoever writes a rule would have the whole look fail.
fn job_namespaces(store: &Store) -> BTreeSet<String> {
    let rules = store.observed.rules.values();
    rules
        .filter(|rule| frontends::mutex_rule::is_namespace(&rule.job_namespace))
        .map(|rule| rule.job_namespace.clone())
        .chain(store.observed.plans.keys().map(|plan| plan.namespace.clone()))
        .collect()
}

/// Deals out the room for rules as the operator does, and reads those again that have some now. To be called when owners have come.
pub async fn give_room(client: &Client, store: &mut Store) -> Result<(), kube::Error> {
    loop {
        let dealt = store.give_room(numo_core::referred::rules(&store.observed));
        if dealt.to_read.is_empty() {
            return Ok(());
        }
        for key in dealt.to_read {
            if let Some((number, object)) = watch::read_one(client, Kind::MutexRule, &key).await? {
                store.see(Seen::Applied(Kind::MutexRule, number, object));
            }
        }
    }
}

/// Looks which operators that numo replaces are live.
async fn rivals(client: &Client, looking: &mut Looking<'_>) -> Result<(), kube::Error> {
    for kind in watched::at(Place::Replaced) {
        list(client, kind, "", looking).await?;
    }
    let store = &mut *looking.store;
    let claims = store.claims().map(|(key, claim)| (key.clone(), claim.clone()));
    for (key, claim) in claims.collect::<Vec<_>>() {
        let asked = store.asks_claim(&key);
        let judged = rival::judge(client, &key, &claim, jiff::Timestamp::now()).await;
        // Who may not ask believes it: that numo acts beside another operator is the worse mistake.
        let unknown = || Judged {
            may: true,
            lingers: None,
        };
        store.see(Seen::Claim(key, asked, judged.unwrap_or_else(unknown)));
    }
    let kured = store
        .kured()
        .map(|(key, kured)| (key.clone(), kured.account.clone()));
    for (key, account) in kured.collect::<Vec<_>>() {
        let may = super::probe::may_reboot(client, &key.namespace, &account).await;
        store.see(Seen::Kured(key, account, may.unwrap_or(true)));
    }
    Ok(())
}

/// Looks again which operators that numo replaces are live.
pub async fn look_for_rivals(client: &Client, store: &mut Store) -> Result<(), kube::Error> {
    store.forget_claims();
    let mut looking = Looking {
        store,
        unseen: &mut Vec::new(),
        recording: &mut None,
    };
    rivals(client, &mut looking).await
}

/// What is known of a look once all has been listed.
fn settle(store: &mut Store) {
    // Secrets are not looked at: the hash that is in the status stands for them.
    let plans: BTreeSet<String> = store
        .observed
        .plans
        .keys()
        .map(|key| key.namespace.clone())
        .collect();
    for namespace in plans {
        store.observed.unseen_secrets.insert(namespace, None);
    }
    let fleet = &mut store.observed.fleet;
    let followed = fleet.to_follow();
    fleet.followed.extend(followed);
    judge_by_status(store);
}

/// The look that was recorded. An object that cannot be read is passed over, as a watch would.
pub fn replayed(settings: Settings, recording: Vec<(Kind, String, DynamicObject)>) -> Store {
    let mut store = Store::new(settings);
    let nodes: BTreeSet<&String> = recording
        .iter()
        .filter(|(kind, ..)| *kind == Kind::NodePod)
        .map(|(_, node, _)| node)
        .collect();
    let nodes: Vec<String> = nodes.into_iter().cloned().collect();
    for node in &nodes {
        store.keep_pods(node);
        store.see(Seen::Listing(Kind::NodePod, node.clone()));
    }
    for (kind, _, object) in recording {
        let number = project::version(&object.metadata);
        if let Some(object) = watched::object(kind, &object) {
            store.see(Seen::Applied(kind, number, object));
        }
    }
    for node in nodes {
        store.see(Seen::Listed(Kind::NodePod, node));
    }
    let claims: Vec<_> = store.claims().map(|(key, _)| key.clone()).collect();
    for key in claims {
        let asked = store.asks_claim(&key);
        let judged = Judged {
            may: true,
            lingers: None,
        };
        store.see(Seen::Claim(key, asked, judged));
    }
    let kured = store
        .kured()
        .map(|(key, kured)| (key.clone(), kured.account.clone()));
    for (key, account) in kured.collect::<Vec<_>>() {
        store.see(Seen::Kured(key, account, true));
    }
    settle(&mut store);
    store
}

/// How long changes are gathered before anybody is told.
const GATHER: Duration = Duration::from_millis(200);

/// The same look, kept up to date by watches.
pub struct Following {
    /// What was seen.
    pub store: Store,
    client: Client,
    inbox: Inbox,
    watched: BTreeSet<(Kind, String)>,
}

impl Following {
    /// Begins to watch all but what [`once`] could not see.
    pub fn begin(client: &Client, settings: Settings, unseen: &[String]) -> Self {
        let mut following = Self {
            store: Store::new(settings),
            client: client.clone(),
            inbox: Inbox::new(),
            watched: BTreeSet::new(),
        };
        for kind in watched::at(Place::Everywhere).filter(|kind| is_seen(*kind, unseen)) {
            following.watch(kind, "");
        }
        following.watch(Kind::Lease, numo_api::marks::LEASE_NAMESPACE);
        if is_seen(Kind::DisruptionBudget, unseen) {
            following.watch(Kind::DisruptionBudget, OPENSHIFT_ETCD);
        }
        following
    }

    /// Watches machines that are replaced, too, but for what [`once`] could not see.
    pub fn watch_machines(&mut self, unseen: &[String]) {
        for kind in FLEET_KINDS.into_iter().filter(|kind| is_seen(*kind, unseen)) {
            self.watch(kind, "");
        }
    }

    fn watch(&mut self, kind: Kind, scope: &str) {
        if self.watched.insert((kind, scope.to_owned())) {
            self.store.expect(kind, scope);
            tokio::spawn(watch::watch(
                self.client.clone(),
                kind,
                scope.to_owned(),
                self.inbox.watched(),
            ));
        }
    }

    /// Waits until something has changed, and takes it in.
    pub async fn changed(&mut self) {
        let mut is_new = false;
        while !is_new {
            let Some(seen) = self.inbox.next().await else {
                return std::future::pending().await;
            };
            is_new = self.store.see(seen);
            tokio::time::sleep(GATHER).await;
            while let Some(seen) = self.inbox.take() {
                is_new |= self.store.see(seen);
            }
            self.extend();
            is_new &= self.store.is_complete();
            if is_new && let Err(error) = give_room(&self.client, &mut self.store).await {
                tracing::debug!(%error, "rules are not read again");
            }
        }
        judge_by_status(&mut self.store);
    }

    /// Watches the namespaces that rules and Plans have Jobs in, and the cluster autoscalers that strategies name.
    fn extend(&mut self) {
        for deployment in self.store.observed.fleet.to_follow() {
            self.watch(Kind::Autoscaler, &deployment.to_string());
            self.store.observed.fleet.followed.insert(deployment);
        }
        let rules = job_namespaces(&self.store);
        let observed = &mut self.store.observed;
        let plans: BTreeSet<String> = observed.plans.keys().map(|key| key.namespace.clone()).collect();
        for namespace in &plans {
            observed.unseen_secrets.insert(namespace.clone(), None);
        }
        for (namespaces, place) in [(rules, Place::RuleJobs), (plans, Place::PlanJobs)] {
            for namespace in namespaces {
                for kind in watched::at(place) {
                    self.watch(kind, &namespace);
                }
            }
        }
    }
}

/// Whether a kind is none of those that could not be seen.
fn is_seen(kind: Kind, unseen: &[String]) -> bool {
    let name = format!("{}: ", kind.resource().3);
    !unseen.iter().any(|words| words.starts_with(&name))
}

/// Looks at what a drain of these nodes would meet: their pods, and the budgets that speak of them.
pub async fn pods(
    client: &Client,
    store: &mut Store,
    nodes: &[String],
    recording: &mut Recording,
) -> Result<Vec<String>, kube::Error> {
    let mut unseen = Vec::new();
    let mut looking = Looking {
        store,
        unseen: &mut unseen,
        recording,
    };
    for kind in [Kind::DaemonSet, Kind::DisruptionBudget] {
        list(client, kind, "", &mut looking).await?;
    }
    for node in nodes {
        looking.store.keep_pods(node);
        looking.store.see(Seen::Listing(Kind::NodePod, node.clone()));
        let known = looking.unseen.len();
        list(client, Kind::NodePod, node, &mut looking).await?;
        if looking.unseen.len() > known {
            // What may not be seen is not taken for empty; asking again leads to nothing.
            looking.store.forget_pods(node);
            break;
        }
        looking.store.see(Seen::Listed(Kind::NodePod, node.clone()));
    }
    Ok(unseen)
}

/// A look that is being taken.
struct Looking<'l> {
    store: &'l mut Store,
    unseen: &'l mut Vec<String>,
    recording: &'l mut Recording,
}

async fn list(
    client: &Client,
    kind: Kind,
    scope: &str,
    looking: &mut Looking<'_>,
) -> Result<(), kube::Error> {
    let selection = kind.select(scope);
    let api = watch::items(client, kind, &selection.namespace);
    let mut params = selection.list().limit(kind.watched().page);
    loop {
        let page = match api.list(&params).await {
            Ok(page) => page,
            // Not every cluster has what is not numo's own.
            Err(kube::Error::Api(status)) if status.code == 404 && !is_own(kind) => {
                if let Missing::EmptyIfUnserved = kind.watched().missing {
                    let absent = Seen::Absent(kind, status.message.clone());
                    looking.store.see(absent);
                }
                return Ok(());
            }
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => {
                let name = kind.resource().3;
                let words = if status.code == 403 {
                    format!("{name}: {}{FORBIDDEN}", status.message)
                } else {
                    format!(
                        "{name}: this API server does not serve the kind; `numo doctor` says what to install"
                    )
                };
                looking.unseen.push(words);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for item in page.items {
            let number = project::version(&item.metadata);
            if let Some(recording) = looking.recording
                && let Ok(object) = item.read(kind)
            {
                recording.push((kind, scope.to_owned(), object));
            }
            if let Some(object) = watched::item(kind, &item) {
                looking.store.see(Seen::Applied(kind, number, object));
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}

/// Whether a kind comes with numo: that one is missing is told.
fn is_own(kind: Kind) -> bool {
    [numo_api::GROUP, numo_api::NUMO_GROUP].contains(&kind.resource().0)
}

/// A person need not be allowed to create Jobs to read why a node waits: the rule's own condition says
/// what the API server said to numo.
fn judge_by_status(store: &mut Store) {
    let judged: Vec<(Key, Edition, Validity)> = store
        .rules()
        .filter_map(|(key, rule)| {
            let conditions = rule.status.as_ref().map(|status| &status.conditions)?;
            let valid = conditions
                .iter()
                .find(|condition| condition.type_ == VALID_CONFIG)?;
            // Whether there is room is known here as it is there.
            if valid.reason.as_deref() == Some(Reason::NoRoom.name()) {
                return None;
            }
            let validity = if valid.status == "True" {
                Validity::Valid
            } else {
                Validity::Invalid(Reason::InvalidConfig, valid.message.clone().unwrap_or_default())
            };
            Some((key.clone(), project::edition(&rule.metadata), validity))
        })
        .collect();
    let of_runs: Vec<(Key, Edition, Validity)> = store
        .rules()
        .filter_map(|one| judged_in_run(store, one))
        .collect();
    for (key, edition, validity) in judged.into_iter().chain(of_runs) {
        store.judge(&key, edition, validity);
    }
}

/// What the status of its run says of a rule that stands in a run, if that is of the rule as it is now.
fn judged_in_run(store: &Store, (key, rule): (&Key, &MutexRule)) -> Option<(Key, Edition, Validity)> {
    let (run, name) = inline::parts(key)?;
    let run = store.observed.runs.get(&run)?;
    let edition = store.observed.rules.get(key)?.edition();
    let said = run
        .status
        .rules
        .iter()
        .find(|said| said.name == name && said.edition == edition)?;
    let validity = if said.ready {
        Validity::Valid
    } else {
        Validity::Invalid(Reason::InvalidConfig, said.message.clone().unwrap_or_default())
    };
    Some((key.clone(), project::edition(&rule.metadata), validity))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else `explain` says of a Job whose pods a policy refuses that its pod is about to start.
    #[test]
    fn events_of_jobs_are_looked_at_where_plans_have_theirs() {
        let plan = serde_json::json!({
            "apiVersion": "upgrade.cattle.io/v1", "kind": "Plan",
            "metadata": {"name": "p", "namespace": "system-upgrade"}, "spec": {"upgrade": {"image": "i"}},
        });
        let mut store = Store::new(Settings::default());
        let view = frontends::plan::view(serde_json::from_value(plan).unwrap());
        store.observed.plans.insert(view.key.clone(), view);
        assert!(job_namespaces(&store).contains("system-upgrade"));
        assert_eq!(Kind::JobEvent.watched().place, Place::RuleJobs);
    }
}
