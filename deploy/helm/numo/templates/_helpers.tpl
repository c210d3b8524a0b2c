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
one of its namespace, wrote it. Arguments: the root, apiVersion, kind and name.
*/}}
{{- define "numo.ours" -}}
{{- $root := index . 0 -}}
{{- $found := lookup (index . 1) (index . 2) "" (index . 3) -}}
{{- if not $found -}}
true
{{- else -}}
{{- $annotations := $found.metadata.annotations | default dict -}}
{{- if and (eq (get $annotations "meta.helm.sh/release-name") $root.Release.Name) (eq (get $annotations "meta.helm.sh/release-namespace") $root.Release.Namespace) -}}
true
{{- end -}}
{{- end -}}
{{- end -}}
