//! Images of wasm rules: resolved once, fetched with the rule's own credentials, kept for the day the registry is gone,
//! and judged by the policies of operator and rule before anything of them is compiled. Nothing here runs a component.

use super::signers::{KeptSigners, SignerFiles, Signers};
use crate::{
    runners::wasm::{Fault, policy, reason, reference},
    shell::item::Item,
};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
};
use numo_api::{Reason, WasmRule};
use numo_core::rules::clip;
use numo_plugin::{
    address::AddressRange,
    oci::{
        Credentials, MirrorSet, Mirrors, OciError, Pinned, Proxies, Reference, Registry, Setup, Store,
        Version,
    },
    signature::{Candidate, Mode, Policy, SignatureError, Verifier},
};
use std::{path::PathBuf, time::Duration};

/// Longest that the API server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of all components that are kept.
pub(super) const KEPT_BYTES: u64 = 512 * 1024 * 1024;
/// The annotation of a manifest in which its author says which version it is.
const VERSION: &str = "org.opencontainers.image.version";
/// Letters of a version.
const VERSION_LETTERS: usize = 128;
/// Where a Secret keeps what pulls images.
const PULL_SECRET_KEY: &str = ".dockerconfigjson";

/// How registries are reached, and what is taken from them.
#[derive(Clone, Debug, Default)]
pub struct ArtifactOptions {
    /// Folder in which fetched components are kept; none keeps nothing.
    pub folder: Option<PathBuf>,
    /// Who must have signed every component; naming nobody asks for nothing.
    pub signers: SignerFiles,
    /// Authorities of registries beside the system's, as PEM.
    pub authorities: Vec<u8>,
    /// Registries, or paths in them, that images may be from; empty for any.
    pub allowed: Vec<String>,
    /// Registries that are spoken to in plain HTTP.
    pub plain: Vec<String>,
    /// The cluster's proxy.
    pub proxies: Proxies,
    /// A rule may name a registry on this machine: for tests, where servers are there.
    pub reach_loopback: bool,
}

/// Fetches images.
pub struct Artifacts {
    client: Client,
    options: ArtifactOptions,
    signers: KeptSigners,
    store: Option<Store>,
}

/// A component that may be compiled.
#[derive(Debug)]
pub struct Fetched {
    /// Its bytes.
    pub component: Vec<u8>,
    /// What it is from, if not from a ConfigMap.
    pub image: Option<Pinned>,
    /// Its version, if its author says one.
    pub version: Option<String>,
    /// What came of the policies; none if there is no policy.
    pub verified: Option<Result<String, Fault>>,
}

/// Why there is no component to compile.
#[derive(Debug)]
pub enum NotFetched {
    /// It could not be had.
    Unfetched(Fault),
    /// It could be had, and a policy forbids it.
    Unverified(Pinned, Fault),
    /// The API server gave no answer: it is asked again.
    NoAnswer,
}

impl Artifacts {
    /// A folder that cannot be used keeps nothing.
    pub fn new(client: Client, options: ArtifactOptions) -> Self {
        let open = |folder: PathBuf| {
            Store::open(folder, KEPT_BYTES)
                .inspect_err(|error| tracing::warn!(%error, "components that are fetched cannot be kept"))
                .ok()
        };
        let store = options.folder.clone().and_then(open);
        let signers = KeptSigners::new(options.signers.clone());
        Self {
            client,
            options,
            signers,
            store,
        }
    }

    /// Whose signatures the operator asks for.
    pub fn signers(&self) -> &KeptSigners {
        &self.signers
    }

    /// What the operator's policy says of a component that no signature can be for. `found` is where it is and what it is wanted as.
    pub fn unsignable(&self, found: &str) -> Result<(), Fault> {
        if !self.signers.ask() {
            return Ok(());
        }
        let message = format!("{found}: numo runs signed components only (--rule-keys, --rule-identities)");
        Err((Reason::Unsigned, message))
    }

    /// The component of an image, of at most `most` bytes. `resolved` is what its tag was resolved to before, for this
    /// generation of the rule; `closed` are the addresses at which a registry must be named by an administrator.
    pub async fn fetch(
        &self,
        namespace: &str,
        spec: &WasmRule,
        resolved: Option<&str>,
        closed: &[AddressRange],
        most: u64,
    ) -> Result<Fetched, NotFetched> {
        let unfetched = |error: &OciError| NotFetched::Unfetched(fault(error));
        let reference = self.allowed(spec)?;
        let (signers, policies) = self.policies(spec).map_err(NotFetched::Unfetched)?;
        let credentials = self.credentials(namespace, spec).await?;
        let registry = self.registry(closed).await?;
        let pinned = pin(&registry, &reference, resolved, &credentials)
            .await
            .map_err(|error| unfetched(&error))?;
        let kept = self
            .store
            .as_ref()
            .and_then(|store| store.get(&pinned.digest, namespace));
        let was_kept = kept.is_some();
        let (component, annotations, mut signatures) = if let Some(kept) = kept {
            (kept.component, kept.annotations, Ok(kept.signatures))
        } else {
            let artifact = registry
                .pull(&pinned, &credentials, most)
                .await
                .map_err(|error| unfetched(&error))?;
            let signatures = self.signatures(&registry, &pinned, &credentials, &policies).await;
            if let Some(store) = &self.store {
                let found = signatures.as_deref().unwrap_or_default();
                if let Err(error) = store.put(&artifact, found, namespace) {
                    tracing::warn!(%error, image = %pinned, "a component could not be kept");
                }
            }
            (artifact.component, artifact.annotations, signatures)
        };
        let mut verified = judge(&signers, &policies, &pinned, &signatures);
        if was_kept && matches!(verified, Some(Err(_))) {
            // Somebody may have signed it since.
            signatures = self.signatures(&registry, &pinned, &credentials, &policies).await;
            verified = judge(&signers, &policies, &pinned, &signatures);
            if let (Some(store), Ok(found)) = (&self.store, &signatures) {
                let _ = store.put_signatures(&pinned.digest, namespace, found);
            }
        }
        if let Some(Err((true, fault))) = verified {
            return Err(NotFetched::Unverified(pinned, fault));
        }
        Ok(Fetched {
            component,
            image: Some(pinned),
            version: annotations
                .get(VERSION)
                .map(|version| clip(version, VERSION_LETTERS)),
            verified: verified.map(|verified| verified.map_err(|(_, fault)| fault)),
        })
    }

    /// The image of a rule, if images may be from there.
    fn allowed(&self, spec: &WasmRule) -> Result<Reference, NotFetched> {
        let reference = reference(spec).map_err(NotFetched::Unfetched)?;
        if is_allowed(&self.options.allowed, &reference) {
            return Ok(reference);
        }
        let message = format!(
            "spec.wasm.image: found {}, wanted one from {} (--registries)",
            reference.registry,
            self.options.allowed.join(", ")
        );
        Err(NotFetched::Unfetched((Reason::RegistryNotAllowed, message)))
    }

    /// What the image of a rule is now, asked of its registry, with the rule's own credentials; nothing is fetched or kept. Who wrote the
    /// rule says where it leads: it leads nowhere where [`fetch`](Self::fetch) does not.
    pub async fn reach(
        &self,
        namespace: &str,
        spec: &WasmRule,
        closed: &[AddressRange],
    ) -> Result<Pinned, NotFetched> {
        let reference = self.allowed(spec)?;
        let credentials = self.credentials(namespace, spec).await?;
        let registry = self.registry(closed).await?;
        let resolved = registry.resolve(&reference, &credentials).await;
        resolved.map_err(|error| NotFetched::Unfetched(fault(&error)))
    }

    /// The operator's policy and the rule's, and who is trusted by now. While a file of the operator cannot be read, who is asked for a
    /// signature has none that counts.
    fn policies(&self, spec: &WasmRule) -> Result<(Signers, Vec<Policy>), Fault> {
        let asked = spec.signature.as_ref().map(policy).transpose()?;
        let signers = match self.signers.now() {
            Ok(signers) => signers,
            Err(_) if !self.signers.ask() && asked.is_none() => Signers::default(),
            Err(why) => {
                let message = format!("{why}; until that can be read no component runs that must be signed");
                return Err((Reason::RuleUnavailable, message));
            }
        };
        let own = self.signers.ask().then(|| Policy {
            keys: signers.keys.clone(),
            identities: signers.identities.clone(),
            ..Policy::default()
        });
        Ok((signers, own.into_iter().chain(asked).collect()))
    }

    /// Signatures are only looked for where somebody asks for them.
    async fn signatures(
        &self,
        registry: &Registry,
        pinned: &Pinned,
        credentials: &Credentials,
        policies: &[Policy],
    ) -> Result<Vec<Candidate>, SignatureError> {
        if policies.is_empty() {
            return Ok(Vec::new());
        }
        registry.signatures(pinned, credentials).await
    }

    /// A client that knows the cluster's mirrors as they are now.
    async fn registry(&self, closed: &[AddressRange]) -> Result<Registry, NotFetched> {
        let (by_digest, by_tag) = futures::try_join!(
            self.mirrors(
                "ImageDigestMirrorSet",
                "imagedigestmirrorsets",
                "imageDigestMirrors"
            ),
            self.mirrors("ImageTagMirrorSet", "imagetagmirrorsets", "imageTagMirrors"),
        )?;
        let mirrors = by_digest.iter().chain(&by_tag).flat_map(|set| &set.mirrors);
        let named = self
            .options
            .allowed
            .iter()
            .chain(&self.options.plain)
            .chain(mirrors);
        let named = named
            .filter_map(|place| place.split('/').next())
            .map(ToOwned::to_owned);
        let named = named.collect();
        let setup = Setup {
            authorities: self.options.authorities.clone(),
            proxies: self.options.proxies.clone(),
            mirrors: Mirrors { by_digest, by_tag },
            plain: self.options.plain.clone(),
            cluster: closed.to_vec(),
            inside: named,
            only_named_loopback: !self.options.reach_loopback,
            ..Setup::default()
        };
        Registry::new(setup).map_err(|error| {
            let message = format!("registries cannot be reached: {error}");
            NotFetched::Unfetched((Reason::RegistryUnavailable, message))
        })
    }

    /// OpenShift's mirror sets of one kind. A cluster without the kind has none.
    async fn mirrors(&self, kind: &str, plural: &str, field: &str) -> Result<Vec<MirrorSet>, NotFetched> {
        let gvk = GroupVersionKind::gvk("config.openshift.io", "v1", kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
        let sets: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let params = ListParams::default();
        let listed = tokio::time::timeout(PATIENCE, sets.list(&params)).await;
        let items = match listed.map_err(|_| NotFetched::NoAnswer)? {
            Ok(list) => list.items,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Vec::new()),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                tracing::warn!(
                    kind,
                    words = status.message,
                    "mirrors of registries cannot be read"
                );
                return Ok(Vec::new());
            }
            Err(_) => return Err(NotFetched::NoAnswer),
        };
        let of = |set: DynamicObject| {
            let name = set.metadata.name.unwrap_or_default();
            let mirrors = set
                .data
                .pointer(&format!("/spec/{field}"))
                .cloned()
                .unwrap_or_default();
            let read: Result<Option<Vec<MirrorSet>>, _> = serde_json::from_value(mirrors);
            read.inspect_err(|error| tracing::warn!(kind, name, %error, "mirrors that cannot be read"))
                .ok()
                .flatten()
                .unwrap_or_default()
        };
        Ok(items.into_iter().flat_map(of).collect())
    }

    async fn credentials(&self, namespace: &str, spec: &WasmRule) -> Result<Credentials, NotFetched> {
        let Some(name) = spec.pull_secret_name.as_deref().filter(|name| !name.is_empty()) else {
            return Ok(Credentials::none());
        };
        let unfetched = |reason, message: String| NotFetched::Unfetched((reason, message));
        let resource = ApiResource::erase::<Secret>(&());
        let secrets: Api<Item> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        let read = tokio::time::timeout(PATIENCE, secrets.get_opt(name)).await;
        let found = match read.map_err(|_| NotFetched::NoAnswer)? {
            Ok(found) => found,
            Err(kube::Error::Api(status)) if status.code == 403 => {
                let message = format!(
                    "spec.wasm.pullSecretName: numo may not read Secret {namespace}/{name}, wanted a RoleBinding to ClusterRole numo-rule-pull-secrets: {}",
                    status.message
                );
                return Err(unfetched(Reason::PullSecretForbidden, message));
            }
            Err(_) => return Err(NotFetched::NoAnswer),
        };
        let Some(secret) = found else {
            let message = format!(
                "spec.wasm.pullSecretName: found no Secret {namespace}/{name}, wanted an existing one"
            );
            return Err(unfetched(Reason::PullSecretNotFound, message));
        };
        let Some(ByteString(json)) = secret.at(&["data", PULL_SECRET_KEY]) else {
            let message = format!(
                "spec.wasm.pullSecretName: found no key {PULL_SECRET_KEY} in Secret {namespace}/{name}, wanted type kubernetes.io/dockerconfigjson"
            );
            return Err(unfetched(Reason::PullSecretInvalid, message));
        };
        Credentials::parse(&json).map_err(|error| {
            let message = format!("spec.wasm.pullSecretName: Secret {namespace}/{name}: {error}");
            unfetched(Reason::PullSecretInvalid, message)
        })
    }
}

/// Who signed, in words; or what is wrong, and whether that forbids the component. None without a policy.
fn judge(
    trusted: &Signers,
    policies: &[Policy],
    pinned: &Pinned,
    signatures: &Result<Vec<Candidate>, SignatureError>,
) -> Option<Result<String, (bool, Fault)>> {
    let trust_root = trusted.trust_root.as_deref().map(|root| root as &dyn Verifier);
    let others: Vec<_> = trust_root.into_iter().collect();
    let mut signers = Vec::new();
    let mut warned = None;
    for policy in policies {
        let found = signatures.as_ref().map_err(Clone::clone);
        match found.and_then(|found| policy.check(&pinned.digest, found, &others)) {
            Ok(by) => signers.extend(by.iter().map(ToString::to_string)),
            Err(error) => {
                let refused = error.refused();
                let fault = (reason(&refused), refused.message);
                if policy.mode == Mode::Enforce {
                    return Some(Err((true, fault)));
                }
                warned = Some((false, fault));
            }
        }
    }
    signers.sort();
    signers.dedup();
    match warned {
        Some(fault) => Some(Err(fault)),
        None => (!policies.is_empty()).then(|| Ok(signers.join(", "))),
    }
}

/// Whether one of the places covers the reference: whole parts of its path, never a piece of a name.
fn is_allowed(allowed: &[String], reference: &Reference) -> bool {
    let path = format!("{}/{}", reference.registry, reference.repository);
    allowed.is_empty()
        || allowed.iter().any(|place| {
            let rest = path.strip_prefix(place.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
}

/// The image with its digest. `resolved` is what its tag was resolved to before.
async fn pin(
    registry: &Registry,
    reference: &Reference,
    resolved: Option<&str>,
    credentials: &Credentials,
) -> Result<Pinned, OciError> {
    match (&reference.version, known(reference, resolved)) {
        (Version::Digest(digest), _) => Ok(reference.pinned(digest.clone())),
        (Version::Tag(_), Some(pinned)) => Ok(pinned),
        (Version::Tag(_), None) => registry.resolve(reference, credentials).await,
    }
}

/// What the tag of this reference was resolved to, if that was of the same repository.
fn known(reference: &Reference, resolved: Option<&str>) -> Option<Pinned> {
    let earlier: Reference = resolved?.parse().ok()?;
    let same = earlier.registry == reference.registry && earlier.repository == reference.repository;
    match earlier.version {
        Version::Digest(digest) if same => Some(reference.pinned(digest)),
        _ => None,
    }
}

/// What a registry's answer is to a user.
fn fault(error: &OciError) -> Fault {
    let reason = match error {
        OciError::InvalidReference { .. } => Reason::InvalidReference,
        OciError::NotFound { .. } => Reason::ImageNotFound,
        OciError::Unauthorised { .. } => Reason::ImageUnauthorised,
        OciError::WrongMediaType { .. } => Reason::WrongMediaType,
        OciError::TooLarge { .. } => Reason::TooLarge,
        OciError::DigestMismatch { .. } => Reason::DigestMismatch,
        OciError::Malformed { .. } => Reason::MalformedImage,
        OciError::RegistryUnavailable { .. } => Reason::RegistryUnavailable,
        OciError::NotAllowed { .. } => Reason::RegistryNotAllowed,
    };
    (reason, format!("spec.wasm.image: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(text: &str) -> Reference {
        text.parse().unwrap()
    }

    #[test]
    fn a_place_covers_whole_parts_of_a_path() {
        let allowed = [
            "registry.example.com/team/".to_owned(),
            "mirror.example.com:5000".to_owned(),
        ];
        for (image, is) in [
            ("registry.example.com/team/rule:1", true),
            ("registry.example.com/team/a/b:1", true),
            ("registry.example.com/teams/rule:1", false),
            ("registry.example.com/rule:1", false),
            ("registry.example.com.evil.example/team/rule:1", false),
            ("mirror.example.com:5000/any:1", true),
            ("mirror.example.com:50001/any:1", false),
            ("127.0.0.1:5000/any:1", false),
        ] {
            assert_eq!(is_allowed(&allowed, &reference(image)), is, "{image}");
            assert!(is_allowed(&[], &reference(image)));
        }
    }

    #[tokio::test]
    async fn an_image_is_asked_for_only_where_it_could_be_fetched_from() {
        let none = serde_json::json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": []});
        let client = crate::shell::eval::reader::answering(move |_| Some(none.clone()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = format!("127.0.0.1:{}/team/rule:1", listener.local_addr().unwrap().port());
        let authority = rcgen::generate_simple_self_signed(["unused.example".to_owned()]).unwrap();
        let closed: Vec<AddressRange> = vec!["10.0.0.0/8".parse().unwrap()];
        for (image, allowed) in [
            // Not where images may be from, on this machine, and inside.
            (here.as_str(), &["registry.example.com"][..]),
            (here.as_str(), &[]),
            ("10.0.0.1:1/team/rule:1", &[]),
        ] {
            let options = ArtifactOptions {
                authorities: authority.cert.pem().into_bytes(),
                allowed: allowed.iter().map(|one| (*one).to_owned()).collect(),
                ..ArtifactOptions::default()
            };
            let artifacts = Artifacts::new(client.clone(), options);
            let spec = WasmRule {
                image: Some(image.to_owned()),
                ..WasmRule::default()
            };
            let asked = artifacts.reach("team", &spec, &closed).await;
            let Err(NotFetched::Unfetched((reason, message))) = asked else {
                panic!("{image}: {asked:?}");
            };
            assert_eq!(reason, Reason::RegistryNotAllowed, "{image}: {message}");
        }
        let mut connected = std::pin::pin!(listener.accept());
        assert!(
            futures::poll!(connected.as_mut()).is_pending(),
            "nobody connected"
        );
    }

    #[test]
    fn a_tag_is_what_it_was_resolved_to_in_the_same_place_only() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let tag = reference("registry.example.com/team/rule:1");
        let known_as = |text: &str| known(&tag, Some(text)).map(|pinned| pinned.to_string());
        let same = format!("registry.example.com/team/rule@{digest}");
        assert_eq!(known_as(&same).as_deref(), Some(same.as_str()));
        assert_eq!(
            known_as(&format!("registry.example.com/team/other@{digest}")),
            None
        );
        assert_eq!(known_as(&format!("other.example.com/team/rule@{digest}")), None);
        assert_eq!(known_as("registry.example.com/team/rule:1"), None);
        assert_eq!(known_as(""), None);
        assert_eq!(known(&tag, None), None);
    }
}
