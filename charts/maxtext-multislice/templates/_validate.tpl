{{/* Values that cannot work together are refused here, before anything reaches the cluster: every problem of one
     rendering in one message, each with what was found, the rule and the fix.

     To add a rule: a template in one of the _validate_*.tpl that calls maxtext-multislice.problem, its name in maxtext-multislice.rules, and,
     where a values file may break it on purpose, its name in guards.allow of values.schema.json. */}}

{{- define "maxtext-multislice.rules" -}}
- tpuShape
- slices
- elastic
- capacity
- parallelism
- names
- runName
- storage
- outputFolder
- compiledTrainsteps
- networkDevices
- kuberayVersion
- auth
- monitoring
- operators
- jobControl
- maxtextArguments
- libtpuFlags
- tpuEnvironment
- nodeSelector
- labels
- annotations
- rayStartParams
- headOnSpot
- volumes
- resources
- sidecars
- checkpointPeriod
- spotGracePeriod
- data
- runtimeInstall
- jobEnvironment
{{- end -}}

{{/* Every manifest calls this first. */}}
{{- define "maxtext-multislice.validate" -}}
{{- $found := include "maxtext-multislice.problems" . | fromYamlArray -}}
{{- $texts := list -}}
{{- range $found -}}
{{- if not (get $.Values.guards.allow .rule) -}}
{{- $texts = append $texts (printf "  %d. %s [%s]" (len $texts | add1) .text .rule) -}}
{{- end -}}
{{- end -}}
{{- if $texts -}}
{{- fail (printf "\n\n%s in the values of %s:\n\n%s\n" (len $texts | plural "One problem" (printf "%d problems" (len $texts)))
      .Release.Name (join "\n" $texts)) -}}
{{- end -}}
{{- end -}}

{{/* The names of the rules that guards.allow lets these values break, whether they break them or not. As YAML. */}}
{{- define "maxtext-multislice.guardsAllowed" -}}
{{- $names := list -}}
{{- range $name, $allowed := .Values.guards.allow -}}
{{- if $allowed -}}
{{- $names = append $names $name -}}
{{- end -}}
{{- end -}}
{{- toYaml $names -}}
{{- end -}}

{{/* All problems, as a YAML list of {rule, text}. */}}
{{- define "maxtext-multislice.problems" -}}
{{- $problems := dict "list" list -}}
{{- range include "maxtext-multislice.rules" . | fromYamlArray -}}
{{- $_ := include (printf "maxtext-multislice.rule.%s" .) (dict "root" $ "Values" $.Values "problems" $problems) -}}
{{- end -}}
{{- toYaml $problems.list -}}
{{- end -}}

{{/* (list SCOPE RULE TEXT) */}}
{{- define "maxtext-multislice.problem" -}}
{{- $problems := (index . 0).problems -}}
{{- $_ := set $problems "list" (append $problems.list (dict "rule" (index . 1) "text" (index . 2))) -}}
{{- end -}}
