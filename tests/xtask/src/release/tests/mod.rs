//! A release as its users get it: the folder is made once, by a dry run, and looked at with the programs that others use.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod contents;
mod pushed;
mod refused;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use numo_install::buildah::link;
use serde_json::Value;

use super::{
    Arguments,
    binary::{Binary, Platform},
    layout::{Layout, Read},
};
use crate::step::root;

/// Somebody whom nothing in the repository names.
const PUBLISHER: &str = "organisation: Ada's Nodes\nwebsite: https://numo.internal\ndocs: https://docs.numo.internal\n\
                         source: https://code.numo.internal/numo\ndownloads: https://code.numo.internal/numo/releases/download\n\
                         registry: registry.numo.internal/ada/numo\nemail: ada@numo.internal\nsecurity: s@numo.internal\n\
                         kubectl: registry.numo.internal/ada/kubectl@sha256:ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff\n\
                         artifacthub: 6f1d7c52-90a4-4a7b-8d0e-3f2b1c5e7a90\n";

const REGISTRY: &str = "registry.numo.internal/ada/numo";

fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// What cargo built for the tests.
fn built() -> PathBuf {
    let numo = std::env::var_os("NUMO_BIN").map_or_else(|| root().join("target/debug/numo"), PathBuf::from);
    numo.parent().unwrap().to_owned()
}

/// A static numo: the image's, if it is of this build.
fn program(folder: &Path) -> PathBuf {
    let of_image = root().join("target/image/numo");
    let when = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    if when(&of_image) > when(&built().join("numo")) {
        // Under a name of its own: the test of the image, which may run beside this one, takes the other away.
        let own = folder.join("numo-of-image");
        let linked = fs::hard_link(&of_image, &own).or_else(|_| fs::copy(&of_image, &own).map(|_| ()));
        if linked.is_ok() {
            return own;
        }
    }
    let path = folder.join("numo-static");
    link(&built(), &path).unwrap();
    path
}

struct Made {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Made {
    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join("release").join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    fn layout(&self) -> Read {
        Read::new(&self.at("oci"))
    }

    /// The descriptor that the layout names so.
    fn named(&self, reference: &str) -> Value {
        let wanted = |one: &Value| one["annotations"]["org.opencontainers.image.ref.name"] == reference;
        let found = self.layout().named().unwrap().into_iter().find(wanted);
        found.unwrap_or_else(|| panic!("no {reference}"))
    }

    fn pinned(&self, path: &str, tag: &str) -> String {
        let digest = self.named(&format!("{REGISTRY}{path}:{tag}"))["digest"].clone();
        format!("{REGISTRY}{path}@{}", digest.as_str().unwrap())
    }
}

/// An image that something else lies on.
fn base(folder: &Path) {
    let mut layout = Layout::create(folder).unwrap();
    let files = tempfile::tempdir().unwrap();
    fs::write(files.path().join("of-the-base"), "there").unwrap();
    let layer = super::image::Layer::of(&layout, files.path(), 0).unwrap();
    let image = super::image::Image {
        labels: [("name".to_owned(), "base".to_owned())].into(),
        ..super::image::Image::default()
    };
    let index = image
        .index(&layout, &[(Platform::LinuxAmd64, vec![layer])])
        .unwrap();
    layout.name(&index, "base:1");
    layout.finish().unwrap();
}

/// The release that every test here looks at.
fn made() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("publisher.yaml"), PUBLISHER).unwrap();
        base(&at("base"));
        let program = program(folder.path());
        let rules = std::env::var_os("NUMO_RULES").map_or_else(|| root().join(super::RULES), PathBuf::from);
        super::run(&Arguments {
            dry_run: true,
            to: Some(at("release")),
            publisher: Some(at("publisher.yaml")),
            binary: vec![Binary {
                platform: Platform::LinuxAmd64,
                path: program.clone(),
            }],
            rules: Some(rules),
            openshift_base: Some(at("base")),
            profile: "dev".to_owned(),
            ..Arguments::default()
        })
        .unwrap();
        Made { folder, program }
    })
}

fn fault<T: std::fmt::Debug>(result: anyhow::Result<T>) -> String {
    format!("{:#}", result.unwrap_err())
}

/// Helm of a major version; the first call builds it.
fn helm(major: u8) -> Command {
    let module = root().join("tests/install/helm");
    let (package, name) = (format!("helm.sh/helm/v{major}/cmd/helm"), format!("helm{major}"));
    let helm =
        numo_plugin_tests::programs::go_program(&module, &["go.mod", "go.sum"], &package, &name).unwrap();
    let mut helm = Command::new(helm);
    let home = std::env::temp_dir().join(format!("numo-release-helm{major}"));
    for part in ["CACHE", "CONFIG", "DATA"] {
        helm.env(format!("HELM_{part}_HOME"), home.join(part));
    }
    helm
}
