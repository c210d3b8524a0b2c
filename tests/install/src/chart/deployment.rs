//! The templates of what runs numo's image: the Deployment, the Job that restores everything, and the test of a release.

use anyhow::{Result, ensure};

use super::{AFFINITY, base, labelled, once, placed, value};
use crate::read;

/// The image and when it is pulled, as in the source.
const IMAGE: (&str, &str) = (
    "image: numo:0.1.0\n",
    "image: {{ include \"numo.image\" . }}\n          imagePullPolicy: {{ .Values.image.pullPolicy }}\n",
);
/// The security of the pod, and of its container.
const SECURITY: [(&str, &str); 2] = [
    (
        "      securityContext:\n        runAsNonRoot: true\n        seccompProfile:\n          type: RuntimeDefault\n",
        "      {{- with .Values.podSecurityContext }}\n      securityContext:\n        {{- toYaml . | nindent 8 }}\n      {{- end }}\n",
    ),
    (
        "          securityContext:\n            allowPrivilegeEscalation: false\n            readOnlyRootFilesystem: true\n            capabilities:\n              drop: [ALL]\n",
        "          {{- with .Values.securityContext }}\n          securityContext:\n            {{- toYaml . | nindent 12 }}\n          {{- end }}\n",
    ),
];
/// Where the pods run, and what they are pulled by.
const PLACE: &str = "      {{- with .Values.imagePullSecrets }}\n      imagePullSecrets:\n        {{- toYaml . | nindent 8 }}\n      {{- end }}\n      {{- with .Values.nodeSelector }}\n      nodeSelector:\n        {{- toYaml . | nindent 8 }}\n      {{- end }}\n";
/// The probes. Values of an older chart, which are kept by an upgrade that reuses them, have none.
const PROBES: [&str; 2] = [
    r#"(.Values.livenessProbe | default (dict "httpGet" (dict "path" "/healthz" "port" "probes")))"#,
    r#"(.Values.readinessProbe | default (dict "httpGet" (dict "path" "/readyz" "port" "probes")))"#,
];
const PRIORITY: (&str, &str) = (
    "      priorityClassName: system-cluster-critical\n",
    "      {{- with .Values.priorityClassName }}\n      priorityClassName: {{ . }}\n      {{- end }}\n",
);

pub(super) fn deployment() -> Result<String> {
    let mut text = base("deployment")?;
    let wanted = read("deploy/kustomize/components/webhook/deployment.yaml")?;
    ensure!(
        wanted.contains("- name: NUMO_WEBHOOK_CERTS\n              value: self\n")
            && wanted.contains("- name: webhook\n              containerPort: 9443\n"),
        "the webhook's patch of the Deployment is another: fix chart/deployment.rs"
    );
    let priority = format!("{}{PLACE}", PRIORITY.1);
    for (from, to) in [
        ("  replicas: 2\n", "  replicas: {{ .Values.replicas }}\n"),
        IMAGE,
        SECURITY[0],
        SECURITY[1],
        (PRIORITY.0, &priority),
        (
            "    metadata:\n      labels:\n        app.kubernetes.io/name: numo\n",
            "    metadata:\n      {{- with include \"numo.podAnnotations\" . | fromYaml }}\n      annotations:\n        {{- toYaml . | nindent 8 }}\n      {{- end }}\n      labels:\n        {{- with .Values.podLabels }}\n        {{- toYaml . | nindent 8 }}\n        {{- end }}\n        app.kubernetes.io/name: numo\n",
        ),
        (
            "          args: [run]\n",
            "          {{- if .Values.extraArgs }}\n          args: {{ concat (list \"run\") .Values.extraArgs | toJson }}\n          {{- else }}\n          args: [run]\n          {{- end }}\n",
        ),
        (
            "          env:\n",
            "          env:\n            {{- if not .Values.plans.namespaces }}\n            - name: NUMO_PLAN_NAMESPACES\n              valueFrom:\n                fieldRef:\n                  fieldPath: metadata.namespace\n            {{- else if ne (.Values.plans.namespaces | join \",\") \"system-upgrade\" }}\n            - name: NUMO_PLAN_NAMESPACES\n              value: {{ .Values.plans.namespaces | join \",\" | quote }}\n            {{- end }}\n            {{- if .Values.webhook.enabled }}\n            - name: NUMO_WEBHOOK_CERTS\n              value: self\n            {{- end }}\n",
        ),
        (
            "              value: /var/cache/numo/rules\n",
            "              value: /var/cache/numo/rules\n            {{- with include \"numo.env\" . | fromYamlArray }}\n            {{- toYaml . | nindent 12 }}\n            {{- end }}\n            {{- with .Values.extraEnv }}\n            {{- toYaml . | nindent 12 }}\n            {{- end }}\n          {{- with .Values.extraEnvFrom }}\n          envFrom:\n            {{- toYaml . | nindent 12 }}\n          {{- end }}\n",
        ),
        (
            "              mountPath: /var/cache/numo\n",
            "              mountPath: /var/cache/numo\n            {{- range include \"numo.mounted\" . | fromYamlArray }}\n            - name: {{ .name }}\n              mountPath: /etc/numo/{{ .name }}\n              readOnly: true\n            {{- end }}\n            {{- with .Values.extraVolumeMounts }}\n            {{- toYaml . | nindent 12 }}\n            {{- end }}\n",
        ),
        (
            "            sizeLimit: 2Gi\n",
            "            sizeLimit: 2Gi\n        {{- range include \"numo.mounted\" . | fromYamlArray }}\n        - name: {{ .name }}\n          {{- if .of.secret }}\n          secret:\n            secretName: {{ .of.secret }}\n          {{- else }}\n          configMap:\n            name: {{ .of.configMap }}\n          {{- end }}\n        {{- end }}\n        {{- with .Values.extraVolumes }}\n        {{- toYaml . | nindent 8 }}\n        {{- end }}\n",
        ),
        (
            "          ports:\n",
            "          ports:\n            {{- if .Values.webhook.enabled }}\n            - name: webhook\n              containerPort: 9443\n            {{- end }}\n",
        ),
    ] {
        text = once(&text, from, to)?;
    }
    for (key, of) in [
        ("resources", ".Values.resources"),
        ("livenessProbe", PROBES[0]),
        ("readinessProbe", PROBES[1]),
        ("affinity", AFFINITY),
        ("tolerations", ".Values.tolerations"),
        ("topologySpreadConstraints", ".Values.topologySpreadConstraints"),
    ] {
        text = value(&text, key, of)?;
    }
    Ok(text)
}

/// What the source's Job and the hooks that are made of it have in common.
fn job(mut text: String) -> Result<String> {
    let account = format!("      serviceAccountName: numo\n{PLACE}");
    for (from, to) in [
        ("      serviceAccountName: numo\n", account.as_str()),
        PRIORITY,
        SECURITY[0],
        SECURITY[1],
        IMAGE,
    ] {
        text = once(&text, from, to)?;
    }
    for (key, of) in [
        ("resources", ".Values.resources"),
        ("affinity", AFFINITY),
        ("tolerations", ".Values.tolerations"),
    ] {
        text = value(&text, key, of)?;
    }
    Ok(text)
}

/// Helm says no more of a Job that fails than its name: what is to be done then is said where that leads.
const HOOK: &str = r"  annotations:
    helm.sh/hook: pre-delete
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
    helm.sh/hook-output-log-policy: hook-succeeded,hook-failed
    kubernetes.io/description: >-
      Restores every node, lease and selector before the release is removed. If this Job fails, for example because its image cannot be
      pulled, run `numo release --offline --take-over` where your kubeconfig is, and then
      `helm uninstall {{ .Release.Name }} -n {{ .Release.Namespace }} --no-hooks`. Where no numo pod ever ran, the second command is enough.
";

/// The Job that restores everything, as a hook.
pub(super) fn uninstall() -> Result<String> {
    let text = read("deploy/kustomize/uninstall/job.yaml")?;
    // What its head says to run, Helm runs.
    let placed = labelled(&placed(&text));
    let lines: Vec<&str> = placed.lines().filter(|line| !line.starts_with("#   ")).collect();
    let mut text = job(lines.join("\n") + "\n")?;
    let labels = "    {{- include \"numo.labels\" (list $ \"uninstall\") | nindent 4 }}\n";
    let hook = format!("{labels}{HOOK}");
    for (from, to) in [
        (labels, hook.as_str()),
        (
            "  activeDeadlineSeconds: 270\n",
            "  activeDeadlineSeconds: {{ .Values.uninstall.timeoutSeconds }}\n",
        ),
        ("\"numo.affinity\"", "\"numo.affinityBesideNumo\""),
    ] {
        text = once(&text, from, to)?;
    }
    Ok(text)
}
