//! Environment, command and arguments of a container, as the API documents them. Pure.

use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt;

/// The container's environment in order; a later variable may use earlier ones.
pub(super) fn resolve(pod: &Pod, container: &Container) -> Vec<(String, String)> {
    let mut env: Vec<(String, String)> = Vec::new();
    for variable in container.env.iter().flatten() {
        let field = variable.value_from.as_ref().and_then(|v| v.field_ref.as_ref());
        let value = match (&variable.value, field) {
            (Some(value), _) => expand(value, &env),
            (None, Some(field)) => field_value(pod, &field.field_path),
            (None, None) => String::new(),
        };
        env.retain(|(name, _)| *name != variable.name);
        env.push((variable.name.clone(), value));
    }
    env
}

/// Command and arguments together; empty when the image would have to be asked.
pub(super) fn argv(container: &Container, env: &[(String, String)]) -> Vec<String> {
    let command = container.command.iter().flatten();
    if container.command.as_ref().is_none_or(Vec::is_empty) {
        return Vec::new();
    }
    command
        .chain(container.args.iter().flatten())
        .map(|word| expand(word, env))
        .collect()
}

/// The arguments alone, for an image whose entrypoint is known.
pub(super) fn arguments(container: &Container, env: &[(String, String)]) -> Vec<String> {
    let args = container.args.iter().flatten();
    args.map(|word| expand(word, env)).collect()
}

/// Replaces `$(NAME)`; an unknown name stays, and `$$` is one dollar.
pub(super) fn expand(text: &str, env: &[(String, String)]) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let tail = &rest[at + 1..];
        if let Some(tail) = tail.strip_prefix('$') {
            out.push('$');
            rest = tail;
            continue;
        }
        let name = tail.strip_prefix('(').and_then(|t| t.split_once(')'));
        let Some((name, after)) = name else {
            out.push('$');
            rest = tail;
            continue;
        };
        match env.iter().find(|(n, _)| n == name) {
            Some((_, value)) => out.push_str(value),
            None => out.extend(["$(", name, ")"]),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

fn field_value(pod: &Pod, path: &str) -> String {
    let keyed = |prefix: &str| {
        path.strip_prefix(prefix)
            .and_then(|p| p.strip_prefix("['"))
            .and_then(|p| p.strip_suffix("']"))
    };
    if let Some(key) = keyed("metadata.labels") {
        return pod.labels().get(key).cloned().unwrap_or_default();
    }
    if let Some(key) = keyed("metadata.annotations") {
        return pod.annotations().get(key).cloned().unwrap_or_default();
    }
    let spec = pod.spec.as_ref();
    match path {
        "metadata.name" => pod.name_any(),
        "metadata.namespace" => pod.namespace().unwrap_or_default(),
        "metadata.uid" => pod.uid().unwrap_or_default(),
        "spec.nodeName" => spec.and_then(|s| s.node_name.clone()).unwrap_or_default(),
        "spec.serviceAccountName" => spec
            .and_then(|s| s.service_account_name.clone())
            .unwrap_or_default(),
        "status.hostIP" | "status.hostIPs" => "127.0.0.1".into(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_expand_as_documented() {
        let env = vec![("A".to_owned(), "1".to_owned())];
        for (text, want) in [
            ("x$(A)y", "x1y"),
            ("$(B)", "$(B)"),
            ("$$(A)", "$(A)"),
            ("$A $( $", "$A $( $"),
            ("", ""),
            ("$(A)$(A)", "11"),
        ] {
            assert_eq!(expand(text, &env), want, "{text}");
        }
    }
}
