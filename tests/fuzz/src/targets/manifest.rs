//! Documents of a registry: a component's manifest, its config, and an index of referrers.

use numo_plugin::oci::{CONFIG, LAYER, WasmConfig, untrusted};
use serde_json::json;

use crate::Source;

/// Bytes that a component may have here.
const MOST: u64 = 1 << 20;

pub(super) fn read(bytes: &[u8]) {
    let is_digest = |text: &str| text.parse::<numo_plugin::oci::Digest>().is_ok();
    if let Ok((digest, size)) = untrusted::manifest(bytes, MOST) {
        assert!(is_digest(&digest) && size <= MOST, "{digest} {size}");
    }
    if let Ok(digests) = untrusted::index(bytes) {
        assert!(digests.iter().all(|digest| is_digest(digest)), "{digests:?}");
        assert!(digests.len() * 64 <= bytes.len(), "more than the document holds");
    }
    if let Ok(config) = serde_json::from_slice::<WasmConfig>(bytes) {
        let text = serde_json::to_string(&config).unwrap_or_default();
        assert_eq!(serde_json::from_str::<WasmConfig>(&text).ok(), Some(config));
    }
}

pub(super) fn make(source: &mut Source) -> Vec<u8> {
    if source.once_in(8) {
        return format!(r#"{{"annotations": {}}}"#, source.nested_json()).into_bytes();
    }
    let digest = |source: &mut Source| format!("sha256:{}", source.one(&["0", "7", "f"]).repeat(64));
    let descriptor = |source: &mut Source, kind: &str| {
        json!({
            "mediaType": kind,
            "digest": digest(source),
            "size": source.one(&[0_u64, 2, MOST, MOST + 1, u64::MAX]),
            "annotations": {"dev.cosignproject.cosign/signature": "c2ln"},
            "artifactType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        })
    };
    let document = match source.below(3) {
        0 => {
            let layers: Vec<_> = (0..source.below(3)).map(|_| descriptor(source, LAYER)).collect();
            json!({
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": descriptor(source, CONFIG),
                "layers": if layers.is_empty() { vec![descriptor(source, LAYER)] } else { layers },
                "subject": descriptor(source, "application/vnd.oci.image.manifest.v1+json"),
                "annotations": {"org.opencontainers.image.title": "rule"},
            })
        }
        1 => {
            let manifests: Vec<_> = (0..source.below(5))
                .map(|_| descriptor(source, "application/vnd.oci.image.manifest.v1+json"))
                .collect();
            json!({"schemaVersion": 2, "manifests": if source.once_in(8) { json!(null) } else { json!(manifests) }})
        }
        _ => json!({
            "created": "2026-11-21T12:00:00Z",
            "author": "team",
            "architecture": "wasm",
            "os": "wasip2",
            "layerDigests": [digest(source)],
            "component": {"exports": ["numo:rule/evaluation@1.0.0"], "imports": [], "target": null},
        }),
    };
    document.to_string().into_bytes()
}
