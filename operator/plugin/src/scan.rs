//! A first look over a component, before anything of it is validated: one pass without recursion that refuses what would cost the
//! validator its stack or its memory, and counts what an instance of it would take. It does not say whether the component is valid.
//!
//! wasmparser reads component types recursively and copies the exports of a component for each of its instances; wasmtime allocates the
//! state of an instance (its globals, imports and functions) beside the memories that it counts.

use wasmparser::{
    BinaryReader, BinaryReaderError, ComponentAlias, ComponentExternName, ComponentImport, ComponentType,
    ComponentTypeRef, CoreType, Encoding, Parser, Payload,
};

use crate::reason::{Reason, Refused};

/// How deep components, and types in types, may be nested.
const DEPTH: usize = 32;
/// Exports of all components of a file together.
const EXPORTS: u64 = 10_000;
/// Component instances of a file.
const COMPONENT_INSTANCES: u64 = 256;
/// Bytes of an instance's state for each of what it has (wasmtime's `VMOffsets`): rounded up.
const GLOBAL: u64 = 16;
const FUNCTION: u64 = 32;
const OTHER: u64 = 64;

/// A module or component that is being read.
#[derive(Default)]
struct Open {
    is_component: bool,
    /// Bytes of state of one instance of a module.
    state: u64,
    core_instances: u64,
    component_instances: u64,
    /// Functions that are lifted or lowered, and resources.
    canonical: u64,
}

/// What there is of the outermost component and all in it.
#[derive(Default)]
struct Total {
    exports: u64,
    component_instances: u64,
}

impl Total {
    fn within_bounds(&self) -> Result<(), Refused> {
        if self.exports > EXPORTS {
            let message = format!("the component and those in it export more than {EXPORTS} things");
            return Err(Refused::new(Reason::TooLarge, message));
        }
        if self.component_instances > COMPONENT_INSTANCES {
            let message =
                format!("the component makes more than {COMPONENT_INSTANCES} instances of components");
            return Err(Refused::new(Reason::TooLarge, message));
        }
        Ok(())
    }
}

/// Looks over `bytes`; how many bytes of state its instances take together, at most.
///
/// Errors: `CompileFailed` if it is nested too deep or cannot be read, `TooLarge` if it has too many exports or instances.
pub(crate) fn scan(bytes: &[u8]) -> Result<u64, Refused> {
    let invalid = |error: BinaryReaderError| {
        Refused::new(Reason::CompileFailed, format!("not a valid component: {error}"))
    };
    let mut open: Vec<Open> = Vec::new();
    let mut all = Total::default();
    // The most state that one instance of any module has.
    let mut largest_module = 0_u64;
    let mut components: Vec<(u64, u64, u64)> = Vec::new();
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(invalid)?;
        if let Payload::Version { encoding, .. } = &payload {
            if open.len() >= DEPTH {
                return Err(too_deep("components"));
            }
            open.push(Open {
                is_component: *encoding == Encoding::Component,
                ..Open::default()
            });
            continue;
        }
        let Some(current) = open.last_mut() else {
            continue;
        };
        current.state = current.state.saturating_add(state(&payload));
        match &payload {
            Payload::InstanceSection(section) => current.core_instances += u64::from(section.count()),
            Payload::ComponentInstanceSection(section) => {
                current.component_instances += u64::from(section.count());
                all.component_instances += u64::from(section.count());
            }
            Payload::ComponentCanonicalSection(section) => current.canonical += u64::from(section.count()),
            Payload::ComponentExportSection(section) => all.exports += u64::from(section.count()),
            Payload::ComponentTypeSection(section) => types(&bytes[section.range()], section.range().start)?,
            Payload::End(_) => {
                let over = open.pop().unwrap_or_default();
                if over.is_component {
                    components.push((over.core_instances, over.component_instances, over.canonical));
                } else {
                    largest_module = largest_module.max(over.state);
                }
            }
            _ => {}
        }
        all.within_bounds()?;
    }
    Ok(largest(components, largest_module))
}

/// Bytes of state that a section gives an instance of its module.
fn state(payload: &Payload<'_>) -> u64 {
    let has = |count: u32, each: u64| u64::from(count).saturating_mul(each);
    match payload {
        Payload::ImportSection(section) => has(section.count(), FUNCTION),
        Payload::FunctionSection(section) => has(section.count(), FUNCTION),
        Payload::GlobalSection(section) => has(section.count(), GLOBAL),
        Payload::TableSection(section) => has(section.count(), OTHER),
        Payload::MemorySection(section) => has(section.count(), OTHER),
        Payload::ElementSection(section) => has(section.count(), OTHER),
        Payload::DataSection(section) => has(section.count(), OTHER),
        Payload::TagSection(section) => has(section.count(), OTHER),
        _ => 0,
    }
}

/// The most state that any component has, in the order in which they end: each by its core instances, its instances of
/// components, and its canonical functions. `of_module`: the most that one instance of a module has.
fn largest(components: Vec<(u64, u64, u64)>, of_module: u64) -> u64 {
    // Whatever a component instantiates ended before it does: no instance is of a component that comes later.
    let mut most = 0_u64;
    for (core, of_components, canonical) in components {
        let own = core
            .saturating_mul(of_module)
            .saturating_add(canonical.saturating_mul(OTHER));
        most = most.max(own.saturating_add(of_components.saturating_mul(most)));
    }
    most
}

fn too_deep(what: &str) -> Refused {
    Refused::new(
        Reason::CompileFailed,
        format!("{what} are nested deeper than {DEPTH}"),
    )
}

/// Walks a section of component types without recursion.
fn types(section: &[u8], offset: usize) -> Result<(), Refused> {
    let invalid = |error: BinaryReaderError| {
        Refused::new(Reason::CompileFailed, format!("not a valid component: {error}"))
    };
    let mut reader = BinaryReader::new(section, offset);
    // How many types are left of the section, and then how many declarations of each type that is open.
    let mut left = vec![reader.read_var_u32().map_err(invalid)?];
    while let Some(of_innermost) = left.last_mut() {
        if *of_innermost == 0 {
            left.pop();
            continue;
        }
        *of_innermost -= 1;
        let is_type = left.len() == 1 || declaration(&mut reader).map_err(invalid)?;
        if !is_type {
            continue;
        }
        // 0x41 opens a component type, 0x42 an instance type; every other type ends in itself.
        let mut ahead = reader.clone();
        if matches!(ahead.read_u8().map_err(invalid)?, 0x41 | 0x42) {
            if left.len() >= DEPTH {
                return Err(too_deep("types"));
            }
            left.push(ahead.read_var_u32().map_err(invalid)?);
            reader = ahead;
        } else {
            reader.read::<ComponentType<'_>>().map_err(invalid)?;
        }
    }
    Ok(())
}

/// Reads one declaration of a component or instance type; whether a type follows, which is not read yet.
fn declaration(reader: &mut BinaryReader<'_>) -> Result<bool, BinaryReaderError> {
    match reader.read_u8()? {
        0x00 => {
            reader.read::<CoreType<'_>>()?;
        }
        0x01 => return Ok(true),
        0x02 => {
            reader.read::<ComponentAlias<'_>>()?;
        }
        0x03 => {
            reader.read::<ComponentImport<'_>>()?;
        }
        // An export; any other byte is refused by its name.
        _ => {
            reader.read::<ComponentExternName<'_>>()?;
            reader.read::<ComponentTypeRef>()?;
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: [u8; 8] = [0x00, 0x61, 0x73, 0x6d, 0x0d, 0x00, 0x01, 0x00];

    /// A number as the format has it.
    fn leb(mut number: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            let byte = u8::try_from(number & 0x7f).expect("seven bits");
            number >>= 7;
            if number == 0 {
                bytes.push(byte);
                return bytes;
            }
            bytes.push(byte | 0x80);
        }
    }

    fn section(id: u8, body: &[u8]) -> Vec<u8> {
        [&[id][..], &leb(body.len()), body].concat()
    }

    /// One type of so many types in types.
    fn nested(levels: usize, opening: u8) -> Vec<u8> {
        let mut body = vec![1];
        for _ in 0..levels {
            body.extend([opening, 1, 1]);
        }
        body.extend([opening, 0]);
        [&HEAD[..], &section(7, &body)].concat()
    }

    #[test]
    fn types_that_are_nested_deep_are_refused_on_a_small_stack() {
        for opening in [0x41, 0x42] {
            let bytes = nested(1_000_000, opening);
            let scanned = std::thread::Builder::new()
                .stack_size(128 * 1024)
                .spawn(move || scan(&bytes))
                .expect("a thread")
                .join()
                .expect("no overflow");
            let refused = scanned.expect_err("nested too deep");
            assert_eq!(refused.reason, Reason::CompileFailed);
            assert!(refused.message.contains("nested deeper"), "{refused}");
            assert_eq!(scan(&nested(20, opening)), Ok(0));
        }
    }

    #[test]
    fn a_component_of_text_is_read_as_the_validator_reads_it() {
        let component = r#"(component
            (type $t (component
                (import "a" (type (sub resource)))
                (type $i (instance (export "f" (func (param "x" string) (result u32)))))
                (import "numo:host/b@1.0.0" (instance (type $i)))
                (export "c" (func))))
            (type (instance (type (record (field "AAAABBBB" string))) (export "r" (type (eq 0)))))
            (core module $m (global i32 (i32.const 1)) (global i32 (i32.const 2)) (func))
            (core instance (instantiate $m))
            (core instance (instantiate $m)))"#;
        let bytes = wat::parse_str(component).expect("valid text");
        assert_eq!(scan(&bytes), Ok(2 * (2 * GLOBAL + FUNCTION)));
    }

    #[test]
    fn instances_of_components_multiply() {
        let component = r"(component
            (component $a
                (core module $m (global i32 (i32.const 1)))
                (core instance (instantiate $m))
                (core instance (instantiate $m)))
            (instance (instantiate $a))
            (instance (instantiate $a))
            (instance (instantiate $a)))";
        assert_eq!(
            scan(&wat::parse_str(component).expect("valid text")),
            Ok(6 * GLOBAL)
        );
    }
}
