{{/* What the RayJob runs and where: the part of its spec that a change of makes another run of. (dict "root" . "replicas"
     BOOL "live" LIST), as maxtext-multislice.clusterSpec. */}}
{{- define "maxtext-multislice.jobSpec" -}}
{{- $replicas := .replicas -}}
{{- $live := .live -}}
{{- with .root -}}
{{- $folder := "/trainer" -}}
submissionMode: K8sJobMode
{{- /* A constant: what is trained is data in run.yaml and never goes through a shell. */}}
entrypoint: python train.py run.yaml
runtimeEnvYAML: |
  working_dir: {{ $folder }}
  env_vars:
    {{- include "maxtext-multislice.jobEnv" . | nindent 4 }}
{{- if .Values.rayJob.ownCluster }}
rayClusterSpec:
  {{- include "maxtext-multislice.clusterSpec" (dict "root" . "replicas" $replicas "live" $live) | nindent 2 }}
{{- else }}
clusterSelector:
  ray.io/cluster: {{ include "maxtext-multislice.clusterName" . }}
{{- end }}
submitterPodTemplate:
  metadata:
    labels:
      app.kubernetes.io/instance: {{ .Release.Name | quote }}
      {{- with include "maxtext-multislice.strings" .Values.extraLabels | fromYaml }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
  spec:
    {{- include "maxtext-multislice.podIdentity" . | nindent 4 }}
    restartPolicy: Never
    containers:
      - name: ray-job-submitter
        {{- include "maxtext-multislice.containerImage" . | nindent 8 }}
        resources:
          {{- include "maxtext-multislice.resources" .Values.rayJob.submitterResources | nindent 10 }}
        volumeMounts:
          - name: trainer
            mountPath: {{ $folder }}
    volumes:
      - name: trainer
        configMap:
          name: {{ include "maxtext-multislice.trainerName" . }}
{{- end -}}
{{- end -}}

{{/* The environment of the entry point, which is where Ray Train reads its own settings from. As YAML. */}}
{{- define "maxtext-multislice.jobEnv" -}}
{{- $env := dict "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S" .Values.job.workerGroupStartTimeoutSeconds -}}
{{- include "maxtext-multislice.merged" (list .Values.rayJob.env $env) | fromYaml | include "maxtext-multislice.strings" -}}
{{- end -}}
