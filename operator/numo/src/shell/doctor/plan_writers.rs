//! Says who may write Plans where they are watched. There is nothing to mend.

use super::{
    deployment::own_deployment,
    finding::{Findings, State},
};
use crate::shell::{
    client::Connection,
    plan_writers,
    told::{self, Told},
};
use k8s_openapi::{
    api::{
        core::v1::Namespace,
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, ResourceExt, api::ListParams};
use numo_api::marks;
use std::collections::BTreeSet;

/// Where Plans are watched: in numo's namespace, in those that it is told of, and in those with the label.
async fn plan_namespaces(connection: &Connection, namespace: &str) -> Result<BTreeSet<String>, kube::Error> {
    let deployment = own_deployment(connection, namespace).await?;
    let told = deployment.as_ref().map_or(Told::Nothing, |one| {
        told::told(one, "--plan-namespaces", "NUMO_PLAN_NAMESPACES")
    });
    let named = match &told {
        Told::This(text) => text.as_str(),
        Told::Nothing | Told::Elsewhere => told::PLAN_NAMESPACES,
    };
    let named = named.split(',').filter(|one| !one.is_empty());
    let mut all: BTreeSet<String> = named.map(ToOwned::to_owned).collect();
    let api: Api<Namespace> = Api::all(connection.read.clone());
    let labelled = ListParams::default().labels(&format!("{}=true", marks::PLANS_NAMESPACE));
    all.extend(api.list(&labelled).await?.items.iter().map(ResourceExt::name_any));
    all.insert(namespace.to_owned());
    Ok(all)
}

/// Roles and bindings, as far as they count in these namespaces.
async fn granted(
    connection: &Connection,
    namespaces: &BTreeSet<String>,
) -> Result<plan_writers::Granted, kube::Error> {
    let (client, params) = (&connection.read, ListParams::default());
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    let mut granted = plan_writers::Granted {
        cluster_roles: roles.list(&params).await?.items,
        cluster_bindings: bindings.list(&params).await?.items,
        ..plan_writers::Granted::default()
    };
    for namespace in namespaces {
        let roles: Api<Role> = Api::namespaced(client.clone(), namespace);
        let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), namespace);
        granted.roles.extend(roles.list(&params).await?.items);
        granted.bindings.extend(bindings.list(&params).await?.items);
    }
    Ok(granted)
}

/// Who may write Plans where they are watched: to be known, and nothing to mend.
pub(super) async fn writers_of_plans(connection: &Connection, namespace: &str, found: &mut Findings) {
    let api: Api<CustomResourceDefinition> = Api::all(connection.read.clone());
    if matches!(api.get_opt("plans.upgrade.cattle.io").await, Ok(None)) {
        return;
    }
    let namespaces = match plan_namespaces(connection, namespace).await {
        Ok(namespaces) => namespaces,
        Err(error) => return found.unknown("who may write Plans: where they are watched", &error),
    };
    match granted(connection, &namespaces).await {
        Ok(granted) => {
            let own = format!("{namespace}/numo");
            found.say(
                State::Note,
                plan_writers::sentence(&granted, &namespaces, &own),
                None,
            );
        }
        Err(error) => found.unknown("who may write Plans: roles and their bindings", &error),
    }
}
