//! `spec` of a MutexRule of type wasm, as the API server hands it over: grants, limits, image, signature policy and
//! configuration.

use numo::runners::wasm;
use numo_api::{MutexRuleSpec, WasmRule};
use numo_plugin::{Grants, Limits, ObjectRef};
use serde_json::json;

use crate::Source;

pub(super) fn read(bytes: &[u8]) {
    let whole = serde_json::from_slice::<MutexRuleSpec>(bytes).ok();
    let spec = whole.and_then(|spec| spec.wasm);
    if let Some(spec) = spec.or_else(|| serde_json::from_slice::<WasmRule>(bytes).ok()) {
        check(&spec);
    }
}

fn check(spec: &WasmRule) {
    let text = wasm::config_json(spec);
    assert!(
        serde_json::from_str::<serde_json::Value>(&text).is_ok(),
        "the component gets {text}"
    );
    let _ = wasm::reference(spec);
    if let Some(asked) = &spec.signature
        && let Ok(policy) = wasm::policy(asked)
    {
        // A policy that nobody is named in would be met by nobody, or by everybody.
        assert!(!policy.keys.is_empty() || !policy.identities.is_empty());
    }
    let Ok(terms) = wasm::terms(spec, "team") else {
        return;
    };
    // Whatever a rule asks for stays below what the operator allows.
    if let Ok(limits) = Limits::default().with(&terms.limits, &Limits::CEILINGS) {
        assert_eq!(limits.within(&Limits::CEILINGS), Ok(()));
    }
    let grants = serde_json::to_value(&*terms.grants).and_then(serde_json::from_value::<Grants>);
    assert_eq!(grants.ok().as_ref(), Some(&*terms.grants));
    // What no grant names is not granted.
    let object = |kind: &str, namespace: Option<&str>| ObjectRef {
        api_version: "v1".into(),
        kind: kind.into(),
        namespace: namespace.map(Into::into),
        name: "a".into(),
    };
    for kind in ["Pod", "Secret"] {
        let named = terms.grants.kubernetes.iter().any(|grant| grant.kind == kind);
        for namespace in [None, Some("a")] {
            let granted = terms.grants.cover_object(&object(kind, namespace))
                || terms.grants.cover_list("v1", kind, namespace, None);
            assert!(
                named || !granted,
                "{kind} in {namespace:?} is granted: {:?}",
                terms.grants
            );
        }
    }
}

pub(super) fn make(source: &mut Source) -> Vec<u8> {
    let grants = json!({
        "kubernetes": [{
            "apiVersion": source.one(&["v1", "policy/v1", ""]),
            "kind": source.one(&["Pod", "Secret", "PodDisruptionBudget"]),
            "namespaces": source.one(&[&["a"] as &[&str], &[], &["a", "b"]]),
            "names": source.one(&[&["a"] as &[&str], &[]]),
        }],
        "http": [{
            "host": "status.example.com",
            "port": source.one(&[443, 0, -1, 65_535, 65_536]),
            "scheme": source.one(&["https", "http", "ftp"]),
            "addresses": [source.one(&["10.0.0.0/8", "fd00::/8", "10.0.0.1", "10.0.0.0/33"])],
            "credentials": ["token"],
        }],
        "prometheus": {},
    });
    let limits = json!({
        "evaluationSeconds": source.one(&[5, 0, -1, 60, i32::MAX]),
        "memory": source.one(&["64Mi", "1Gi", "18446744073709551615Gi", "0", "", "5é"]),
        "hostCalls": source.one(&[500, 5000, 5001]),
        "hostBytes": source.one(&["16Mi", "1024", "Ki"]),
    });
    let mut wasm = json!({
        "image": format!("registry.example.com/rule@sha256:{}", "e".repeat(64)),
        "config": {"labels": [{"key": "a", "operator": "Exists"}]},
        "serviceAccountName": "reader",
        "signature": {
            "keys": [super::signature::PEM],
            "identities": [{"issuer": "https://example.com", "subject": "a@example.com"}],
            "mode": source.one(&["Enforce", "Warn"]),
        },
    });
    for (field, value) in [("grants", grants), ("limits", limits)] {
        if !source.once_in(3) {
            wasm[field] = value;
        }
    }
    if source.once_in(3) {
        wasm["config"] = json!(source.one(&[None, Some(1.5)]));
    }
    let value = if source.once_in(2) {
        wasm
    } else {
        json!({"type": "wasm", "timeoutSeconds": 600, "phases": ["Pre", "Post"], "wasm": wasm})
    };
    let text = value.to_string();
    if source.once_in(6) {
        // Wherever numbers stand.
        let nested = source.nested_json();
        return text
            .replacen("443", &nested, 1)
            .replacen("500", &nested, 1)
            .into_bytes();
    }
    text.into_bytes()
}
