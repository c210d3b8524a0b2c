//! Rules and a provider of machines in two real registries with TLS and a user: pushed, found, pulled, signed, mirrored, and gone.

#![allow(
    clippy::unwrap_used,
    reason = "a failed step of a test is its failure, in what it calls too"
)]

use std::time::{Duration, Instant};

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair},
};
use numo_plugin::{
    Component, Engine,
    oci::{
        ComponentSurface, Credentials, Login, MirrorSet, Mirrors, OciError, Pinned, Push, Reference,
        Registry, Setup, SourcePolicy,
    },
    signature::{Candidate, Identity, Layout, Mode, Policy, SignatureError, Signer, SigningKey},
};
use numo_plugin_tests::{
    guest,
    registry::{Kind, Running, USER},
};

const MIB: u64 = 1024 * 1024;

fn component() -> Push {
    Push {
        component: b"\0asm\x0d\0\x01\0 any bytes will do".to_vec(),
        surface: ComponentSurface {
            exports: vec!["numo:rule/evaluation@1.0.0".into()],
            imports: vec!["numo:host/log@1.0.0".into()],
            target: None,
        },
        annotations: [("org.opencontainers.image.version".to_owned(), "1.2.3".to_owned())].into(),
        ..Push::default()
    }
}

fn reference(text: &str) -> Reference {
    text.parse().unwrap()
}

fn keys() -> [SigningKey; 2] {
    let random = SystemRandom::new();
    let p256 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
    let ed = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    [p256.as_ref(), ed.as_ref()].map(|der| SigningKey::from_pkcs8(der).unwrap())
}

fn policy(key: &SigningKey) -> Policy {
    Policy {
        keys: vec![key.public().clone()],
        identities: Vec::new(),
        mode: Mode::Enforce,
        ..Policy::default()
    }
}

struct World {
    running: Running,
    registry: Registry,
    credentials: Credentials,
}

fn world(kind: Kind) -> World {
    let running = Running::start(kind).unwrap();
    let registry = Registry::new(running.setup()).unwrap();
    let credentials = running.credentials();
    World {
        running,
        registry,
        credentials,
    }
}

impl World {
    async fn push(&self, path: &str) -> Pinned {
        let to = reference(&self.running.at(path));
        self.registry
            .push(&to, &self.credentials, &component())
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn what_was_pushed_is_pulled_and_equal_bytes_have_an_equal_digest() {
    for kind in Kind::ALL {
        let world = world(kind);
        let pushed = world.push("team/rule:1.2.3").await;
        assert_eq!(world.push("team/rule:again").await, pushed, "{kind:?}");
        let tag = reference(&world.running.at("team/rule:1.2.3"));
        let found = world.registry.resolve(&tag, &world.credentials).await.unwrap();
        assert_eq!(found, pushed, "{kind:?}");
        let artifact = world
            .registry
            .pull(&found, &world.credentials, MIB)
            .await
            .unwrap();
        assert_eq!(artifact.component, component().component);
        assert_eq!(artifact.config.component, Some(component().surface));
        assert_eq!(artifact.annotations, component().annotations);
        // By its digest alone, into another repository.
        let to = pushed.reference().to_string().replace("team/rule", "other/rule");
        let moved = world
            .registry
            .push(&reference(&to), &world.credentials, &component())
            .await
            .unwrap();
        assert_eq!(moved.digest, pushed.digest);
    }
}

#[tokio::test]
async fn each_refusal_has_its_reason_and_names_the_reference() {
    for kind in Kind::ALL {
        let world = world(kind);
        let pushed = world.push("team/rule:1").await;
        let check = |error: OciError, expect: &str, says: &[&str]| {
            let text = error.to_string();
            assert_eq!(error.reason(), expect, "{kind:?}: {text}");
            assert!(text.contains(&world.running.at("team/")), "{kind:?}: {text}");
            for word in says {
                assert!(text.contains(word), "{kind:?}: {text} lacks {word}");
            }
        };
        let resolve = async |path: &str, credentials: &Credentials| {
            world
                .registry
                .resolve(&reference(&world.running.at(path)), credentials)
                .await
                .unwrap_err()
        };
        check(
            resolve("team/rule:2", &world.credentials).await,
            "NotFound",
            &["rule:2", "no manifest"],
        );
        check(
            resolve("team/none:1", &world.credentials).await,
            "NotFound",
            &["none:1"],
        );
        let nobody = Credentials::none();
        check(
            resolve("team/rule:1", &nobody).await,
            "Unauthorised",
            &["a user and password", "no credentials"],
        );
        let wrong = Login::Password {
            username: USER.into(),
            password: "guess".into(),
        };
        let wrong = Credentials::login(&world.running.address, wrong);
        let error = resolve("team/rule:1", &wrong).await;
        assert!(!error.to_string().contains("guess"), "{error}");
        check(error, "Unauthorised", &["the password of team"]);
        let token = Credentials::login(&world.running.address, Login::IdentityToken("t".into()));
        check(
            resolve("team/rule:1", &token).await,
            "Unauthorised",
            &["an identity token"],
        );
        let most = component().component.len() as u64 - 1;
        let error = world
            .registry
            .pull(&pushed, &world.credentials, most)
            .await
            .unwrap_err();
        check(error, "TooLarge", &["layer", &most.to_string()]);
    }
}

#[tokio::test]
async fn a_registry_that_goes_away_is_unavailable_and_that_takes_bounded_time() {
    for kind in Kind::ALL {
        let mut world = world(kind);
        let pushed = world.push("team/rule:1").await;
        let tag = reference(&world.running.at("team/rule:1"));
        let found = world.registry.resolve(&tag, &world.credentials).await.unwrap();
        world.running.stop();
        let begun = Instant::now();
        let error = world
            .registry
            .pull(&found, &world.credentials, MIB)
            .await
            .unwrap_err();
        assert_eq!(error.reason(), "RegistryUnavailable", "{kind:?}: {error}");
        assert!(error.to_string().contains("tried 3 times"), "{error}");
        let error = world
            .registry
            .signatures(&pushed, &world.credentials)
            .await
            .unwrap_err();
        assert_eq!(error.reason(), "RegistryUnavailable", "{kind:?}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}

#[tokio::test]
async fn an_authority_that_is_not_trusted_is_told_and_not_tried_again() {
    for kind in Kind::ALL {
        let world = world(kind);
        let other = Running::start(Kind::GoContainerRegistry).unwrap();
        let mut setup = other.setup();
        // So long that a second try would be seen.
        setup.bounds.pause = Duration::from_mins(1);
        let registry = Registry::new(setup).unwrap();
        let tag = reference(&world.running.at("team/rule:1"));
        let begun = Instant::now();
        let error = registry.resolve(&tag, &world.credentials).await.unwrap_err();
        assert_eq!(error.reason(), "RegistryUnavailable");
        assert!(error.to_string().contains("certificate"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}

#[tokio::test]
async fn loopback_is_spoken_to_in_plain_http_where_it_has_no_tls() {
    for kind in Kind::ALL {
        let running = Running::start_with(kind, false).unwrap();
        let registry = Registry::new(running.setup()).unwrap();
        let to = reference(&running.at("team/rule:1"));
        let pushed = registry
            .push(&to, &running.credentials(), &component())
            .await
            .unwrap();
        assert_eq!(
            registry.resolve(&to, &running.credentials()).await.unwrap(),
            pushed,
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn a_mirror_is_asked_first_and_the_source_only_where_it_may_be() {
    let world = world(Kind::Distribution);
    let pushed = world.push("mirror/rule:1").await;
    let mirrored = |policy| {
        let source = "source.invalid/team".to_owned();
        let sets = vec![MirrorSet {
            source,
            mirrors: vec![world.running.at("mirror")],
            policy,
        }];
        let mirrors = Mirrors {
            by_digest: sets.clone(),
            by_tag: sets,
        };
        Registry::new(Setup {
            mirrors,
            ..world.running.setup()
        })
        .unwrap()
    };
    for policy in [
        SourcePolicy::AllowContactingSource,
        SourcePolicy::NeverContactSource,
    ] {
        let registry = mirrored(policy);
        let tag = reference("source.invalid/team/rule:1");
        let found = registry.resolve(&tag, &world.credentials).await.unwrap();
        assert_eq!(
            found.to_string(),
            format!("source.invalid/team/rule@{}", pushed.digest)
        );
        let artifact = registry.pull(&found, &world.credentials, MIB).await.unwrap();
        assert_eq!(artifact.component, component().component);
        let missing = reference("source.invalid/team/none:1");
        let error = registry.resolve(&missing, &world.credentials).await.unwrap_err();
        match policy {
            // The source may have it, and has no address here.
            SourcePolicy::AllowContactingSource => {
                assert_eq!(error.reason(), "RegistryUnavailable", "{error}");
            }
            SourcePolicy::NeverContactSource => assert_eq!(error.reason(), "NotFound", "{error}"),
        }
        assert!(
            error.to_string().contains("source.invalid/team/none:1"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn both_layouts_and_both_kinds_of_keys_are_found_and_checked() {
    for kind in Kind::ALL {
        for layout in [Layout::Bundle, Layout::SimpleSigning] {
            let world = world(kind);
            let pushed = world.push("team/rule:1").await;
            let [one, other] = keys();
            let found = async || {
                world
                    .registry
                    .signatures(&pushed, &world.credentials)
                    .await
                    .unwrap()
            };
            let check = |candidates: &[Candidate], key: &SigningKey| {
                policy(key).check(&pushed.digest, candidates, &[])
            };
            let none = found().await;
            let error = check(&none, &one).unwrap_err();
            assert!(
                matches!(error, SignatureError::Unsigned { .. }),
                "{kind:?} {layout:?}: {error}"
            );
            for (count, key) in [&one, &other].into_iter().enumerate() {
                world
                    .registry
                    .sign(&pushed, &world.credentials, key, layout)
                    .await
                    .unwrap();
                let candidates = found().await;
                assert_eq!(candidates.len(), count + 1, "{kind:?} {layout:?}");
                assert_eq!(check(&candidates, key), Ok(vec![Signer::Key(key.public().id())]));
            }
            let candidates = found().await;
            let [stranger, _] = keys();
            let error = check(&candidates, &stranger).unwrap_err();
            assert_eq!(error.reason(), "SignatureMismatch", "{error}");
            assert!(
                error.to_string().contains(&stranger.public().id().to_string()),
                "{error}"
            );
            // Of another manifest by the right key.
            let second = Push {
                author: Some("else".into()),
                ..component()
            };
            let to = reference(&world.running.at("team/rule:2"));
            let second = world
                .registry
                .push(&to, &world.credentials, &second)
                .await
                .unwrap();
            let error = policy(&one).check(&second.digest, &candidates, &[]).unwrap_err();
            assert_eq!(error.reason(), "SignatureMismatch");
        }
    }
}

#[tokio::test]
async fn a_provider_of_machines_is_pushed_signed_and_loaded_as_rules_are() {
    let engine = Engine::new(numo_plugin::Setup::default()).unwrap();
    let bytes = guest::provider().unwrap();
    let loaded = engine.load_any(&bytes).await.unwrap();
    let push = Push {
        surface: ComponentSurface::from(loaded.inspection()),
        component: bytes.clone(),
        ..Push::default()
    };
    assert_eq!(push.surface.exports, ["numo:provider/machines@1.0.0"]);
    let [key, stranger] = keys();
    for kind in Kind::ALL {
        let world = world(kind);
        let (registry, credentials) = (&world.registry, &world.credentials);
        let to = reference(&world.running.at("team/provider:1"));
        let pushed = registry.push(&to, credentials, &push).await.unwrap();
        let found = registry.resolve(&to, credentials).await.unwrap();
        assert_eq!(found, pushed, "{kind:?}");

        let candidates = registry.signatures(&found, credentials).await.unwrap();
        let error = policy(&key).check(&found.digest, &candidates, &[]).unwrap_err();
        assert_eq!(error.reason(), "Unsigned", "{kind:?}: {error}");
        let signed = registry.sign(&found, credentials, &key, Layout::Bundle).await;
        signed.unwrap();
        let candidates = registry.signatures(&found, credentials).await.unwrap();
        let signers = policy(&key).check(&found.digest, &candidates, &[]);
        assert_eq!(signers, Ok(vec![Signer::Key(key.public().id())]), "{kind:?}");
        let error = policy(&stranger).check(&found.digest, &candidates, &[]);
        assert_eq!(error.unwrap_err().reason(), "SignatureMismatch", "{kind:?}");

        let artifact = registry.pull(&found, credentials, MIB).await.unwrap();
        assert_eq!(artifact.component, bytes);
        assert_eq!(artifact.config.component.as_ref(), Some(&push.surface));
        let pulled = engine.load_any(&artifact.component).await.unwrap();
        assert!(matches!(&pulled, Component::Provider(_)), "{pulled:?}");
        assert_eq!(pulled.digest(), loaded.digest());
    }
}

/// One key signs many rules: which one a signature is about is what it says, not where it was found.
#[tokio::test]
async fn a_signature_of_another_repository_is_not_taken_where_one_is_named() {
    let world = world(Kind::Distribution);
    let [key, _] = keys();
    for (layout, at) in [
        (Layout::Bundle, "team/rule:1"),
        (Layout::SimpleSigning, "team/other:1"),
    ] {
        let pushed = world.push(at).await;
        let signed = world.registry.sign(&pushed, &world.credentials, &key, layout);
        signed.await.unwrap();
        let found = world.registry.signatures(&pushed, &world.credentials);
        let found = found.await.unwrap();
        let check = |repository: String| {
            let policy = Policy {
                repository: Some(repository),
                ..policy(&key)
            };
            policy.check(&pushed.digest, &found, &[])
        };
        let signers = check(format!("{}/{}", pushed.registry, pushed.repository)).unwrap();
        assert_eq!(signers, [Signer::Key(key.public().id())], "{layout:?}");
        let error = check(format!("{}/team/third", pushed.registry)).unwrap_err();
        assert_eq!(error.reason(), "SignatureMismatch");
        assert!(
            error.to_string().contains("it is about repository") && error.to_string().contains("team/third"),
            "{layout:?}: {error}"
        );
    }
}

#[tokio::test]
async fn kept_signatures_are_checked_without_the_registry() {
    let mut world = world(Kind::GoContainerRegistry);
    let pushed = world.push("team/rule:1").await;
    let [key, _] = keys();
    world
        .registry
        .sign(&pushed, &world.credentials, &key, Layout::Bundle)
        .await
        .unwrap();
    world
        .registry
        .sign(&pushed, &world.credentials, &key, Layout::SimpleSigning)
        .await
        .unwrap();
    let found = world
        .registry
        .signatures(&pushed, &world.credentials)
        .await
        .unwrap();
    assert_eq!(found.len(), 2);
    let kept = serde_json::to_string(&found).unwrap();
    world.running.stop();
    let kept: Vec<Candidate> = serde_json::from_str(&kept).unwrap();
    assert_eq!(policy(&key).check(&pushed.digest, &kept, &[]).unwrap().len(), 1);
}

#[tokio::test]
async fn a_policy_that_nobody_can_meet_is_refused_and_never_met() {
    let [key, _] = keys();
    let digest = numo_plugin::oci::Digest::of(b"any");
    let someone = Identity {
        issuer: "https://issuer.example".into(),
        subject: "a@example.com".into(),
    };
    let only = Policy {
        identities: vec![someone.clone()],
        ..Policy::default()
    };
    for policy in [Policy::default(), only] {
        for candidates in [&[][..], &[Candidate::Bundle { json: "{}".into() }]] {
            let error = policy.check(&digest, candidates, &[]).unwrap_err();
            assert_eq!(error.reason(), "UnsupportedPolicy");
        }
    }
    let both = Policy {
        identities: vec![someone],
        ..policy(&key)
    };
    let error = both
        .check(&digest, &[Candidate::Bundle { json: "{}".into() }], &[])
        .unwrap_err();
    assert_eq!(error.reason(), "SignatureMismatch");
}
