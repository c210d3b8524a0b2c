//! The image: built from the file that only copies, by Debian's buildah, pushed to a real registry, pulled by its digest, and run
//! out of an empty, read-only root as any user. What is taken out of it is left in `target/image`, where the main job is run
//! with it once more.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use numo_install::{
    buildah::{Buildah, link},
    root, said,
};
use numo_plugin_tests::registry::{Kind, PASSWORD, Running, USER};
use serde_json::Value;

/// Largest sum of compressed layers (bytes).
const LARGEST: u64 = 40_000_000;

/// Runs a program of the unpacked image: nothing else is there, nothing can be written, and the user is one that OpenShift made up.
fn in_image(image: &Path, arguments: &[&str]) -> Command {
    let enter = r#"PATH=/usr/sbin:/usr/bin:/sbin:/bin; mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec unshare --user --map-user=1000680000 --map-group=0 --root="$0" --wd=/ "$@""#;
    let mut command = Command::new("unshare");
    command
        .env_clear()
        .env("HOME", "/")
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .args(["--user", "--map-root-user", "--mount", "/bin/sh", "-c", enter])
        .arg(image)
        .args(arguments);
    command
}

#[test]
fn the_image_is_built_pushed_pulled_and_runs_as_any_user_on_a_read_only_root() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let at = |name: &str| folder.path().join(name);
    let buildah = Buildah::new(folder.path())?;
    fs::create_dir_all(at("context/bin"))?;
    link(&root().join("target/debug"), &at("context/bin/numo"))?;
    std::os::unix::fs::symlink("numo", at("context/bin/kubectl-numo"))?;
    fs::copy(
        "/etc/ssl/certs/ca-certificates.crt",
        at("context/ca-certificates.crt"),
    )?;
    fs::copy(root().join("LICENSE"), at("context/LICENSE"))?;
    let licences = third_party_licences()?;
    fs::write(at("context/THIRD_PARTY_LICENSES"), &licences)?;
    let file = root().join("deploy/Dockerfile.prebuilt");
    let (file, context) = (
        file.to_string_lossy(),
        at("context").to_string_lossy().into_owned(),
    );
    let build = [
        "--isolation",
        "chroot",
        "--format",
        "oci",
        "--timestamp",
        "0",
        "--file",
        &file,
        "--tag",
        "numo:test",
    ];
    buildah.run("build", &[&build[..], &[&context]].concat())?;

    let registry = Running::start_with(Kind::Distribution, false)?;
    let login = format!("{USER}:{PASSWORD}");
    let pushed = at("digest").to_string_lossy().into_owned();
    let place = format!("docker://{}/numo:test", registry.address);
    let plain = ["--tls-verify=false", "--creds", &login];
    buildah.run(
        "push",
        &[&plain[..], &["--digestfile", &pushed, "numo:test", &place]].concat(),
    )?;
    let digest = fs::read_to_string(&pushed)?;
    let reference = format!("{}/numo@{digest}", registry.address);
    buildah.run(
        "pull",
        &[&plain[..], &[&format!("docker://{reference}")]].concat(),
    )?;
    let layout = at("layout");
    let to = format!("oci:{}:numo", layout.display());
    buildah.run("push", &[&reference, &to])?;

    let blob = |digest: &Value| -> Result<PathBuf> {
        let digest = digest.as_str().context("a digest")?;
        Ok(layout.join("blobs").join(digest.replace(':', "/")))
    };
    let read = |path: &Path| -> Result<Value> { Ok(serde_json::from_slice(&fs::read(path)?)?) };
    let index = read(&layout.join("index.json"))?;
    let manifest = read(&blob(&index["manifests"][0]["digest"])?)?;
    let layers = manifest["layers"].as_array().context("layers")?;
    let size: u64 = layers.iter().filter_map(|layer| layer["size"].as_u64()).sum();
    println!("image: {size} bytes compressed");
    assert!(size < LARGEST, "{size} bytes");
    let config = read(&blob(&manifest["config"]["digest"])?)?;
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Entrypoint"][0], "/numo");
    assert_eq!(
        config["config"]["Labels"]["org.opencontainers.image.version"],
        env!("CARGO_PKG_VERSION")
    );
    let image = at("root");
    fs::create_dir(&image)?;
    for layer in layers {
        said(
            Command::new("tar")
                .arg("-xzf")
                .arg(blob(&layer["digest"])?)
                .arg("-C")
                .arg(&image),
        )?;
    }
    assert!(image.join("licenses/LICENSE").is_file());
    let packed = fs::read_to_string(image.join("licenses/THIRD_PARTY_LICENSES"))?;
    assert!(packed == licences, "the image has the licences of others' code");

    let version = said(&mut in_image(&image, &["/numo", "--version"]))?;
    assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    let version = said(&mut in_image(&image, &["/kubectl-numo", "version", "--client"]))?;
    assert!(version.contains("rule contract"), "{version}");
    let written = said(&mut in_image(&image, &["/numo", "crds", "--directory", "/x"]));
    assert!(written.is_err_and(|error| error.to_string().contains("Read-only")));

    let kept = root().join("target/image");
    fs::create_dir_all(&kept)?;
    // A new file, and a whole one: what lies there may be running, and others look for it.
    fs::copy(image.join("numo"), kept.join("numo.new"))?;
    fs::rename(kept.join("numo.new"), kept.join("numo"))?;
    Ok(())
}

/// What `deploy/Dockerfile` puts beside the program.
fn third_party_licences() -> Result<String> {
    let mut script = Command::new("sh");
    script.current_dir(root()).args(["deploy/licences.sh", TARGET]);
    said(&mut script)
}

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Whoever passes numo's image on passes on the code of some hundred crates, with their licences.
#[test]
fn the_licences_of_all_code_in_the_image_are_told_by_crate_and_in_full() -> Result<()> {
    let licences = third_party_licences()?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .current_dir(root())
        .args(["tree", "--locked", "--package", "numo"]);
    cargo.args(["--target", TARGET, "--edges", "normal,build", "--prefix", "none"]);
    let tree = said(&mut cargo)?;
    // What is of a path is numo's own.
    let foreign = tree.lines().filter(|line| !line.contains(" (/"));
    let mut number = 0;
    for line in foreign {
        let mut words = line.split_whitespace();
        let (Some(name), Some(version)) = (words.next(), words.next()) else {
            continue;
        };
        let begin = format!("\n{name} {}: ", version.trim_start_matches('v'));
        let told = licences.split_once(&begin).map(|(_, rest)| rest.lines().next());
        assert!(told.flatten().is_some_and(|licence| licence.len() > 2), "{line}");
        number += 1;
    }
    assert!(number > 100, "{number} crates");
    for text in [
        "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION",
        "Permission is hereby granted, free of charge",
    ] {
        assert!(licences.contains(text), "{text}");
    }
    assert!(
        !licences.contains("\nnumo-core "),
        "numo's own crates are not others'"
    );
    Ok(())
}

/// The arguments that labels of a Dockerfile are made of.
fn arguments_of_labels(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let made = lines.filter_map(|line| Some(line.split_once("=\"$")?.1.split_once('"')?.0));
    made.collect()
}

#[test]
fn the_files_for_users_have_what_a_certified_image_needs() -> Result<()> {
    let read = |name: &str| fs::read_to_string(root().join("deploy").join(name));
    for name in ["Dockerfile", "Dockerfile.ubi", "Dockerfile.prebuilt"] {
        let text = read(name)?;
        let version = format!("ARG VERSION={}", env!("CARGO_PKG_VERSION"));
        for words in [
            version.as_str(),
            "USER 65532",
            "/licenses",
            "ENTRYPOINT [\"/numo\"]",
        ] {
            assert!(text.contains(words), "{name} has no {words}");
        }
        // Those of a release (tests/xtask/src/release/made.rs), and the time: an image says the same of itself however it was made.
        for label in [
            "title",
            "description",
            "licenses",
            "vendor",
            "url",
            "documentation",
            "source",
            "version",
            "revision",
            "created",
        ] {
            let words = format!("org.opencontainers.image.{label}=\"");
            let number = text.matches(&words).count();
            assert_eq!(number, 1, "{name}: label {words}");
        }
        // An argument counts only in the stage that names it.
        let of_image = text.rsplit("\nFROM ").next().unwrap_or_default();
        let arguments = arguments_of_labels(of_image);
        assert!(arguments.len() >= 5, "{name}: {arguments:?}");
        for argument in arguments {
            // Of one without a default the line before the first stage has it.
            let is_named = |line: &str| {
                line.strip_prefix("ARG ").and_then(|rest| rest.split('=').next()) == Some(argument)
            };
            assert!(
                of_image.lines().any(is_named),
                "{name}: no ARG {argument} for a label"
            );
            let has_default = text
                .lines()
                .any(|line| line.starts_with(&format!("ARG {argument}=")));
            assert!(has_default, "{name}: no ARG {argument}=");
        }
    }
    // Which image it is built on can be pinned, and is said: tags move.
    for name in ["Dockerfile", "Dockerfile.ubi"] {
        let text = read(name)?;
        assert!(
            text.contains("\nFROM $BASE\nARG BASE\n"),
            "{name}: a base that cannot be pinned"
        );
        for label in ["base.name=\"$BASE\"", "base.digest=\"$BASE_DIGEST\""] {
            assert!(
                text.contains(&format!("org.opencontainers.image.{label}")),
                "{name}: {label}"
            );
        }
    }
    let ubi = read("Dockerfile.ubi")?;
    for label in [
        "name=",
        "vendor=",
        "version=",
        "release=",
        "summary=",
        "description=",
    ] {
        assert!(ubi.contains(label), "Dockerfile.ubi has no label {label}");
    }
    assert!(
        ubi.contains("COPY --from=numo /licenses/"),
        "the texts of the image that it copies"
    );
    let multi = read("Dockerfile")?;
    for words in [
        "licences.sh \"$target\" >/image/licenses/THIRD_PARTY_LICENSES",
        "TARGETARCH",
        "BUILDPLATFORM",
        "cargo auditable build --locked",
        "crt-static",
        "NUMO_COMMIT=\"$REVISION\"",
    ] {
        assert!(multi.contains(words), "Dockerfile has no {words}");
    }
    Ok(())
}
