//! What a component is, read from its own type before anything is compiled: valid at all, what it imports, what it
//! exports, which version of the contract it speaks. Runs nothing and needs no engine. The validator may take long, much memory and a
//! deep stack over bytes of a stranger: only the compiler's child inspects them (`compile.rs`).

pub use semver::Version;
use serde::{Deserialize, Serialize};
#[cfg(feature = "sandbox")]
use wasmparser::{
    ComponentExternalKind, Encoding, Parser, Payload, Validator, WasmFeatures,
    component_types::ComponentEntityType, types::TypesRef,
};

#[cfg(feature = "sandbox")]
use crate::scan::scan;
use crate::{
    limits::Limits,
    reason::{Reason, Refused},
};

/// The version of the three WIT packages that this host speaks.
pub const CONTRACT: Version = Version::new(1, 0, 0);

/// What [`CONTRACT`] lends: interfaces of `numo:host` and their functions. A test compares it with `wit/`.
pub const LENT: [(&str, &[&str]); 7] = [
    ("types", &[]),
    ("log", &["write"]),
    ("clock", &["now", "parse-rfc3339"]),
    ("history", &["entries"]),
    ("kubernetes", &["get-object", "list-objects"]),
    ("http", &["fetch"]),
    ("prometheus", &["query"]),
];

/// What numo lends to providers of machines beside some of [`LENT`]: interfaces of `numo:provider` and their functions. A test compares it
/// with `wit/`.
pub const LENT_TO_PROVIDERS: [(&str, &[&str]); 3] = [
    ("settings", &["config-json", "cloud-config"]),
    ("cloud-api", &["send"]),
    ("objects", &["create-object", "patch-object", "delete-object"]),
];

/// Interfaces of `numo:host` that providers are not given: they are asked in no run, and reach a cloud by `cloud-api` alone.
const NOT_FOR_PROVIDERS: [&str; 3] = ["history", "http", "prometheus"];

/// What a component is for, by what it exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum World {
    /// A rule: `numo:rule/evaluation`.
    Rule,
    /// A provider of machines: `numo:provider/machines`.
    Provider,
}

impl World {
    const ALL: [Self; 2] = [Self::Rule, Self::Provider];

    /// Package and interface that it exports.
    pub fn exports(self) -> (&'static str, &'static str) {
        match self {
            Self::Rule => ("numo:rule", "evaluation"),
            Self::Provider => ("numo:provider", "machines"),
        }
    }

    /// What a component is for that exports this, in whatever version.
    fn of(name: &str) -> Option<Self> {
        let (package, interface, _) = split(name)?;
        let mut worlds = Self::ALL.into_iter();
        worlds.find(|world| world.exports() == (package, interface))
    }

    /// The functions of that interface, from its first version on.
    fn functions(self) -> &'static [&'static str] {
        match self {
            Self::Rule => &["describe", "validate-config", "evaluate"],
            Self::Provider => &[
                "describe",
                "get-node-image",
                "get-scaling-group-id",
                "create-node",
                "find-node",
                "delete-node",
                "get-node-state",
                "get-scaling-group-image",
                "set-scaling-group-image",
                "get-scaling-group-name",
                "get-autoscaling-group-name",
                "list-scaling-groups",
                "autoscaling-cloud-provider",
            ],
        }
    }
}

/// Packages of WASI 0.2 that are linked, empty-handed: no arguments, no environment, no files, input at its end, the
/// clock of the evaluation. Not `sockets`, not `http`.
const WASI: [&str; 5] = ["cli", "io", "clocks", "random", "filesystem"];

/// What may appear in a component. The engine is configured the same (`engine.rs`); the validator only says it sooner
/// and in better words.
#[cfg(feature = "sandbox")]
pub(crate) fn features() -> WasmFeatures {
    let known = WasmFeatures::WASM2
        | WasmFeatures::TAIL_CALL
        | WasmFeatures::EXTENDED_CONST
        | WasmFeatures::FUNCTION_REFERENCES
        | WasmFeatures::MULTI_MEMORY
        | WasmFeatures::COMPONENT_MODEL;
    // Reference types without a collector: `funcref` and no `externref`.
    known.difference(WasmFeatures::GC_TYPES)
}

/// What a component says of itself by its type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inspection {
    /// What it is for.
    pub world: World,
    /// The version of the interface that it exports.
    #[serde(with = "as_text")]
    pub contract: Version,
    /// What it imports, in its order.
    pub imports: Vec<Interface>,
    /// Bytes.
    pub size: u64,
    /// Bytes of state that its instances take together at most, beside their memories and tables.
    pub state_bytes: u64,
}

/// A version as its text.
mod as_text {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::Version;

    pub(super) fn serialize<S: Serializer>(version: &Version, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(version)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Version, D::Error> {
        let text = String::deserialize(deserializer)?;
        Version::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// One imported interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interface {
    /// `numo:host`.
    pub package: String,
    /// `kubernetes`.
    pub name: String,
    /// `1.0.0`.
    #[serde(with = "as_text")]
    pub version: Version,
    /// The functions that it calls, or could.
    pub functions: Vec<String>,
}

impl Interface {
    /// Whether a MutexRule has to lend it: `log`, `clock`, `history` and the types they share need no grant.
    pub fn needs_grant(&self) -> bool {
        self.package == "numo:host" && !matches!(self.name.as_str(), "log" | "clock" | "history" | "types")
    }
}

impl Inspection {
    /// The imports from `numo:host`.
    pub fn host_interfaces(&self) -> impl Iterator<Item = &Interface> {
        self.imports
            .iter()
            .filter(|interface| interface.package == "numo:host")
    }

    /// Whether it imports anything of WASI.
    pub fn uses_wasi(&self) -> bool {
        self.imports
            .iter()
            .any(|interface| interface.package.starts_with("wasi:"))
    }
}

/// Validates `bytes` and reads their type.
///
/// Errors: `TooLarge` above [`Limits::component_bytes`], before anything is parsed; `CompileFailed` when they are no
/// valid component; `WrongWorld` for a core module and for a component that is neither a rule nor a provider of machines;
/// `UnknownImport`; `HostTooOld` with the function's name.
#[cfg(feature = "sandbox")]
pub fn inspect(bytes: &[u8], limits: &Limits) -> Result<Inspection, Refused> {
    check_size(bytes, limits)?;
    if Parser::is_core_wasm(bytes) {
        let message =
            "these bytes are a core module and not a component; `numo plugin build` makes one of it";
        return Err(Refused::new(Reason::WrongWorld, message));
    }
    let state_bytes = scan(bytes)?;
    let invalid = |error: wasmparser::BinaryReaderError| {
        Refused::new(Reason::CompileFailed, format!("not a valid component: {error}"))
    };
    let types = Validator::new_with_features(features())
        .validate_all(bytes)
        .map_err(invalid)?;
    let (names, exports) = names(bytes).map_err(invalid)?;
    // What it is for says what it may import; one that is for nothing may import what a rule may.
    let world = exports.iter().find_map(|name| World::of(name));
    let mut imports = Vec::new();
    for name in names {
        imports.extend(imported(name, world.unwrap_or(World::Rule), types.as_ref())?);
    }
    let mut contract = None;
    for name in exports {
        contract = contract.or(exported(name, types.as_ref())?);
    }
    let Some((world, contract)) = contract else {
        let message = format!(
            "the component exports neither numo:rule/evaluation@{0} nor numo:provider/machines@{0}",
            CONTRACT.major
        );
        return Err(Refused::new(Reason::WrongWorld, message));
    };
    Ok(Inspection {
        world,
        contract,
        imports,
        size: bytes.len() as u64,
        state_bytes,
    })
}

/// Names of what the outermost component imports, and of the instances that it exports.
#[cfg(feature = "sandbox")]
fn names(bytes: &[u8]) -> Result<(Vec<&str>, Vec<&str>), wasmparser::BinaryReaderError> {
    let (mut imports, mut exports) = (Vec::new(), Vec::new());
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::Version { encoding, .. } => {
                depth += 1;
                debug_assert!(depth > 1 || encoding == Encoding::Component);
            }
            Payload::End(_) => depth -= 1,
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    imports.push(import?.name.name);
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    let export = export?;
                    if export.kind == ComponentExternalKind::Instance {
                        exports.push(export.name.name);
                    }
                }
            }
            _ => {}
        }
    }
    Ok((imports, exports))
}

/// Before anything is made of them.
pub(crate) fn check_size(bytes: &[u8], limits: &Limits) -> Result<(), Refused> {
    let size = bytes.len() as u64;
    if size > limits.component_bytes {
        let message = format!(
            "the component has {size} bytes, the limit is {}",
            limits.component_bytes
        );
        return Err(Refused::new(Reason::TooLarge, message));
    }
    Ok(())
}

/// `numo:host/log@1.0.0` in its parts.
fn split(name: &str) -> Option<(&str, &str, Version)> {
    let (path, version) = name.split_once('@')?;
    let (package, interface) = path.split_once('/')?;
    Some((package, interface, Version::parse(version).ok()?))
}

#[cfg(feature = "sandbox")]
fn imported(name: &str, world: World, types: TypesRef<'_>) -> Result<Option<Interface>, Refused> {
    let unknown = |why: &str| Refused::new(Reason::UnknownImport, format!("import {name:?}: {why}"));
    let ty = types.component_item_for_import(name).map(|item| item.ty);
    let instance = match ty {
        Some(ComponentEntityType::Instance(instance)) => instance,
        // A type alone is no capability.
        Some(ComponentEntityType::Type { .. }) => return Ok(None),
        Some(ComponentEntityType::Module(_)) => return Err(unknown("no component is given a core module")),
        Some(ComponentEntityType::Component(_)) => return Err(unknown("no component is given another")),
        Some(ComponentEntityType::Func(_) | ComponentEntityType::Value(_)) | None => {
            return Err(unknown("numo offers whole interfaces of numo:host, nothing else"));
        }
    };
    let Some((package, interface, version)) = split(name) else {
        return Err(unknown("numo offers interfaces of numo:host with a version"));
    };
    let functions: Vec<String> = types[instance]
        .exports
        .iter()
        .filter(|(_, item)| matches!(item.ty, ComponentEntityType::Func(_)))
        .map(|(name, _)| name.clone())
        .collect();
    let is_for_providers = package == "numo:provider" && world == World::Provider;
    if package == "numo:host" && world == World::Provider && NOT_FOR_PROVIDERS.contains(&interface) {
        return Err(unknown("a provider of machines is not given this interface"));
    } else if package == "numo:host" {
        granted((package, interface, &version), &functions, &LENT)?;
    } else if is_for_providers {
        granted((package, interface, &version), &functions, &LENT_TO_PROVIDERS)?;
    } else if let Some(part) = package.strip_prefix("wasi:") {
        if !WASI.contains(&part) {
            let instead = match world {
                World::Rule => "numo:host/http",
                World::Provider => "numo:provider/cloud-api",
            };
            return Err(unknown(&format!(
                "sockets and HTTP of WASI are never given; use {instead}"
            )));
        }
        if (version.major, version.minor) != (0, 2) {
            return Err(unknown("only WASI 0.2 is linked"));
        }
    } else {
        return Err(unknown("not an interface of numo:host"));
    }
    Ok(Some(Interface {
        package: package.to_owned(),
        name: interface.to_owned(),
        version,
        functions,
    }))
}

/// Whether this host has what the component calls. A component of the next minor version that calls nothing new is
/// as good as any.
fn granted(
    (package, interface, version): (&str, &str, &Version),
    functions: &[String],
    lent: &[(&str, &[&str])],
) -> Result<(), Refused> {
    if version.major != CONTRACT.major {
        let message = format!("the component is built for {package}@{version}, this numo speaks {CONTRACT}");
        let reason = if version.major > CONTRACT.major {
            Reason::HostTooOld
        } else {
            Reason::UnknownImport
        };
        return Err(Refused::new(reason, message));
    }
    let reason = if *version > CONTRACT {
        Reason::HostTooOld
    } else {
        Reason::UnknownImport
    };
    let lacks = |what: &str| {
        let message =
            format!("the component calls {package}/{what} of version {version}, this numo speaks {CONTRACT}");
        Refused::new(reason, message)
    };
    let Some((_, has)) = lent.iter().find(|(name, _)| *name == interface) else {
        return Err(lacks(interface));
    };
    match functions
        .iter()
        .find(|function| !has.contains(&function.as_str()))
    {
        Some(function) => Err(lacks(&format!("{interface}#{function}"))),
        None => Ok(()),
    }
}

#[cfg(feature = "sandbox")]
fn exported(name: &str, types: TypesRef<'_>) -> Result<Option<(World, Version)>, Refused> {
    let wrong = |message: String| Refused::new(Reason::WrongWorld, message);
    let Some((package, interface, version)) = split(name) else {
        return Ok(None);
    };
    let Some(world) = World::of(name) else {
        return Ok(None);
    };
    if version.major != CONTRACT.major {
        return Err(wrong(format!(
            "the component exports {package}/{interface}@{version}, this numo speaks {CONTRACT}"
        )));
    }
    let Some(ComponentEntityType::Instance(instance)) =
        types.component_item_for_export(name).map(|item| item.ty)
    else {
        return Ok(None);
    };
    for function in world.functions() {
        let item = types[instance].exports.get(*function).map(|item| item.ty);
        if !matches!(item, Some(ComponentEntityType::Func(_))) {
            return Err(wrong(format!(
                "the component exports {package}/{interface} without {function}"
            )));
        }
    }
    Ok(Some((world, version)))
}

#[cfg(test)]
#[cfg(feature = "sandbox")]
mod tests {
    use super::*;

    /// Why a component that exports an interface may not import another.
    fn refusal(exports: &str, imports: &str) -> String {
        let text = format!(
            r#"(component (import "{imports}" (instance)) (instance $it) (export "{exports}" (instance $it)))"#
        );
        let refused = inspect(&wat::parse_str(text).unwrap(), &Limits::default()).unwrap_err();
        assert_eq!(refused.reason, Reason::UnknownImport, "{refused}");
        refused.message
    }

    #[test]
    fn who_may_not_import_something_is_told_what_there_is_for_it_instead() {
        let (rule, provider) = ("numo:rule/evaluation@1.0.0", "numo:provider/machines@1.0.0");
        for (exports, imports, words) in [
            (rule, "wasi:http/types@0.2.0", "use numo:host/http"),
            (provider, "wasi:http/types@0.2.0", "use numo:provider/cloud-api"),
            (
                provider,
                "numo:host/http@1.0.0",
                "a provider of machines is not given",
            ),
            (
                rule,
                "numo:provider/cloud-api@1.0.0",
                "not an interface of numo:host",
            ),
        ] {
            let said = refusal(exports, imports);
            assert!(said.contains(words), "{exports} {imports}: {said}");
        }
    }
}
