{{/* Who may see what: the operators of a run, and its `helm test`. */}}

{{/* operators.subjects as the list that a RoleBinding has. A service account is NAMESPACE/NAME, or NAME of the release's
     own namespace. */}}
{{- define "maxtext-multislice.operators" -}}
{{- $root := . -}}
{{- range $name, $kind := .Values.operators.subjects -}}
{{- if eq (toString $kind) "ServiceAccount" }}
{{- $parts := splitList "/" $name }}
- kind: ServiceAccount
  name: {{ last $parts | quote }}
  namespace: {{ eq (len $parts) 1 | ternary $root.Release.Namespace (first $parts) | quote }}
{{- else if $kind }}
- apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ $name | quote }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* A map of a NetworkPolicy's rules by name as the list that it has. An empty rule is one: it lets everything through. */}}
{{- define "maxtext-multislice.policyRules" -}}
{{- range $name, $rule := . -}}
{{- if not (kindIs "invalid" $rule) }}
- {{ empty $rule | ternary "{}" (toYaml $rule | indent 2 | trim) }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The rights are there before the check's pod, and only as long as the check takes. */}}
{{- define "maxtext-multislice.checkRights" -}}
helm.sh/hook: test
helm.sh/hook-weight: "-1"
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}
