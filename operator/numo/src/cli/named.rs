//! An object as programs have it: API group, kind, namespace and name; and as kubectl and numo take it (`-o name`).

use crate::shell::{kind, project::Kind};
use numo_core::{Owner, observed::Key};
use serde::Serialize;
use std::fmt;

/// An object. Its text is for people: `Plan system-upgrade/app`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Named {
    /// Its API group; absent where that is the core one.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub api_group: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace; absent where the kind has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Named {
    /// An object of this kind.
    pub fn of(kind: Kind, key: &Key) -> Self {
        let (api_group, _, kind, _) = kind.resource();
        Self {
            api_group,
            kind,
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        }
    }

    /// An object of a kind that has no namespace.
    pub fn of_cluster(kind: Kind, name: &str) -> Self {
        Self::of(kind, &Key::new("", name))
    }

    /// An owner.
    pub fn owner(owner: &Owner) -> Self {
        Self::of(kind::kind_of(owner), &owner.key)
    }

    /// TYPE.GROUP/NAME.
    pub fn typed(&self) -> String {
        let dot = if self.api_group.is_empty() { "" } else { "." };
        format!(
            "{}{dot}{}/{}",
            self.kind.to_lowercase(),
            self.api_group,
            self.name
        )
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)?;
        f.write_str(" ")?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::object::ObjectArg;
    use numo_core::MaintenanceGroup;
    use serde_json::json;

    #[test]
    fn objects_are_named_as_kubectl_and_numo_take_them() {
        let node = Named::of_cluster(Kind::Node, "worker-1");
        let plan = Named::owner(&Owner::plan(Key::new("system-upgrade", "app")));
        let kept = Named::owner(&Owner::maintenance(MaintenanceGroup::Medik8s, "fan"));
        for (one, typed, words, json) in [
            (
                &node,
                "node/worker-1",
                "Node worker-1",
                json!({"kind": "Node", "name": "worker-1"}),
            ),
            (
                &plan,
                "plan.upgrade.cattle.io/app",
                "Plan system-upgrade/app",
                json!({
                    "apiGroup": "upgrade.cattle.io", "kind": "Plan", "namespace": "system-upgrade", "name": "app"
                }),
            ),
            (
                &kept,
                "nodemaintenance.nodemaintenance.medik8s.io/fan",
                "NodeMaintenance fan",
                json!({"apiGroup": "nodemaintenance.medik8s.io", "kind": "NodeMaintenance", "name": "fan"}),
            ),
        ] {
            assert_eq!(one.typed(), typed);
            assert_eq!(one.to_string(), words);
            assert_eq!(serde_json::to_value(one).unwrap(), json);
            assert_eq!(one.typed().parse::<ObjectArg>().unwrap().name, one.name);
        }
    }
}
