//! Where else an artifact may be: mirrors by source, as OpenShift's ImageDigestMirrorSet and ImageTagMirrorSet name them.
//! Plain data is given; this reads no object of a cluster and asks no mirror.

use serde::{Deserialize, Serialize};

use super::reference::{Reference, Version, is_registry, is_repository};

/// Whether the source itself is asked when no mirror has the artifact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourcePolicy {
    /// After all mirrors.
    #[default]
    AllowContactingSource,
    /// Never.
    NeverContactSource,
}

/// Mirrors of one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MirrorSet {
    /// `registry[:port][/path]`, or `*.example.com` for every host below it.
    pub source: String,
    /// `registry[:port][/path]`, in the order in which they are asked.
    #[serde(default)]
    pub mirrors: Vec<String>,
    /// Whether the source is asked last.
    #[serde(default, rename = "mirrorSourcePolicy")]
    pub policy: SourcePolicy,
}

/// All that is known of mirrors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirrors {
    /// For references by digest (IDMS, and the older ImageContentSourcePolicy).
    pub by_digest: Vec<MirrorSet>,
    /// For references by tag (ITMS).
    pub by_tag: Vec<MirrorSet>,
}

/// A place that is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) registry: String,
    pub(super) repository: String,
}

impl Mirrors {
    /// Where `reference` is looked for, in order. Empty when the source must not be asked and no mirror can be.
    ///
    /// As in containers-registries.conf(5): the longest source that covers the repository counts, and sets with the
    /// same source add up; one `NeverContactSource` of them is enough.
    pub(super) fn places(&self, reference: &Reference) -> Vec<Place> {
        let sets = match reference.version {
            Version::Digest(_) => &self.by_digest,
            Version::Tag(_) => &self.by_tag,
        };
        let source = Place {
            registry: reference.registry.clone(),
            repository: reference.repository.clone(),
        };
        let covering = |set: &&MirrorSet| rest(&set.source, &source).is_some();
        let Some(longest) = sets.iter().filter(covering).map(|set| set.source.len()).max() else {
            return vec![source];
        };
        let mut places: Vec<Place> = Vec::new();
        let mut contact = true;
        for set in sets
            .iter()
            .filter(covering)
            .filter(|set| set.source.len() == longest)
        {
            contact &= set.policy == SourcePolicy::AllowContactingSource;
            let Some(rest) = rest(&set.source, &source) else {
                continue;
            };
            for place in set.mirrors.iter().filter_map(|mirror| below(mirror, &rest)) {
                if !places.contains(&place) {
                    places.push(place);
                }
            }
        }
        if contact && !places.contains(&source) {
            places.push(source);
        }
        places
    }
}

/// What of the path is below `source`, if `source` covers `place`.
fn rest(source: &str, place: &Place) -> Option<String> {
    if let Some(domain) = source.strip_prefix("*.") {
        let host = place.registry.strip_suffix(domain)?;
        return (host.len() > 1 && host.ends_with('.')).then(|| place.repository.clone());
    }
    let (registry, path) = source.split_once('/').unwrap_or((source, ""));
    if registry != place.registry {
        return None;
    }
    if path.is_empty() {
        return Some(place.repository.clone());
    }
    let rest = place.repository.strip_prefix(path)?;
    if rest.is_empty() {
        Some(String::new())
    } else {
        rest.strip_prefix('/').map(str::to_owned)
    }
}

/// `rest` at the mirror; nothing where the mirror is no place.
fn below(mirror: &str, rest: &str) -> Option<Place> {
    let (registry, path) = mirror.split_once('/').unwrap_or((mirror, ""));
    let parts: Vec<&str> = [path, rest].into_iter().filter(|part| !part.is_empty()).collect();
    let repository = parts.join("/");
    (is_registry(registry) && is_repository(&repository)).then(|| Place {
        registry: registry.to_owned(),
        repository,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn set(source: &str, mirrors: &[&str], policy: SourcePolicy) -> MirrorSet {
        MirrorSet {
            source: source.into(),
            mirrors: mirrors.iter().map(|&mirror| mirror.into()).collect(),
            policy,
        }
    }

    fn places(mirrors: &Mirrors, reference: &str) -> Vec<String> {
        let reference: Reference = reference.parse().unwrap();
        mirrors
            .places(&reference)
            .iter()
            .map(|place| format!("{}/{}", place.registry, place.repository))
            .collect()
    }

    #[test]
    fn mirrors_are_asked_in_order_then_the_source_unless_never() {
        use SourcePolicy::{AllowContactingSource, NeverContactSource};
        let mirrors = Mirrors {
            by_digest: vec![
                set("quay.io", &["m1.local/quay"], AllowContactingSource),
                set(
                    "quay.io/team",
                    &["m2.local:5000", "m3.local/x"],
                    AllowContactingSource,
                ),
                set("closed.io", &["m4.local/c"], NeverContactSource),
                set("closed.io", &["m5.local/c"], AllowContactingSource),
                set("*.wild.io", &["m6.local/w"], AllowContactingSource),
                set("quay.io/exact/rule", &["m7.local/renamed"], AllowContactingSource),
                set("broken.io", &["not a mirror"], NeverContactSource),
            ],
            by_tag: vec![set("quay.io", &["t.local"], AllowContactingSource)],
        };
        let check =
            |reference: &str, expect: &[&str]| assert_eq!(places(&mirrors, reference), expect, "{reference}");
        check(&format!("quay.io/a@{DIGEST}"), &["m1.local/quay/a", "quay.io/a"]);
        check(
            &format!("quay.io/team/a@{DIGEST}"),
            &["m2.local:5000/a", "m3.local/x/a", "quay.io/team/a"],
        );
        check(
            &format!("quay.io/teams/a@{DIGEST}"),
            &["m1.local/quay/teams/a", "quay.io/teams/a"],
        );
        check(
            &format!("closed.io/a@{DIGEST}"),
            &["m4.local/c/a", "m5.local/c/a"],
        );
        check(
            &format!("a.b.wild.io/x@{DIGEST}"),
            &["m6.local/w/x", "a.b.wild.io/x"],
        );
        check(&format!("wild.io/x@{DIGEST}"), &["wild.io/x"]);
        check(
            &format!("quay.io/exact/rule@{DIGEST}"),
            &["m7.local/renamed", "quay.io/exact/rule"],
        );
        check(&format!("broken.io/a@{DIGEST}"), &[]);
        check("quay.io/a:1", &["t.local/a", "quay.io/a"]);
        check("other.io/a:1", &["other.io/a"]);
    }
}
