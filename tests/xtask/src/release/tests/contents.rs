//! What is in the folder of a release.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use base64::{Engine as _, prelude::BASE64_STANDARD as STANDARD};
use numo_install::{objects, said};
use numo_plugin::{oci::Digest, signature::PublicKey};
use numo_plugin_tests::programs;
use serde_json::{Value, json};

use super::{
    super::{archive, install, made as parts, notes, ready},
    Made, REGISTRY, helm, made, version,
};
use crate::step::root;

#[test]
fn what_a_release_names_is_in_it_by_its_digest() {
    let made = made();
    let (plain, tag) = (made.pinned("", version()), format!("{}-openshift", version()));
    let openshift = made.pinned("", &tag);
    for (file, image, other) in [
        ("kubernetes.yaml", &plain, &openshift),
        ("self-managed.yaml", &plain, &openshift),
        ("uninstall.yaml", &plain, &openshift),
        ("remove.yaml", &plain, &openshift),
        ("openshift.yaml", &openshift, &plain),
        (
            "olm/bundle/manifests/numo.clusterserviceversion.yaml",
            &openshift,
            &plain,
        ),
        ("olm/catalog/configs/catalog.yaml", &openshift, &plain),
    ] {
        let text = made.text(file);
        assert!(text.contains(image.as_str()), "{file}: {image}");
        assert!(!text.contains(other.as_str()), "{file}: {other}");
        assert!(
            !text.contains(&format!("numo:{}", version())),
            "{file} names a tag"
        );
    }
    let csv = made.text("olm/bundle/manifests/numo.clusterserviceversion.yaml");
    assert!(
        csv.contains("name: Ada's Nodes") && csv.contains("https://docs.numo.internal"),
        "{csv}"
    );
    assert!(
        csv.contains("arch.amd64: supported") && !csv.contains("arch.arm64"),
        "there is no such image"
    );
    assert!(
        made.text("olm/catalog/configs/catalog.yaml")
            .contains(&made.pinned("/bundle", version()))
    );
    assert!(
        made.text("olm/olm-v0.yaml")
            .contains(&made.pinned("/catalog", version()))
    );
    let mut rules = 0;
    let examples = install::files(&made.at("examples")).unwrap();
    assert!(
        examples
            .iter()
            .any(|path| path.ends_with("several-clusters/upgrade/base/plan.yaml")),
        "{examples:?}"
    );
    for path in examples {
        let text = fs::read_to_string(&path).unwrap();
        let shown = path.display();
        assert!(!text.contains(install::NO_DIGEST), "{shown}: a digest of nothing");
        for object in objects(&text).unwrap() {
            if let Some(image) = object.pointer("/spec/wasm/image").and_then(Value::as_str) {
                let (repository, _) = image.split_once('@').unwrap();
                let path = repository.strip_prefix(REGISTRY).unwrap();
                assert_eq!(image, made.pinned(path, version()));
                rules += 1;
            }
        }
    }
    assert!(rules >= 6, "{rules}");
    // Nothing of it names who does not publish it.
    let all = names(&made.at(""), &made.at(""));
    assert!(all.len() > 50);
    for file in [
        "monitoring/alerts.yaml",
        "gitops/flux/helm-release.yaml",
        "gitops/argocd/application.yaml",
    ] {
        assert!(all.iter().any(|one| one == file), "{file} is not there");
    }
    assert!(
        made.text("monitoring/alerts.yaml")
            .contains("https://docs.numo.internal")
    );
    assert!(
        made.text("gitops/flux/helm-release.yaml")
            .contains(&format!("oci://{REGISTRY}/charts/numo"))
    );
    ready::has_no_placeholder(&made.at(""), &all).unwrap();
}

/// Artifact Hub shows what this version changes, and an icon that the docs have.
#[test]
fn the_chart_says_what_changes() {
    let made = made();
    let manifest = made.named(&format!("{REGISTRY}/charts/numo:{}", version()));
    let manifest = made.layout().document(&manifest).unwrap();
    let head = made.layout().blob(&manifest["config"]).unwrap();
    let chart: Value = serde_json::from_slice(&head).unwrap();
    assert_eq!(chart["annotations"]["artifacthub.io/prerelease"], "true");
    let changes = chart["annotations"]["artifacthub.io/changes"].as_str().unwrap();
    let changes = objects(changes).unwrap().remove(0);
    let kinds: Vec<&Value> = changes
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["kind"])
        .collect();
    assert_eq!(kinds, ["added", "changed", "fixed", "changed"]);
    let first = changes[0]["description"].as_str().unwrap();
    assert!(
        first.ends_with(" entries below Added, in the changelog"),
        "{first}"
    );
    let icon = chart["icon"].as_str().unwrap();
    let path = icon.strip_prefix("https://docs.numo.internal/").unwrap();
    let of_the_docs = fs::read(root().join("operator/docs").join(path)).unwrap();
    assert_eq!(of_the_docs, fs::read(root().join("deploy/olm/icon.svg")).unwrap());
}

#[test]
fn a_short_section_is_shown_by_its_entries() {
    let section = "### Added\n\n- A thing that\n  works. More of it.\n- Another ([page](x.md))\n\n### Upgrade\n\n- Do this: first\n";
    assert_eq!(
        json!(notes::of_chart(section)),
        json!([
            {"kind": "added", "description": "A thing that works"},
            {"kind": "added", "description": "Another"},
            {"kind": "changed", "description": "Do this"},
        ])
    );
    assert!(notes::of_chart("First version.").is_empty());
}

/// The commands of the pages need no file that a release lacks, and Artifact Hub finds who owns the chart.
#[test]
fn a_release_has_what_removes_it_and_who_owns_its_chart() {
    let made = made();
    let removed = objects(&made.text("remove.yaml")).unwrap();
    let of_the_repository = fs::read_to_string(root().join("deploy/remove.yaml")).unwrap();
    assert_eq!(removed.len(), objects(&of_the_repository).unwrap().len());
    assert!(removed.iter().any(|one| one["kind"] == "Deployment"));
    assert!(
        !removed
            .iter()
            .any(|one| one["kind"] == "CustomResourceDefinition")
    );

    let owners = made.text("artifacthub-repo.yml");
    let read = objects(&owners).unwrap().remove(0);
    assert_eq!(read["repositoryID"], "6f1d7c52-90a4-4a7b-8d0e-3f2b1c5e7a90");
    assert_eq!(
        read["owners"],
        json!([{"name": "Ada's Nodes", "email": "ada@numo.internal"}])
    );
    let pushed = made.named(&format!("{REGISTRY}/charts/numo:artifacthub.io"));
    let manifest = made.layout().document(&pushed).unwrap();
    assert_eq!(
        manifest["config"]["mediaType"],
        "application/vnd.cncf.artifacthub.config.v1+yaml"
    );
    let layer = &manifest["layers"][0];
    assert_eq!(
        layer["mediaType"],
        "application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml"
    );
    assert_eq!(made.layout().blob(layer).unwrap(), owners.as_bytes());
}

fn names(folder: &Path, top: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("oci") {
            found.extend(names(&path, top));
        } else if path.is_file() {
            found.push(path.strip_prefix(top).unwrap().to_string_lossy().into_owned());
        }
    }
    found
}

/// The block of operator/docs/verifying.md, as a person runs it beside the files that they have fetched.
fn the_page_verifies(made: &Made) {
    let page = fs::read_to_string(root().join("operator/docs/verifying.md")).unwrap();
    let mut blocks = page.split("```sh\n").skip(1);
    let block = blocks
        .find(|block| block.contains("sha256sum --check --ignore-missing"))
        .unwrap();
    let block = block.split("```").next().unwrap();
    let fetched = tempfile::tempdir().unwrap();
    for name in [parts::SUMS, "SHA256SUMS.sig", "numo.pub"] {
        fs::copy(made.at(name), fetched.path().join(name)).unwrap();
    }
    let openssl = programs::folder_of(&programs::debian("openssl").unwrap()).unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(openssl).chain(std::env::split_paths(&path));
    let path = std::env::join_paths(path).unwrap();
    let run = || {
        let mut bash = Command::new("bash");
        bash.current_dir(fetched.path())
            .args(["-euo", "pipefail", "-c", block]);
        said(bash.env("PATH", &path))
    };
    run().unwrap();
    // It finds what was changed on the way.
    fs::write(fetched.path().join(parts::SUMS), "another").unwrap();
    run().expect_err("another list");
}

#[test]
fn checksums_signature_and_provenance_are_right() {
    let made = made();
    let release = made.at("");
    said(
        Command::new("sha256sum")
            .current_dir(&release)
            .args(["--check", "--strict", parts::SUMS]),
    )
    .unwrap();
    let sums = fs::read(made.at(parts::SUMS)).unwrap();
    let listed: BTreeSet<String> = made
        .text(parts::SUMS)
        .lines()
        .map(|line| line.split("  ").nth(1).unwrap().to_owned())
        .collect();
    let there: BTreeSet<String> = parts::files(&release)
        .unwrap()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let beside: Vec<&String> = there.difference(&listed).collect();
    assert_eq!(beside, [parts::SUMS, "SHA256SUMS.sig"]);
    // By numo's own verifier, and by the commands of the docs.
    let key = PublicKey::from_pem(&made.text("numo.pub")).unwrap();
    let signature = STANDARD.decode(made.text("SHA256SUMS.sig").trim()).unwrap();
    assert!(key.accepts(&sums, &signature));
    assert!(!key.accepts(&[&sums[..], b" "].concat(), &signature));
    let der = made.folder.path().join("SHA256SUMS.der");
    fs::write(&der, &signature).unwrap();
    let mut openssl = Command::new(programs::debian("openssl").unwrap());
    openssl
        .current_dir(&release)
        .args(["dgst", "-sha256", "-verify", "numo.pub", "-signature"]);
    said(openssl.arg(&der).arg(parts::SUMS)).unwrap();
    the_page_verifies(made);

    let bundle: Value = serde_json::from_str(&made.text("provenance.sigstore.json")).unwrap();
    let envelope = &bundle["dsseEnvelope"];
    let payload = STANDARD.decode(envelope["payload"].as_str().unwrap()).unwrap();
    let kind = envelope["payloadType"].as_str().unwrap();
    let mut message = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
    message.extend_from_slice(&payload);
    let signature = STANDARD
        .decode(envelope["signatures"][0]["sig"].as_str().unwrap())
        .unwrap();
    assert!(key.accepts(&message, &signature));
    let statement: Value = serde_json::from_slice(&payload).unwrap();
    assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(statement["predicateType"], "https://slsa.dev/provenance/v1");
    let definition = &statement["predicate"]["buildDefinition"];
    let commit = said(
        Command::new("git")
            .current_dir(root())
            .args(["rev-parse", "HEAD"]),
    )
    .unwrap();
    assert_eq!(
        definition["resolvedDependencies"][0]["digest"]["gitCommit"],
        commit.trim()
    );
    assert_eq!(definition["externalParameters"]["dryRun"], true);
    let subjects = statement["subject"].as_array().unwrap();
    for (name, digits) in parts::files(&release).unwrap() {
        let after = [parts::SUMS, "SHA256SUMS.sig", "provenance.sigstore.json"].contains(&name.as_str());
        assert!(
            after || subjects.contains(&json!({"name": name, "digest": {"sha256": digits}})),
            "{name}"
        );
    }
    let image = made.pinned("", version());
    let (name, digest) = image.split_once("@sha256:").unwrap();
    assert!(subjects.contains(&json!({"name": name, "digest": {"sha256": digest}})));
}

#[test]
fn krew_installs_a_program_that_runs() {
    let made = made();
    let manifest = objects(&made.text("numo.krew.yaml")).unwrap().remove(0);
    assert_eq!(manifest["spec"]["version"], format!("v{}", version()));
    let [platform] = manifest["spec"]["platforms"].as_array().unwrap().as_slice() else {
        panic!("one program was given: {manifest}");
    };
    let uri = platform["uri"].as_str().unwrap();
    let folder = format!(
        "https://code.numo.internal/numo/releases/download/v{}/",
        version()
    );
    let name = uri.strip_prefix(&folder).unwrap();
    assert_eq!(
        platform["sha256"],
        Digest::of(&fs::read(made.at(name)).unwrap()).hex()
    );
    assert_eq!(
        platform["selector"]["matchLabels"],
        json!({"os": "linux", "arch": "amd64"})
    );
    let to = tempfile::tempdir().unwrap();
    said(
        Command::new("tar")
            .arg("-xzf")
            .arg(made.at(name))
            .arg("-C")
            .arg(to.path()),
    )
    .unwrap();
    for file in platform["files"].as_array().unwrap() {
        assert!(to.path().join(file["from"].as_str().unwrap()).is_file(), "{file}");
    }
    let program = to.path().join(platform["bin"].as_str().unwrap());
    let said = said(Command::new(program).args(["version", "--client"])).unwrap();
    assert!(
        said.contains(version()) && said.contains("rule contract"),
        "{said}"
    );
    // What is not there is named, and who makes it.
    let notes = made.text("notes.md");
    assert!(
        notes.contains("the program for darwin/arm64") && notes.contains("### Upgrade"),
        "{notes}"
    );
    assert!(
        notes.contains("](https://code.numo.internal/numo/blob/v") && notes.lines().count() < 100,
        "a page that leads to the whole changelog: {notes}"
    );
}

/// The paths of panics are in a program: whose they are is in no list that this was made from.
#[test]
fn the_bill_of_materials_has_every_crate_that_the_program_has() {
    let made = made();
    let bill: Value = serde_json::from_str(&made.text("numo.cdx.json")).unwrap();
    let components = bill["components"].as_array().unwrap();
    let known: BTreeSet<String> = components
        .iter()
        .map(|one| {
            format!(
                "{}-{}",
                one["name"].as_str().unwrap(),
                one["version"].as_str().unwrap()
            )
        })
        .collect();
    let program = fs::read(&made.program).unwrap();
    let mut found = BTreeSet::new();
    for part in String::from_utf8_lossy(&program).split("/registry/src/").skip(1) {
        found.extend(part.split('/').nth(1).map(ToOwned::to_owned));
    }
    let missing: Vec<&String> = found.difference(&known).collect();
    assert!(found.len() > 40, "{found:?}");
    assert_eq!(missing, Vec::<&String>::new());
    // What only runs while others are built is there too; what only tests need is not.
    assert!(components.iter().any(|one| one["name"] == "serde_derive"));
    assert!(!components.iter().any(|one| one["name"] == "proptest"));
    let licences = made.text("THIRD_PARTY_LICENSES");
    for one in components.iter().filter(|one| one["hashes"].is_array()) {
        let (name, version) = (one["name"].as_str().unwrap(), one["version"].as_str().unwrap());
        assert!(licences.contains(&format!("\n{name} {version}: ")), "{name}");
        assert!(one["licenses"][0]["expression"].is_string(), "{name}");
    }
    let refs: BTreeSet<&str> = components
        .iter()
        .filter_map(|one| one["bom-ref"].as_str())
        .collect();
    assert_eq!(refs.len(), components.len());
    for edge in bill["dependencies"].as_array().unwrap() {
        for needed in edge["dependsOn"].as_array().unwrap() {
            assert!(refs.contains(needed.as_str().unwrap()), "{needed}");
        }
    }
    let rules: Value = serde_json::from_str(&made.text("numo-rules.cdx.json")).unwrap();
    for name in ["pdb-headroom", "provider-sim", "numo-provider-sdk"] {
        let mut components = rules["components"].as_array().unwrap().iter();
        assert!(components.any(|one| one["name"] == name), "{name}");
    }
}

#[test]
fn the_chart_installs_the_image_by_its_digest() {
    let made = made();
    let archive = made.at(&format!("numo-{}.tgz", version()));
    for major in [3, 4] {
        let mut helm = helm(major);
        helm.args(["template", "numo", "--kube-version", "1.36.0"])
            .arg(&archive);
        let rendered = objects(&said(&mut helm).unwrap()).unwrap();
        let deployment = rendered.iter().find(|one| one["kind"] == "Deployment").unwrap();
        let image = deployment
            .pointer("/spec/template/spec/containers/0/image")
            .unwrap();
        assert_eq!(*image, json!(made.pinned("", version())));
    }
    let shown = objects(&said(helm(4).args(["show", "chart"]).arg(&archive)).unwrap())
        .unwrap()
        .remove(0);
    assert!(
        shown["maintainers"].is_array() && shown["home"].is_string(),
        "{shown}"
    );
}

/// Who reads the page in the chart has no checkout.
#[test]
fn the_page_in_the_chart_installs_from_the_registry() {
    let made = made();
    let archive = made.at(&format!("numo-{}.tgz", version()));
    let page = said(helm(4).args(["show", "readme"]).arg(&archive)).unwrap();
    for path in ["deploy/helm", "../", "operator/docs"] {
        assert!(!page.contains(path), "{path}: {page}");
    }
    let image = made.pinned("", version());
    let (repository, digest) = image.split_once('@').unwrap();
    for wanted in [
        format!(
            "helm install numo oci://{REGISTRY}/charts/numo --version {} ",
            version()
        ),
        format!("| `image.repository` | `{repository}` |"),
        format!("| `image.digest` | `{digest}` |"),
        "](https://docs.numo.internal/gitops.html)".to_owned(),
    ] {
        assert!(page.contains(&wanted), "{wanted} is not in: {page}");
    }
    assert!(
        !page.contains("has no default"),
        "the chart names its image: {page}"
    );
}

/// A folder of files is the same bytes whenever it is packed.
#[test]
fn equal_files_make_an_equal_release() {
    let pack = |name: &str| {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(name), "text").unwrap();
        fs::write(folder.path().join("a"), "text").unwrap();
        let tar = archive::tar(folder.path(), 1_700_000_000).unwrap();
        Digest::of(&archive::gzip(&tar).unwrap())
    };
    assert_eq!(pack("b"), pack("b"));
    assert_ne!(pack("b"), pack("c"));
}
