//! Who publishes numo, from `deploy/publisher.yaml`, and what stands for it in the files of the repository. It makes nothing and asks
//! nobody.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result, anyhow, bail, ensure};

/// Where it is, from the root of the repository.
pub const FILE: &str = "deploy/publisher.yaml";

/// The fields of the file: name, what it is, and what files of the repository say where the field belongs. Longer ones come before
/// those that they begin with.
const FIELDS: [(&str, &str, &str); 9] = [
    ("docs", "the address of the docs", "https://numo.example/docs"),
    (
        "source",
        "the address of the repository",
        "https://numo.example/source",
    ),
    (
        "downloads",
        "the address of the folder of releases",
        "https://numo.example/downloads",
    ),
    ("website", "the address of a website", "https://numo.example"),
    ("email", "an e-mail address", "authors@numo.example"),
    (
        "security",
        "an e-mail address for vulnerabilities",
        "security@numo.example",
    ),
    (
        "registry",
        "the repository of the image, HOST/PATH",
        "registry.example.com/numo",
    ),
    (
        "kubectl",
        "the image that Jobs of Plans drain with, by its digest",
        numo_install::olm::KUBECTL_IMAGE,
    ),
    ("organisation", "a name", "the numo authors"),
];

/// The one field that may be left out: the ID that Artifact Hub gives the chart's repository.
pub const ARTIFACT_HUB: &str = "artifacthub";
/// What stands for it in the repository.
const NO_REPOSITORY: &str = "00000000-0000-0000-0000-000000000000";

/// Domains that belong to nobody (RFC 2606).
const RESERVED: [&str; 6] = [
    "example",
    "invalid",
    "test",
    "example.com",
    "example.net",
    "example.org",
];

/// The publisher's own words, by field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publisher {
    fields: BTreeMap<String, String>,
}

impl Publisher {
    /// Reads the file.
    ///
    /// # Errors
    /// If the file, or a field of it, is missing, unknown or empty; the message names file and field.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = fs::read_to_string(path)
            .map_err(|error| anyhow!("{shown}: {error}; the file names who publishes numo"))?;
        let found: BTreeMap<String, String> =
            serde_saphyr::from_str(&text).with_context(|| format!("{shown}: wanted FIELD: TEXT"))?;
        for (field, what, placeholder) in FIELDS {
            let value = found.get(field).map_or("", |value| value.trim());
            ensure!(
                !value.is_empty(),
                "{shown}: {field}: nothing is there, wanted {what}"
            );
            let is_address = !what.starts_with("the address") || value.starts_with("https://");
            ensure!(
                is_address,
                "{shown}: {field}: found {value}, wanted {what}, https://…"
            );
            let is_digest =
                !what.ends_with("by its digest") || value.contains("@sha256:") || value == placeholder;
            ensure!(is_digest, "{shown}: {field}: found {value}, wanted {what}");
            let is_email = !what.contains("e-mail") || value.contains('@');
            ensure!(is_email, "{shown}: {field}: found {value}, wanted {what}");
        }
        if let Some(id) = found.get(ARTIFACT_HUB) {
            ensure!(
                is_uuid(id),
                "{shown}: {ARTIFACT_HUB}: found {id}, wanted an ID like {NO_REPOSITORY}, or no such field"
            );
        }
        let is_known = |key: &str| key == ARTIFACT_HUB || FIELDS.iter().any(|(field, ..)| *field == key);
        if let Some(other) = found.keys().find(|key| !is_known(key)) {
            bail!("{shown}: {other}: no such field");
        }
        let is_repository = format!("{}:0", found["registry"]).parse::<numo_plugin::oci::Reference>();
        is_repository.with_context(|| format!("{shown}: registry: found {}", found["registry"]))?;
        let fields = found
            .into_iter()
            .map(|(field, value)| (field, value.trim_end_matches('/').to_owned()));
        Ok(Self {
            fields: fields.collect(),
        })
    }

    /// What a field says.
    pub fn get(&self, field: &str) -> &str {
        self.fields.get(field).map_or("", String::as_str)
    }

    /// Where the files of a version are.
    pub fn folder(&self, version: &str) -> String {
        format!("{}/v{version}", self.get("downloads"))
    }

    /// A text of the repository with the publisher's own words in the places of placeholders.
    pub fn fill(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (field, _, placeholder) in FIELDS {
            // At the beginning of a sentence too.
            for placeholder in [placeholder.to_owned(), capital(placeholder)] {
                text = text.replace(&placeholder, self.get(field));
            }
        }
        // Only in its own field: elsewhere such an ID is the UID of an object that is not there.
        text.replace(
            &format!("repositoryID: {NO_REPOSITORY}"),
            &format!("repositoryID: {}", self.get(ARTIFACT_HUB)),
        )
    }

    /// The fields that are placeholders, in the order of the file's list, each with what is to be done.
    pub fn placeholders(&self, path: &str) -> Vec<String> {
        let of = |(field, what, placeholder): (&str, &str, &str)| {
            let found = self.get(field);
            let is_one = is_reserved(found) || found.eq_ignore_ascii_case(placeholder);
            is_one.then(|| format!("{path}: {field}: {found} is a placeholder, wanted {what}"))
        };
        let mut all: Vec<String> = FIELDS.into_iter().filter_map(of).collect();
        if self.get(ARTIFACT_HUB) == NO_REPOSITORY {
            all.push(format!(
                "{path}: {ARTIFACT_HUB}: {NO_REPOSITORY} is a placeholder, wanted the ID of the chart's repository at Artifact Hub, or \
                 no such field"
            ));
        }
        all
    }
}

/// Whether a text is 32 hexadecimal digits in the groups of a UUID.
fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && text
            .chars()
            .all(|letter| letter == '-' || letter.is_ascii_hexdigit())
}

/// Whether a name or address is under a domain that belongs to nobody.
fn is_reserved(text: &str) -> bool {
    let host = text.split("://").last().unwrap_or_default();
    let host = host.split('/').next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    let host = host.split(':').next().unwrap_or_default();
    RESERVED.iter().any(|domain| {
        let above = host.strip_suffix(domain);
        above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
    })
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// What no text of a release says: beside the placeholders the domain of them all.
const LEFT: [&str; 5] = [
    "numo.example",
    "image: numo:",
    "registry.example.com/numo",
    "the numo authors",
    "repositoryid: 00000000-0000-0000-0000-000000000000",
];

/// The first placeholder of a text, with its line, counted from 1.
pub fn left(text: &str) -> Option<(usize, &'static str)> {
    let of = |line: &str| {
        let line = line.to_lowercase();
        LEFT.into_iter().find(|placeholder| line.contains(placeholder))
    };
    (1..)
        .zip(text.lines())
        .find_map(|(number, line)| Some((number, of(line)?)))
}
