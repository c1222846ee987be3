{{/* Rule of _validate.tpl. What containers ask for: Kubernetes refuses a pod with such requests, and tells it in an event of
     the cluster's alone. */}}

{{- define "maxtext-multislice.rule.resources" -}}
{{- $scope := . -}}
{{- $asked := dict "head.resources" .Values.head.resources "rayJob.submitterResources" .Values.rayJob.submitterResources
      "clusterCheck.resources" .Values.clusterCheck.resources "elastic.autoscaler.resources" .Values.elastic.autoscaler.resources
      "worker.resources" .Values.worker.resources -}}
{{- range $kind := list "requests" "limits" -}}
{{- if hasKey (include "maxtext-multislice.withoutNulls" (get ($scope.Values.worker.resources | default dict) $kind | default dict) | fromYaml) "google.com/tpu" -}}
{{- list $scope "resources" (printf "worker.resources.%s has google.com/tpu. The chips follow from tpu.type, tpu.topology and tpu.chipsPerHost: remove it." $kind) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- $malformed := list -}}
{{- range $where, $resources := $asked -}}
{{- range $kind := list "requests" "limits" -}}
{{- range $name, $value := include "maxtext-multislice.strings" (get ($resources | default dict) $kind | default dict) | fromYaml -}}
{{- if not (include "maxtext-multislice.quantity" $value) -}}
{{- $malformed = append $malformed $where -}}
{{- list $scope "resources" (printf "%s.%s.%s is %q. An amount is a number with one of the units m, k, M, G, T, Ki, Mi, Gi, Ti or none, for example 500m or 16Gi: change it."
      $where $kind $name $value) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $row := get (.root.Files.Get "files/tpu-types.yaml" | fromYaml) .Values.tpu.type -}}
{{- $ways := get $row.topologies .Values.tpu.topology | default list | toStrings -}}
{{- if and $ways (or (not .Values.tpu.chipsPerHost) (has (int .Values.tpu.chipsPerHost | toString) $ways)) -}}
{{- $_ := set $asked "worker.resources" (include "maxtext-multislice.workerResources" .root | fromYaml) -}}
{{- end -}}
{{- range $where, $resources := $asked -}}
{{- if not (has $where $malformed) -}}
{{- $limits := include "maxtext-multislice.strings" (get ($resources | default dict) "limits" | default dict) | fromYaml -}}
{{- range $name, $request := include "maxtext-multislice.strings" (get ($resources | default dict) "requests" | default dict) | fromYaml -}}
{{- $limit := get $limits $name -}}
{{- if and $limit (gt (include "maxtext-multislice.quantity" $request | float64) (include "maxtext-multislice.quantity" $limit | float64)) -}}
{{- list $scope "resources" (printf "%s requests %s of %s and limits it to %s%s. A request may not be above its limit: set both %s.requests.%s and %s.limits.%s."
      $where $request $name $limit (eq $where "worker.resources" | ternary ", where one of them may be files/tpu-types.yaml's" "") $where $name $where $name) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* An amount of Kubernetes as a number, or nothing where it is none. */}}
{{- define "maxtext-multislice.quantity" -}}
{{- $units := dict "n" 1e-9 "u" 1e-6 "m" 1e-3 "" 1.0 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18
      "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 "Pi" 1125899906842624.0 "Ei" 1152921504606846976.0 -}}
{{- if regexMatch "^[0-9]+(\\.[0-9]*)?([eE][-+]?[0-9]+|[KMGTPE]i|[numkMGTPE])?$" . -}}
{{- $unit := regexFind "([KMGTPE]i|[numkMGTPE])$" . -}}
{{- mulf (trimSuffix $unit . | float64) (get $units $unit) | printf "%g" -}}
{{- end -}}
{{- end -}}
