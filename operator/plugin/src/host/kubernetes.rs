//! `numo:host/kubernetes`: reads objects. Grants are checked here, before anyone is asked: an object that no grant
//! covers, and a list that reaches beyond them, is denied whole. Answers are masked and bounded; an object is never cut.

use sha2::{Digest, Sha256};

use super::{
    mask::Mask,
    sandbox::{Sandbox, types},
};
use crate::{
    bindings::numo::host::kubernetes as wit,
    limits::Limits,
    outcome::Read,
    request::{check_kind, check_name, invalid},
    services::{ErrorCode, HostError, ListQuery, Object, Reader},
    text::{clean, hex},
    verdict::ObjectRef,
};

impl wit::Host for Sandbox {
    async fn get_object(
        &mut self,
        object: types::ObjectRef,
        projection: wit::Projection,
    ) -> wasmtime::Result<Result<Option<String>, types::Error>> {
        self.budget.count(&self.limits)?;
        Ok(self.get(object.into(), projection).await.map_err(Into::into))
    }

    async fn list_objects(
        &mut self,
        query: wit::ListQuery,
    ) -> wasmtime::Result<Result<wit::Page, types::Error>> {
        self.budget.count(&self.limits)?;
        Ok(self.list(query).await.map_err(Into::into))
    }
}

impl Sandbox {
    async fn get(
        &mut self,
        object: ObjectRef,
        projection: wit::Projection,
    ) -> Result<Option<String>, HostError> {
        let (grants, services) = self.granted("kubernetes")?;
        check_kind(&object.api_version, &object.kind)?;
        check_name("name", &object.name)?;
        object
            .namespace
            .as_deref()
            .map_or(Ok(()), |namespace| check_name("namespace", namespace))?;
        let mask = Mask::parse(&projection.fields, self.limits.mask_fields).map_err(invalid)?;
        if !grants.cover_object(&object) {
            return Err(denied(
                format!("no grant covers {object}"),
                &object.api_version,
                &object.kind,
            ));
        }
        check_secret(&object.api_version, &object.kind, services.secrets)?;
        let reader = services.reader.ok_or_else(no_reader)?;
        self.note(Read {
            api_version: object.api_version.clone(),
            kind: object.kind.clone(),
            namespace: object.namespace.clone(),
            name: Some(object.name.clone()),
            label_selector: None,
        });
        let live = matches!(projection.freshness, wit::Freshness::Live);
        let Some(found) = reader.get(&object, live).await? else {
            return Ok(None);
        };
        let text = mask.apply(found.text()).map_err(|error| unreadable(&error))?;
        if text.len() as u64 > self.limits.answer_bytes {
            return Err(too_large(&object.to_string(), text.len(), &self.limits));
        }
        self.budget.spend_bytes(text.len(), &self.limits)?;
        Ok(Some(text))
    }

    async fn list(&mut self, query: wit::ListQuery) -> Result<wit::Page, HostError> {
        let (grants, services) = self.granted("kubernetes")?;
        check_kind(&query.api_version, &query.kind)?;
        let namespace = query.namespace.as_deref();
        namespace.map_or(Ok(()), |namespace| check_name("namespace", namespace))?;
        for selector in [&query.label_selector, &query.field_selector]
            .into_iter()
            .flatten()
        {
            if selector.len() > 4096 || selector.contains(char::is_control) {
                return Err(invalid(
                    "a selector has at most 4,096 bytes and no control characters".to_owned(),
                ));
            }
        }
        let mask = Mask::parse(&query.projection.fields, self.limits.mask_fields).map_err(invalid)?;
        let name = query.field_selector.as_deref().and_then(selected_name);
        if !grants.cover_list(&query.api_version, &query.kind, namespace, name) {
            let place = namespace.map_or("all namespaces".to_owned(), |namespace| {
                format!("namespace {namespace}")
            });
            let message = format!(
                "no grant covers all {} {} in {place}",
                query.api_version, query.kind
            );
            return Err(denied(message, &query.api_version, &query.kind));
        }
        check_secret(&query.api_version, &query.kind, services.secrets)?;
        let reader = services.reader.ok_or_else(no_reader)?;
        self.note(Read {
            api_version: query.api_version.clone(),
            kind: query.kind.clone(),
            namespace: query.namespace.clone(),
            name: name.map(str::to_owned),
            label_selector: query
                .label_selector
                .clone()
                .filter(|selector| !selector.is_empty()),
        });
        self.page(reader.as_ref(), query, &mask).await
    }

    /// Fills a page up to its bytes. What the reader gave beyond that is asked for again with the next token.
    async fn page(
        &mut self,
        reader: &dyn Reader,
        query: wit::ListQuery,
        mask: &Mask,
    ) -> Result<wit::Page, HostError> {
        let most = u32::try_from(self.limits.page_objects).unwrap_or(u32::MAX);
        let limit = if query.limit == 0 {
            most
        } else {
            query.limit.min(most)
        };
        let fingerprint = fingerprint(&query, limit);
        let token = query
            .continue_token
            .as_deref()
            .map(|token| Token::parse(token, &fingerprint))
            .transpose()?;
        let Token { skip, of_reader } = token.unwrap_or_default();
        let asked = ListQuery {
            api_version: query.api_version,
            kind: query.kind,
            namespace: query.namespace,
            label_selector: query.label_selector.filter(|selector| !selector.is_empty()),
            field_selector: query.field_selector.filter(|selector| !selector.is_empty()),
            live: matches!(query.projection.freshness, wit::Freshness::Live),
            limit,
            continue_token: of_reader.clone(),
        };
        let found = reader.list(&asked).await?;
        let items = self.filled(&found.items, skip, mask, &asked.kind)?;
        let given = skip + items.len();
        let next = if given < found.items.len() {
            Some(Token {
                skip: given,
                of_reader,
            })
        } else {
            found.continue_token.map(|token| Token {
                skip: 0,
                of_reader: Some(token),
            })
        };
        Ok(wit::Page {
            items,
            continue_token: next.map(|token| token.write(&fingerprint)),
        })
    }

    /// As many objects after the first `skip` as the bytes have room for, masked. Their bytes are spent.
    fn filled(
        &mut self,
        found: &[Object],
        skip: usize,
        mask: &Mask,
        kind: &str,
    ) -> Result<Vec<String>, HostError> {
        let room = self.limits.answer_bytes.min(self.budget.bytes_left(&self.limits));
        let (mut items, mut bytes) = (Vec::new(), 0_u64);
        for object in found.iter().skip(skip) {
            let text = mask.apply(object.text()).map_err(|error| unreadable(&error))?;
            if bytes + text.len() as u64 > room {
                if !items.is_empty() {
                    break;
                }
                if text.len() as u64 > self.limits.answer_bytes {
                    let name = name_of(object.text());
                    return Err(too_large(
                        &format!("{kind} {}", clean(&name, 253)),
                        text.len(),
                        &self.limits,
                    ));
                }
                // Not even one fits what is left of the evaluation's bytes: this says so.
                self.budget.spend_bytes(text.len(), &self.limits)?;
            }
            bytes += text.len() as u64;
            items.push(text);
        }
        self.budget
            .spend_bytes(usize::try_from(bytes).unwrap_or(usize::MAX), &self.limits)?;
        Ok(items)
    }

    fn note(&mut self, read: Read) {
        if !self.reads.contains(&read) {
            self.reads.push(read);
        }
    }
}

/// Where a list goes on: so many objects into the reader's page.
#[derive(Debug, Default, PartialEq, Eq)]
struct Token {
    skip: usize,
    of_reader: Option<String>,
}

impl Token {
    fn write(&self, fingerprint: &str) -> String {
        match &self.of_reader {
            Some(token) => format!("{fingerprint}.{}.{token}", self.skip),
            None => format!("{fingerprint}.{}", self.skip),
        }
    }

    fn parse(text: &str, fingerprint: &str) -> Result<Self, HostError> {
        let wrong =
            || invalid("the continue token is not of this query: all else must be unchanged".to_owned());
        let rest = text
            .strip_prefix(fingerprint)
            .and_then(|rest| rest.strip_prefix('.'))
            .ok_or_else(wrong)?;
        let (skip, of_reader) = match rest.split_once('.') {
            Some((skip, token)) => (skip, Some(token.to_owned())),
            None => (rest, None),
        };
        Ok(Self {
            skip: skip.parse().map_err(|_| wrong())?,
            of_reader,
        })
    }
}

/// What has to stay the same from page to page.
fn fingerprint(query: &wit::ListQuery, limit: u32) -> String {
    let mut hasher = Sha256::new();
    let limit = limit.to_string();
    let live = if matches!(query.projection.freshness, wit::Freshness::Live) {
        "live"
    } else {
        "cached"
    };
    let parts = [
        Some(query.api_version.as_str()),
        Some(query.kind.as_str()),
        query.namespace.as_deref(),
        query.label_selector.as_deref(),
        query.field_selector.as_deref(),
        Some(live),
        Some(limit.as_str()),
    ];
    let fields = query.projection.fields.iter().map(|field| Some(field.as_str()));
    for part in parts.into_iter().chain(fields) {
        hasher.update(part.map_or(u64::MAX, |part| part.len() as u64).to_le_bytes());
        hasher.update(part.unwrap_or_default());
    }
    hex(&hasher.finalize()[..8])
}

/// `metadata.name=x` as the whole or one part of a field selector.
fn selected_name(selector: &str) -> Option<&str> {
    selector.split(',').find_map(|part| {
        let value = part.trim().strip_prefix("metadata.name")?.strip_prefix('=')?;
        Some(value.strip_prefix('=').unwrap_or(value))
    })
}

fn unreadable(error: &serde_json::Error) -> HostError {
    HostError::new(ErrorCode::Other, format!("the object cannot be read: {error}"))
}

/// The name in an object's text; empty if there is none.
fn name_of(text: &str) -> String {
    #[derive(Default, serde::Deserialize)]
    #[serde(default)]
    struct Metadata {
        name: String,
    }
    #[derive(Default, serde::Deserialize)]
    #[serde(default)]
    struct Head {
        metadata: Metadata,
    }
    serde_json::from_str::<Head>(text)
        .unwrap_or_default()
        .metadata
        .name
}

fn check_secret(api_version: &str, kind: &str, allowed: bool) -> Result<(), HostError> {
    if api_version == "v1" && kind == "Secret" && !allowed {
        let message = "Secrets need a grant and a flag of the operator; the flag is not set".to_owned();
        return Err(denied(message, api_version, kind));
    }
    Ok(())
}

fn denied(message: String, api_version: &str, kind: &str) -> HostError {
    HostError::new(ErrorCode::Denied, message).detail("grant", format!("kubernetes {api_version}/{kind}"))
}

fn no_reader() -> HostError {
    HostError::new(ErrorCode::Unsupported, "there is no cluster to read from here")
}

fn too_large(what: &str, bytes: usize, limits: &Limits) -> HostError {
    let message = format!(
        "{what} has {bytes} bytes, one answer has at most {}; use a field mask",
        limits.answer_bytes
    );
    HostError::new(ErrorCode::TooLarge, message).detail("limit", "answerBytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_lead_elsewhere_is_no_name() {
        for (api_version, kind) in [
            ("v1", "Pod"),
            ("policy/v1", "PodDisruptionBudget"),
            ("a.b-c.io/v1alpha1", "X"),
        ] {
            assert!(check_kind(api_version, kind).is_ok(), "{api_version} {kind}");
        }
        for (api_version, kind) in [
            ("", "Pod"),
            ("v1", ""),
            ("v1", "pods/log"),
            ("../v1", "Pod"),
            ("a/b/v1", "Pod"),
            ("v1?x", "Pod"),
        ] {
            assert!(check_kind(api_version, kind).is_err(), "{api_version} {kind}");
        }
        for good in ["node-1", "system:node:x", "A.b_c"] {
            assert!(check_name("name", good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a%2fb", "a?b", "a\n", &"a".repeat(254)] {
            assert!(check_name("name", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_selected_name_is_found() {
        let check = |selector, expect| assert_eq!(selected_name(selector), expect, "{selector}");
        check("metadata.name=a", Some("a"));
        check("status.phase=Running, metadata.name==a", Some("a"));
        check("metadata.name!=a", None);
        check("metadata.names=a", None);
        check("spec.nodeName=a", None);
    }

    #[test]
    fn tokens_belong_to_their_query() {
        for token in [
            Token {
                skip: 3,
                of_reader: None,
            },
            Token {
                skip: 0,
                of_reader: Some("a.b.c".into()),
            },
        ] {
            let text = token.write("0123");
            assert_eq!(Token::parse(&text, "0123").unwrap(), token);
            assert_eq!(Token::parse(&text, "4567").unwrap_err().code, ErrorCode::Invalid);
        }
        assert!(Token::parse("nonsense", "0123").is_err());
    }
}
