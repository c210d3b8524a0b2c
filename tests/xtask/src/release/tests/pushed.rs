//! What a release pushes, as others pull it.

use std::fs;

use base64::{Engine as _, prelude::BASE64_STANDARD as STANDARD};
use numo_install::{buildah::Buildah, said};
use numo_plugin::{
    oci::{Digest, Reference, Registry},
    signature::{Policy, PublicKey},
};
use numo_plugin_tests::registry::{Kind, PASSWORD, Running, USER};
use serde_json::{Value, json};

use super::{super::publish, Made, REGISTRY, helm, made, version};

/// What is pushed is pulled again by others, and believed by its signature only; with a registry that knows referrers, and one
/// that does not.
#[tokio::test]
async fn images_and_artifacts_are_pushed_pulled_and_their_signatures_hold() {
    let made = made();
    let key = PublicKey::from_pem(&made.text("numo.pub")).unwrap();
    let other = rcgen::KeyPair::generate().unwrap().public_key_pem();
    for kind in Kind::ALL {
        let running = Running::start_with(kind, false).unwrap();
        let place = format!("{}/ada/numo", running.address);
        let mut setup = running.setup();
        setup.bounds.total = std::time::Duration::from_mins(5);
        let registry = Registry::new(setup).unwrap();
        let credentials = running.credentials();
        let moved = |name: String| name.replace(REGISTRY, &place);
        publish::all(&made.at(""), &registry, &credentials, &moved)
            .await
            .unwrap();

        let pinned = |path: &str, tag: &str| made.pinned(path, tag).replace(REGISTRY, &place);
        let signed = [
            pinned("", version()),
            pinned("", &format!("{}-openshift", version())),
            pinned("/charts/numo", version()),
            pinned("/bundle", version()),
            pinned("/catalog", version()),
            pinned("/rules/pdb-headroom", version()),
            pinned("/providers/sim", version()),
        ];
        for reference in signed {
            let (repository, digest) = reference.split_once('@').unwrap();
            let digest: Digest = digest.parse().unwrap();
            let wanted = format!("{repository}:1")
                .parse::<Reference>()
                .unwrap()
                .pinned(digest.clone());
            let candidates = registry.signatures(&wanted, &credentials).await.unwrap();
            let check = |key: PublicKey| {
                let policy = Policy {
                    keys: vec![key],
                    ..Policy::default()
                };
                policy.check(&digest, &candidates, &[])
            };
            check(key.clone()).unwrap();
            assert!(
                check(PublicKey::from_pem(&other).unwrap()).is_err(),
                "{reference}"
            );
        }
        let rule: Reference = pinned("/rules/pdb-headroom", version()).parse().unwrap();
        let rule = registry.resolve(&rule, &credentials).await.unwrap();
        let pulled = registry.pull(&rule, &credentials, 1 << 20).await.unwrap();
        assert!(pulled.component.starts_with(b"\0asm"));
        by_others(&running, &place, made);
    }
}

/// buildah pulls both images, Helm the chart.
fn by_others(running: &Running, place: &str, made: &Made) {
    let folder = tempfile::tempdir().unwrap();
    let buildah = Buildah::new(folder.path()).unwrap();
    let login = format!("{USER}:{PASSWORD}");
    for (tag, layers) in [(version().to_owned(), 2), (format!("{}-openshift", version()), 3)] {
        let image = format!("docker://{}", made.pinned("", &tag).replace(REGISTRY, place));
        let arguments = [
            "--tls-verify=false",
            "--creds",
            &login,
            "--platform",
            "linux/amd64",
            &image,
        ];
        let id = buildah.run("pull", &arguments).unwrap();
        let format = ["--type", "image", id.trim()];
        let about: Value = serde_json::from_str(&buildah.run("inspect", &format).unwrap()).unwrap();
        let config = &about["OCIv1"];
        assert_eq!(config["config"]["Entrypoint"], json!(["/numo"]), "{about}");
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(
            config["config"]["Labels"]["org.opencontainers.image.vendor"],
            "Ada's Nodes"
        );
        assert_eq!(
            config["rootfs"]["diff_ids"].as_array().unwrap().len(),
            layers,
            "{tag}"
        );
        // The base's own label is said anew.
        let name = &config["config"]["Labels"]["name"];
        assert_eq!(name.as_str(), (layers == 3).then_some("numo"), "{tag}");
        // And which one it was.
        let of_base =
            |label: &str| &config["config"]["Labels"][format!("org.opencontainers.image.base.{label}")];
        assert_eq!(
            of_base("name").as_str(),
            (layers == 3).then_some("base:1"),
            "{tag}"
        );
        let digest = of_base("digest").as_str().unwrap_or_default();
        assert_eq!(digest.starts_with("sha256:"), layers == 3, "{tag}: {digest}");
    }
    let mut helm = helm(4);
    let config = folder.path().join("registry.json");
    let auth = STANDARD.encode(&login);
    fs::write(
        &config,
        json!({"auths": {running.address.as_str(): {"auth": auth}}}).to_string(),
    )
    .unwrap();
    helm.args([
        "pull",
        &format!("oci://{place}/charts/numo"),
        "--version",
        version(),
        "--plain-http",
        "--registry-config",
    ]);
    said(helm.arg(&config).arg("--destination").arg(folder.path())).unwrap();
    let name = format!("numo-{}.tgz", version());
    assert_eq!(
        fs::read(folder.path().join(&name)).unwrap(),
        fs::read(made.at(&name)).unwrap()
    );
}
