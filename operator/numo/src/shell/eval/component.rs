//! Rules of type wasm: their components are fetched, compiled, examined and asked. It judges nothing that the component
//! says, and reads for it only what its ServiceAccount may.

use super::{
    artifact::{Fetched, NotFetched},
    credentials,
    intent::Component,
    loaded::Place,
    reader::RuleReader,
    state::{Begun, Inner, PATIENCE, unavailable},
};
use crate::{
    runners::wasm::{self, Examined, Fault},
    shell::{item::Item, lines::Lines, project::Edition},
};
use k8s_openapi::{ByteString, api::core::v1::ConfigMap};
use kube::{Api, api::ApiResource};
use numo_api::{MutexRule, Reason, WasmRule, WasmStatus, marks};
use numo_core::{
    action::EvaluationRequest,
    observed::{Key, RuleAnswer},
    rules::clip,
};
use numo_plugin::{Rule, Services, Terms};
use std::sync::Arc;

impl Inner {
    /// Fetches, compiles and examines the component of a rule that is right in itself. None if the API server gave no
    /// answer.
    pub(super) async fn look_at_component(
        &self,
        key: &Key,
        edition: &Edition,
        rule: &MutexRule,
    ) -> Option<(Examined, Result<Component, Fault>)> {
        let spec = rule.spec.wasm.clone().unwrap_or_default();
        let terms = match wasm::terms(&spec, &key.namespace) {
            Ok(terms) => terms,
            Err(fault) => return Some((Examined::unfetched(fault.clone()), Err(fault))),
        };
        let fetched = match self.fetch(rule, key, edition.1, &spec).await {
            Ok(fetched) => fetched,
            Err(NotFetched::Unfetched(fault)) => {
                return Some((Examined::unfetched(fault.clone()), Err(fault)));
            }
            Err(NotFetched::Unverified(image, fault)) => {
                let examined = Examined::unverified(&image.to_string(), fault.clone());
                return Some((examined, Err(fault)));
            }
            Err(NotFetched::NoAnswer) => return None,
        };
        let mut examined = Examined {
            fetched: Ok(()),
            verified: fetched.verified.clone().map(|verified| verified.map(|_| ())),
            compiled: None,
            status: None,
        };
        let loaded = self.load(key, &fetched.component).await;
        let component = match loaded {
            Ok(component) => component,
            Err(fault) => {
                examined.compiled = Some(Err(fault.clone()));
                return Some((examined, Err(fault)));
            }
        };
        examined.compiled = Some(Ok(()));
        let returns = self
            .engine()
            .is_ok_and(|begun| begun.engine.cached(component.digest()).is_some());
        examined.status = Some(status_of(fetched, &component, &terms));
        let fits = match wasm::mismatch(rule, &component, &terms) {
            Ok(()) => validate(&component, &spec).await,
            Err(fault) => Err(fault),
        };
        let fits = match fits.and_then(|()| self.finds_room(key, &component, returns)) {
            Ok(()) => self.lends_inside(&key.namespace, &terms).await?,
            Err(fault) => Err(fault),
        };
        let component = fits.map(|()| Component {
            place: Arc::new(Place::of(component, returns)),
            terms,
            spec,
        });
        Some((examined, component))
    }

    async fn load(&self, key: &Key, component: &[u8]) -> Result<Rule, Fault> {
        let begun = self.engine()?;
        let loaded = begun.engine.load_for(&key.namespace, component).await;
        loaded.map_err(|refused| (wasm::reason(&refused), refused.message))
    }

    /// Whether the memory that components may take has room for this one. One that `returns` from the cache needs none.
    fn finds_room(&self, key: &Key, component: &Rule, returns: bool) -> Result<(), Fault> {
        if returns || self.has_room(key, component.compiled_bytes()) {
            return Ok(());
        }
        let message = "found no room for its component: numo has no cache for it (--cache-dir), and the components of \
                       other rules take what memory there is";
        Err((Reason::NoRoom, message.to_owned()))
    }

    /// The component of a rule.
    async fn fetch(
        &self,
        rule: &MutexRule,
        key: &Key,
        generation: i64,
        spec: &WasmRule,
    ) -> Result<Fetched, NotFetched> {
        let namespace = &key.namespace;
        if spec.image.is_none() {
            let found = "spec.wasm.configMap: found a component in a ConfigMap, wanted spec.wasm.image";
            self.artifacts.unsignable(found).map_err(NotFetched::Unfetched)?;
            let found = self.stored(namespace, spec).await.ok_or(NotFetched::NoAnswer)?;
            return found.map_err(NotFetched::Unfetched).map(|component| Fetched {
                component,
                image: None,
                version: None,
                verified: None,
            });
        }
        let engine = self.engine().map_err(NotFetched::Unfetched)?.engine;
        let status = rule.status.as_ref();
        let status = status.filter(|status| status.observed_generation == Some(generation));
        let resolved = status
            .and_then(|status| status.wasm.as_ref())
            .and_then(|wasm| wasm.image.as_deref());
        let most = engine.limits().component_bytes;
        let inside = self.is_inside(namespace).await.ok_or(NotFetched::NoAnswer)?;
        let closed = if inside {
            Arc::default()
        } else {
            self.cluster_networks().ok_or(NotFetched::NoAnswer)?
        };
        let artifacts = &self.artifacts;
        artifacts.fetch(namespace, spec, resolved, &closed, most).await
    }

    /// The component in a ConfigMap; none if the API server gave no answer.
    async fn stored(&self, namespace: &str, spec: &WasmRule) -> Option<Result<Vec<u8>, Fault>> {
        let wanted = spec.config_map.as_ref()?;
        let (name, key) = (&wanted.name, &wanted.key);
        let not_found = |message: String| Some(Err((Reason::ConfigMapNotFound, message)));
        let resource = ApiResource::erase::<ConfigMap>(&());
        let maps: Api<Item> = Api::namespaced_with(self.connection.read.clone(), namespace, &resource);
        let found = tokio::time::timeout(PATIENCE, maps.get_opt(name)).await.ok()?;
        match found {
            Ok(Some(map)) => entry(&map, key).map(Ok).map_or_else(
                || {
                    not_found(format!(
                        "spec.wasm.configMap: found no key {key} in ConfigMap {namespace}/{name}"
                    ))
                },
                Some,
            ),
            Ok(None) => not_found(format!(
                "spec.wasm.configMap: found no ConfigMap {namespace}/{name}, wanted an existing one"
            )),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                let message = format!(
                    "spec.wasm.configMap: numo may not read ConfigMaps in {namespace}, wanted a RoleBinding to ClusterRole numo-rule-components: {}",
                    status.message
                );
                Some(Err((Reason::ConfigMapForbidden, message)))
            }
            Err(_) => None,
        }
    }

    /// Whether the namespace may lend what is inside the cluster, if the grants name it. None if the API server
    /// gave no answer.
    async fn lends_inside(&self, namespace: &str, terms: &Terms) -> Option<Result<(), Fault>> {
        let asks = terms.grants.prometheus.is_some()
            || terms.grants.http.iter().any(|grant| !grant.addresses.is_empty());
        if !asks {
            return Some(Ok(()));
        }
        let allowed = self.is_inside(namespace).await?;
        Some(if allowed {
            Ok(())
        } else {
            let message = format!(
                "spec.wasm.grants: prometheus and http addresses need label {}: {} on namespace {namespace}, which a cluster administrator sets",
                marks::RULE_NETWORK,
                marks::RULE_NETWORK_CLUSTER
            );
            Err((Reason::NamespaceNotAllowed, message))
        })
    }

    /// The component, loaded again if it was unloaded.
    async fn loaded_rule(&self, begun: &Begun, component: &Component) -> Result<Rule, Fault> {
        let place = &component.place;
        if let Some(rule) = place.take(self.next_use()) {
            return Ok(rule);
        }
        let _loads = place.loads().await;
        if let Some(rule) = place.take(self.next_use()) {
            return Ok(rule);
        }
        let Some(bytes) = begun.engine.cached(place.digest()) else {
            return Err(forgotten());
        };
        let loaded = begun.engine.load_for(&component.terms.tenant, &bytes).await;
        let rule = loaded.map_err(|refused| (wasm::reason(&refused), refused.message))?;
        place.put(rule.clone());
        self.make_room();
        Ok(rule)
    }

    /// Asks a component.
    pub(super) async fn ask_component(
        &self,
        component: &Component,
        request: &EvaluationRequest,
        reader: &Arc<RuleReader>,
    ) -> Result<RuleAnswer, Fault> {
        let begun = self.engine()?;
        // Before anything is read: what waits for its turn holds nothing, and what is read is not old when it has it.
        let rule = self.loaded_rule(&begun, component).await?;
        let turn = rule.turn(&component.terms).await;
        let turn = turn.map_err(|refused| (wasm::reason(&refused), refused.message))?;
        let node = self.node(request, reader).await?;
        let namespace = &request.rule.namespace;
        // A label that is taken away holds from the next evaluation on.
        let lends = self.lends_inside(namespace, &component.terms).await;
        lends.unwrap_or_else(|| Err(unavailable(format!("Namespace {namespace} cannot be read"))))?;
        let grants = &component.terms.grants;
        let credentials = credentials::of(&self.connection.read, namespace, grants).await?;
        let now = self.connection.clock.now();
        let services = Services {
            reader: Some(reader.clone()),
            secrets: self.lends_secrets(),
            prometheus: match grants.prometheus {
                Some(_) => self.prometheus(&begun)?,
                None => None,
            },
            fetch: Some(begun.fetch),
            credentials: Arc::new(credentials),
            history: wasm::history(request),
            log: Arc::new(Lines::of(request, self.lines.clone())),
            ..Services::none(now)
        };
        let input = wasm::input(request, &component.spec, node.map(|node| node.to_string()));
        let answer = rule.evaluate_in(turn, input, &component.terms, services).await;
        if let Ok(answer) = &answer {
            self.metrics
                .used_memory(&request.rule.to_string(), answer.usage.memory_bytes);
            tracing::info!(
                rule = %request.rule,
                node = request.node,
                verdict = answer.verdict.word(),
                reason = answer.verdict.report().reason,
                milliseconds = u64::try_from(answer.usage.duration.as_millis()).unwrap_or(u64::MAX),
                host_calls = answer.usage.host_calls,
                "a rule was evaluated"
            );
        }
        Ok(wasm::answer(answer.map(|answer| answer.verdict)))
    }
}

/// The bytes of one key of a ConfigMap. Nothing else of it is read: whoever wrote it may have written its `managedFields` as deep as the
/// API server takes them.
fn entry(map: &Item, key: &str) -> Option<Vec<u8>> {
    if let Some(ByteString(bytes)) = map.at(&["binaryData", key]) {
        return Some(bytes);
    }
    map.at::<String>(&["data", key]).map(String::into_bytes)
}

/// What the status says of a component.
fn status_of(fetched: Fetched, component: &Rule, terms: &Terms) -> WasmStatus {
    WasmStatus {
        image: fetched.image.map(|image| image.to_string()),
        version: fetched.version,
        signer: fetched
            .verified
            .and_then(Result::ok)
            .map(|signer| clip(&signer, 2048)),
        ..wasm::describe(component, terms)
    }
}

/// Has the component check its configuration.
async fn validate(component: &Rule, spec: &WasmRule) -> Result<(), Fault> {
    let checked = component
        .validate_config(&wasm::config_json(spec))
        .await
        .map_err(|refused| (wasm::reason(&refused), refused.message))?;
    checked.map_err(|problems| {
        let words: Vec<String> = problems
            .iter()
            .map(|problem| format!("spec.wasm.config{}: {}", problem.pointer, problem.message))
            .collect();
        (Reason::InvalidConfig, words.join("; "))
    })
}

/// The cache no longer has a component that was unloaded.
fn forgotten() -> Fault {
    unavailable(FORGOTTEN.to_owned())
}

/// Why a component is fetched again.
pub(super) const FORGOTTEN: &str = "its component is no longer in the cache, and is fetched again";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_of_a_config_map_is_read_whatever_else_is_in_it() {
        let fields = format!("{}{{}}{}", r#"{"f:a":"#.repeat(300), "}".repeat(300));
        let text = format!(
            r#"{{"metadata": {{"name": "a", "managedFields": [{{"fieldsV1": {fields}}}]}},
             "data": {{"text": "a\n", "both": "text"}}, "binaryData": {{"rule.wasm": "AGFzbQ==", "both": "AA=="}}}}"#
        );
        let map: Item = serde_json::from_str(&text).unwrap();
        assert_eq!(entry(&map, "rule.wasm").as_deref(), Some(&b"\0asm"[..]));
        assert_eq!(entry(&map, "text").as_deref(), Some(&b"a\n"[..]));
        assert_eq!(entry(&map, "both").as_deref(), Some(&b"\0"[..]));
        assert_eq!(entry(&map, "none"), None);
        let empty: Item = serde_json::from_str(r#"{"metadata": {"name": "a"}}"#).unwrap();
        assert_eq!(entry(&empty, "text"), None);
    }
}
