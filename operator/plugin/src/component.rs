//! Makes a component of a core module that carries its type, as bindings generators write it. Compiles, runs and
//! judges nothing: whether it is a rule is found out by loading it.

use wit_component::ComponentEncoder;

/// What some bytes are by their first eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Ready to be loaded.
    Component,
    /// To be made a component of.
    Module,
}

/// The form of `bytes`; none: no WebAssembly.
pub fn form(bytes: &[u8]) -> Option<Form> {
    match bytes.get(..8)? {
        [b'\0', b'a', b's', b'm', 0x0d, 0, 1, 0] => Some(Form::Component),
        [b'\0', b'a', b's', b'm', 1, 0, 0, 0] => Some(Form::Module),
        _ => None,
    }
}

/// `bytes` as a component. Equal modules make equal components.
///
/// Errors: in words, for the author.
pub fn encode(bytes: &[u8]) -> Result<Vec<u8>, String> {
    match form(bytes) {
        Some(Form::Component) => return Ok(bytes.to_vec()),
        Some(Form::Module) => {}
        None => return Err("found no WebAssembly".to_owned()),
    }
    let encoded = ComponentEncoder::default()
        .validate(true)
        .module(bytes)
        .and_then(|mut encoder| encoder.encode());
    encoded.map_err(|error| {
        let text = format!("{error:#}");
        let hint = if text.contains("wasi_snapshot_preview1") {
            ": it was built for wasm32-wasip1, wanted wasm32-unknown-unknown or wasm32-wasip2"
        } else {
            ""
        };
        format!("the core module makes no component{hint}: {text}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_webassembly_is_taken() {
        assert_eq!(form(b"\0asm\x0d\0\x01\0more"), Some(Form::Component));
        assert_eq!(form(b"\0asm\x01\0\0\0"), Some(Form::Module));
        assert_eq!(form(b"\0asm"), None);
        assert!(encode(b"MZ").is_err());
    }

    #[test]
    fn a_module_without_a_type_is_refused_in_words() {
        let module =
            wat::parse_str("(module (import \"wasi_snapshot_preview1\" \"fd_write\" (func)))").unwrap();
        let why = encode(&module).unwrap_err();
        assert!(why.contains("wasip1"), "{why}");
    }
}
