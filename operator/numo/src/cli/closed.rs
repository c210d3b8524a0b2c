//! Who keeps a node closed whose maintenance ends. Nothing here writes.

use crate::shell::{client::Connection, kind::Kind, watch};
use kube::{api::ListParams, core::DynamicObject};
use numo_api::{DirectiveAction, NodeChange, Step, marks};
use numo_core::mark::CordonedBy;
use serde_json::Value;

/// What was seen of a node whose maintenance ends.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    node: String,
    /// uid of the maintenance.
    uid: String,
    /// Names of other maintenances of the node that nobody ends.
    others: Vec<String>,
    is_cordoned: bool,
    mark: Option<CordonedBy>,
    changes: Vec<NodeChange>,
}

impl Ending {
    /// Of the maintenance of this uid; nothing was seen of the node yet.
    pub fn of(node: &str, uid: &str, others: Vec<String>) -> Self {
        Self {
            node: node.to_owned(),
            uid: uid.to_owned(),
            others,
            ..Self::default()
        }
    }

    /// Looks at the node and at its turns again. What may not be looked at keeps nothing closed.
    pub async fn look(&mut self, connection: &Connection) {
        let node = watch::api(&connection.read, Kind::Node, "")
            .get_opt(&self.node)
            .await;
        let node: Option<DynamicObject> = node.ok().flatten();
        let is_cordoned = |node: &DynamicObject| {
            let found = node.data.pointer("/spec/unschedulable").and_then(Value::as_bool);
            found.unwrap_or_default()
        };
        self.is_cordoned = node.as_ref().is_some_and(is_cordoned);
        self.mark = node.and_then(|node| {
            let mark = node.metadata.annotations?.remove(marks::CORDONED_BY)?;
            serde_json::from_str(&mark).ok()
        });
        let params = ListParams::default().fields(&format!("spec.nodeName={}", self.node));
        let list = watch::api(&connection.read, Kind::NodeChange, "")
            .list(&params)
            .await;
        let items = list.map(|list| list.items).unwrap_or_default();
        let changes = items.into_iter();
        self.changes = changes.filter_map(|one| one.try_parse().ok()).collect();
    }

    /// Who keeps the node closed beside the maintenance, in a sentence; none where nobody does.
    pub fn kept(&self) -> Option<String> {
        let node = &self.node;
        if let Some(other) = self.others.first() {
            return Some(format!(
                "Node {node} stays out of service: NodeMaintenance {other} is for it too; `numo maintain {node} --end --name {other}` \
                 ends that one"
            ));
        }
        let mine = self.mark.as_ref().filter(|mark| mark.owner == self.uid);
        if !self.is_cordoned || mine.is_some_and(|mark| !mark.prior) {
            return None;
        }
        if let Some(change) = self.changes.iter().find(|change| self.has_turn(change)) {
            return Some(format!("Node {node} stays cordoned: {}", turn(node, change)));
        }
        if mine.is_none() && self.mark.is_some() {
            return Some(format!(
                "Node {node} stays cordoned by numo for another owner; `numo explain {node}` says for which"
            ));
        }
        Some(format!(
            "Node {node} stays cordoned: somebody else than numo had cordoned it; `kubectl uncordon {node}` opens it"
        ))
    }

    /// Who held the maintenance, in a sentence: whoever ends it ends the hold, which may be another person's.
    pub fn hold_ended(&self) -> Option<String> {
        let mut changes = self.changes.iter();
        let mine = changes.find_map(|change| {
            Some(change)
                .filter(|change| change.spec.owner_ref.uid == self.uid)
                .and_then(hold)
        });
        let node = &self.node;
        mine.map(|by| format!("Node {node} was held by {by}: that hold ends with the maintenance"))
    }

    /// Whether it is the turn under way of another owner.
    fn has_turn(&self, change: &NodeChange) -> bool {
        let step = change.status.as_ref().and_then(|status| status.step);
        change.spec.owner_ref.uid != self.uid
            && step.is_some_and(|step| step != Step::Selected && !step.is_terminal())
    }
}

/// Whose turn it is, and what ends it.
fn turn(node: &str, change: &NodeChange) -> String {
    let owner = &change.spec.owner_ref;
    let place = owner.namespace.as_ref().filter(|namespace| !namespace.is_empty());
    let place = place.map_or_else(String::new, |namespace| format!("{namespace}/"));
    let whose = format!("{} {place}{} has its turn with it", owner.kind, owner.name);
    match hold(change) {
        Some(by) => format!("{whose}, and {by} holds it there; `numo hold {node} --undo` ends the hold"),
        None => format!("{whose}; `numo explain {node}` says what that waits for"),
    }
}

/// Who holds the node in this turn, with their reason.
fn hold(change: &NodeChange) -> Option<String> {
    let directive = change.spec.directive.as_ref();
    let directive = directive.filter(|directive| directive.action == DirectiveAction::Hold)?;
    let by = directive.by.as_deref().unwrap_or("someone");
    let reason = directive.reason.as_deref();
    Some(reason.map_or_else(|| by.to_owned(), |reason| format!("{by} ({reason})")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn change(owner: &str, step: &str, directive: &Value) -> NodeChange {
        serde_json::from_value(json!({
            "apiVersion": "numo.openshift-optional.skrzypek.io/v1alpha1", "kind": "NodeChange", "metadata": {"name": "c"},
            "spec": {
                "ownerRef": {"apiVersion": "upgrade.cattle.io/v1", "kind": "Plan", "namespace": "upgrades", "name": "os", "uid": owner},
                "nodeName": "a", "nodeUID": "a", "target": {"runID": "r", "version": "2", "pool": ""}, "directive": directive,
            },
            "status": {"step": step},
        }))
        .unwrap()
    }

    fn mark(owner: &str, prior: bool) -> Option<CordonedBy> {
        serde_json::from_value(json!({"owner": owner, "prior": prior})).ok()
    }

    fn ending(is_cordoned: bool, mark: Option<CordonedBy>, changes: Vec<NodeChange>) -> Ending {
        Ending {
            is_cordoned,
            mark,
            changes,
            ..Ending::of("a", "mine", Vec::new())
        }
    }

    #[test]
    fn whoever_ends_a_maintenance_hears_who_keeps_the_node_closed() {
        let held = json!({"action": "Hold", "by": "ada", "reason": "a customer debugs on it"});
        let turn = |directive: &Value| vec![change("other", "Drained", directive)];
        for (ending, wanted) in [
            (ending(false, None, Vec::new()), None),
            // It is about to be put back.
            (ending(true, mark("mine", false), Vec::new()), None),
            (
                ending(true, mark("mine", true), Vec::new()),
                Some(
                    "Node a stays cordoned: somebody else than numo had cordoned it; `kubectl uncordon a` opens it",
                ),
            ),
            (
                ending(true, None, Vec::new()),
                Some(
                    "Node a stays cordoned: somebody else than numo had cordoned it; `kubectl uncordon a` opens it",
                ),
            ),
            (
                ending(true, mark("other", false), turn(&Value::Null)),
                Some(
                    "Node a stays cordoned: Plan upgrades/os has its turn with it; `numo explain a` says what that waits for",
                ),
            ),
            (
                ending(true, mark("other", false), turn(&held)),
                Some(
                    "Node a stays cordoned: Plan upgrades/os has its turn with it, and ada (a customer debugs on it) holds it there; \
                     `numo hold a --undo` ends the hold",
                ),
            ),
            (
                ending(true, mark("other", false), vec![change("other", "Done", &held)]),
                Some("Node a stays cordoned by numo for another owner; `numo explain a` says for which"),
            ),
            // A turn that has closed nothing yet.
            (ending(false, None, turn(&held)), None),
        ] {
            assert_eq!(ending.kept().as_deref(), wanted);
        }
        let mut other = ending(true, mark("mine", false), Vec::new());
        other.others = vec!["fan".to_owned()];
        assert_eq!(
            other.kept().as_deref(),
            Some(
                "Node a stays out of service: NodeMaintenance fan is for it too; `numo maintain a --end --name fan` ends that one"
            )
        );
    }

    #[test]
    fn the_hold_of_another_person_does_not_end_in_silence() {
        let held = json!({"action": "Hold", "by": "ada"});
        let of = |owner, directive: &Value| {
            ending(
                true,
                mark("mine", false),
                vec![change(owner, "Cordoned", directive)],
            )
        };
        assert_eq!(
            of("mine", &held).hold_ended().as_deref(),
            Some("Node a was held by ada: that hold ends with the maintenance")
        );
        assert_eq!(of("other", &held).hold_ended(), None);
        assert_eq!(of("mine", &Value::Null).hold_ended(), None);
    }
}
