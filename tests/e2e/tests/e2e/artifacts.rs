//! Components in registries: pushed, signed, fetched, verified, kept, and had from mirrors.
//!
//! The first of them waits longest of all tests, for registries that are gone: its name has it begin early.

use std::path::Path;

use anyhow::{Context as _, Result};
use base64::prelude::{BASE64_STANDARD as STANDARD, Engine as _};
use numo_api::MutexRule;
use numo_e2e::{Numo, manifests};
use numo_plugin_tests::{
    registry::{Kind, PASSWORD, Running, USER},
    sigstore::{SIGNATURE, Signing, Sigstore},
};
use serde_json::{Value, json};

use crate::{
    NEW, apply, finish, judgement, object, run_of, set, target, waits,
    wasm::{component, rule_of_says, rule_says, store, wants_disk, wasm_rule},
    workers,
};

/// A key that signs, in a file, and its public half as PEM.
fn key(folder: &Path, name: &str) -> Result<(String, String)> {
    let pair = rcgen::KeyPair::generate()?;
    let path = folder.join(name);
    std::fs::write(&path, pair.serialize_pem())?;
    Ok((path.display().to_string(), pair.public_key_pem()))
}

/// Lets numo read the pull secrets of its own namespace.
pub fn invitation() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "pull-secrets"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "numo-rule-pull-secrets"},
        "subjects": [{"kind": "ServiceAccount", "name": "numo", "namespace": numo_e2e::NAMESPACE}],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_is_pushed_signed_fetched_verified_and_outlives_its_registry() -> Result<()> {
    let mut registry = Running::start(Kind::Distribution)?;
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("ca.pem"), &registry.authority)?;
    let login = STANDARD.encode(format!("{USER}:{PASSWORD}"));
    let auths = json!({"auths": {&registry.address: {"auth": login}}}).to_string();
    std::fs::write(path("auth.json"), &auths)?;
    std::fs::write(
        path("node-requirement.wasm"),
        component("node-requirement").await?,
    )?;
    let numo = [
        "--registry-ca",
        path("ca.pem").leak(),
        "--cache-dir",
        path("cache").leak(),
    ];
    let mut stage = set(workers(2), numo.to_vec()).await?;
    // It asks for a Secret before anybody has invited it.
    stage.may_lack_rights = true;

    let image = registry.at("team/node-requirement:1");
    let reach = [
        "--registry-ca",
        &path("ca.pem"),
        "--registry-config",
        &path("auth.json"),
    ];
    let file = path("node-requirement.wasm");
    let push = [&["plugin", "push", &file, &image], &reach[..]].concat();
    let pinned = stage.say(&push).await?.trim().to_owned();
    assert!(
        pinned.starts_with(&registry.at("team/node-requirement@sha256:")),
        "{pinned}"
    );
    assert_eq!(
        stage.say(&push).await?.trim(),
        pinned,
        "equal bytes, equal digest"
    );
    let shown = stage
        .say(&[&["plugin", "inspect", &image], &reach[..]].concat())
        .await?;
    assert!(
        shown.contains("node-requirement") && shown.contains("pre-release"),
        "{shown}"
    );
    let scaffold = stage
        .say(&[&["plugin", "scaffold", &image], &reach[..]].concat())
        .await?;
    assert!(scaffold.contains(&pinned), "{scaffold}");
    let scaffolded =
        |format: &'static str| [&["plugin", "scaffold", &image, "-o", format], &reach[..]].concat();
    let rule: Value = serde_json::from_str(&stage.say(&scaffolded("json")).await?)?;
    assert_eq!(rule["kind"], "MutexRule");
    assert!(
        rule["spec"]["wasm"]["image"]
            .as_str()
            .is_some_and(|found| found.contains(&pinned))
    );
    let name = stage.say(&scaffolded("name")).await?;
    assert!(
        name.starts_with("mutexrule.openshift-optional.skrzypek.io/"),
        "{name}"
    );

    // Each step names what is missing.
    let (own, own_public) = key(folder.path(), "own.key")?;
    let (other, other_public) = key(folder.path(), "other.key")?;
    let mut disk = object(
        "MutexRule",
        "disk",
        json!({"type": "wasm", "timeoutSeconds": 600, "wasm": wants_disk()}),
    );
    disk["spec"]["wasm"]["image"] = json!(image);
    let run = run_of(&["disk"], json!({}));
    apply(&stage, &[disk.clone(), target("workers", &["worker"]), run]).await?;
    let why = rule_says(&stage, "disk", "Fetched", "False", "ImageUnauthorised").await?;
    assert!(
        why.contains(&registry.address) && why.contains("no credentials"),
        "{why}"
    );
    disk["spec"]["wasm"]["pullSecretName"] = json!("registry");
    apply(&stage, &[disk.clone()]).await?;
    let why = rule_says(&stage, "disk", "Fetched", "False", "PullSecretForbidden").await?;
    assert!(why.contains("numo-rule-pull-secrets"), "{why}");
    apply(&stage, &[invitation()]).await?;
    rule_says(&stage, "disk", "Fetched", "False", "PullSecretNotFound").await?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "registry"},
        "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": auths},
    });
    apply(&stage, &[secret]).await?;
    rule_says(&stage, "disk", "Fetched", "True", "Fetched").await?;
    disk["spec"]["wasm"]["signature"] = json!({"keys": [own_public]});
    apply(&stage, &[disk.clone()]).await?;
    let why = rule_says(&stage, "disk", "Verified", "False", "Unsigned").await?;
    assert!(why.contains("sha256:"), "{why}");
    let sign = |key: &str| {
        let sign = ["plugin", "sign", &pinned, "--key", key].map(ToOwned::to_owned);
        let reach = reach.map(ToOwned::to_owned);
        sign.into_iter().chain(reach).collect::<Vec<_>>()
    };
    let said = |arguments: Vec<String>| {
        let stage = &stage;
        async move {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            stage.say(&arguments).await
        }
    };
    said(sign(&other)).await?;
    rule_says(&stage, "disk", "Verified", "False", "SignatureMismatch").await?;
    disk["spec"]["wasm"]["signature"]["mode"] = json!("Warn");
    apply(&stage, &[disk.clone()]).await?;
    rule_says(&stage, "disk", "ValidConfig", "True", "ValidConfig").await?;
    rule_says(&stage, "disk", "Verified", "False", "SignatureMismatch").await?;
    disk["spec"]["wasm"]["signature"]["mode"] = json!("Enforce");
    apply(&stage, &[disk.clone()]).await?;
    rule_says(&stage, "disk", "ValidConfig", "False", "SignatureMismatch").await?;
    said(sign(&own)).await?;
    rule_says(&stage, "disk", "Verified", "True", "Verified").await?;
    rule_says(&stage, "disk", "ValidConfig", "True", "ValidConfig").await?;
    // The same key signs many rules: a signature may have to name this one.
    disk["spec"]["wasm"]["signature"]["repository"] = json!(registry.at("team/another-rule"));
    apply(&stage, &[disk.clone()]).await?;
    let why = rule_says(&stage, "disk", "Verified", "False", "SignatureMismatch").await?;
    assert!(why.contains("it is about repository"), "{why}");
    disk["spec"]["wasm"]["signature"]["repository"] = json!(registry.at("team/node-requirement"));
    apply(&stage, &[disk.clone()]).await?;
    rule_says(&stage, "disk", "Verified", "True", "Verified").await?;
    rule_says(&stage, "disk", "ValidConfig", "True", "ValidConfig").await?;
    stage.condition("upgrade", "Ready", "True", "UpToDate").await?;
    let status = stage.api::<MutexRule>().get("disk").await?.status;
    let about = status.and_then(|status| status.wasm).unwrap_or_default();
    assert_eq!(about.image.as_deref(), Some(pinned.as_str()));
    assert!(
        about
            .signer
            .is_some_and(|signer| signer.starts_with("key sha256:"))
    );

    // A lower version than one before is said, and runs.
    let mut versioned = object(
        "MutexRule",
        "versioned",
        json!({"type": "wasm", "wasm": wants_disk()}),
    );
    versioned["spec"]["wasm"]["pullSecretName"] = json!("registry");
    for (version, downgraded) in [("1.10.0", false), ("1.9.0", true), ("1.10.1", false)] {
        let at = registry.at(&format!("team/versioned:{version}"));
        let annotation = format!("org.opencontainers.image.version={version}");
        let push = ["plugin", "push", &file, &at, "--annotation", &annotation];
        stage.say(&[&push[..], &reach[..]].concat()).await?;
        versioned["spec"]["wasm"]["image"] = json!(at);
        apply(&stage, &[versioned.clone()]).await?;
        let told = || async {
            let status = stage.api::<MutexRule>().get("versioned").await?.status;
            let status = status.unwrap_or_default();
            let says = |type_: &str| {
                let mut all = status.conditions.iter();
                all.any(|one| one.type_ == type_ && one.status == "True")
            };
            let is = says("Ready") && says("Downgraded") == downgraded;
            let told = status.wasm.as_ref().and_then(|wasm| wasm.version.as_deref());
            Ok((is && told == Some(version)).then_some(()))
        };
        stage
            .until(&format!("version {version} is told"), 90, told)
            .await?;
    }
    let event = stage.event("MutexRule", "versioned", "Downgraded").await?;
    let note = event.note.unwrap_or_default();
    assert!(
        note.contains("version 1.9.0") && note.contains("1.10.0"),
        "{note}"
    );

    // What numo keeps for one namespace it gives to no other: that has to fetch it itself.
    let team = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    let mut stranger = object("MutexRule", "disk", json!({"type": "wasm", "wasm": wants_disk()}));
    stranger["metadata"]["namespace"] = json!("team");
    stranger["spec"]["wasm"]["image"] = json!(pinned);
    // Where images may be from stands in numo's Deployment.
    let labels = json!({"app.kubernetes.io/name": "numo"});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "numo", "namespace": numo_e2e::NAMESPACE, "labels": labels},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "numo", "image": "numo", "args": ["run"]}]},
            },
        },
    });
    apply(&stage, &[team, stranger, deployment]).await?;
    rule_of_says(&stage, "team", "disk", ("Fetched", "False", "ImageUnauthorised")).await?;
    let doctor = ["doctor", "--registry-ca", &path("ca.pem")];
    let said = stage.call(&doctor).await?.out;
    let of_registries = |said: &str| {
        let lines = said.lines().filter(|line| line.contains("Registries"));
        lines.map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let found = of_registries(&said);
    assert!(
        found.len() == 1 && found[0].contains("team/disk cannot be had (ImageUnauthorised"),
        "{said}"
    );

    // The tag is another component's now, which this generation of the rule does not notice.
    std::fs::write(path("other.wasm"), component("http-check").await?)?;
    let other = path("other.wasm");
    let moved = stage
        .say(&[&["plugin", "push", &other, &image], &reach[..]].concat())
        .await?;
    assert_ne!(moved.trim(), pinned);

    // The registry is gone, and numo begins anew: what it fetched and verified once still gates.
    registry.stop();
    let said = stage.call(&doctor).await?.out;
    assert!(
        of_registries(&said)
            .iter()
            .any(|line| line.starts_with("note") && line.contains("numo has it")),
        "{said}"
    );
    stage.kill_numo().await?;
    stage.start_numo()?;
    stage
        .until("the other numo leads", 60, || async {
            Ok(stage.numo().is_some_and(Numo::leads).then_some(()))
        })
        .await?;
    stage.world.upgrade_to(NEW).await?;
    waits(&stage, "RuleWaits").await?;
    for node in ["worker-0", "worker-1"] {
        let label = json!({"metadata": {"labels": {"example.com/disk": "checked"}}});
        stage.patch_node(node, label).await?;
    }
    finish(&stage).await?;
    stage.judge(&judgement(&[], &[])).await?;

    // A policy that has changed counts for what is kept. Who is asked for now may have signed it since, which nobody can
    // find out.
    let (_, third_public) = key(folder.path(), "third.key")?;
    std::fs::write(path("third.pem"), &third_public)?;
    std::fs::write(path("other.pem"), &other_public)?;
    for (keys, status, reason) in [
        ("third.pem", "False", "RegistryUnavailable"),
        ("other.pem", "True", "Verified"),
    ] {
        stage.kill_numo().await?;
        stage.start_numo_with(&["--rule-keys", &path(keys)])?;
        rule_says(&stage, "disk", "Verified", status, reason).await?;
    }
    // Without a restart: who signed is trusted no more, then nobody knows who is, then it is put right.
    std::fs::write(path("other.pem"), &third_public)?;
    rule_says(&stage, "disk", "Verified", "False", "RegistryUnavailable").await?;
    rule_says(&stage, "disk", "Ready", "False", "RegistryUnavailable").await?;
    std::fs::write(path("other.pem"), "no key")?;
    let why = rule_says(&stage, "disk", "Fetched", "False", "RuleUnavailable").await?;
    assert!(why.contains("--rule-keys") && why.contains("other.pem"), "{why}");
    rule_says(&stage, "disk", "Ready", "False", "RuleUnavailable").await?;
    std::fs::write(path("other.pem"), &other_public)?;
    rule_says(&stage, "disk", "Verified", "True", "Verified").await?;
    rule_says(&stage, "disk", "Ready", "True", "ValidConfig").await?;
    stage.strike().await
}

/// The operator asks for an identity that its own Sigstore vouches for; a rule can only ask for more.
#[tokio::test(flavor = "multi_thread")]
async fn a_component_runs_only_if_an_identity_of_the_operator_signed_it() -> Result<()> {
    const ISSUER: &str = "https://issuer.example";
    const SUBJECT: &str = "https://example.com/team/rules/release.yml@refs/tags/v1";
    let signing = Signing {
        issuer: ISSUER,
        subject: SUBJECT,
        predicate: SIGNATURE,
        certified_in: 2024,
        at_seconds: 1_719_000_000,
    };
    let sigstore = Sigstore::new()?;
    let registry = Running::start_with(Kind::GoContainerRegistry, false)?;
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("root.json"), sigstore.trusted_root().to_string())?;
    let login = STANDARD.encode(format!("{USER}:{PASSWORD}"));
    let auths = json!({"auths": {&registry.address: {"auth": login}}}).to_string();
    std::fs::write(path("auth.json"), &auths)?;
    std::fs::write(path("rule.wasm"), component("node-requirement").await?)?;
    let identity = format!("{ISSUER},{SUBJECT}");
    let numo = [
        "--sigstore-trusted-root",
        path("root.json").leak(),
        "--rule-identities",
        identity.leak(),
    ];
    let stage = set(workers(1), numo.to_vec()).await?;
    let (image, file, config) = (
        registry.at("team/node-requirement:1"),
        path("rule.wasm"),
        path("auth.json"),
    );
    let pushed = stage
        .say(&["plugin", "push", &file, &image, "--registry-config", &config])
        .await?;
    let pinned = pushed.trim();

    // What has no signature of anybody cannot be signed by somebody, and so does not run.
    store(&stage, "unsigned", component("node-requirement").await?).await?;
    let mut disk = wasm_rule("disk", "unsigned", wants_disk());
    apply(&stage, &[disk.clone()]).await?;
    let why = rule_says(&stage, "disk", "Fetched", "False", "Unsigned").await?;
    assert!(why.contains("configMap"), "{why}");
    let wasm = disk["spec"]["wasm"].as_object_mut().context("a component")?;
    wasm.remove("configMap");
    wasm.insert("image".to_owned(), json!(pinned));
    wasm.insert("pullSecretName".to_owned(), json!("registry"));
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "registry"},
        "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": auths},
    });
    let run = run_of(&["disk"], json!({}));
    apply(
        &stage,
        &[
            invitation(),
            secret,
            disk.clone(),
            target("workers", &["worker"]),
            run,
        ],
    )
    .await?;
    rule_says(&stage, "disk", "Verified", "False", "Unsigned").await?;
    let digest = pinned.rsplit('@').next().unwrap_or_default().parse()?;
    let stranger = Signing {
        subject: "stranger@example.com",
        ..signing
    };
    registry.attach(pinned, &sigstore.bundle(&digest, &stranger)?)?;
    let why = rule_says(&stage, "disk", "Verified", "False", "SignatureMismatch").await?;
    assert!(why.contains("stranger@example.com"), "{why}");
    registry.attach(pinned, &sigstore.bundle(&digest, &signing)?)?;
    rule_says(&stage, "disk", "Verified", "True", "Verified").await?;
    let status = stage.api::<MutexRule>().get("disk").await?.status;
    let signer = status.and_then(|status| status.wasm?.signer).unwrap_or_default();
    assert!(signer.contains(SUBJECT), "{signer}");
    let root = path("root.json");
    let shown = stage
        .say(&[
            "plugin",
            "inspect",
            pinned,
            "--registry-config",
            &config,
            "--sigstore-trusted-root",
            &root,
        ])
        .await?;
    assert!(
        shown.contains(SUBJECT) && shown.contains("stranger@example.com"),
        "{shown}"
    );

    // A rule asks for more, not for less.
    let nobody = json!({"identities": [{"issuer": ISSUER, "subject": "nobody@example.com"}]});
    let mut more = disk.clone();
    more["spec"]["wasm"]["signature"] = nobody;
    apply(&stage, &[more]).await?;
    rule_says(&stage, "disk", "Verified", "False", "SignatureMismatch").await?;
    apply(&stage, &[disk]).await?;
    rule_says(&stage, "disk", "Verified", "True", "Verified").await?;
    stage.world.upgrade_to(NEW).await?;
    waits(&stage, "RuleWaits").await?;
    let label = json!({"metadata": {"labels": {"example.com/disk": "checked"}}});
    stage.patch_node("worker-0", label).await?;
    finish(&stage).await?;
    stage.judge(&judgement(&[], &[])).await?;
    stage.strike().await
}

/// Where else images are, as OpenShift says it: the source is never asked, by digest or by tag.
#[tokio::test(flavor = "multi_thread")]
async fn components_come_from_the_mirrors_that_the_cluster_names() -> Result<()> {
    let registry = Running::start_with(Kind::GoContainerRegistry, false)?;
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let login = STANDARD.encode(format!("{USER}:{PASSWORD}"));
    let auths = json!({"auths": {&registry.address: {"auth": login}}}).to_string();
    std::fs::write(path("auth.json"), &auths)?;
    std::fs::write(path("rule.wasm"), component("node-requirement").await?)?;
    let mut stage = set(workers(1), Vec::new()).await?;
    // It asks for a Secret before anybody has invited it.
    stage.may_lack_rights = true;
    let (file, config) = (path("rule.wasm"), path("auth.json"));
    let mirror = registry.at("mirror/team/node-requirement:1");
    let pushed = stage
        .say(&["plugin", "push", &file, &mirror, "--registry-config", &config])
        .await?;
    let digest = pushed.trim().rsplit('@').next().unwrap_or_default().to_owned();
    for crd in ["imagedigestmirrorsets", "imagetagmirrorsets"] {
        let path = manifests::root().join(format!("tests/world/crds/{crd}.yaml"));
        apply(&stage, &manifests::parse(&std::fs::read_to_string(path)?)?).await?;
    }
    let of = |source: &str| {
        json!([{
            "source": source, "mirrors": [registry.at("mirror/team")], "mirrorSourcePolicy": "NeverContactSource",
        }])
    };
    let sets = [
        json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSet", "metadata": {"name": "rules"},
            "spec": {"imageDigestMirrors": of("digests.example.com/team")},
        }),
        json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ImageTagMirrorSet", "metadata": {"name": "rules"},
            "spec": {"imageTagMirrors": of("tags.example.com/team")},
        }),
    ];
    for set in &sets {
        // The API server takes a moment to serve a new kind.
        let text = set.to_string();
        stage
            .until("the mirrors are stored", 30, || async {
                Ok(stage.apply(&text).await.ok())
            })
            .await?;
    }
    // What nobody but the rule's author names is not asked inside the cluster.
    let mut inside = object(
        "MutexRule",
        "inside",
        json!({"type": "wasm", "wasm": wants_disk()}),
    );
    inside["spec"]["wasm"]["image"] = json!("10.9.8.7:5000/team/node-requirement:1");
    apply(&stage, &[inside]).await?;
    let why = rule_says(&stage, "inside", "Fetched", "False", "RegistryNotAllowed").await?;
    assert!(why.contains("an address of the cluster"), "{why}");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "registry"},
        "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": auths},
    });
    apply(&stage, &[invitation(), secret]).await?;
    for (name, image, shown) in [
        (
            "by-digest",
            format!("digests.example.com/team/node-requirement@{digest}"),
            "digests.example.com",
        ),
        (
            "by-tag",
            "tags.example.com/team/node-requirement:1".to_owned(),
            "tags.example.com",
        ),
    ] {
        let mut rule = object(
            "MutexRule",
            name,
            json!({"type": "wasm", "timeoutSeconds": 600, "wasm": wants_disk()}),
        );
        rule["spec"]["wasm"]["image"] = json!(image);
        rule["spec"]["wasm"]["pullSecretName"] = json!("registry");
        apply(&stage, &[rule]).await?;
        rule_says(&stage, name, "ValidConfig", "True", "ValidConfig").await?;
        let status = stage.api::<MutexRule>().get(name).await?.status;
        let resolved = status.and_then(|status| status.wasm?.image).unwrap_or_default();
        assert_eq!(resolved, format!("{shown}/team/node-requirement@{digest}"));
    }
    stage.strike().await
}
