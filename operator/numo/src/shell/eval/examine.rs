//! Whether a rule can be evaluated: each is looked at when it is new or has changed, and kept loaded if so, as far as there is room.
//! Nothing here evaluates a rule for a node.

use super::{
    intent::{Loaded, What},
    loaded,
    state::Inner,
};
use crate::{frontends::mutex_rule, runners::wasm::Examined, shell::project::Edition};
use numo_api::{MutexRule, RuleType};
use numo_core::observed::{Key, Validity};
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, atomic::Ordering},
};

/// What was found out: of its component, if it has one, and whether it can be asked.
pub(super) type Looked = (Option<Examined>, Validity);

impl Inner {
    /// None if the API server gave no answer.
    pub(super) async fn look_at(&self, key: &Key, edition: &Edition, rule: &MutexRule) -> Option<Looked> {
        let of_itself = mutex_rule::parse(rule, Validity::Valid).validity;
        let fault = match of_itself {
            Validity::Valid if self.options.secrets => None,
            Validity::Valid => mutex_rule::asks_for_secrets(rule),
            Validity::Invalid(reason, message) => Some((reason, message)),
            Validity::Unknown => return None,
        };
        let is_component = rule.spec.rule_type == Some(RuleType::Wasm);
        let (examined, what) = match fault {
            Some(fault) => (
                is_component.then(|| Examined::unfetched(fault.clone())),
                Err(fault),
            ),
            None => match rule.spec.rule_type.unwrap_or_default() {
                RuleType::Kubernetes => return None,
                RuleType::Wasm => {
                    let (examined, component) = self.look_at_component(key, edition, rule).await?;
                    let component = component.map(|component| What::Component(Arc::new(component)));
                    (Some(examined), component)
                }
                RuleType::Cel => {
                    let spec = rule.spec.cel.clone().unwrap_or_default();
                    let checked = self.check_expressions(&key.namespace, &spec).await?;
                    (None, checked.map(|()| What::Expressions(Arc::new(spec))))
                }
                RuleType::Prometheus => {
                    let spec = rule.spec.prometheus.clone().unwrap_or_default();
                    let checked = self.check_query(&key.namespace).await?;
                    (None, checked.map(|()| What::Query(Arc::new(spec))))
                }
            },
        };
        let mut all = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let validity = match what {
            Ok(what) => {
                let edition = edition.clone();
                let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
                if newest.get(key) == Some(&edition) {
                    all.insert(key.clone(), Loaded { edition, what });
                    Self::unload_beyond(&all);
                }
                Validity::Valid
            }
            Err((reason, message)) => {
                // What is loaded of another edition is not this one's matter.
                all.retain(|of, loaded| of != key || loaded.edition != *edition);
                Validity::Invalid(reason, message)
            }
        };
        Some((examined, validity))
    }

    /// Number of the next use of a component.
    pub(super) fn next_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Unloads components that were not used for longest, where there are too many.
    pub(super) fn make_room(&self) {
        Self::unload_beyond(&self.loaded.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether there is room for a component of this rule that the cache does not have.
    pub(super) fn has_room(&self, key: &Key, bytes: u64) -> bool {
        let all = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let others = all.iter().filter(|(of, _)| *of != key);
        let components = others.filter_map(|(_, loaded)| match &loaded.what {
            What::Component(component) => Some(&component.place),
            _ => None,
        });
        loaded::has_room(components, bytes, loaded::LOADED_BYTES)
    }

    fn unload_beyond(all: &BTreeMap<Key, Loaded>) {
        let components = all.iter().filter_map(|(key, loaded)| match &loaded.what {
            What::Component(component) => Some((key.namespace.as_str(), &component.place)),
            _ => None,
        });
        loaded::make_room(components, loaded::LOADED_BYTES);
    }
}
