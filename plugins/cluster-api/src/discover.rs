//! Lists the groups of a cluster. Groups of a control plane are none: numo does not manage KubeadmControlPlanes. Writes nothing, but ends a
//! hold that a crash has left (`hold`).

use crate::{
    config::Config,
    group::{Group, Kind, Loaded, READ},
    hold, pool,
};
use numo_provider_sdk::{
    Failure, FailureCode, NodeRole, ScalingGroup,
    host::{Host, Level},
    objects::{self, text},
};

/// Names of the role of workers, lower-case.
const WORKER: [&str; 2] = ["", "worker"];

/// All groups of the cluster with this uid. A group without a uid, or a call without one, is not compared.
pub fn groups(host: &impl Host, uid: &str) -> Result<Vec<ScalingGroup>, Failure> {
    let config = Config::read(host)?;
    let mut found = Vec::new();
    for namespace in &config.namespaces {
        of_kind(host, &config, (namespace, uid), Kind::Deployment, &mut found)?;
        if config.pools {
            of_kind(host, &config, (namespace, uid), Kind::Pool, &mut found)?;
        }
    }
    Ok(found)
}

fn of_kind(
    host: &impl Host,
    config: &Config,
    (namespace, uid): (&str, &str),
    kind: Kind,
    found: &mut Vec<ScalingGroup>,
) -> Result<(), Failure> {
    let query = config.query(kind.name(), namespace, String::new(), &READ);
    for value in objects::list(host, query)? {
        if text(&value, "/spec/clusterName") != config.cluster {
            continue;
        }
        let id = format!("{}/{namespace}/{}", kind.name(), text(&value, "/metadata/name"));
        let read = Group::parse(&id).and_then(|group| Loaded::of(group, value, config));
        match read {
            Ok(loaded) => add(host, config, uid, &loaded, found)?,
            // One group that cannot be managed does not hide the others.
            Err(failed) => host.write(Level::Warn, &failed.message),
        }
    }
    Ok(())
}

fn add(
    host: &impl Host,
    config: &Config,
    uid: &str,
    loaded: &Loaded,
    found: &mut Vec<ScalingGroup>,
) -> Result<(), Failure> {
    let own = loaded.note(&config.uid_key);
    let is_other = !uid.is_empty() && !own.is_empty() && !own.eq_ignore_ascii_case(uid);
    let role = loaded.note(&config.role_key).to_ascii_lowercase();
    if is_other || !WORKER.contains(&role.as_str()) {
        return Ok(());
    }
    if let Err(failed) = hold::finish(host, config, loaded) {
        host.write(Level::Warn, &failed.message);
    }
    if loaded.group.kind == Kind::Pool {
        match pool::check(host, config, loaded) {
            Err(failed) if failed.code == FailureCode::Unavailable => return Err(failed),
            Err(failed) => {
                host.write(Level::Warn, &failed.message);
                return Ok(());
            }
            Ok(()) => {}
        }
    }
    let group = &loaded.group;
    let node_group = match loaded.note(&config.node_group_key) {
        "" => group.name.as_str(),
        named => named,
    };
    found.push(ScalingGroup {
        name: group.object_name(),
        node_group_name: node_group.to_owned(),
        group_id: group.id(),
        autoscaling_group_name: group.autoscaler_name(),
        role: NodeRole::Worker,
        attributes: Vec::new(),
    });
    Ok(())
}
