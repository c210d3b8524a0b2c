//! Version and hash of a Plan. The hash is system-upgrade-controller's own, digit for digit: nodes that it finished stay
//! finished (`spec/system-upgrade-controller.md` §2, B4–B6).

use super::encode::{field, normalise, prune};
use crate::{
    names,
    observed::{ChannelView, Map, Observed, PlanView},
    owner::OwnerKind,
    text::clip,
    time::{doubled, pause_until},
};
use jiff::Timestamp;
use numo_api::{Reason, marks};
use serde_json::Value;
use sha2::{Digest, Sha224, Sha256};
use std::{borrow::Cow, collections::BTreeMap, fmt::Write as _};

/// What a Plan goes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The version, munged; empty while none is known.
    pub version: String,
    /// Whether it is the channel's word.
    pub by_channel: bool,
    /// Why the version is not known, or no longer sure.
    pub problem: Option<(Reason, String)>,
    /// When the channel is asked next.
    pub ask_at: Option<Timestamp>,
    /// Whether it is to be asked now.
    pub asks: bool,
}

/// First and longest pause before a channel that gave no version is asked again (seconds).
const CHANNEL_AGAIN_SECONDS: (i64, i64) = (5, 15 * 60);

/// Every `+` as `-`: no label and no image tag may have one.
pub fn munged(version: &str) -> String {
    version.replace('+', "-")
}

/// What keeps a version from being a label value.
fn unfit(version: &str) -> Option<String> {
    let fits = !version.is_empty() && names::wrong_label_value(version).is_none();
    (!fits).then(|| {
        format!(
            "found version {:?}, wanted a label value: at most {} letters, digits, '-', '_' and '.'",
            clip(version, 100),
            names::LABEL_MAX
        )
    })
}

/// Version of the Plan, as far as it is known now.
pub fn resolve(view: &PlanView, observed: &Observed, now: Timestamp) -> Resolved {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if let Some(version) = given(&view.spec.version) {
        let version = munged(&version);
        return match unfit(&version) {
            None => Resolved {
                version,
                ..Resolved::default()
            },
            Some(problem) => unresolved(format!("spec.version: {problem}")),
        };
    }
    let Some(url) = given(&view.spec.channel) else {
        return unresolved("cannot resolve plan: missing channel and version".to_owned());
    };
    match observed.channels.get(&view.key).filter(|known| known.url == url) {
        Some(known) => answered(view, observed, known, now),
        None => not_asked(view, observed, &url, now),
    }
}

fn unresolved(message: String) -> Resolved {
    Resolved {
        problem: Some((Reason::VersionUnresolved, message)),
        ..Resolved::default()
    }
}

/// A URL without the user in it and his password: conditions, events and logs are read by people who do not read the Plan.
pub fn without_user(url: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.into();
    };
    let end = rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{host}{path}").into(),
        None => url.into(),
    }
}

/// The version that the channel gave as the status has it, and when.
fn last_resolved(view: &PlanView) -> Option<(Timestamp, String)> {
    Some((view.resolved_by_channel()?, view.status.latest_version.clone()?))
}

/// The channel was not asked since numo began.
fn not_asked(view: &PlanView, observed: &Observed, url: &str, now: Timestamp) -> Resolved {
    let last = last_resolved(view);
    let polling = observed.settings.plan_jobs.polling_seconds;
    // After a restart, what was resolved a moment ago is not asked for again.
    let due = last.as_ref().and_then(|(at, _)| pause_until(*at, polling, now));
    let message = format!("spec.channel {}: it is being asked", without_user(url));
    Resolved {
        by_channel: true,
        problem: last.is_none().then_some((Reason::ChannelQueried, message)),
        version: last.map(|(_, version)| version).unwrap_or_default(),
        ask_at: due,
        asks: due.is_none(),
    }
}

/// The channel was asked.
fn answered(view: &PlanView, observed: &Observed, known: &ChannelView, now: Timestamp) -> Resolved {
    let pause = if known.failures == 0 {
        observed.settings.plan_jobs.polling_seconds
    } else {
        doubled(CHANNEL_AGAIN_SECONDS, known.failures - 1)
    };
    let due = pause_until(known.at, pause, now);
    let asks = !known.under_way && due.is_none();
    let last = last_resolved(view).map(|(_, version)| version);
    let answer = match &known.answer {
        Some(answer) => answer.clone().and_then(|version| {
            let version = munged(&version);
            unfit(&version).map_or(Ok(version), Err)
        }),
        None => last.clone().ok_or_else(|| "it is being asked".to_owned()),
    };
    let reason = match known.answer {
        Some(_) => Reason::VersionUnresolved,
        None => Reason::ChannelQueried,
    };
    let url = without_user(&known.url);
    let problem = |problem: &String| (reason, format!("spec.channel {url}: {problem}"));
    Resolved {
        by_channel: true,
        problem: answer.as_ref().err().map(problem),
        // What it said before holds on.
        version: answer.unwrap_or_else(|_| last.unwrap_or_default()),
        ask_at: due.filter(|_| !known.under_way),
        asks,
    }
}

/// Fields that the digest of a Plan may name; with more of them the Plan is invalid.
pub const DIGEST_FIELDS: usize = 64;

/// The hash: SHA-224 over version, ServiceAccount, digest fields, and the hashes of Secrets in order. `secrets` are those
/// that are not ignored.
pub fn digest<'s>(view: &PlanView, version: &str, secrets: impl Iterator<Item = &'s str>) -> String {
    let mut digest = Sha224::new();
    digest.update(version.as_bytes());
    digest.update(
        view.spec
            .service_account_name
            .as_deref()
            .unwrap_or_default()
            .as_bytes(),
    );
    if !view.digest.is_empty() {
        // What numo or a person told numo on the Plan is no part of the other's hash.
        let copied_annotations = view.copied_annotations.iter();
        let annotations: Map = copied_annotations
            .chain(&view.uncopied_annotations)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let others = view.finalizers.iter().filter(|one| *one != marks::FINALIZER);
        let finalizers: Vec<&String> = others.collect();
        let created = view.created.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        // Of the status only the version counts: what else stands there changes with each pass, and the hash would too.
        let mut whole = serde_json::json!({
            "apiVersion": OwnerKind::Plan.api_version(),
            "kind": OwnerKind::Plan.name(),
            "metadata": {
                "name": view.key.name, "namespace": view.key.namespace,
                "uid": view.uid, "generation": view.generation, "creationTimestamp": created,
                "labels": view.labels, "annotations": annotations, "finalizers": finalizers,
            },
            "spec": view.spec,
            "status": {"latestVersion": version},
        });
        prune(&mut whole);
        normalise(&mut whole);
        // A path may name the whole spec, and be there a thousand times.
        let mut printed = BTreeMap::new();
        for path in view.digest.split(',').take(DIGEST_FIELDS) {
            let text = printed.entry(path).or_insert_with(|| field(&whole, path));
            digest.update(text.as_bytes());
        }
    }
    for secret in secrets {
        digest.update(secret.as_bytes());
    }
    digest.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The hash of a Secret as kubectl makes it (`kubectl create secret --append-hash`): of kind, type, name, data and
/// whether it is immutable.
pub fn secret_hash(name: &str, type_: &str, data: Option<&Value>, immutable: Option<bool>) -> String {
    let mut whole = BTreeMap::new();
    whole.insert("data", data.cloned().unwrap_or(Value::Null));
    whole.insert("kind", "Secret".into());
    whole.insert("name", name.into());
    whole.insert("type", type_.into());
    if let Some(immutable) = immutable {
        whole.insert("immutable", immutable.into());
    }
    // Go's encoder escapes what could end a script in a page; such letters stand in strings only.
    let text = serde_json::to_string(&whole)
        .unwrap_or_default()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029");
    let digest = Sha256::digest(text.as_bytes());
    let hex = digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    hex.chars()
        .take(10)
        .map(|digit| match digit {
            '0' => 'g',
            '1' => 'h',
            '3' => 'k',
            'a' => 'm',
            'e' => 't',
            other => other,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The values are those of kubectl's own tests.
    #[test]
    fn a_secret_has_kubectls_hash() {
        let of = |data: Value| secret_hash("", "my-type", Some(&data), None);
        assert_eq!(of(json!({})), "t75bgf6ctb");
        assert_eq!(of(json!({"one": ""})), "74bd68bm66");
        assert_eq!(
            of(json!({"two": "Mg==", "one": "", "three": "Mw=="})),
            "dgcb6h9tmk"
        );
    }

    #[test]
    fn a_url_is_shown_without_its_user() {
        for (url, shown) in [
            (
                "https://ada:s3cret@host:8443/a@b?c@d",
                "https://host:8443/a@b?c@d",
            ),
            ("https://ada@host", "https://host"),
            ("https://a@b:p@host/x", "https://host/x"),
            ("https://host/@scope/v1", "https://host/@scope/v1"),
            ("no url", "no url"),
            ("", ""),
        ] {
            assert_eq!(without_user(url), shown, "{url}");
        }
    }

    #[test]
    fn versions_that_are_no_label_values_are_named() {
        for version in ["", "a/b", "-a", "a-", "ä", &"1".repeat(64)] {
            assert!(unfit(version).is_some(), "{version}");
        }
        assert_eq!(unfit(&munged("v1.30.1+k3s1")), None);
    }
}
