//! Makes a component of a core module and reads its imports. No files, no processes.

use anyhow::Result;
use wasmparser::{Parser, Payload};
use wit_component::ComponentEncoder;

/// The component of a module that carries its type (as wit-bindgen writes it), validated.
pub fn encode(module: &[u8]) -> Result<Vec<u8>> {
    ComponentEncoder::default()
        .validate(true)
        .module(module)?
        .encode()
}

/// The names that a component imports.
pub fn imports(component: &[u8]) -> Result<Vec<String>> {
    let mut imports = Vec::new();
    let mut depth = 0_u32;
    for payload in Parser::new(0).parse_all(component) {
        match payload? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    imports.push(import?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(imports)
}
