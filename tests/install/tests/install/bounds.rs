//! What keeps the pods of numo's namespace within bounds, in each way to install: labels of Pod Security, quotas, a LimitRange, and
//! where they do not go.

use std::{collections::BTreeSet, fs, net::IpAddr};

use anyhow::{Context as _, Result};
use numo_install::{NAMESPACE, objects, olm, rendered, root, said};
use serde_json::{Value, json};

use crate::{
    HELMS,
    equal::{by_name, template},
};

fn text(path: &str) -> Result<String> {
    fs::read_to_string(root().join(path)).with_context(|| path.to_owned())
}

/// The labels of Pod Security that numo's namespace has by the overlays, which say why.
fn labels() -> Result<Value> {
    let all = by_name(objects(&text("deploy/kustomize/base/namespace.yaml")?)?);
    let mut found = all[&format!("Namespace {NAMESPACE}")]["metadata"]["labels"].clone();
    security_alone(&mut found);
    assert_eq!(
        found,
        json!({
            "pod-security.kubernetes.io/enforce": "baseline",
            "pod-security.kubernetes.io/warn": "restricted",
            "pod-security.kubernetes.io/audit": "restricted",
        })
    );
    Ok(found)
}

/// Leaves the labels of Pod Security.
fn security_alone(labels: &mut Value) {
    if let Some(labels) = labels.as_object_mut() {
        labels.retain(|label, _| label.starts_with("pod-security.kubernetes.io/"));
    }
}

#[test]
fn every_namespace_that_ships_says_its_pod_security() -> Result<()> {
    let own = labels()?;
    for file in [
        "deploy/kubernetes.yaml",
        "deploy/openshift.yaml",
        "deploy/olm/examples/olm-v0.yaml",
        "deploy/olm/examples/olm-v1.yaml",
        "deploy/olm/examples/node-leases.yaml",
    ] {
        let all = objects(&text(file)?)?;
        let mut namespaces = all.iter().filter(|one| one["kind"] == "Namespace").peekable();
        assert!(namespaces.peek().is_some(), "{file} has no Namespace");
        for one in namespaces {
            let metadata = &one["metadata"];
            assert!(
                metadata["labels"]["pod-security.kubernetes.io/enforce"].is_string(),
                "{file}: {metadata}"
            );
            if metadata["name"] == NAMESPACE {
                let mut found = metadata["labels"].clone();
                security_alone(&mut found);
                assert_eq!(found, own, "{file}");
            }
        }
    }
    // That which the console makes for the bundle.
    let csv = text(&format!(
        "{}/manifests/numo.clusterserviceversion.yaml",
        olm::BUNDLE
    ))?;
    let csv = objects(&csv)?.remove(0);
    let suggested =
        csv["metadata"]["annotations"]["operatorframework.io/suggested-namespace-template"].as_str();
    let suggested: Value = serde_json::from_str(suggested.context("a namespace")?)?;
    for (label, value) in own.as_object().context("labels")? {
        assert_eq!(suggested["metadata"]["labels"][label], *value, "{label}");
    }
    for major in HELMS {
        let all = objects(&said(&mut template(major)?)?)?;
        for one in all.iter().filter(|one| one["kind"] == "Namespace") {
            let labels = &one["metadata"]["labels"];
            assert!(
                labels["pod-security.kubernetes.io/enforce"].is_string(),
                "Helm {major}: {one}"
            );
        }
    }
    Ok(())
}

/// Helm and a namespace that is there already: a person labels it.
#[test]
fn where_no_file_labels_the_namespace_the_command_is_said() -> Result<()> {
    let own = labels()?;
    for (page, command) in [
        (
            "deploy/helm/numo/README.md",
            format!("kubectl label namespace {NAMESPACE}"),
        ),
        (
            "deploy/helm/numo/templates/NOTES.txt",
            "kubectl label namespace {{ .Release.Namespace }}".to_owned(),
        ),
        ("deploy/olm/README.md", format!("oc label namespace {NAMESPACE}")),
    ] {
        let all = text(page)?.replace("\\\n", " ");
        let line = all
            .lines()
            .find(|line| line.trim_start_matches([' ', '`']).starts_with(&command));
        let words: BTreeSet<&str> = line
            .with_context(|| format!("{page} has no {command}"))?
            .split_whitespace()
            .map(|word| word.trim_end_matches(['`', '.']))
            .collect();
        for (label, value) in own.as_object().context("labels")? {
            let wanted = format!("{label}={}", value.as_str().unwrap_or_default());
            assert!(words.contains(wanted.as_str()), "{page}: {wanted}");
        }
    }
    Ok(())
}

/// The quotas of what a tool renders, by the name of each.
fn quotas(all: &[Value]) -> impl Fn(&str) -> Value {
    let found = by_name(all.to_vec());
    move |name| {
        let name = format!("ResourceQuota {name} in {NAMESPACE}");
        found.get(&name).map_or(Value::Null, |one| one["spec"].clone())
    }
}

/// Each pod is of one of both quotas, and numo's own are of that which holds twice its replicas.
fn check_quotas(all: &[Value], replicas: u64) -> Result<()> {
    let quota = quotas(all);
    let (rules, critical) = (quota("numo-rule-pods"), quota("numo-critical-pods"));
    let scope = |quota: &Value| quota["scopeSelector"]["matchExpressions"][0].clone();
    assert_eq!(scope(&rules)["operator"], "NotIn");
    assert_eq!(scope(&critical)["operator"], "In");
    assert_eq!(scope(&rules)["values"], scope(&critical)["values"]);
    let critical_ones = scope(&critical)["values"].as_array().cloned().context("values")?;
    for system in ["system-cluster-critical", "system-node-critical"] {
        assert!(critical_ones.contains(&json!(system)), "{critical_ones:?}");
    }
    for one in all {
        let kind = one["kind"].as_str().unwrap_or_default();
        if ["Deployment", "Job"].contains(&kind) {
            let priority = &one["spec"]["template"]["spec"]["priorityClassName"];
            assert!(critical_ones.contains(priority), "{kind}: {priority}");
        }
    }
    let pods = |quota: &Value| quota["hard"]["pods"].as_str().and_then(|pods| pods.parse().ok());
    let bound: u64 = pods(&critical).context("a number")?;
    assert!((2 * replicas..=2 * replicas + 4).contains(&bound), "{bound}");
    // Generous: a rule whose pod finds no place within its timeout has failed.
    assert!(pods(&rules).is_some_and(|pods: u64| pods >= 500), "{rules}");
    Ok(())
}

#[test]
fn rules_jobs_are_bounded_by_default_and_numo_can_roll_beside_them() -> Result<()> {
    for platform in rendered::PLATFORMS {
        let all = objects(&text(&format!("deploy/{platform}.yaml"))?)?;
        check_quotas(&all, 2).with_context(|| platform.to_owned())?;
    }
    let uninstall = objects(&text("deploy/uninstall.yaml")?)?;
    let by_hand = objects(&text("deploy/olm/examples/rule-job-quota.yaml")?)?;
    check_quotas(&[uninstall, by_hand].concat(), 2)?;
    for major in HELMS {
        for (settings, replicas) in [
            ("replicas=2", 2),
            ("replicas=5", 5),
            ("replicas=1,priorityClassName=mine", 1),
        ] {
            let mut helm = template(major)?;
            let all = objects(&said(helm.args(["--set", settings]))?)?;
            check_quotas(&all, replicas).with_context(|| format!("Helm {major}: {settings}"))?;
        }
    }
    Ok(())
}

/// Disk only: a bound of memory or CPU that a rule did not ask for would fail rules that ran before.
#[test]
fn a_container_that_says_nothing_of_its_disk_is_bounded_in_it() -> Result<()> {
    let of = |all: Vec<Value>| by_name(all)[&format!("LimitRange numo-rule-storage in {NAMESPACE}")].clone();
    let mut found = Vec::new();
    for platform in rendered::PLATFORMS {
        found.push(of(objects(&text(&format!("deploy/{platform}.yaml"))?)?));
    }
    found.push(of(objects(&text("deploy/olm/examples/rule-job-quota.yaml")?)?));
    for major in HELMS {
        found.push(of(objects(&said(&mut template(major)?)?)?));
    }
    for one in found {
        assert_eq!(
            one["spec"]["limits"],
            json!([{
                "type": "Container",
                "default": {"ephemeral-storage": "1Gi"},
                "defaultRequest": {"ephemeral-storage": "64Mi"},
            }])
        );
    }
    Ok(())
}

/// What `operator/plugin/src/net/address.rs` (`refusal_v4`, `refusal_v6`, `canonical`) closes to everybody as link-local, metadata or
/// reserved, and as a way there. Forms of IPv4 in IPv6 that no network carries (compatible, mapped, SIIT, ISATAP) are left out.
const CLOSED: [&str; 20] = [
    "169.254.0.0/16",
    "100.100.100.200/32",
    "168.63.129.16/32",
    "192.0.0.0/24",
    "fe80::/10",
    "fec0::/10",
    "fd00:ec2::/32",
    "fd20:ce::/32",
    "fd00:c1::/32",
    "fd00:42::/32",
    "64:ff9b::a9fe:0/112",
    "64:ff9b::6464:64c8/128",
    "64:ff9b::a83f:8110/128",
    "64:ff9b::c000:0/120",
    "2002:a9fe::/32",
    "2002:6464:64c8::/48",
    "2002:a83f:8110::/48",
    "2002:c000::/40",
    "64:ff9b:1::/48",
    "2001::/32",
];

/// A range: whether it is of IPv6, its address with the first bit leftmost, and how many of the bits count.
fn range(text: &str) -> Result<(bool, u128, u32)> {
    let (base, prefix) = text.split_once('/').context("a prefix")?;
    let (is_v6, bits) = match base.parse()? {
        IpAddr::V4(base) => (false, u128::from(base.to_bits()) << 96),
        IpAddr::V6(base) => (true, base.to_bits()),
    };
    Ok((is_v6, bits, prefix.parse()?))
}

/// Whether `inner` is a part of `outer`, and not all of it: Kubernetes refuses an exception that is not. Nor has it bits that do not count.
fn is_within(inner: &str, outer: &str) -> Result<bool> {
    let ((is_v6, bits, long), (is_outer_v6, outer, short)) = (range(inner)?, range(outer)?);
    let is_plain = bits.checked_shl(long).unwrap_or(0) == 0;
    Ok(is_plain && is_v6 == is_outer_v6 && long > short && (bits ^ outer).leading_zeros() >= short)
}

#[test]
fn egress_leaves_out_every_address_that_the_code_closes() -> Result<()> {
    let mut all = vec![
        text("deploy/kustomize/components/egress/network_policy.yaml")?,
        text("deploy/olm/examples/egress.yaml")?,
    ];
    for major in HELMS {
        all.push(said(
            template(major)?.args(["--set", "networkPolicy.egress=true"]),
        )?);
    }
    for text in all {
        let policy = by_name(objects(&text)?)[&format!("NetworkPolicy numo-egress in {NAMESPACE}")].clone();
        let peers = policy["spec"]["egress"][0]["to"].as_array().context("peers")?;
        let mut excepted = BTreeSet::new();
        for block in peers.iter().filter_map(|peer| peer.get("ipBlock")) {
            let cidr = block["cidr"].as_str().context("a range")?;
            for one in block["except"].as_array().context("exceptions")? {
                let one = one.as_str().context("a range")?;
                assert!(is_within(one, cidr)?, "{one} is no part of {cidr}");
                assert!(excepted.insert(one.to_owned()), "{one} is there twice");
            }
        }
        assert_eq!(excepted, CLOSED.into_iter().map(ToOwned::to_owned).collect());
    }
    Ok(())
}
