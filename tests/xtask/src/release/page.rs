//! The chart's page as a release has it: it installs from the registry and links to the published docs. Who reads it there has no
//! checkout of the repository.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};

use super::Facts;

/// How the page installs from a checkout.
const INSTALL: &str = "helm install numo deploy/helm/numo --namespace node-upgrade-mutex-operator --create-namespace \\\n  \
                       --set image.repository=REGISTRY/numo\n";
/// How it names the values of OpenShift.
const OPENSHIFT: &str = "add `--values deploy/helm/numo/values-openshift.yaml`";
/// A link to a page of the docs.
const LINK: &str = "](../../../operator/docs/";
/// What only a checkout has.
const OF_A_CHECKOUT: [&str; 2] = ["deploy/helm", "../"];

/// The page with chart, image (`REPOSITORY@sha256:…`) and docs of the publisher in place of the repository's files.
///
/// # Errors
/// If the page has not what is replaced, or names another file of the repository; the message says which.
pub fn published(facts: &Facts, page: &str, image: &str) -> Result<String> {
    let (repository, digest) = image.split_once('@').context("an image by digest")?;
    let chart = format!(
        "oci://{}/charts/numo --version {}",
        facts.publisher.get("registry"),
        facts.version
    );
    let docs = facts.publisher.get("docs");
    let mut text = page.to_owned();
    for (from, to) in [
        (
            INSTALL,
            format!(
                "helm install numo {chart} \\\n  --namespace node-upgrade-mutex-operator --create-namespace\n"
            ),
        ),
        (
            OPENSHIFT,
            format!("run `helm pull {chart} --untar` first and add `--values numo/values-openshift.yaml`"),
        ),
    ] {
        ensure!(
            text.matches(from).count() == 1,
            "README.md of the chart: wanted once: {from}"
        );
        text = text.replace(from, &to);
    }
    text = row(
        &text,
        "image.repository",
        repository,
        "Registry and repository of numo's image.",
    )?;
    text = row(
        &text,
        "image.digest",
        digest,
        "The digest of the image of this release; goes before the tag.",
    )?;
    text = linked(&text, docs).replace(
        "operator/docs/reference/alerts.md",
        &format!("{docs}/reference/alerts.html"),
    );
    for path in OF_A_CHECKOUT {
        ensure!(
            !text.contains(path),
            "README.md of the chart: {path} is of a checkout, and a release has none"
        );
    }
    Ok(text)
}

/// The row of a value in the table, with another default and text.
fn row(text: &str, value: &str, default: &str, what: &str) -> Result<String> {
    let begin = format!("| `{value}` |");
    let line = text.lines().find(|line| line.starts_with(&begin));
    let line = line.with_context(|| format!("README.md of the chart: no row {value}"))?;
    Ok(text.replacen(line, &format!("{begin} `{default}` | {what} |"), 1))
}

/// Links to pages of the docs lead to their published address.
fn linked(text: &str, docs: &str) -> String {
    let mut parts = text.split(LINK);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (path, after) = part.split_once(')').unwrap_or((part, ""));
        let _ = write!(out, "]({docs}/{}){after}", path.replacen(".md", ".html", 1));
    }
    out
}
