{{/* Labels that Helm's conventions ask for. */}}
{{- define "flux-elastic.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/*
The objects of files of the directory config, in the namespace of the release or in others. `make generate` copies
these files to the directory files, so that each object has one source. Arguments: root, glob, and optionally kinds,
namespaces, labels and annotations.
*/}}
{{- define "flux-elastic.objects" -}}
{{- $ := . }}
{{- $metadata := dict "labels" (merge (include "flux-elastic.labels" .root | fromYaml) (.labels | default dict)) }}
{{- with .annotations }}
{{- $_ := set $metadata "annotations" . }}
{{- end }}
{{- $files := .root.Files.Glob (printf "files/%s" .glob) }}
{{- if not $files }}
{{- fail (printf "the chart has no files/%s: `make generate` makes them" .glob) }}
{{- end }}
{{- range $namespace := .namespaces | default (list .root.Release.Namespace) }}
{{- range $path, $text := $files }}
{{- range $document := toString $text | replace "flux-elastic-system" $namespace | printf "\n%s" | splitList "\n---\n" }}
{{- $object := fromYaml $document }}
{{- with $object.Error }}
{{- fail (printf "%s: %s" $path .) }}
{{- end }}
{{- if and $object (has $object.kind ($.kinds | default (list $object.kind))) }}
{{- $_ := merge $object.metadata (deepCopy $metadata) }}
{{- if not (regexMatch "^(Cluster|CustomResourceDefinition|MutatingAdmission|ValidatingAdmission)" $object.kind) }}
{{- $_ := merge $object.metadata (dict "namespace" $namespace) }}
{{- end }}
{{- range $object.subjects }}
{{- if eq .kind "ServiceAccount" }}
{{- $_ := merge . (dict "namespace" $namespace) }}
{{- end }}
{{- end }}
---
{{ toYaml $object }}
{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
