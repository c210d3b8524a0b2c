//! Checks that NodeVersions are served where that was asked for: by the flag, the five definitions and the ClusterRole of the component
//! `node-version` together, and that a provider which is a component has its configuration.

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
const COMPONENT: &str = "add the component deploy/kustomize/components/node-version to the overlay of numo and apply it; with OLM apply \
     deploy/olm/examples/node-version-definitions.yaml and node-version.yaml";

/// What numo was told of a provider of machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    No,
    Yes,
    /// Flag and configuration do not fit: numo does not start.
    Unfit(Unfit),
    /// It is told elsewhere, or runs elsewhere.
    Unknown,
}

/// How flag and configuration do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unfit {
    /// A component without a configuration.
    NoConfig,
    /// A configuration, and no component.
    NoComponent,
}

impl Unfit {
    /// What was found, and what ends it.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::NoConfig => (
                "numo was told --machine-provider component and no --machine-provider-config: it does not start",
                "set --machine-provider-config (NUMO_MACHINE_PROVIDER_CONFIG) to a file that is mounted; the component \
                 deploy/kustomize/components/node-version-component and the value machines.config of the chart do both",
            ),
            Self::NoComponent => (
                "numo was told --machine-provider-config without --machine-provider component: it does not start",
                "set --machine-provider (NUMO_MACHINE_PROVIDER) to component, or take --machine-provider-config away",
            ),
        }
    }
}

impl Asked {
    fn of(deployment: Option<&Deployment>) -> Self {
        let Some(deployment) = deployment else {
            return Self::Unknown;
        };
        let provider = told::told(deployment, "--machine-provider", "NUMO_MACHINE_PROVIDER");
        let config = told::told(
            deployment,
            "--machine-provider-config",
            "NUMO_MACHINE_PROVIDER_CONFIG",
        );
        let provider = match provider {
            Told::Elsewhere => return Self::Unknown,
            Told::Nothing => String::new(),
            Told::This(text) => text,
        };
        let has_config = match config {
            Told::Nothing => Some(false),
            Told::This(file) => Some(!file.is_empty()),
            Told::Elsewhere => None,
        };
        let provider = provider.trim();
        let is_component = provider == "component";
        match has_config {
            Some(false) if is_component => Self::Unfit(Unfit::NoConfig),
            Some(true) if !is_component => Self::Unfit(Unfit::NoComponent),
            _ if ["", "off"].contains(&provider) => Self::No,
            _ => Self::Yes,
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
        Asked::Unfit(unfit) => {
            let (message, cure) = unfit.words();
            Some((State::Wrong, message.to_owned(), Some(cure.to_owned())))
        }
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
            let cure = "nothing to do if another operator serves them; else start numo with --machine-provider and the component \
                        deploy/kustomize/components/node-version, or delete the definitions";
            Some((State::Note, message, Some(cure.to_owned())))
        }
        Asked::No | Asked::Unknown if lacks.is_empty() => None,
        Asked::No | Asked::Unknown => {
            let message = format!(
                "the component node-version is there in part, without {lacks}: numo serves no NodeVersion"
            );
            let cure = format!("{COMPONENT}; nothing to do if another operator serves NodeVersions");
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

    #[test]
    fn a_component_has_a_configuration_and_nobody_else_has() {
        let of = |args: Value, env: Value| Asked::of(Some(&with(&args, &env)));
        let variables = |provider: &str, config: &str| {
            json!([
                {"name": "NUMO_MACHINE_PROVIDER", "value": provider},
                {"name": "NUMO_MACHINE_PROVIDER_CONFIG", "value": config},
            ])
        };
        let run = || json!(["run"]);
        let file = "/etc/numo/machines/provider.yaml";
        assert_eq!(of(run(), variables("component", file)), Asked::Yes);
        let by_flags = json!([
            "run",
            "--machine-provider=component",
            "--machine-provider-config",
            file
        ]);
        assert_eq!(of(by_flags, json!([])), Asked::Yes);
        let no_config = Asked::Unfit(Unfit::NoConfig);
        assert_eq!(of(run(), variables("component", "")), no_config);
        let alone = json!(["run", "--machine-provider", "component"]);
        assert_eq!(of(alone, json!([])), no_config);
        let no_component = Asked::Unfit(Unfit::NoComponent);
        for provider in ["", "off", "sim"] {
            assert_eq!(of(run(), variables(provider, file)), no_component, "{provider}");
        }
        let elsewhere = json!([
            {"name": "NUMO_MACHINE_PROVIDER", "value": "component"},
            {"name": "NUMO_MACHINE_PROVIDER_CONFIG", "valueFrom": {"configMapKeyRef": {"name": "numo", "key": "file"}}},
        ]);
        assert_eq!(of(run(), elsewhere), Asked::Yes);
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
        for unfit in [Unfit::NoConfig, Unfit::NoComponent] {
            let found = said(Asked::Unfit(unfit), &[], true);
            assert!(
                found.starts_with("Wrong: numo was told --machine-provider"),
                "{found}"
            );
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
