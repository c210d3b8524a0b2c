//! Loads a rule: bytes become something that can be asked. Loading goes from cheap to dear, and stops at the first
//! fault: size, validity, type, compiled form, links, `describe`.

use std::sync::{Arc, Mutex};

use wasmtime::component::{Component, InstancePre, Linker};

use crate::{
    bindings::RulePre,
    digest::digest,
    engine::{Engine, Inner},
    evaluate,
    host::Sandbox,
    inspect::{Inspection, World, check_size},
    reason::{Reason, Refused},
    rule::{Loaded, Rule},
    shares::Share,
};

impl Engine {
    /// Makes a rule of a component's bytes.
    ///
    /// Compiles unless the cache has the compiled form, and calls `describe` with every host call denied.
    /// Errors: `TooLarge`, `CompileFailed`, `CompileTimeout`, `WrongWorld`, `UnknownImport`, `HostTooOld`, and what
    /// `describe` can run into.
    pub async fn load(&self, bytes: &[u8]) -> Result<Rule, Refused> {
        self.load_for("", bytes).await
    }

    /// As [`Self::load`], for a tenant: those that wait for the one compiler are served in turn.
    pub async fn load_for(&self, tenant: &str, bytes: &[u8]) -> Result<Rule, Refused> {
        let prepared = self.0.prepared(tenant, bytes).await?;
        is_of(&prepared.inspection, World::Rule)?;
        Box::pin(rule(self.0.clone(), prepared)).await
    }
}

/// A component that is inspected and compiled, and not yet linked.
pub(crate) struct Prepared {
    /// What its type says it is.
    pub(crate) inspection: Inspection,
    /// Its compiled form.
    pub(crate) compiled: Vec<u8>,
    /// `sha256:…` of its bytes.
    pub(crate) digest: String,
    /// The memory in which it is loaded: given back once it is.
    pub(crate) share: Share,
}

/// Makes a rule of what is known to be one.
pub(crate) async fn rule(engine: Arc<Inner>, prepared: Prepared) -> Result<Rule, Refused> {
    let linked = prepared.linked(&engine, &engine.linker)?;
    let pre = RulePre::new(linked.pre).map_err(|error| wrong_world(&error))?;
    let description = evaluate::describe(&engine, &pre, linked.inspection.state_bytes).await?;
    Ok(Rule(Arc::new(Loaded {
        engine,
        pre,
        description,
        inspection: linked.inspection,
        compiled_bytes: linked.compiled_bytes,
        digest: linked.digest,
        reasons: Mutex::default(),
    })))
}

/// Whether the component is of the world that is asked for.
pub(crate) fn is_of(inspection: &Inspection, wanted: World) -> Result<(), Refused> {
    if inspection.world == wanted {
        return Ok(());
    }
    let ((found_in, found), (wanted_in, wanted)) = (inspection.world.exports(), wanted.exports());
    let message = format!("the component exports {found_in}/{found}, wanted {wanted_in}/{wanted}");
    Err(Refused::new(Reason::WrongWorld, message))
}

/// A component that is linked, and not yet known to export what it should.
pub(crate) struct Linked {
    /// To make instances of.
    pub(crate) pre: InstancePre<Sandbox>,
    /// What its type says it is.
    pub(crate) inspection: Inspection,
    /// Bytes of its compiled form.
    pub(crate) compiled_bytes: u64,
    /// `sha256:…` of its bytes.
    pub(crate) digest: String,
    /// The memory in which it is loaded: given back once it is.
    _share: Share,
}

impl Prepared {
    /// Linked with what its world is lent. The component has its own copy of the compiled form: that is dropped before the component
    /// describes itself.
    pub(crate) fn linked(self, engine: &Inner, linker: &Linker<Sandbox>) -> Result<Linked, Refused> {
        let component = deserialize(&engine.wasmtime, &self.compiled)?;
        if component.resources_required().is_none() {
            let message = "the component imports core modules or instances";
            return Err(Refused::new(Reason::UnknownImport, message));
        }
        let pre = linker.instantiate_pre(&component);
        Ok(Linked {
            pre: pre.map_err(|error| not_linked(&error))?,
            inspection: self.inspection,
            compiled_bytes: self.compiled.len() as u64,
            digest: self.digest,
            _share: self.share,
        })
    }
}

/// It lacks what its world exports.
pub(crate) fn wrong_world(error: &wasmtime::Error) -> Refused {
    Refused::new(Reason::WrongWorld, format!("{error:#}"))
}

impl Inner {
    /// What any component needs before it is linked, whatever its world.
    pub(crate) async fn prepared(&self, tenant: &str, bytes: &[u8]) -> Result<Prepared, Refused> {
        check_size(bytes, &self.limits)?;
        let digest = digest(bytes);
        let (inspection, compiled, share) = self.compiled((tenant, &digest), bytes).await?;
        Ok(Prepared {
            inspection,
            compiled,
            digest,
            share,
        })
    }

    /// Type and compiled form, from the cache or from the compiler, and the share of memory in which it is loaded. What is in the cache was
    /// inspected before.
    async fn compiled(
        &self,
        of: (&str, &str),
        bytes: &[u8],
    ) -> Result<(Inspection, Vec<u8>, Share), Refused> {
        if let Some(found) = self.kept_in_cache(of).await {
            return Ok(found);
        }
        let (mut inspection, mut compiled) = self.compile(of, bytes).await?;
        if self.size(of).is_some() {
            // Nothing of it is held while it waits for its share: others wait with theirs.
            drop(compiled);
            if let Some(found) = self.kept_in_cache(of).await {
                return Ok(found);
            }
            // Others have pushed it out meanwhile.
            (inspection, compiled) = self.compile(of, bytes).await?;
        }
        let share = self.room(of, compiled.len() as u64).await;
        Ok((inspection, compiled, share))
    }

    /// Bytes that it takes in the cache, if it is there.
    fn size(&self, (_, digest): (&str, &str)) -> Option<u64> {
        self.cache.as_ref()?.compiled_bytes(digest)
    }

    /// Waits for the memory of the form and of the code that is made of it.
    async fn room(&self, (tenant, _): (&str, &str), bytes: u64) -> Share {
        self.loading.take(tenant, (2 * bytes).div_ceil(1 << 20)).await
    }

    fn cached(&self, (_, digest): (&str, &str)) -> Option<(Inspection, Vec<u8>)> {
        let (about, compiled) = self.cache.as_ref()?.compiled(digest)?;
        Some((serde_json::from_slice(&about).ok()?, compiled))
    }

    async fn kept_in_cache(&self, of: (&str, &str)) -> Option<(Inspection, Vec<u8>, Share)> {
        let share = self.room(of, self.size(of)?).await;
        let (inspection, compiled) = self.cached(of)?;
        Some((inspection, compiled, share))
    }

    async fn compile(&self, of: (&str, &str), bytes: &[u8]) -> Result<(Inspection, Vec<u8>), Refused> {
        let cached = || self.cached(of);
        let (inspection, compiled) = self.compiler.compile(of, bytes, &self.limits, cached).await?;
        if let Some(cache) = &self.cache
            && let Err(error) = serde_json::to_vec(&inspection)
                .map_err(std::io::Error::other)
                .and_then(|about| cache.put(of, bytes, &about, &compiled))
        {
            tracing::warn!(%error, digest = of.1, "the compiled component is not cached");
        }
        Ok((inspection, compiled))
    }
}

/// The one place that trusts compiled bytes.
#[allow(
    unsafe_code,
    reason = "wasmtime has no safe way to load compiled code; see the safety comment"
)]
fn deserialize(engine: &wasmtime::Engine, compiled: &[u8]) -> Result<Component, Refused> {
    // SAFETY: the bytes are what this host's own compiler wrote: they come from the compiler in this process, from the
    // pipe of a child that runs this very binary, or from the cache, which gives only what carries a MAC made with a
    // key that never leaves this cache's private folder. They never come from a registry. That they fit this engine
    // (version, features, processor) wasmtime checks itself.
    unsafe { Component::deserialize(engine, compiled) }.map_err(|error| {
        Refused::new(
            Reason::CompileFailed,
            format!("the compiled form does not load: {error:#}"),
        )
    })
}

/// Types of the same name that do not fit: a component of another contract, or of no such WASI.
fn not_linked(error: &wasmtime::Error) -> Refused {
    let text = format!("{error:#}");
    let reason = if text.contains("numo:") {
        Reason::WrongWorld
    } else {
        Reason::UnknownImport
    };
    Refused::new(reason, text)
}
