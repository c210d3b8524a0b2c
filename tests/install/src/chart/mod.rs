//! The templates of the Helm chart, made from the files of `deploy/kustomize` and `deploy/crds`: their text stays as it is,
//! comments and all, but for what values decide. What is to be replaced must be there as often as is said, so that an
//! edit of the source cannot pass the chart by.

mod deployment;
mod machines;
mod monitoring;
mod readme;

pub use monitoring::alert_names;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};

use crate::{GENERATED, NAMESPACE, read};

/// The chart's templates, made and written by hand.
pub const TEMPLATES: &str = "deploy/helm/numo/templates";

/// The files of the base that are the same in the chart, but for the namespace.
const BASE: [&str; 8] = [
    "cluster_role",
    "cluster_role_binding",
    "leader_role",
    "rule_jobs",
    "rule_components",
    "runs",
    "plans",
    "service",
];

/// Which definitions another operator may have, and the value that leaves them out.
const FOREIGN: [(&str, &str); 3] = [
    ("nodemaintenance.medik8s.io_nodemaintenances", "nodeMaintenances"),
    ("nodemaintenance.kubevirt.io_nodemaintenances", "nodeMaintenances"),
    ("upgrade.cattle.io_plans", "plans"),
];

/// The kinds of the operator that numo replaces.
const MUTEX: &str = "openshift-optional.skrzypek.io_mutex";

/// Where numo's pods may run.
const AFFINITY: &str = r#"(include "numo.affinity" . | fromYaml)"#;

/// The templates by their paths.
pub fn templates() -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let mut add = |name: &str, text: String| {
        let head = format!("{{{{- /* {GENERATED} */ -}}}}\n");
        files.insert(format!("{TEMPLATES}/{name}.yaml"), head + &text);
    };
    for name in BASE {
        let text = base(name)?;
        add(name, text);
    }
    for (file, name) in [("viewer", "numo-viewer"), ("oncall", "numo-oncall")] {
        let text = machines::role(&base(file)?, name, file)?;
        add(file, text);
    }
    add("roles", roles()?);
    add("admission_policy", machines::policies(&admission_policy()?)?);
    add("service_account", service_account()?);
    add("deployment", deployment::deployment()?);
    add("namespace", namespaces()?);
    add(
        "lease_role",
        only_if(
            r#"include "numo.rightsIn" (list .Values.leases.rights .Values.leases.createNamespace . "medik8s-leases")"#,
            &labelled(&placed(&read("deploy/kustomize/leases/rights/role.yaml")?)),
        ),
    );
    add("runs_invitation", run_invitations()?);
    add("plans_invitation", invitations()?);
    add(
        "disruption_budget",
        only_if(
            "and .Values.podDisruptionBudget.enabled (gt (int .Values.replicas) 1)",
            &base("disruption_budget")?,
        ),
    );
    add(
        "network_policy",
        only_if(".Values.networkPolicy.enabled", &base("network_policy")?),
    );
    add(
        "network_policy_egress",
        only_if(
            ".Values.networkPolicy.egress",
            &component("egress/network_policy")?,
        ),
    );
    add(
        "rule_job_quota",
        only_if(".Values.ruleJobs.quota.enabled", &rule_job_quota()?),
    );
    add(
        "rule_job_storage",
        only_if(".Values.ruleJobs.ephemeralStorage", &rule_job_storage()?),
    );
    for name in ["service", "certificate_role", "webhook"] {
        let text = component(&format!("webhook/{name}"))?;
        let name = if name == "webhook" {
            name.to_owned()
        } else {
            format!("webhook_{name}")
        };
        add(&name, only_if(".Values.webhook.enabled", &text));
    }
    add(
        "webhook_secret",
        only_if(
            r#"and .Values.webhook.enabled (include "numo.ours" (list . "v1" "Secret" "numo-webhook" .Release.Namespace))"#,
            &component("webhook/secret")?,
        ),
    );
    add(
        "uninstall",
        only_if(".Values.uninstall.release", &deployment::uninstall()?),
    );
    for (name, text) in monitoring::templates()? {
        add(name, text);
    }
    for (name, text) in machines::templates()? {
        add(name, text);
    }
    for (name, text) in definitions()?.into_iter().chain(machines::definitions()?) {
        add(&format!("crd_{name}"), text);
    }
    files.insert(readme::PAGE.to_owned(), readme::page()?);
    Ok(files)
}

fn base(name: &str) -> Result<String> {
    let text = read(&format!("deploy/kustomize/base/{name}.yaml"))?;
    Ok(labelled(&placed(&text)))
}

fn component(name: &str) -> Result<String> {
    let text = read(&format!("deploy/kustomize/components/{name}.yaml"))?;
    Ok(labelled(&placed(&text)))
}

/// The labels of the source, as those of the chart: which release of which chart it is, besides.
fn labelled(text: &str) -> String {
    let (name, component, part) = (
        "    app.kubernetes.io/name: numo\n",
        "    app.kubernetes.io/component: ",
        "    app.kubernetes.io/part-of: numo\n",
    );
    let both = format!("{name}{component}");
    let mut pieces = text.split(&both);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (which, rest) = piece.split_once('\n').unwrap_or((piece, ""));
        let rest = rest.strip_prefix(part).unwrap_or(rest);
        let _ = write!(
            out,
            "    {{{{- include \"numo.labels\" (list $ \"{which}\") | nindent 4 }}}}\n{rest}"
        );
    }
    out
}

/// The roles that the cluster's own have by aggregation, where that is asked for, and the last one, which people bind themselves.
fn roles() -> Result<String> {
    let mut text = base("roles")?;
    for (file, name) in [("view", "numo-view"), ("admin", "numo-admin")] {
        text = machines::role(&text, name, file)?;
    }
    let (aggregated, bound) = text.rsplit_once("---\n").context("several roles")?;
    let is_aggregated = |text: &str| text.contains("rbac.authorization.k8s.io/aggregate-to-");
    for role in aggregated.split("\n---\n") {
        ensure!(is_aggregated(role), "wanted an aggregated role, found:\n{role}");
    }
    ensure!(
        !is_aggregated(bound),
        "wanted a role that people bind, found:\n{bound}"
    );
    let aggregated = only_if(".Values.roles.aggregate", &format!("{aggregated}---\n"));
    Ok(format!("{aggregated}{bound}"))
}

fn rule_job_quota() -> Result<String> {
    let mut text = component("rule-job-quota/resource_quota")?;
    for (from, to) in [
        (
            "pods: \"500\"\n",
            "pods: {{ int .Values.ruleJobs.quota.pods | quote }}\n",
        ),
        // As many as are there while numo rolls, and what rules may take beside them.
        (
            "pods: \"6\"\n",
            "pods: {{ add (mul 2 .Values.replicas) .Values.ruleJobs.quota.criticalPods | quote }}\n",
        ),
        (
            "count/jobs.batch: \"12500\"\n",
            "count/jobs.batch: {{ int .Values.ruleJobs.quota.jobs | quote }}\n",
        ),
    ] {
        text = once(&text, from, to)?;
    }
    // numo's own pods are not among those of rules, whatever priority they have.
    let priorities = "values: [system-cluster-critical, system-node-critical]\n";
    ensure!(
        text.matches(priorities).count() == 2,
        "wanted twice in the source: {priorities}"
    );
    Ok(text.replace(
        priorities,
        "values: {{ list \"system-cluster-critical\" \"system-node-critical\" .Values.priorityClassName | compact | uniq | toJson }}\n",
    ))
}

fn rule_job_storage() -> Result<String> {
    once(
        &component("rule-job-quota/limit_range")?,
        "ephemeral-storage: 1Gi\n",
        "ephemeral-storage: {{ .Values.ruleJobs.ephemeralStorage }}\n",
    )
}

/// In the namespace of the release.
fn placed(text: &str) -> String {
    text.replace(NAMESPACE, "{{ .Release.Namespace }}")
}

fn only_if(condition: &str, text: &str) -> String {
    format!("{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n")
}

/// Replaces what must be there once.
fn once(text: &str, from: &str, to: &str) -> Result<String> {
    ensure!(
        text.matches(from).count() == 1,
        "wanted once in the source: {from}"
    );
    Ok(text.replacen(from, to, 1))
}

/// Replaces the value of a key that stands alone on its line, however many lines it has, by a value of the chart.
fn value(text: &str, key: &str, of: &str) -> Result<String> {
    let mut out = Vec::new();
    let mut lines = text.lines().peekable();
    let mut found = 0;
    while let Some(line) = lines.next() {
        let bare = line.trim_start();
        if bare != format!("{key}:") {
            out.push(line.to_owned());
            continue;
        }
        found += 1;
        let indent = line.len() - bare.len();
        while let Some(next) = lines.peek() {
            let inner = next.trim_start();
            let deep = next.len() - inner.len();
            if deep > indent || (deep == indent && inner.starts_with("- ")) {
                lines.next();
            } else {
                break;
            }
        }
        let space = " ".repeat(indent);
        out.push(format!("{space}{{{{- with {of} }}}}"));
        out.push(format!("{space}{key}:"));
        out.push(format!("{space}  {{{{- toYaml . | nindent {} }}}}", indent + 2));
        out.push(format!("{space}{{{{- end }}}}"));
    }
    ensure!(found == 1, "wanted once in the source: {key}:");
    Ok(out.join("\n") + "\n")
}

/// The policies, with the labels of Nodes and the annotations of Machines that the user lists.
fn admission_policy() -> Result<String> {
    let text = once(
        &base("admission_policy")?,
        "    - name: listed\n      expression: \"[]\"\n",
        "    - name: listed\n      expression: {{ .Values.nodeLabels | default list | toJson | quote }}\n",
    )?;
    once(
        &text,
        "    - name: listedOfMachines\n      expression: \"[]\"\n",
        "    - name: listedOfMachines\n      expression: {{ include \"numo.machineAnnotations\" . | quote }}\n",
    )
}

fn service_account() -> Result<String> {
    let text = base("service_account")?;
    once(
        &text,
        "  namespace: {{ .Release.Namespace }}\n",
        "  namespace: {{ .Release.Namespace }}\n  {{- with .Values.serviceAccount.annotations }}\n  annotations:\n    {{- toYaml . | nindent 4 }}\n  {{- end }}\n",
    )
}

/// The namespace of node leases, which other operators may have made. That of the release is Helm's to make.
fn namespaces() -> Result<String> {
    let kept = once(
        &read("deploy/kustomize/leases/namespace/namespace.yaml")?,
        "  name: medik8s-leases\n  annotations:\n",
        "  name: medik8s-leases\n  annotations:\n    helm.sh/resource-policy: keep\n",
    )?;
    Ok(only_if(
        r#"include "numo.shared" (list .Values.leases.createNamespace . "v1" "Namespace" "medik8s-leases")"#,
        &kept,
    ))
}

/// Where Plans are served. The namespace of the release may be one; it is there already.
fn invitations() -> Result<String> {
    let namespace = once(
        &read("deploy/kustomize/plans/namespace/namespace.yaml")?,
        "  name: system-upgrade\n  annotations:\n",
        "  name: {{ . }}\n  annotations:\n    helm.sh/resource-policy: keep\n",
    )?;
    let binding = labelled(&read("deploy/kustomize/plans/rights/role_binding.yaml")?);
    let binding = once(&binding, "namespace: system-upgrade", "namespace: {{ . }}")?
        .replace(NAMESPACE, "{{ $.Release.Namespace }}");
    let made = only_if(
        r#"and (ne . $.Release.Namespace) (include "numo.shared" (list $.Values.plans.createNamespaces $ "v1" "Namespace" .))"#,
        &format!("---\n{namespace}"),
    );
    let invited = only_if(
        r#"include "numo.rightsIn" (list $.Values.plans.rights $.Values.plans.createNamespaces $ .)"#,
        &format!("---\n{binding}"),
    );
    Ok(format!(
        "{{{{- range .Values.plans.namespaces }}}}\n{made}{invited}{{{{- end }}}}\n"
    ))
}

/// Where runs are served beside the namespace of the release: namespaces that are there.
fn run_invitations() -> Result<String> {
    let text = labelled(&read("deploy/kustomize/base/runs.yaml")?);
    let (_, binding) = text
        .split_once("---\n")
        .context("a ClusterRole and a RoleBinding")?;
    let binding = once(
        binding,
        &format!("  namespace: {NAMESPACE}\n  labels:"),
        "  namespace: {{ . }}\n  labels:",
    )?
    .replace(NAMESPACE, "{{ $.Release.Namespace }}");
    Ok(format!(
        "{{{{- range without .Values.runNamespaces .Release.Namespace }}}}\n---\n{binding}{{{{- end }}}}\n"
    ))
}

/// Braces of another template language, which Helm would read as its own.
fn not_of_helm(text: &str) -> String {
    text.replace("{{", "{{ \"{{\" }}")
}

/// The annotations of `deploy/crds/kustomization.yaml`: Argo CD and Flux take no definition away.
const GUARDS: &str = "    argocd.argoproj.io/sync-options: Prune=false,Delete=false\n    kustomize.toolkit.fluxcd.io/prune: disabled\n";

/// The definitions, which stay when the release goes. Those of other operators are not written over.
fn definitions() -> Result<BTreeMap<String, String>> {
    let list = read("deploy/crds/kustomization.yaml")?;
    let names = list
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- "))
        .filter(|name| {
            std::path::Path::new(name)
                .extension()
                .is_some_and(|end| end == "yaml")
        });
    let of = |file: &str| {
        definition("deploy/crds", file, |object| {
            let foreign = FOREIGN
                .iter()
                .find(|(of, _)| file.strip_suffix(".yaml") == Some(*of));
            match foreign {
                Some((_, value)) => format!("include \"numo.shared\" (list .Values.crds.{value} {object})"),
                // An upgrade with --reuse-values from a chart that had no such value has no default for it.
                None if file.starts_with(MUTEX) => {
                    format!("include \"numo.shared\" (list (dig \"mutex\" \"auto\" .Values.crds) {object})")
                }
                None => format!("include \"numo.ours\" (list {object})"),
            }
        })
    };
    names.map(of).collect()
}

/// The definition of a file: its name, and its template. `condition` says when it is rendered, of the arguments by which helpers know it.
fn definition(folder: &str, file: &str, condition: impl Fn(&str) -> String) -> Result<(String, String)> {
    let name = file.strip_suffix(".yaml").context("a file of YAML")?;
    let text = read(&format!("{folder}/{file}"))?;
    let text = not_of_helm(&text);
    let (group, plural) = name.split_once('_').context("group and plural")?;
    let full = format!("{plural}.{group}");
    let from = format!("metadata:\n  name: {full}\n");
    let labels = "  labels:\n    {{- include \"numo.labels\" (list $ \"definitions\") | nindent 4 }}\n";
    let kept = format!("{from}{labels}  annotations:\n    helm.sh/resource-policy: keep\n{GUARDS}");
    let text = once(&text, &from, &kept)?;
    let object = format!(". \"apiextensions.k8s.io/v1\" \"CustomResourceDefinition\" \"{full}\"");
    let condition = format!("and .Values.crds.install ({})", condition(&object));
    Ok((full, only_if(&condition, &text)))
}
