{{/* Names, labels and what follows from the TPU's type, topology and number of slices. */}}

{{- define "maxtext-multislice.fullname" -}}
{{- default .Release.Name .Values.fullnameOverride -}}
{{- end -}}

{{- define "maxtext-multislice.labels" -}}
{{- include "maxtext-multislice.labelsWith" (list . dict) -}}
{{- end -}}

{{/* (list ROOT LABELS): an object's labels, with more of its own. */}}
{{- define "maxtext-multislice.labelsWith" -}}
{{- with index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{- with include "maxtext-multislice.merged" (list (index . 0).Values.extraLabels (index . 1)) | fromYaml }}
{{ include "maxtext-multislice.strings" . }}
{{- end }}
{{- end -}}

{{- define "maxtext-multislice.runName" -}}
{{- default .Release.Name .Values.job.runName -}}
{{- end -}}

{{/* Six digits of a content's hash: enough to tell one release's own versions apart, and short, because KubeRay and the
     TPU webhook make longer names from it. */}}
{{- define "maxtext-multislice.hash" -}}
{{- . | sha256sum | trunc 6 -}}
{{- end -}}

{{- define "maxtext-multislice.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "maxtext-multislice.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The row of files/tpu-types.yaml, with what the topology adds: chips, chipsPerHost, hosts, machine, acceleratorType.
     As YAML: `include ... | fromYaml`. Call it behind maxtext-multislice.validate, which refuses what is not in there. */}}
{{- define "maxtext-multislice.tpu" -}}
{{- $tpu := .Values.tpu -}}
{{- $row := get (.Files.Get "files/tpu-types.yaml" | fromYaml) $tpu.type -}}
{{- $chips := 1 -}}
{{- range splitList "x" $tpu.topology -}}
{{- $chips = mul $chips (int .) -}}
{{- end -}}
{{- $perHost := int (default (first (get $row.topologies $tpu.topology)) $tpu.chipsPerHost) -}}
{{- $acceleratorType := printf "%s-%d" $row.podTypePrefix (mul $chips $row.coresPerChip) -}}
{{- omit $row "topologies" "machines" | mustMergeOverwrite (dict
      "chips" $chips "chipsPerHost" $perHost "hosts" (div $chips $perHost)
      "machine" (get $row.machines (toString $perHost)) "acceleratorType" $acceleratorType) | toYaml -}}
{{- end -}}

{{/* The fewest and the most slices. */}}
{{- define "maxtext-multislice.minSlices" -}}
{{- ternary .Values.elastic.minSlices .Values.tpu.slices .Values.elastic.enabled -}}
{{- end -}}

{{- define "maxtext-multislice.image" -}}
{{- if .Values.image.uri -}}
{{- .Values.image.uri -}}
{{- else -}}
{{- default (printf "rayproject/ray:%s-py312-tpu" .Values.rayVersion) .Values.runtimeInstall.image -}}
{{- end -}}
{{- end -}}

{{/* A map without its null entries, which is how a values file removes one that another brought: Helm deletes a null
     only where the chart's own values.yaml has the key. As YAML. */}}
{{- define "maxtext-multislice.withoutNulls" -}}
{{- include "maxtext-multislice.merged" (list .) -}}
{{- end -}}

{{/* (list MAP...): one map, in which later ones win and a null removes. As YAML. */}}
{{- define "maxtext-multislice.merged" -}}
{{- $merged := dict -}}
{{- range $map := . -}}
{{- range $key, $value := $map -}}
{{- if kindIs "invalid" $value -}}
{{- $_ := unset $merged $key -}}
{{- else -}}
{{- $_ := set $merged $key $value -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "maxtext-multislice.asYaml" $merged -}}
{{- end -}}

{{/* A map as YAML. Helm's toYaml cuts off the last line's end, and with it that of a text of several lines which comes last. */}}
{{- define "maxtext-multislice.asYaml" -}}
{{- contains "\n" (toString .) | ternary (toJson .) (toYaml .) -}}
{{- end -}}

{{/* A value as text. Go would write the number 1000000 as 1e+06. */}}
{{- define "maxtext-multislice.text" -}}
{{- kindIs "float64" . | ternary (toJson .) (toString .) -}}
{{- end -}}

{{/* A map of environment variables as the list that a container has, in the order of the names. */}}
{{- define "maxtext-multislice.env" -}}
{{- range $name, $value := . -}}
{{- if not (kindIs "invalid" $value) }}
- name: {{ toYaml $name }}
  value: {{ include "maxtext-multislice.text" $value | quote }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The names that hold a hash of what may not change under them. */}}
{{- define "maxtext-multislice.claimTemplateName" -}}
{{- printf "%s-netdev-%s" (include "maxtext-multislice.fullname" .)
      (include "maxtext-multislice.claimTemplateSpec" . | include "maxtext-multislice.hash") -}}
{{- end -}}

{{- define "maxtext-multislice.trainerName" -}}
{{- printf "%s-trainer-%s" (include "maxtext-multislice.fullname" .)
      (include "maxtext-multislice.trainerData" . | include "maxtext-multislice.hash") -}}
{{- end -}}

{{/* Of all that shapes the cluster's pods, and of its queue, and not of the replica counts: KubeRay leaves running pods as they are when the
     template changes, so a changed template under the same name would give slices of two kinds. */}}
{{- define "maxtext-multislice.clusterName" -}}
{{- printf "%s-%s" (include "maxtext-multislice.fullname" .)
      (printf "%s%s" (include "maxtext-multislice.clusterSpec" (dict "root" . "replicas" false))
        (ternary "" (include "maxtext-multislice.admission" .) .Values.rayJob.ownCluster) | include "maxtext-multislice.hash") -}}
{{- end -}}

{{/* Kueue's labels of the object that it admits, the RayCluster or a RayJob with a cluster of its own: Kueue refuses to change
     them while that runs. Nothing where there are none. */}}
{{- define "maxtext-multislice.admission" -}}
{{- with .Values.rayJob.queue }}
kueue.x-k8s.io/queue-name: {{ toYaml . }}
{{- end }}
{{- range $name, $value := include "maxtext-multislice.strings" .Values.rayJob.labels | fromYaml }}
{{- if hasPrefix "kueue.x-k8s.io/" $name }}
{{ $name }}: {{ toYaml $value }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Of the run (run.yaml with job.attempt), the trainer's files and where they run: a new name is a new run, and an
     upgrade that changes none of these starts none. */}}
{{- define "maxtext-multislice.jobName" -}}
{{- printf "%s-%s" (include "maxtext-multislice.fullname" .)
      (printf "%s\n%s" (include "maxtext-multislice.trainerData" .)
        (include "maxtext-multislice.jobSpec" (dict "root" . "replicas" false))
        | print (ternary (include "maxtext-multislice.admission" .) "" .Values.rayJob.ownCluster) | include "maxtext-multislice.hash") -}}
{{- end -}}
