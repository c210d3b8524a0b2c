//! Checks that NodeVersions are served where that was asked for: by the flag, the five definitions and the ClusterRole of the component
//! `node-version` together.

use super::{
    deployment::own_deployment,
    finding::{Findings, State, counted},
};
use crate::shell::{
    client::Connection,
    told::{self, Told},
};
use k8s_openapi::{
    api::{apps::v1::Deployment, rbac::v1::ClusterRole},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, ResourceExt};

/// The ClusterRole of the component.
const ROLE: &str = "numo-node-version";
/// What installs definitions and ClusterRole.
const COMPONENT: &str =
    "add the component deploy/kustomize/components/node-version to the overlay of numo and apply it";

/// What numo was told of a provider of machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    No,
    Yes,
    /// It is told elsewhere, or runs elsewhere.
    Unknown,
}

impl Asked {
    fn of(deployment: Option<&Deployment>) -> Self {
        let Some(deployment) = deployment else {
            return Self::Unknown;
        };
        match told::told(deployment, "--machine-provider", "NUMO_MACHINE_PROVIDER") {
            Told::Nothing => Self::No,
            Told::This(text) if ["", "off"].contains(&text.trim()) => Self::No,
            Told::This(_) => Self::Yes,
            Told::Elsewhere => Self::Unknown,
        }
    }
}

/// What of the component is there.
#[derive(Clone, Copy, Debug)]
struct Installed<'a> {
    /// Definitions that are not there.
    missing: &'a [String],
    /// How many there are to be.
    all: usize,
    has_role: bool,
}

/// Whether NodeVersions are served where that was asked for.
pub(super) async fn machines(connection: &Connection, namespace: &str, found: &mut Findings) {
    let deployment = match own_deployment(connection, namespace).await {
        Ok(deployment) => deployment,
        Err(error) => return found.unknown("whether numo was told of a provider of machines", &error),
    };
    let definitions: Api<CustomResourceDefinition> = Api::all(connection.read.clone());
    let wanted = numo_api::crds::machines();
    let mut missing = Vec::new();
    for one in &wanted {
        let name = one.name_any();
        match definitions.get_opt(&name).await {
            Ok(Some(_)) => {}
            Ok(None) => missing.push(name),
            Err(error) => return found.unknown(&format!("CustomResourceDefinition {name}"), &error),
        }
    }
    let roles: Api<ClusterRole> = Api::all(connection.read.clone());
    let has_role = match roles.get_opt(ROLE).await {
        Ok(role) => role.is_some(),
        Err(error) => return found.unknown(&format!("ClusterRole {ROLE}"), &error),
    };
    let installed = Installed {
        missing: &missing,
        all: wanted.len(),
        has_role,
    };
    if let Some((state, message, cure)) = judge(Asked::of(deployment.as_ref()), installed) {
        found.say(state, message, cure);
    }
}

/// What is to be said of it; nothing where nobody asks for NodeVersions.
fn judge(asked: Asked, installed: Installed<'_>) -> Option<(State, String, Option<String>)> {
    let Installed {
        missing,
        all,
        has_role,
    } = installed;
    let (has_none, has_all) = (missing.len() == all, missing.is_empty());
    let mut lacks = Vec::new();
    if !has_all {
        let number = counted(missing.len(), "definition");
        lacks.push(format!("{number} ({})", missing.join(", ")));
    }
    if !has_role {
        lacks.push(format!("ClusterRole {ROLE}"));
    }
    let lacks = lacks.join(" and ");
    match asked {
        Asked::Yes if lacks.is_empty() => {
            let message =
                "NodeVersions are served: --machine-provider is set, and the component node-version is there";
            Some((State::Ok, message.to_owned(), None))
        }
        Asked::Yes => {
            let message = format!(
                "numo was started with --machine-provider, and does not find {lacks}: it serves no NodeVersion"
            );
            Some((State::Wrong, message, Some(COMPONENT.to_owned())))
        }
        // Nobody has asked for them.
        Asked::No | Asked::Unknown if has_none && !has_role => None,
        Asked::No if !has_none => {
            let without = if has_role {
                String::new()
            } else {
                format!(" and there is no ClusterRole {ROLE}")
            };
            let message = format!(
                "the definitions of NodeVersions are there, but numo was started without --machine-provider{without}: numo serves no \
                 NodeVersion"
            );
            let cure = "nothing is to be done if another operator serves them; else start numo with --machine-provider and the component \
                        deploy/kustomize/components/node-version, or delete the definitions";
            Some((State::Note, message, Some(cure.to_owned())))
        }
        Asked::No | Asked::Unknown if lacks.is_empty() => None,
        Asked::No | Asked::Unknown => {
            let message = format!(
                "the component node-version is there in part, without {lacks}: numo serves no NodeVersion"
            );
            let cure = format!("{COMPONENT}; nothing is to be done if another operator serves NodeVersions");
            Some((State::Note, message, Some(cure)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn with(args: &Value, env: &Value) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"name": "numo"},
            "spec": {"selector": {}, "template": {"spec": {"containers": [
                {"name": "numo", "args": args, "env": env},
            ]}}},
        }))
        .unwrap()
    }

    #[test]
    fn the_deployment_says_whether_machines_are_replaced() {
        let of = |args: Value, env: Value| Asked::of(Some(&with(&args, &env)));
        let variable = |value: &str| json!([{"name": "NUMO_MACHINE_PROVIDER", "value": value}]);
        assert_eq!(of(json!(["run"]), json!([])), Asked::No);
        assert_eq!(
            of(json!(["run", "--machine-provider", "off"]), json!([])),
            Asked::No
        );
        assert_eq!(
            of(json!(["run", "--machine-provider=sim"]), json!([])),
            Asked::Yes
        );
        assert_eq!(of(json!(["run"]), variable("sim")), Asked::Yes);
        let elsewhere = json!([{
            "name": "NUMO_MACHINE_PROVIDER",
            "valueFrom": {"configMapKeyRef": {"name": "numo", "key": "provider"}},
        }]);
        assert_eq!(of(json!(["run"]), elsewhere), Asked::Unknown);
        assert_eq!(Asked::of(None), Asked::Unknown);
    }

    /// The state of what is said, and the message; nothing where nothing is.
    fn said(asked: Asked, missing: &[String], has_role: bool) -> String {
        let installed = Installed {
            missing,
            all: 2,
            has_role,
        };
        judge(asked, installed).map_or_else(String::new, |(state, message, cure)| {
            assert_eq!(cure.is_none(), state == State::Ok, "{message}");
            format!("{state:?}: {message}")
        })
    }

    #[test]
    fn what_was_asked_for_and_is_not_there_is_wrong_and_the_other_way_round_is_told() {
        let names = ["a", "b"].map(ToOwned::to_owned);
        let (none, one) = (&names[..], &names[..1]);
        let (both, lacks) = ("2 definitions (a, b)", "1 definition (a)");
        let role = "ClusterRole numo-node-version";
        let wrong = "Wrong: numo was started with --machine-provider, and does not find";
        let in_part = "Note: the component node-version is there in part, without";
        let off = "Note: the definitions of NodeVersions are there, but numo was started without --machine-provider";
        for (asked, missing, has_role, wanted) in [
            (
                Asked::Yes,
                &[][..],
                true,
                "Ok: NodeVersions are served".to_owned(),
            ),
            (Asked::Yes, none, false, format!("{wrong} {both} and {role}: ")),
            (Asked::Yes, one, true, format!("{wrong} {lacks}: ")),
            (Asked::Yes, &[], false, format!("{wrong} {role}: ")),
            (Asked::No, none, true, format!("{in_part} {both}: ")),
            (Asked::No, &[], true, format!("{off}: ")),
            (Asked::No, &[], false, format!("{off} and there is no {role}: ")),
            (Asked::No, one, false, off.to_owned()),
            (Asked::Unknown, &[], false, format!("{in_part} {role}: ")),
            (Asked::Unknown, one, true, format!("{in_part} {lacks}: ")),
        ] {
            let found = said(asked, missing, has_role);
            assert!(found.starts_with(&wanted), "wanted {wanted}, found {found}");
        }
        for (asked, missing, has_role) in [
            (Asked::No, none, false),
            (Asked::Unknown, none, false),
            (Asked::Unknown, &[], true),
        ] {
            assert_eq!(said(asked, missing, has_role), "");
        }
    }
}
