//! Images, made of files without a builder: what is in them stands here, and equal files make an equal image. The same files are in
//! `deploy/Dockerfile.prebuilt` and `deploy/Dockerfile.ubi`, for who builds one.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context as _, Result};
use numo_plugin::oci::Digest;
use serde_json::{Value, json};

use super::{
    archive,
    binary::Platform,
    layout::{CONFIG, INDEX, LAYER, Layout, MANIFEST, REFERENCE, Read},
};

/// Labels of an image, and annotations of its manifests.
pub type Labels = BTreeMap<String, String>;

/// A layer: its descriptor, and the digest of its files.
#[derive(Clone, Debug)]
pub struct Layer {
    descriptor: Value,
    files: Digest,
}

impl Layer {
    /// Everything in a folder.
    pub fn of(layout: &Layout, folder: &Path, when: i64) -> Result<Self> {
        let tar = archive::tar(folder, when)?;
        let descriptor = layout.blob(LAYER, &archive::gzip(&tar)?)?;
        Ok(Self {
            descriptor,
            files: Digest::of(&tar),
        })
    }
}

/// What an image is besides its layers.
#[derive(Clone, Debug, Default)]
pub struct Image<'a> {
    /// What it starts; nothing for images of files.
    pub program: Option<&'a str>,
    /// Its labels.
    pub labels: Labels,
    /// The layout of an image that lies below its layers.
    pub base: Option<&'a Path>,
    /// When it was made, in seconds since 1970.
    pub when: i64,
}

impl Image<'_> {
    /// The image of a platform, by its layers.
    fn one(&self, layout: &Layout, platform: Platform, layers: &[Layer]) -> Result<Value> {
        let created = jiff::Timestamp::from_second(self.when)?.to_string();
        let Base {
            mut config,
            layers: mut all,
            mut labels,
        } = match self.base {
            Some(base) => below(layout, base, platform)?,
            None => Base {
                config: json!({"config": {}, "rootfs": {"type": "layers", "diff_ids": []}, "history": []}),
                layers: Vec::new(),
                labels: Labels::new(),
            },
        };
        labels.extend(self.labels.clone());
        config["created"] = json!(created);
        config["architecture"] = json!(platform.arch());
        config["os"] = json!(platform.os());
        // What the base says of itself is said anew.
        config["config"]["Labels"] = json!(labels);
        config["config"]
            .as_object_mut()
            .map(|config| config.remove("Cmd"));
        if let Some(program) = self.program {
            // Any other works as well: nothing in here belongs to it, and nothing is written.
            config["config"]["User"] = json!("65532:65532");
            config["config"]["Entrypoint"] = json!([program]);
        }
        for layer in layers {
            push(&mut config["rootfs"]["diff_ids"], json!(layer.files))?;
            push(
                &mut config["history"],
                json!({"created": created, "created_by": "cargo xtask release"}),
            )?;
            all.push(layer.descriptor.clone());
        }
        let config = layout.blob(CONFIG, &serde_json::to_vec(&config)?)?;
        let mut descriptor = layout.manifest(&config, &all, &json!(labels))?;
        descriptor["platform"] = json!({"architecture": platform.arch(), "os": platform.os()});
        Ok(descriptor)
    }

    /// One image for each platform, in an index.
    pub fn index(&self, layout: &Layout, platforms: &[(Platform, Vec<Layer>)]) -> Result<Value> {
        let images: Vec<Value> = platforms
            .iter()
            .map(|(platform, layers)| self.one(layout, *platform, layers))
            .collect::<Result<_>>()?;
        layout.document(&json!({
            "schemaVersion": 2, "mediaType": INDEX, "manifests": images, "annotations": self.labels,
        }))
    }
}

fn push(list: &mut Value, one: Value) -> Result<()> {
    if list.is_null() {
        *list = json!([]);
    }
    list.as_array_mut()
        .context("a list in the configuration of the base")?
        .push(one);
    Ok(())
}

/// What lies below the layers of an image.
struct Base {
    config: Value,
    layers: Vec<Value>,
    /// Which image it is: a tag such as `latest` is soon another one's.
    labels: Labels,
}

/// The configuration and the layers of the base, which go into the layout too.
fn below(layout: &Layout, base: &Path, platform: Platform) -> Result<Base> {
    let read = Read::new(base);
    let of = || format!("{}: an image for {platform}", base.display());
    let mut candidates = read.named()?;
    let name = candidates
        .iter()
        .find_map(|one| one["annotations"][REFERENCE].as_str().map(str::to_owned));
    let mut manifest = None;
    while let Some(one) = candidates.pop() {
        let document = read.document(&one)?;
        if document["mediaType"] == INDEX || document["manifests"].is_array() {
            let wanted = |one: &&Value| {
                one["platform"]["architecture"] == platform.arch() && one["platform"]["os"] == platform.os()
            };
            candidates.extend(
                document["manifests"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter(wanted)
                    .cloned(),
            );
        } else if document["mediaType"] == MANIFEST || document["layers"].is_array() {
            let config = read.document(&document["config"])?;
            if config["architecture"] == platform.arch() {
                manifest = Some((document, config, one["digest"].as_str().map(str::to_owned)));
            }
        }
    }
    let (manifest, config, digest) = manifest.with_context(of)?;
    let layers = manifest["layers"].as_array().cloned().unwrap_or_default();
    for layer in &layers {
        layout.blob(LAYER, &read.blob(layer)?)?;
    }
    let of_base = [("base.name", name), ("base.digest", digest)];
    let labels = of_base
        .into_iter()
        .filter_map(|(label, value)| Some((format!("org.opencontainers.image.{label}"), value?)));
    Ok(Base {
        config,
        layers,
        labels: labels.collect(),
    })
}
