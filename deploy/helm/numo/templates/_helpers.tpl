{{/* The image, by digest if there is one. */}}
{{- define "numo.image" -}}
{{- $image := .Values.image -}}
{{- $repository := required "image.repository is empty: wanted the registry and repository of numo's image, for example --set image.repository=registry.example.com/team/numo" $image.repository -}}
{{- if $image.digest -}}
{{ $repository }}@{{ $image.digest }}
{{- else -}}
{{ $repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Labels of every object. Arguments: the root, and the part of numo that the object is of. */}}
{{- define "numo.labels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: numo
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/part-of: numo
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/*
Files that flags of numo name, as a list of YAML: the name of the volume, the variable of the flag, and the value that says where the file comes
from. Each is of a ConfigMap or a Secret, which is mounted, or is there in the pod anyway.
*/}}
{{- define "numo.files" -}}
{{- $files := list
  (dict "name" "plan-channel-ca" "env" "NUMO_PLAN_CHANNEL_CA" "of" .Values.plans.channelCa)
  (dict "name" "prometheus-ca" "env" "NUMO_PROMETHEUS_CA" "of" .Values.prometheus.ca)
  (dict "name" "prometheus-token" "env" "NUMO_PROMETHEUS_TOKEN_FILE" "of" .Values.prometheus.token)
  (dict "name" "registry-ca" "env" "NUMO_REGISTRY_CA" "of" .Values.registries.ca)
  (dict "name" "rule-keys" "env" "NUMO_RULE_KEYS" "of" .Values.signatures.keys)
  (dict "name" "sigstore-trusted-root" "env" "NUMO_SIGSTORE_TRUSTED_ROOT" "of" .Values.signatures.trustedRoot)
-}}
{{- toYaml $files -}}
{{- end -}}

{{/*
The values of machines, as YAML. An upgrade with --reuse-values from a chart that had none, or not all of them, has no defaults: nothing else reads
.Values.machines.
*/}}
{{- define "numo.machineValues" -}}
{{- toYaml (.Values.machines | default dict) -}}
{{- end -}}

{{/* Who makes and deletes machines: off, sim or component. YAML reads off without quotes as false. */}}
{{- define "numo.machineProvider" -}}
{{- $values := include "numo.machineValues" . | fromYaml -}}
{{- $provider := $values.provider | default "off" | toString -}}
{{- if and (eq $provider "component") (not $values.config) -}}
{{- fail "machines.config: found nothing beside machines.provider component; wanted the provider's configuration (operator/docs/node-versions.md#providers)" -}}
{{- end -}}
{{- $provider -}}
{{- end -}}

{{/* Whether machines are replaced: true, or nothing. */}}
{{- define "numo.machines" -}}
{{- if ne (include "numo.machineProvider" .) "off" -}}
true
{{- end -}}
{{- end -}}

{{/* The configuration of the provider that is a component, as YAML: nothing where no component makes machines. */}}
{{- define "numo.machineConfig" -}}
{{- if eq (include "numo.machineProvider" .) "component" -}}
{{- toYaml (include "numo.machineValues" . | fromYaml).config -}}
{{- end -}}
{{- end -}}

{{/* Annotations of Machines that this component may write, as a list of JSON; none where no component makes machines. */}}
{{- define "numo.machineAnnotations" -}}
{{- if include "numo.machineConfig" . -}}
{{- (include "numo.machineValues" . | fromYaml).machineAnnotations | default list | toJson -}}
{{- else -}}
[]
{{- end -}}
{{- end -}}

{{/* Annotations of numo's pods, as YAML. numo reads the configuration of its provider once: with another one its pods are made anew. */}}
{{- define "numo.podAnnotations" -}}
{{- $annotations := deepCopy (.Values.podAnnotations | default dict) -}}
{{- with include "numo.machineConfig" . -}}
{{- $annotations = set $annotations "checksum/machine-provider" (sha256sum .) -}}
{{- end -}}
{{- toYaml $annotations -}}
{{- end -}}

{{/* How numo talks to etcd, as YAML: secret and endpoints. Nothing where no machine is replaced, or no certificate is named. */}}
{{- define "numo.etcd" -}}
{{- if include "numo.machines" . -}}
{{- $etcd := (include "numo.machineValues" . | fromYaml).etcd | default dict -}}
{{- if $etcd.secret -}}
{{- toYaml $etcd -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Those that are mounted, as a list of YAML. */}}
{{- define "numo.mounted" -}}
{{- $mounted := list -}}
{{- range include "numo.files" . | fromYamlArray -}}
{{- if or .of.secret .of.configMap -}}
{{- $mounted = append $mounted . -}}
{{- end -}}
{{- end -}}
{{- with include "numo.etcd" . | fromYaml -}}
{{- $mounted = append $mounted (dict "name" "etcd" "of" (dict "secret" .secret)) -}}
{{- end -}}
{{- if include "numo.machineConfig" . -}}
{{- $mounted = append $mounted (dict "name" "machines" "of" (dict "configMap" "numo-machine-provider")) -}}
{{- with ((include "numo.machineValues" . | fromYaml).credentials | default dict).secret -}}
{{- $mounted = append $mounted (dict "name" "machine-credentials" "of" (dict "secret" .)) -}}
{{- end -}}
{{- end -}}
{{- toYaml $mounted -}}
{{- end -}}

{{/* Variables of the flags that have a value of their own, as a list of YAML; what is the flag's default is left out. */}}
{{- define "numo.env" -}}
{{- $keys := .Values.signatures.keys -}}
{{- if and .Values.signatures.required (not (or $keys.file $keys.configMap $keys.secret .Values.signatures.identities .Values.extraArgs .Values.extraEnvFrom)) -}}
{{- fail "signatures.required: found true without signatures.keys and signatures.identities, with which numo does not start; wanted one of them" -}}
{{- end -}}
{{- $identities := list -}}
{{- range .Values.signatures.identities -}}
{{- $identities = append $identities (printf "%s,%s" .issuer .subject) -}}
{{- end -}}
{{- $provider := include "numo.machineProvider" . -}}
{{- $etcd := include "numo.etcd" . | fromYaml -}}
{{- $set := list
  (list "NUMO_RUN_NAMESPACES" (.Values.runNamespaces | join ","))
  (list "NUMO_PROMETHEUS_URL" .Values.prometheus.url)
  (list "NUMO_REGISTRIES" (.Values.registries.allowed | join ","))
  (list "NUMO_PLAIN_REGISTRIES" (.Values.registries.plain | join ","))
  (list "NUMO_RULE_IDENTITIES" ($identities | join ";"))
  (list "NUMO_REQUIRE_SIGNATURES" (ternary "true" "" .Values.signatures.required))
  (list "NUMO_MACHINE_PROVIDER" (ternary $provider "" (ne $provider "off")))
  (list "NUMO_MACHINE_PROVIDER_CONFIG" (ternary "/etc/numo/machines/provider.yaml" "" (eq $provider "component")))
  (list "NUMO_ETCD_CERTS" (ternary "/etc/numo/etcd" "" (not (empty $etcd))))
  (list "NUMO_ETCD_ENDPOINTS" ($etcd.endpoints | default list | join ","))
  (list "NUMO_LOG" (ternary "" .Values.log.level (eq .Values.log.level "info")))
  (list "NUMO_LOG_FORMAT" (ternary "" .Values.log.format (eq .Values.log.format "json")))
-}}
{{- $env := list -}}
{{- range $set -}}
{{- if index . 1 -}}
{{- $env = append $env (dict "name" (index . 0) "value" (index . 1)) -}}
{{- end -}}
{{- end -}}
{{- range include "numo.files" . | fromYamlArray -}}
{{- if or .of.secret .of.configMap -}}
{{- $env = append $env (dict "name" .env "value" (printf "/etc/numo/%s/%s" .name .of.key)) -}}
{{- else if .of.file -}}
{{- $env = append $env (dict "name" .env "value" .of.file) -}}
{{- end -}}
{{- end -}}
{{- toYaml $env -}}
{{- end -}}

{{/*
Whether an object that other operators may have too is this release's to write: it is not there yet, or this release, which is
one of its namespace, wrote it. Arguments: the root, apiVersion, kind, name, and the namespace if it is in one.
*/}}
{{- define "numo.ours" -}}
{{- $root := index . 0 -}}
{{- $namespace := "" -}}
{{- if gt (len .) 4 -}}
{{- $namespace = index . 4 -}}
{{- end -}}
{{- $found := lookup (index . 1) (index . 2) $namespace (index . 3) -}}
{{- if not $found -}}
true
{{- else -}}
{{- $annotations := $found.metadata.annotations | default dict -}}
{{- if and (eq (get $annotations "meta.helm.sh/release-name") $root.Release.Name) (eq (get $annotations "meta.helm.sh/release-namespace") $root.Release.Namespace) -}}
true
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Whether an object that is shared with other operators is written: true if it is asked for, never if not, and by itself (auto) where Helm
sees the cluster. `helm template` sees none, and so does Argo CD, which renders with it: what it writes there would be taken from whoever
has it. Arguments: what is asked for, and then those of numo.ours.
*/}}
{{- define "numo.shared" -}}
{{- $asked := index . 0 | toString -}}
{{- $seen := lookup "v1" "Namespace" "" "kube-system" -}}
{{- if or (eq $asked "true") (and (eq $asked "auto") $seen) -}}
{{- include "numo.ours" (rest .) -}}
{{- end -}}
{{- end -}}

{{/*
Whether rights are given in a namespace that is not the release's: true if they are asked for, never if not, and by themselves (auto) where
the namespace is there or is made. `helm template` sees no cluster, and so does Argo CD: a right in a namespace that is not there would be
the end of the whole installation. Arguments: what is asked for, whether the namespace is made (as numo.shared takes it), the root, its name.
*/}}
{{- define "numo.rightsIn" -}}
{{- $asked := index . 0 | toString -}}
{{- $made := index . 1 -}}
{{- $root := index . 2 -}}
{{- $name := index . 3 -}}
{{- if eq $asked "true" -}}
true
{{- else if eq $asked "auto" -}}
{{- if or (eq $name $root.Release.Namespace) (lookup "v1" "Namespace" "" $name) -}}
true
{{- else -}}
{{- include "numo.shared" (list $made $root "v1" "Namespace" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Whether numo's pods run on control-plane nodes only: true, or nothing. By itself they do where such a node takes them, unless the user says where
they run. Only Helm that talks to the cluster sees nodes: `helm template` finds none. Taints of node.kubernetes.io come and go.
*/}}
{{- define "numo.controlPlaneOnly" -}}
{{- $own := dig "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "" (.Values.affinity | default dict) -}}
{{- if eq .Values.controlPlanePlacement "required" -}}
true
{{- else if and (eq .Values.controlPlanePlacement "auto") (not .Values.nodeSelector) (not $own) -}}
{{- $taken := dict -}}
{{- $tolerations := .Values.tolerations | default list -}}
{{- range $node := (lookup "v1" "Node" "" "").items | default list -}}
{{- if hasKey ($node.metadata.labels | default dict) "node-role.kubernetes.io/control-plane" -}}
{{- $kept := dict -}}
{{- range $taint := $node.spec.taints | default list -}}
{{- $borne := or (eq $taint.effect "PreferNoSchedule") (hasPrefix "node.kubernetes.io/" $taint.key) -}}
{{- range $one := $tolerations -}}
{{- $same := or (eq ($one.operator | default "Equal") "Exists") (eq ($one.value | default "") ($taint.value | default "")) -}}
{{- if and $same (has ($one.key | default $taint.key) (list $taint.key)) (has ($one.effect | default $taint.effect) (list $taint.effect)) -}}
{{- $borne = true -}}
{{- end -}}
{{- end -}}
{{- if not $borne -}}
{{- $_ := set $kept "off" true -}}
{{- end -}}
{{- end -}}
{{- if not $kept -}}
{{- $_ := set $taken "by" $node.metadata.name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $taken -}}
true
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Affinity of numo's pods, as YAML: the value, and control-plane nodes only where that is wanted. Terms are alternatives: it goes into each. */}}
{{- define "numo.affinity" -}}
{{- $affinity := deepCopy (.Values.affinity | default dict) -}}
{{- if include "numo.controlPlaneOnly" . -}}
{{- $wanted := dict "key" "node-role.kubernetes.io/control-plane" "operator" "Exists" -}}
{{- $node := get $affinity "nodeAffinity" | default dict -}}
{{- $required := get $node "requiredDuringSchedulingIgnoredDuringExecution" | default dict -}}
{{- $terms := list -}}
{{- range get $required "nodeSelectorTerms" | default (list (dict)) -}}
{{- $expressions := append (get . "matchExpressions" | default list) $wanted -}}
{{- $terms = append $terms (merge (dict "matchExpressions" $expressions) .) -}}
{{- end -}}
{{- $node = set $node "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms) -}}
{{- $affinity = set $affinity "nodeAffinity" $node -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end -}}

{{/* The same, and rather on a node where numo runs: that has its image, also once no registry gives it out any more. */}}
{{- define "numo.affinityBesideNumo" -}}
{{- $affinity := include "numo.affinity" . | fromYaml -}}
{{- $numo := dict "matchLabels" (dict "app.kubernetes.io/name" "numo") -}}
{{- $beside := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" $numo -}}
{{- $pods := get $affinity "podAffinity" | default dict -}}
{{- $preferred := get $pods "preferredDuringSchedulingIgnoredDuringExecution" | default list -}}
{{- $preferred = append $preferred (dict "weight" 100 "podAffinityTerm" $beside) -}}
{{- $pods = set $pods "preferredDuringSchedulingIgnoredDuringExecution" $preferred -}}
{{- $affinity = set $affinity "podAffinity" $pods -}}
{{- toYaml $affinity -}}
{{- end -}}
