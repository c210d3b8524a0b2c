//! What `numo release` has restored, for programs: the object, and each field with what it was and what it is.

use super::written::FieldChange;
use numo_core::action::{Action, Change, FleetAction};
use serde::Serialize;
use serde_json::{Value, json};

/// An object on which something was restored.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Restored {
    /// Kind and name.
    pub object: String,
    /// Each field that was changed.
    pub changes: Vec<FieldChange>,
}

/// What of labels or annotations changes; what is only tested does not.
fn of_map(field: &str, changes: &[Change]) -> Vec<FieldChange> {
    let changed = changes.iter().filter(|change| change.from != change.to);
    changed
        .map(|change| {
            let key = change.key.replace('~', "~0").replace('/', "~1");
            field_of(
                &format!("/metadata/{field}/{key}"),
                json!(change.from),
                json!(change.to),
            )
        })
        .collect()
}

fn field_of(path: &str, old: Value, new: Value) -> FieldChange {
    FieldChange {
        path: path.to_owned(),
        old,
        new,
    }
}

/// What lets a cluster autoscaler run again.
fn of_autoscaler(action: &FleetAction) -> (String, Vec<FieldChange>) {
    match action {
        FleetAction::EnableAutoscaler {
            strategy, enabled, ..
        } => {
            let change = field_of("/spec/enabled", json!(!enabled), json!(enabled));
            (format!("AutoscalingStrategy {strategy}"), vec![change])
        }
        FleetAction::SetAutoscaler {
            deployment,
            replicas,
            annotations,
            command,
            ..
        } => {
            let mut changes = vec![field_of("/spec/replicas", json!(replicas.0), json!(replicas.1))];
            changes.extend(of_map("annotations", annotations));
            if command.0 != command.1 {
                let path = "/spec/template/spec/containers/0/command";
                changes.push(field_of(path, json!(command.0), json!(command.1)));
            }
            (format!("Deployment {deployment}"), changes)
        }
        other => (other.name().to_owned(), Vec::new()),
    }
}

impl Restored {
    /// What an action restores.
    pub fn of(action: &Action) -> Self {
        let (object, changes) = match action {
            Action::PatchNode(patch) => {
                let mut changes = of_map("labels", &patch.labels);
                changes.extend(of_map("annotations", &patch.annotations));
                if let Some(wanted) = patch.unschedulable {
                    let old = patch.while_unschedulable.unwrap_or(!wanted);
                    changes.push(field_of("/spec/unschedulable", json!(old), json!(wanted)));
                }
                if let Some((old, new)) = &patch.taints {
                    changes.push(field_of("/spec/taints", old.clone(), new.clone()));
                }
                (format!("Node {}", patch.node), changes)
            }
            Action::PatchPool(patch) => {
                let mut changes = of_map("annotations", std::slice::from_ref(&patch.annotation));
                if let Some((old, new)) = patch.paused {
                    changes.push(field_of("/spec/paused", json!(old), json!(new)));
                }
                if let Some((old, new)) = &patch.selector {
                    changes.push(field_of("/spec/nodeSelector", old.clone(), new.clone()));
                }
                (format!("MachineConfigPool {}", patch.pool), changes)
            }
            Action::PatchMachine(patch) => {
                let kind = if patch.purpose.is_of_health_check() {
                    "MachineHealthCheck"
                } else {
                    "Machine"
                };
                (
                    format!("{kind} {}", patch.key),
                    of_map("annotations", &patch.annotations),
                )
            }
            Action::RemoveFinalizer { owner, finalizer, .. } => {
                let finalizers = field_of("/metadata/finalizers", json!(finalizer), Value::Null);
                (owner.to_string(), vec![finalizers])
            }
            Action::ReleaseLease { node, .. } => (format!("Lease of Node {node}"), Vec::new()),
            Action::DeleteMaintenance { name, .. } => (format!("NodeMaintenance {name}"), Vec::new()),
            Action::SetJobTtl { job, seconds, .. } => {
                let ttl = field_of("/spec/ttlSecondsAfterFinished", Value::Null, json!(seconds));
                (format!("Job {job}"), vec![ttl])
            }
            Action::Fleet(action) => of_autoscaler(action),
            other => (format!("{other:?}"), Vec::new()),
        };
        Self { object, changes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numo_core::action::{PoolPatch, PoolPurpose};

    #[test]
    fn a_pool_is_told_with_what_it_was() {
        let patch = PoolPatch {
            pool: "worker".to_owned(),
            uid: "u".to_owned(),
            purpose: PoolPurpose::Unpause,
            paused: Some((true, false)),
            selector: None,
            config: None,
            annotation: Change {
                key: "numo/paused-by".to_owned(),
                from: Some("x".to_owned()),
                to: None,
            },
            has_annotations: true,
        };
        let restored = Restored::of(&Action::PatchPool(patch));
        assert_eq!(restored.object, "MachineConfigPool worker");
        let wanted = [
            field_of("/metadata/annotations/numo~1paused-by", json!("x"), Value::Null),
            field_of("/spec/paused", json!(true), json!(false)),
        ];
        assert_eq!(restored.changes, wanted);
    }

    #[test]
    fn a_cluster_autoscaler_is_told_with_what_it_was() {
        let enable = FleetAction::EnableAutoscaler {
            strategy: "auto".to_owned(),
            uid: "u".to_owned(),
            enabled: true,
        };
        let restored = Restored::of(&Action::Fleet(enable));
        assert_eq!(restored.object, "AutoscalingStrategy auto");
        assert_eq!(
            restored.changes,
            [field_of("/spec/enabled", json!(false), json!(true))]
        );
        let same = || vec!["./cluster-autoscaler".to_owned()];
        let set = FleetAction::SetAutoscaler {
            deployment: numo_core::observed::Key::new("kube-system", "ca"),
            uid: "u".to_owned(),
            replicas: (0, 1),
            annotations: Vec::new(),
            command: (same(), same()),
        };
        let restored = Restored::of(&Action::Fleet(set));
        assert_eq!(restored.object, "Deployment kube-system/ca");
        assert_eq!(restored.changes, [field_of("/spec/replicas", json!(0), json!(1))]);
    }
}
