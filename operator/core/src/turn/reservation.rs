//! The NodeChange of a node, for every owner: its one name, what it says, and which NodeChanges an owner has. Who creates one takes
//! the node's turn; nothing here says when.

use crate::{
    key::Key,
    names,
    observed::{ChangeView, NodeView, Observed},
    owner::Owner,
};
use numo_api::{NodeChangeSpec, OwnerRef, Target};
use std::collections::BTreeMap;

/// The NodeChange of a node: the turn that numo gives, or what a person says of a node that has had none.
///
/// `namespace` is where the journals of the owner are. Name: one for each owner uid, node uid and target.
pub fn reservation(
    (owner, owner_uid): (&Owner, &str),
    node: &NodeView,
    target: Target,
    in_service: bool,
    namespace: &str,
) -> (Key, NodeChangeSpec) {
    let (kind, key) = (owner.kind, &owner.key);
    let name = names::change_name(kind.name(), &key.name, owner_uid, &node.uid, &target.run_id);
    let spec = NodeChangeSpec {
        owner_ref: OwnerRef {
            api_version: kind.api_version(),
            kind: kind.name().to_owned(),
            namespace: Some(key.namespace.clone()).filter(|namespace| !namespace.is_empty()),
            name: key.name.clone(),
            uid: owner_uid.to_owned(),
        },
        node_name: node.name.clone(),
        node_uid: node.uid.clone(),
        target,
        in_service,
        directive: None,
    };
    (Key::new(namespace, name), spec)
}

/// Those of these journals that are of a run, by the uid of their node.
pub(crate) fn by_node<'a>(journals: &[&'a ChangeView], run_id: &str) -> BTreeMap<&'a str, &'a ChangeView> {
    let journals = journals.iter().copied();
    let of_run = journals.filter(|change| change.spec.target.run_id == run_id);
    of_run
        .map(|change| (change.spec.node_uid.as_str(), change))
        .collect()
}

/// The journals of an owner. Those of an owner that is in no namespace are in the operator's own.
pub(crate) fn of<'a>(
    observed: &'a Observed,
    owner: &'a Owner,
    owner_uid: &'a str,
) -> impl Iterator<Item = &'a ChangeView> {
    let namespace = match owner.key.namespace.as_str() {
        "" => &observed.settings.namespace,
        namespace => namespace,
    };
    of_owner(observed, namespace, owner_uid)
}

/// The journals of an owner, in the order of their names. Only those of the namespace where the owner's are: who may write elsewhere
/// could forge one.
pub(crate) fn of_owner<'a>(
    observed: &'a Observed,
    namespace: &'a str,
    owner_uid: &'a str,
) -> impl Iterator<Item = &'a ChangeView> {
    of_namespace(observed, namespace).filter(move |change| change.spec.owner_ref.uid == owner_uid)
}

/// The journals of all owners whose journals are in this namespace, in the order of their names.
pub(crate) fn of_namespace<'a>(
    observed: &'a Observed,
    namespace: &'a str,
) -> impl Iterator<Item = &'a ChangeView> {
    let from = observed.changes.range(Key::new(namespace, "")..);
    from.map(|(_, change)| change)
        .take_while(move |change| change.key.namespace == namespace)
        .filter(|change| !change.deleting)
}
