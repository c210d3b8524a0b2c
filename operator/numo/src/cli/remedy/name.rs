//! Objects as verbs of numo and kubectl take them, and the names that a sentence mentions.

use numo_core::{Owner, OwnerKind};

/// Names of one kind that get a command each, at most.
pub(super) const NAMED: usize = 3;

/// The owner as a verb of numo takes it, with its namespace.
pub(super) fn named(owner: &Owner) -> String {
    match owner.kind {
        OwnerKind::Plan => format!("plan/{} -n {}", owner.key.name, owner.key.namespace),
        OwnerKind::MutexRunConfig => format!("mutexrunconfig/{} -n {}", owner.key.name, owner.key.namespace),
        OwnerKind::NodeMaintenance(_) => format!("nodemaintenance/{}", owner.key.name),
        OwnerKind::NodeVersion => format!("nodeversion/{}", owner.key.name),
    }
}

/// The command that lets numo of the namespace `own` do in `namespace` what a ClusterRole says.
pub fn invite(role: &str, namespace: &str, own: &str) -> String {
    format!(
        "kubectl create rolebinding {role} -n {namespace} --clusterrole {role} --serviceaccount {own}:numo"
    )
}

/// The name after each mention of a kind in a sentence: of `Pod shop/db-0 cannot be evicted` and `Pod` `shop/db-0`.
pub(super) fn mentioned<'m>(message: &'m str, kind: &str) -> Vec<&'m str> {
    let mut found = Vec::new();
    for (at, _) in message.match_indices(kind) {
        let before = message[..at].chars().next_back();
        let rest = &message[at + kind.len()..];
        let Some(name) = rest.strip_prefix([' ', '/']) else {
            continue;
        };
        let end = name.find(|letter: char| !(letter.is_ascii_alphanumeric() || "-./_".contains(letter)));
        let name = name[..end.unwrap_or(name.len())].trim_end_matches(['.', '/']);
        let is_word = before.is_none_or(|letter| !letter.is_ascii_alphanumeric());
        if is_word && !name.is_empty() && !found.contains(&name) && found.len() < NAMED {
            found.push(name);
        }
    }
    found
}

/// `-n namespace name` of `namespace/name`; of a name alone in this namespace.
pub(super) fn placed(verb: &str, resource: &str, name: &str, namespace: &str) -> String {
    let (namespace, name) = name.split_once('/').unwrap_or((namespace, name));
    format!("kubectl -n {namespace} {verb} {resource} {name}")
}
