{{/* Where pods run: the capacity that the slices come from, node selectors and tolerations. */}}

{{/* The capacities that the slices may come from, the most wanted first. As YAML. */}}
{{- define "maxtext-multislice.capacities" -}}
{{- $ranked := list -}}
{{- if .Values.computeClass.enabled -}}
{{- range $capacity, $rank := .Values.computeClass.priorities -}}
{{- if not (kindIs "invalid" $rank) -}}
{{- $ranked = append $ranked (printf "%06d %s" (int $rank) $capacity) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range sortAlpha $ranked }}
- {{ splitList " " . | last }}
{{- else }}
- {{ .Values.tpu.capacity }}
{{- end -}}
{{- end -}}

{{/* A ComputeClass belongs to no namespace, so its name tells the namespace too. */}}
{{- define "maxtext-multislice.computeClassName" -}}
{{- if .Values.computeClass.name -}}
{{- .Values.computeClass.name -}}
{{- else -}}
{{- $name := include "maxtext-multislice.fullname" . -}}
{{- printf "%s-%s" (printf "%s-%s" .Release.Namespace $name | trunc 50 | trimSuffix "-")
      (printf "%s/%s" .Release.Namespace $name | include "maxtext-multislice.hash") -}}
{{- end -}}
{{- end -}}

{{/* What the TPU needs, then what the values say. The topology stays with a ComputeClass too: the TPU webhook reads it. */}}
{{- define "maxtext-multislice.workerNodeSelector" -}}
{{- $tpu := include "maxtext-multislice.tpu" . | fromYaml -}}
{{- $needed := dict "cloud.google.com/gke-tpu-accelerator" $tpu.gkeAccelerator "cloud.google.com/gke-tpu-topology" .Values.tpu.topology -}}
{{- if .Values.computeClass.enabled -}}
{{- $_ := set $needed "cloud.google.com/compute-class" (include "maxtext-multislice.computeClassName" .) -}}
{{- else if eq .Values.tpu.capacity "spot" -}}
{{- $_ := set $needed "cloud.google.com/gke-spot" "true" -}}
{{- else if eq .Values.tpu.capacity "reservation" -}}
{{- $_ := set $needed "cloud.google.com/reservation-name" .Values.tpu.reservation -}}
{{- else if eq .Values.tpu.capacity "flex-start" -}}
{{- $_ := set $needed "cloud.google.com/gke-flex-start" "true" -}}
{{- end -}}
{{- include "maxtext-multislice.merged" (list .Values.worker.nodeSelector $needed) | fromYaml | include "maxtext-multislice.strings" -}}
{{- end -}}

{{- define "maxtext-multislice.workerTolerations" -}}
- key: google.com/tpu
  operator: Equal
  value: present
  effect: NoSchedule
{{- /* GKE taints Spot nodes if it makes them itself, and flex-start nodes if told to. */}}
{{- $capacities := include "maxtext-multislice.capacities" . | fromYamlArray }}
{{- range list "spot" "flex-start" }}
{{- if has . $capacities }}
- key: cloud.google.com/gke-{{ . }}
  operator: Equal
  value: "true"
  effect: NoSchedule
{{- end }}
{{- end }}
{{- with .Values.worker.tolerations }}
{{ toYaml . }}
{{- end }}
{{- end -}}
