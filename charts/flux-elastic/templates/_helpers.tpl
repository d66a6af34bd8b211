{{/* Labels that Helm's conventions ask for. */}}
{{- define "flux-elastic.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/*
The objects of files of the directory config, in the namespace of the release. `make generate` copies these files
to the directory files, so that there is one source of each object. Arguments: root, glob, and optionally annotations.
*/}}
{{- define "flux-elastic.objects" -}}
{{- $namespace := .root.Release.Namespace }}
{{- $metadata := dict "labels" (include "flux-elastic.labels" .root | fromYaml) }}
{{- with .annotations }}
{{- $_ := set $metadata "annotations" . }}
{{- end }}
{{- $files := .root.Files.Glob (printf "files/%s" .glob) }}
{{- if not $files }}
{{- fail (printf "the chart has no files/%s: `make generate` makes them" .glob) }}
{{- end }}
{{- range $path, $text := $files }}
{{- range $document := toString $text | replace "flux-elastic-system" $namespace | printf "\n%s" | splitList "\n---\n" }}
{{- $object := fromYaml $document }}
{{- with $object.Error }}
{{- fail (printf "%s: %s" $path .) }}
{{- end }}
{{- if $object }}
{{- $_ := merge $object.metadata (deepCopy $metadata) }}
{{- if has $object.kind (list "ServiceAccount" "Role" "RoleBinding" "Service" "NetworkPolicy" "PodDisruptionBudget") }}
{{- $_ := set $object.metadata "namespace" $namespace }}
{{- end }}
{{- range $object.subjects }}
{{- $_ := set . "namespace" $namespace }}
{{- end }}
---
{{ toYaml $object }}
{{ end }}
{{- end }}
{{- end }}
{{- end }}
