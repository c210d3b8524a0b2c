//! Checks that the components of rules can be had, and whether anybody must have signed them. It goes nowhere where numo would not.

use super::{
    deployment::own_deployment,
    finding::{AT_ONCE, Findings, counted},
    objects::readiness,
};
use crate::shell::{
    client::Connection,
    eval::artifact::{ArtifactOptions, Artifacts, NotFetched},
    told::{self, Outward, Told},
};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt, api::ListParams};
use numo_api::{MutexRule, WasmRule, marks};
use numo_plugin::address::AddressRange;
use std::{collections::BTreeSet, time::Duration};

/// How long a registry may take.
const REGISTRY_PATIENCE: Duration = Duration::from_secs(15);

/// Whether anybody must have signed components, as numo's Deployment has it.
pub(super) async fn signatures(connection: &Connection, namespace: &str, found: &mut Findings) {
    let deployment = match own_deployment(connection, namespace).await {
        Ok(Some(deployment)) => deployment,
        // What it runs with elsewhere cannot be seen.
        Ok(None) => return,
        Err(error) => return found.unknown("whether components must be signed", &error),
    };
    let is_set = |flag: &str, variable: &str| match told::told(&deployment, flag, variable) {
        Told::Nothing => false,
        Told::This(text) => !text.trim().is_empty(),
        Told::Elsewhere => true,
    };
    if is_set("--rule-keys", "NUMO_RULE_KEYS") || is_set("--rule-identities", "NUMO_RULE_IDENTITIES") {
        found.ok("components run only if one of numo's own signers has signed them; rules of type cel and prometheus carry no signature");
    } else {
        found.note(
            "nobody must have signed a component: anything runs that a rule names, unless that rule asks for a signature",
            "name who must have signed by --rule-keys or --rule-identities, and add --require-signatures, so that numo does not \
             start without",
        );
    }
}

/// What numo is told of registries, and the namespaces whose rules may reach the cluster. None if it cannot be read, which is said.
async fn outward(
    connection: &Connection,
    namespace: &str,
    found: &mut Findings,
) -> Option<(Outward, BTreeSet<String>)> {
    let deployment = match own_deployment(connection, namespace).await {
        Ok(deployment) => deployment,
        Err(error) => {
            found.unknown("which registries numo may use", &error);
            return None;
        }
    };
    let labelled = format!("{}={}", marks::RULE_NETWORK, marks::RULE_NETWORK_CLUSTER);
    let namespaces: Api<Namespace> = Api::all(connection.read.clone());
    match namespaces.list(&ListParams::default().labels(&labelled)).await {
        Ok(list) => {
            let inside = list.items.iter().map(ResourceExt::name_any).collect();
            Some((Outward::of(deployment.as_ref()), inside))
        }
        Err(error) => {
            found.unknown("namespaces whose rules may reach the cluster", &error);
            None
        }
    }
}

/// Images that are asked for once each: their rule, its namespace, its component and the image.
fn images(rules: &[MutexRule]) -> Vec<(&MutexRule, String, &WasmRule, &String)> {
    let mut seen = BTreeSet::new();
    let mut images = Vec::new();
    for rule in rules {
        let namespace = rule.namespace().unwrap_or_default();
        if let Some(wasm) = rule.spec.wasm.as_ref()
            && let Some(image) = wasm.image.as_ref().filter(|image| !image.is_empty())
            && seen.insert((namespace.clone(), image.clone(), wasm.pull_secret_name.clone()))
        {
            images.push((rule, namespace, wasm, image));
        }
    }
    images
}

/// Whether the registries of rules answer here, each image asked for with its rule's own credentials. numo may stand
/// elsewhere: what it has, and cannot be had here, is no fault. Whoever writes rules says where this connects: it goes nowhere where
/// numo would not, and where that cannot be seen only for namespaces that may reach everything.
pub(super) async fn registries(
    connection: &Connection,
    namespace: &str,
    artifacts: ArtifactOptions,
    rules: &[MutexRule],
    found: &mut Findings,
) {
    let mut images = images(rules);
    if images.is_empty() {
        return;
    }
    let Some((outward, inside)) = outward(connection, namespace, found).await else {
        return;
    };
    let all = images.len();
    images.retain(|(_, namespace, ..)| outward.registries.is_some() || inside.contains(namespace));
    let total = images.len();
    if total < all {
        not_asked(all - total, found);
    }
    let artifacts = ArtifactOptions {
        allowed: outward.registries.unwrap_or_default(),
        plain: outward.plain,
        ..artifacts
    };
    let artifacts = Artifacts::new(connection.read.clone(), artifacts);
    let reached = stream::iter(images).map(|(rule, namespace, wasm, image)| {
        let artifacts = &artifacts;
        let closed = if inside.contains(&namespace) {
            &[]
        } else {
            &*outward.closed
        };
        async move {
            let why = unreached(artifacts, &namespace, wasm, closed).await?;
            Some((rule, namespace, image, why))
        }
    });
    let reached: Vec<_> = reached.buffer_unordered(AT_ONCE).collect().await;
    let mut missed = 0;
    for (rule, namespace, image, why) in reached.into_iter().flatten() {
        missed += 1;
        let name = rule.name_any();
        if readiness(rule).is_some_and(|ready| ready.status == "True") {
            found.note(
                format!("{image} of MutexRule {namespace}/{name} cannot be had from here, though numo has it ({why})"),
                "nothing, if this machine is not meant to reach that registry",
            );
        } else {
            found.wrong(
                format!("{image} of MutexRule {namespace}/{name} cannot be had ({why})"),
                format!("numo plugin inspect {image}; numo explain mutexrule/{name} -n {namespace} says what numo found"),
            );
        }
    }
    if total > 0 && missed == 0 {
        found.ok(format!("the images of all {total} rules in WASM can be had"));
    }
}

/// So many images are not asked for.
fn not_asked(number: usize, found: &mut Findings) {
    found.note(
        format!(
            "{} of rules not asked for: which registries numo may use cannot be seen here",
            counted(number, "image")
        ),
        "name the namespace of numo's Deployment with --operator-namespace; numo explain mutexrule/NAME -n NAMESPACE says what numo found",
    );
}

/// Why an image cannot be had; none if it can.
async fn unreached(
    artifacts: &Artifacts,
    namespace: &str,
    wasm: &WasmRule,
    closed: &[AddressRange],
) -> Option<String> {
    let asked = artifacts.reach(namespace, wasm, closed);
    match tokio::time::timeout(REGISTRY_PATIENCE, asked).await {
        Ok(Ok(_)) => None,
        Ok(Err(NotFetched::Unfetched((reason, message)) | NotFetched::Unverified(_, (reason, message)))) => {
            Some(format!("{}: {message}", reason.name()))
        }
        Ok(Err(NotFetched::NoAnswer)) => Some("the API server gave no answer".to_owned()),
        Err(_) => Some(format!("no answer within {} s", REGISTRY_PATIENCE.as_secs())),
    }
}
