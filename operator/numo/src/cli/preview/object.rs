//! The owner that the command line names.

use crate::{
    cli::{
        error::CliError,
        live,
        object::{ObjectArg, What},
    },
    shell::store::Store,
};
use numo_core::{
    Owner,
    observed::{Key, Observed},
};

pub(super) fn owner_of(
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
        What::Version => {
            let owner = Owner::node_version(object.name.as_str());
            observed.uid_of(&owner).is_some().then_some(owner)
        }
        _ => {
            return Err(CliError::Usage(format!(
                "found {}/{}, wanted mutexrunconfig/NAME, plan/NAME, nodemaintenance/NAME, nodeversion/NAME or mutexrule/NAME",
                what.singular(),
                object.name
            )));
        }
    };
    if found.is_none()
        && let Some(hidden) = live::hidden(unseen, what)
    {
        return Err(hidden);
    }
    found.ok_or_else(|| not_found(observed, what, object, namespace))
}

/// The error of an owner that is not there: it says where one of that name is.
fn not_found(observed: &Observed, what: What, object: &ObjectArg, namespace: &str) -> CliError {
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
        "`numo status -A` lists all, -f FILE previews a manifest".to_owned()
    } else {
        format!("there is one by -n {}", elsewhere.join(", -n "))
    };
    CliError::Usage(format!(
        "found no {} {}{place}; {hint}",
        what.singular(),
        object.name
    ))
}
