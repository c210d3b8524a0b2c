{{/* The image, by digest if there is one. */}}
{{- define "numo.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
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
