//! KIND/NAME on the command line: which kinds there are, by all their names, and the owner that is meant.

use super::error::{self, CliError};
use crate::{
    frontends::node_version,
    shell::{client::Connection, project::Kind, watch},
};
use kube::{api::ListParams, core::DynamicObject, discovery::ApiResource};
use serde_json::Value;
use std::str::FromStr;

/// What can be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A Node.
    Node,
    /// A MutexRunConfig.
    Run,
    /// A Plan.
    Plan,
    /// A NodeMaintenance, of either group.
    Maintenance,
    /// A NodeVersion.
    Version,
    /// A MutexRule.
    Rule,
    /// A MutexTarget.
    Target,
    /// A MutexBudget.
    Budget,
    /// A MutexWindow.
    Window,
    /// A MutexNotifier.
    Notifier,
    /// A MutexBinding.
    Binding,
    /// A reason: its sentence, without a cluster.
    Reason,
}

impl What {
    /// Every kind.
    pub const ALL: [Self; 12] = [
        Self::Node,
        Self::Run,
        Self::Plan,
        Self::Maintenance,
        Self::Version,
        Self::Rule,
        Self::Target,
        Self::Budget,
        Self::Window,
        Self::Notifier,
        Self::Binding,
        Self::Reason,
    ];

    /// The kind as it is written, singular.
    pub const fn singular(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Run => "mutexrunconfig",
            Self::Plan => "plan",
            Self::Maintenance => "nodemaintenance",
            Self::Version => "nodeversion",
            Self::Rule => "mutexrule",
            Self::Target => "mutextarget",
            Self::Budget => "mutexbudget",
            Self::Window => "mutexwindow",
            Self::Notifier => "mutexnotifier",
            Self::Binding => "mutexbinding",
            Self::Reason => "reason",
        }
    }

    const fn short(self) -> &'static [&'static str] {
        match self {
            Self::Node => &["no"],
            Self::Run => &["mrc", "run"],
            Self::Plan | Self::Version | Self::Reason => &[],
            Self::Maintenance => &["nm"],
            Self::Rule => &["mr", "rule"],
            Self::Target => &["mt", "target"],
            Self::Budget => &["mbud", "budget"],
            Self::Window => &["mwin", "window"],
            Self::Notifier => &["mnot", "notifier"],
            Self::Binding => &["mbind", "binding"],
        }
    }

    /// The kinds whose objects change nodes.
    pub const fn is_owner(self) -> bool {
        matches!(self, Self::Run | Self::Plan | Self::Maintenance | Self::Version)
    }

    /// The API's kinds, the usual one first.
    pub const fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Node => &[Kind::Node],
            Self::Run => &[Kind::MutexRunConfig],
            Self::Plan => &[Kind::Plan],
            Self::Maintenance => &[Kind::NodeMaintenance, Kind::KubeVirtMaintenance],
            Self::Version => &[Kind::NodeVersion],
            Self::Rule => &[Kind::MutexRule],
            Self::Target => &[Kind::MutexTarget],
            Self::Budget => &[Kind::MutexBudget],
            Self::Window => &[Kind::MutexWindow],
            Self::Notifier => &[Kind::MutexNotifier],
            Self::Binding => &[Kind::MutexBinding],
            Self::Reason => &[],
        }
    }

    /// Whether objects of the kind are in namespaces.
    pub const fn is_namespaced(self) -> bool {
        matches!(self, Self::Run | Self::Plan | Self::Rule | Self::Target)
    }
}

/// Kinds of numo's that no verb takes by their name, and what tells of them.
const ELSEWHERE: [(&[&str], &str); 2] = [
    (
        &["mutexapproval", "mutexapprovals", "mapr"],
        "; `numo approve --list -A` shows what waits for approval, and MutexApprovals that do not hold",
    ),
    (
        &["nodechange", "nodechanges", "nc"],
        "; `numo explain NODE` shows the journal of a node",
    ),
];

impl What {
    /// The kind of this name; the error names those that a verb takes.
    fn parse(given: &str, wanted: &[Self]) -> Result<Self, String> {
        let lower = given.to_lowercase();
        // kubectl writes plans.upgrade.cattle.io, and so may a person.
        let word = lower.split('.').next().unwrap_or_default();
        let is = |what: &Self| {
            let singular = what.singular();
            word == singular || word.strip_suffix('s') == Some(singular) || what.short().contains(&word)
        };
        Self::ALL.into_iter().find(is).ok_or_else(|| {
            let all: Vec<&str> = wanted.iter().map(|what| what.singular()).collect();
            let elsewhere = ELSEWHERE.iter().find(|(names, _)| names.contains(&word));
            let instead = elsewhere.map_or("", |(_, instead)| *instead);
            format!("found kind {given}, wanted {}{instead}", all.join(", "))
        })
    }
}

impl FromStr for What {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        Self::parse(given, &Self::ALL)
    }
}

/// KIND/NAME, or NAME alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectArg {
    /// The kind, where it was given.
    pub what: Option<What>,
    /// The name.
    pub name: String,
}

/// The kinds of owners.
const OWNERS: [What; 4] = [What::Run, What::Plan, What::Maintenance, What::Version];

impl ObjectArg {
    /// As a verb takes it that is about an owner.
    pub fn of_owner(given: &str) -> Result<Self, String> {
        Self::parse(given, &OWNERS)
    }

    /// As a verb takes it that is about an upgrade.
    pub fn of_upgrade(given: &str) -> Result<Self, String> {
        Self::parse(given, &[What::Run, What::Plan])
    }

    /// As `numo acknowledge` takes it.
    pub fn of_acknowledgement(given: &str) -> Result<Self, String> {
        Self::parse(given, &[What::Run, What::Plan, What::Version])
    }

    /// As `numo approve` takes it.
    pub fn of_approval(given: &str) -> Result<Self, String> {
        Self::parse(given, &OWNERS)
    }

    /// As `numo preview` takes it.
    pub fn of_preview(given: &str) -> Result<Self, String> {
        let owners = OWNERS.into_iter();
        let all: Vec<What> = owners.chain([What::Rule]).collect();
        Self::parse(given, &all)
    }

    /// As a verb takes it that is about a node.
    pub fn of_node(given: &str) -> Result<Self, String> {
        Self::parse(given, &[What::Node])
    }

    /// As `numo retry` takes it.
    pub fn of_retry(given: &str) -> Result<Self, String> {
        Self::parse(given, &[What::Node, What::Run])
    }

    /// A kind that nothing has is an error that names the `wanted` ones; one that this verb does not take is the verb's to refuse,
    /// which knows the way on.
    fn parse(given: &str, wanted: &[What]) -> Result<Self, String> {
        let (what, name) = match given.split_once('/') {
            None => (None, given),
            Some((kind, name)) => (Some(What::parse(kind, wanted)?), name),
        };
        if name.is_empty() || name.contains('/') {
            return Err(format!("found {given:?}, wanted NAME or KIND/NAME"));
        }
        Ok(Self {
            what,
            name: name.to_owned(),
        })
    }
}

impl FromStr for ObjectArg {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        Self::parse(given, &What::ALL)
    }
}

/// An owner as the API server has it.
#[derive(Debug)]
pub struct Found {
    /// What it is.
    pub what: What,
    /// Its kind.
    pub kind: Kind,
    /// Its kind, as the API has it.
    pub resource: ApiResource,
    /// The object.
    pub object: DynamicObject,
}

impl Found {
    /// As kubectl names it.
    pub fn name(&self) -> String {
        let name = self.object.metadata.name.as_deref().unwrap_or_default();
        format!("{}/{name}", self.what.singular())
    }

    /// Id of the run that a MutexRunConfig has in its status, of the upgrade that a Plan is at, or of what a NodeVersion asks for; none
    /// before the first.
    pub fn run_id(&self) -> Option<String> {
        if self.what == What::Version {
            return version_run_id(&self.object);
        }
        let text = |path: &str| self.object.data.pointer(path).and_then(Value::as_str);
        if self.what == What::Plan {
            let uid = self.object.metadata.uid.as_deref().unwrap_or_default();
            return text("/status/latestHash").map(|hash| numo_core::owners::plan::run_id(uid, hash));
        }
        text("/status/run/id").map(ToOwned::to_owned)
    }

    /// The flag that names its namespace, after a command; empty if it has none.
    pub fn place(&self) -> String {
        match self.namespace() {
            "" => String::new(),
            namespace => format!(" -n {namespace}"),
        }
    }

    /// Its namespace; empty if it has none.
    pub fn namespace(&self) -> &str {
        self.object.metadata.namespace.as_deref().unwrap_or_default()
    }
}

/// Id of what a NodeVersion asks for; none if it cannot be read.
pub fn version_run_id(object: &DynamicObject) -> Option<String> {
    let version = serde_json::to_value(object).ok()?;
    let view = node_version::view(serde_json::from_value(version).ok()?);
    Some(numo_core::owners::node_version::run_id(&view))
}

impl ObjectArg {
    /// The kind of owner that is meant; a name alone is a MutexRunConfig's.
    ///
    /// # Errors
    /// If it is another kind of object; a node is held, and not paused.
    pub fn owner_kind(&self) -> Result<What, CliError> {
        let what = self.what.unwrap_or(What::Run);
        if what.is_owner() {
            return Ok(what);
        }
        let instead = match what {
            What::Node => format!("; `numo hold {}` keeps one node where it is", self.name),
            _ => String::new(),
        };
        Err(CliError::Usage(format!(
            "found {}/{}, wanted mutexrunconfig/NAME, plan/NAME, nodemaintenance/NAME or nodeversion/NAME{instead}",
            what.singular(),
            self.name
        )))
    }

    /// The owner that is meant; a name alone is a MutexRunConfig's.
    pub async fn owner(&self, connection: &Connection, namespace: &str) -> Result<Found, CliError> {
        let what = self.owner_kind()?;
        let namespace = if what.is_namespaced() { namespace } else { "" };
        let mut refused = None;
        for kind in what.kinds() {
            let found = watch::api(&connection.read, *kind, namespace)
                .get(&self.name)
                .await;
            match found {
                Ok(object) => {
                    return Ok(Found {
                        what,
                        kind: *kind,
                        resource: watch::resource(*kind),
                        object,
                    });
                }
                Err(error) => {
                    let place = if namespace.is_empty() {
                        String::new()
                    } else {
                        format!(" in namespace {namespace}")
                    };
                    let doing = format!("{}/{}{place}", what.singular(), self.name);
                    let error = error::api(doing)(error);
                    // The usual group's word counts, unless that is not installed.
                    if refused.is_none() || matches!(refused, Some(CliError::NotServed { .. })) {
                        refused = Some(error);
                    }
                }
            }
        }
        if !namespace.is_empty()
            && let Some(places) = self.elsewhere(connection, what).await
        {
            return Err(CliError::Usage(format!(
                "found no {}/{} in namespace {namespace}; there is one by {places}",
                what.singular(),
                self.name
            )));
        }
        Err(refused.unwrap_or_else(|| CliError::Usage(format!("found no {}", self.name))))
    }

    /// Namespaces that have an object of this name, as flags, as far as that may be seen.
    async fn elsewhere(&self, connection: &Connection, what: What) -> Option<String> {
        let params = ListParams::default().fields(&format!("metadata.name={}", self.name));
        let kind = what.kinds().first()?;
        let all = watch::api(&connection.read, *kind, "").list(&params).await.ok()?;
        let places = all
            .items
            .into_iter()
            .filter_map(|object| object.metadata.namespace);
        let flags: Vec<String> = places.take(3).map(|place| format!("-n {place}")).collect();
        (!flags.is_empty()).then(|| flags.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_owner_is_refused_with_the_way_on() {
        let kind = |given: &str| given.parse::<ObjectArg>().unwrap().owner_kind();
        assert_eq!(kind("upgrade").unwrap(), What::Run);
        assert_eq!(kind("plan/os").unwrap(), What::Plan);
        let refused = kind("node/worker-1").unwrap_err().to_string();
        assert!(
            refused.contains("wanted mutexrunconfig/NAME") && refused.contains("`numo hold worker-1`"),
            "{refused}"
        );
        let refused = kind("mutexrule/one").unwrap_err().to_string();
        assert!(!refused.contains("hold"), "{refused}");
    }

    #[test]
    fn kinds_have_all_their_names() {
        for (given, wanted) in [
            ("node", What::Node),
            ("nodes", What::Node),
            ("no", What::Node),
            ("MutexRunConfig", What::Run),
            ("run", What::Run),
            ("plans.upgrade.cattle.io", What::Plan),
            ("nm", What::Maintenance),
            ("nodemaintenances", What::Maintenance),
            ("mutexbudgets", What::Budget),
            ("mutexwindows", What::Window),
            ("mutexbindings", What::Binding),
        ] {
            assert_eq!(given.parse(), Ok(wanted), "{given}");
        }
        // As kubectl takes them.
        for crd in numo_api::crds::all() {
            let names = crd.spec.names;
            // Another verb or another name tells of these, and the error says which.
            if ["NodeChange", "MutexApproval"].contains(&names.kind.as_str()) {
                let short = names.short_names.unwrap_or_default();
                for name in [names.plural, names.kind].iter().chain(&short) {
                    let refused = name.parse::<What>().unwrap_err();
                    assert!(refused.contains("; `numo "), "{refused}");
                }
                continue;
            }
            let wanted: What = names.plural.parse().unwrap();
            for short in names.short_names.unwrap_or_default() {
                assert_eq!(short.parse(), Ok(wanted), "{short}");
            }
        }
        let refused = "pod".parse::<What>().unwrap_err();
        assert!(
            refused.contains("found kind pod, wanted node, mutexrunconfig"),
            "{refused}"
        );
        for bad in ["", "node/", "a/b/c", "plan/a/b"] {
            assert!(bad.parse::<ObjectArg>().is_err(), "{bad}");
        }
        for (refused, wanted) in [
            (
                ObjectArg::of_owner("foo/bar"),
                "mutexrunconfig, plan, nodemaintenance, nodeversion",
            ),
            (ObjectArg::of_upgrade("foo/bar"), "mutexrunconfig, plan"),
            (
                ObjectArg::of_acknowledgement("foo/bar"),
                "mutexrunconfig, plan, nodeversion",
            ),
            (
                ObjectArg::of_preview("foo/bar"),
                "mutexrunconfig, plan, nodemaintenance, nodeversion, mutexrule",
            ),
            (ObjectArg::of_node("foo/bar"), "node"),
            (ObjectArg::of_retry("foo/bar"), "node, mutexrunconfig"),
        ] {
            assert_eq!(refused, Err(format!("found kind foo, wanted {wanted}")));
        }
        let name: ObjectArg = "worker-1".parse().unwrap();
        assert_eq!((name.what, name.name.as_str()), (None, "worker-1"));
    }
}
