//! The component of a provider of machines: fetched, verified, compiled and loaded as rules are, from where an administrator has said. What
//! it is asked is not known here.

use super::{
    artifact::NotFetched,
    evaluator::Evaluator,
    reader::{Access, RuleReader},
    writer::ObjectWriter,
};
use numo_api::WasmRule;
use numo_plugin::{
    provider::{MachineProvider, Writer},
    services::Reader,
};
use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Where the component of a provider is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An image, by its digest, and the Secret of numo's namespace that pulls it.
    Image {
        /// `registry/repository@sha256:…`.
        image: String,
        /// Name of the Secret.
        pull_secret: Option<String>,
    },
    /// A file that was mounted.
    File(PathBuf),
}

/// The objects that providers read and write, with numo's own rights.
#[derive(Clone)]
pub struct Objects {
    /// What rules read through, and what bounds it: readers of a provider have a share of it as a namespace has.
    read: Arc<Access>,
    write: Arc<Access>,
}

impl Objects {
    /// Of the cluster that rules are evaluated in.
    pub fn new(evaluator: &Evaluator) -> Self {
        Self {
            read: evaluator.inner().access.clone(),
            write: Arc::new(Access::new(evaluator.connection().write.clone())),
        }
    }

    /// Reads for one call.
    pub fn reader(&self) -> Arc<dyn Reader> {
        Arc::new(RuleReader::own(self.read.clone()))
    }

    /// Writes. No page is read by it.
    pub fn writer(&self) -> Arc<dyn Writer> {
        Arc::new(ObjectWriter::new(self.write.clone()))
    }
}

impl Evaluator {
    /// Fetches and loads the component of a provider; the words are for people. `namespace` is numo's own.
    ///
    /// Errors: it cannot be had, nobody whom numo trusts has signed it, or it is no provider.
    pub async fn load_provider(&self, namespace: &str, source: &Source) -> Result<MachineProvider, String> {
        let inner = self.inner();
        let engine = inner.engine().map_err(|(_, words)| words)?.engine;
        let bytes = match source {
            Source::File(path) => {
                let found = "component.file: found a file, wanted component.image";
                inner.artifacts.unsignable(found).map_err(|(_, words)| words)?;
                file(path, engine.limits().component_bytes)?
            }
            Source::Image { image, pull_secret } => {
                let spec = WasmRule {
                    image: Some(image.clone()),
                    pull_secret_name: pull_secret.clone(),
                    ..WasmRule::default()
                };
                let most = engine.limits().component_bytes;
                // An administrator has named the registry, wherever it is.
                let fetched = inner.artifacts.fetch(namespace, &spec, None, &[], most).await;
                match fetched {
                    Ok(fetched) => fetched.component,
                    Err(NotFetched::Unfetched((_, words)) | NotFetched::Unverified(_, (_, words))) => {
                        return Err(words.replace("spec.wasm.image", "component.image"));
                    }
                    Err(NotFetched::NoAnswer) => return Err("the API server gave no answer".to_owned()),
                }
            }
        };
        let loaded = engine.load_provider(&bytes).await;
        loaded.map_err(|refused| format!("the component of the provider: {refused}"))
    }
}

/// A file of at most so many bytes; a byte more is enough to be refused later.
fn file(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let wrong = |error: std::io::Error| format!("component.file {}: {error}", path.display());
    let opened = File::open(path).map_err(wrong)?;
    let mut bytes = Vec::new();
    opened
        .take(most.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(wrong)?;
    Ok(bytes)
}
