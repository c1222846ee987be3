{{/* What `helm test` compares the live cluster with. */}}

{{/* Not empty where there is a cluster to look at: one of the run's own is there only with a run. */}}
{{- define "maxtext-multislice.clusterChecked" -}}
{{- if and .Values.clusterCheck.enabled (or .Values.job.enabled (not .Values.rayJob.ownCluster)) -}}
yes
{{- end -}}
{{- end -}}

{{/* The secret of Ray's token, where its name is known: KubeRay names it after the cluster. */}}
{{- define "maxtext-multislice.tokenSecret" -}}
{{- if eq .Values.auth.mode "token" -}}
{{- if .Values.auth.secretName -}}
{{- .Values.auth.secretName -}}
{{- else if not .Values.rayJob.ownCluster -}}
{{- include "maxtext-multislice.clusterName" . -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What trainer/cluster_check.py compares with, as JSON. */}}
{{- define "maxtext-multislice.expectedCluster" -}}
{{- $run := include "maxtext-multislice.run" . | fromYaml -}}
{{- $devices := 0 -}}
{{- if .Values.network.dranet.enabled -}}
{{- /* With `All` a node's number is not known here, but it is not none. */ -}}
{{- $devices = eq .Values.network.dranet.allocationMode "ExactCount" | ternary (int .Values.network.dranet.count) 1 -}}
{{- end -}}
{{- $dashboard := or (eq .Values.auth.mode "disabled") (include "maxtext-multislice.tokenSecret" .) -}}
{{- dict "namespace" .Release.Namespace
      "cluster" (.Values.rayJob.ownCluster | ternary "" (include "maxtext-multislice.clusterName" .))
      "ray_job" (.Values.rayJob.ownCluster | ternary (include "maxtext-multislice.jobName" .) "")
      "group" .Values.worker.groupName
      "min_slices" (int $run.slices.min) "max_slices" (int $run.slices.max)
      "hosts_per_slice" (int $run.tpu.hostsPerSlice) "chips_per_host" (int $run.tpu.chipsPerHost)
      "topology" $run.tpu.topology "accelerator_type" $run.tpu.acceleratorType
      "devices" $devices "exact_devices" (eq .Values.network.dranet.allocationMode "ExactCount")
      "output_directory" $run.outputDirectory
      "look_at_ray" (empty $dashboard | not) | toJson -}}
{{- end -}}
