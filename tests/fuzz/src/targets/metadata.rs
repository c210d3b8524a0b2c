//! What a component is by its own type, before anything is compiled: sections, nested components, names of imports.

use numo_plugin::{Inspection, Limits, inspect};

use super::component;
use crate::Source;

pub(super) fn read(bytes: &[u8]) {
    let Ok(inspection) = inspect::inspect(bytes, &Limits::default()) else {
        return;
    };
    assert_eq!(inspection.contract.major, inspect::CONTRACT.major);
    assert_eq!(inspection.size, bytes.len() as u64);
    for import in &inspection.imports {
        assert!(
            import.package == "numo:host" || import.package.starts_with("wasi:"),
            "{import:?} is let through"
        );
        if import.package == "numo:host" {
            let granted = inspect::LENT.iter().find(|(name, _)| *name == import.name);
            let has = granted.map(|(_, functions)| *functions).unwrap_or_default();
            let all = import.functions.iter().all(|one| has.contains(&one.as_str()));
            assert!(granted.is_some() && all, "{import:?} is let through");
        }
    }
    // It is kept beside the compiled form.
    let text = serde_json::to_string(&inspection).unwrap_or_default();
    assert_eq!(serde_json::from_str::<Inspection>(&text).ok(), Some(inspection));
}

pub(super) fn make(source: &mut Source) -> Vec<u8> {
    if source.once_in(4) {
        return component::nested(source);
    }
    if source.once_in(3) {
        let seed = source.bytes(2048);
        return component::of_any_kind(&seed).unwrap_or_default();
    }
    component::released(source).to_vec()
}
