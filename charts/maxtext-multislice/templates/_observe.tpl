{{/* What monitoring and network policies select, and the dashboard. */}}

{{/* A selector of all Ray pods of the release: KubeRay puts the second label on them, and on no others. */}}
{{- define "maxtext-multislice.rayPods" -}}
matchLabels:
  app.kubernetes.io/instance: {{ .Release.Name | quote }}
matchExpressions:
  - key: ray.io/node-type
    operator: Exists
{{- end -}}

{{/* files/dashboard.json with what tells releases apart: Grafana knows a dashboard by its uid, and the sidecar puts those
     of all namespaces into one folder. The run that it shows first is this release's. */}}
{{- define "maxtext-multislice.dashboard" -}}
{{- $dashboard := .Files.Get "files/dashboard.json" | fromJson -}}
{{- $run := include "maxtext-multislice.runName" . -}}
{{- $_ := set $dashboard "uid" (printf "maxtext-%s" (printf "%s/%s" .Release.Namespace .Release.Name | sha256sum | trunc 12)) -}}
{{- $_ := set $dashboard "title" (printf "MaxText: %s (%s)" $run .Release.Namespace) -}}
{{- range $dashboard.templating.list -}}
{{- if eq .name "run" -}}
{{- $_ := set . "current" (dict "text" $run "value" $run) -}}
{{- end -}}
{{- end -}}
{{- toPrettyJson $dashboard -}}
{{- end -}}
