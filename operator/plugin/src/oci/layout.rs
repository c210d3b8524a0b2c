//! The documents of an artifact: manifest, config, index. It only reads and writes them; every list is bounded by the
//! size of the document it stands in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{digest::Digest, error::OciError};
use crate::inspect::Inspection;

/// Media type of a component's config.
pub const CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// Media type of the one layer.
pub const LAYER: &str = "application/wasm";
/// Bytes of a manifest or an index. Registries refuse more than 4 MiB; a component's manifest has some hundred bytes.
pub const MANIFEST_BYTES: u64 = 1024 * 1024;
/// Bytes of a config.
pub const CONFIG_BYTES: u64 = 256 * 1024;

/// Media type of an image manifest, the only kind of manifest that is taken.
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// Media type of an index: refused as an artifact, read as a list of referrers.
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Media type of the config that is none.
pub(crate) const EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// Its bytes.
pub(crate) const EMPTY_BYTES: &[u8] = b"{}";

/// Points at a blob or a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) artifact_type: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Descriptor {
    pub(crate) fn new(media_type: &str, bytes: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: Digest::of(bytes),
            size: bytes.len() as u64,
            artifact_type: None,
            annotations: BTreeMap::new(),
        }
    }
}

/// An image manifest. Unknown fields are left out; nothing read is written back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub(crate) schema_version: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) artifact_type: Option<String>,
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Manifest {
    pub(crate) fn new(config: Descriptor, layers: Vec<Descriptor>) -> Self {
        Self {
            schema_version: 2,
            media_type: Some(MANIFEST.to_owned()),
            artifact_type: None,
            config,
            layers,
            subject: None,
            annotations: BTreeMap::new(),
        }
    }

    /// The layer, if the manifest is that of one component of at most `most` bytes.
    pub(super) fn component(&self, reference: &impl ToString, most: u64) -> Result<&Descriptor, OciError> {
        if self.config.media_type != CONFIG {
            return Err(OciError::media_type(
                reference,
                "config",
                &self.config.media_type,
                CONFIG,
            ));
        }
        let [layer] = self.layers.as_slice() else {
            let found = self
                .layers
                .iter()
                .take(4)
                .map(|layer| layer.media_type.as_str())
                .collect::<Vec<_>>();
            let found = format!("{} layers: {}", self.layers.len(), found.join(", "));
            return Err(OciError::media_type(
                reference,
                "layers",
                &found,
                "exactly one layer application/wasm",
            ));
        };
        if layer.media_type != LAYER {
            return Err(OciError::media_type(reference, "layer", &layer.media_type, LAYER));
        }
        if layer.size > most {
            return Err(OciError::too_large(reference, "layer", Some(layer.size), most));
        }
        Ok(layer)
    }
}

/// A list of manifests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Index {
    pub(crate) schema_version: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) media_type: Option<String>,
    /// Some registries answer `null` for none.
    #[serde(default, deserialize_with = "null_is_none")]
    pub(crate) manifests: Vec<Descriptor>,
}

fn null_is_none<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Descriptor>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Index {
    pub(crate) fn new(manifests: Vec<Descriptor>) -> Self {
        Self {
            schema_version: 2,
            media_type: Some(INDEX.to_owned()),
            manifests,
        }
    }
}

/// The config of a component. What it says of imports and exports is its author's word; the host derives its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WasmConfig {
    /// RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Who made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// `wasm`.
    pub architecture: String,
    /// `wasip2` for components.
    pub os: String,
    /// Digests of the layers, which make the config's own digest unique.
    #[serde(default)]
    pub layer_digests: Vec<String>,
    /// What the component imports and exports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<ComponentSurface>,
}

/// What a component imports and exports: `numo:host/log@1.0.0`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ComponentSurface {
    /// Interfaces it offers.
    pub exports: Vec<String>,
    /// Interfaces it needs.
    pub imports: Vec<String>,
    /// The world it was made for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl From<&Inspection> for ComponentSurface {
    /// The surface of a component that numo takes.
    fn from(inspection: &Inspection) -> Self {
        let imports = inspection.imports.iter();
        let (package, interface) = inspection.world.exports();
        Self {
            exports: vec![format!("{package}/{interface}@{}", inspection.contract)],
            imports: imports
                .map(|import| format!("{}/{}@{}", import.package, import.name, import.version))
                .collect(),
            target: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::{Interface, World};

    #[test]
    fn a_component_offers_what_its_world_exports() {
        let surface = |world: World| {
            ComponentSurface::from(&Inspection {
                world,
                contract: "1.2.0".parse().unwrap(),
                imports: vec![Interface {
                    package: "numo:host".to_owned(),
                    name: "log".to_owned(),
                    version: "1.0.0".parse().unwrap(),
                    functions: Vec::new(),
                }],
                size: 1,
                state_bytes: 0,
            })
        };
        for (world, exports) in [
            (World::Rule, "numo:rule/evaluation@1.2.0"),
            (World::Provider, "numo:provider/machines@1.2.0"),
        ] {
            let surface = surface(world);
            assert_eq!(surface.exports, [exports]);
            assert_eq!(surface.imports, ["numo:host/log@1.0.0"]);
        }
    }

    fn manifest(config: &str, layers: &[(&str, u64)]) -> Manifest {
        let layers = layers.iter().map(|(media_type, size)| {
            let mut layer = Descriptor::new(media_type, b"");
            layer.size = *size;
            layer
        });
        Manifest::new(Descriptor::new(config, b"{}"), layers.collect())
    }

    #[test]
    fn only_one_uncompressed_wasm_layer_of_the_cncf_layout_is_a_component() {
        let check = |manifest: Manifest, expect: &str| {
            let error = manifest
                .component(&"r", 10)
                .map(|_| ())
                .map_err(|error| error.reason());
            assert_eq!(error.err().unwrap_or("ok"), expect, "{manifest:?}");
        };
        check(manifest(CONFIG, &[(LAYER, 10)]), "ok");
        check(manifest(CONFIG, &[(LAYER, 11)]), "TooLarge");
        check(manifest(CONFIG, &[(LAYER, u64::MAX)]), "TooLarge");
        check(manifest(CONFIG, &[]), "WrongMediaType");
        check(manifest(CONFIG, &[(LAYER, 1), (LAYER, 1)]), "WrongMediaType");
        check(
            manifest(CONFIG, &[("application/vnd.oci.image.layer.v1.tar+gzip", 1)]),
            "WrongMediaType",
        );
        check(
            manifest(CONFIG, &[("application/wasm+gzip", 1)]),
            "WrongMediaType",
        );
        check(
            manifest("application/vnd.wasm.config.v1+json", &[(LAYER, 1)]),
            "WrongMediaType",
        );
        check(manifest(EMPTY, &[(LAYER, 1)]), "WrongMediaType");
    }

    #[test]
    fn sizes_and_digests_that_are_none_do_not_parse() {
        let text =
            |digest: &str, size: &str| format!(r#"{{"mediaType":"a","digest":"{digest}","size":{size}}}"#);
        let good = Digest::of(b"");
        assert!(serde_json::from_str::<Descriptor>(&text(good.as_str(), "1")).is_ok());
        for (digest, size) in [
            ("sha256:0", "1"),
            ("md5:0", "1"),
            (good.as_str(), "-1"),
            (good.as_str(), "1.5"),
        ] {
            assert!(
                serde_json::from_str::<Descriptor>(&text(digest, size)).is_err(),
                "{digest} {size}"
            );
        }
    }
}
