{{/* The Ray cluster's spec, one for both shapes (RayCluster, and RayJob with a cluster of its own), and its pods. */}}

{{/* (dict "root" . "replicas" BOOL "live" LIST): without the replica counts it is what the cluster's name is the hash of.
     live: the worker groups of the cluster as it is now, where there is one of the name. */}}
{{- define "maxtext-multislice.clusterSpec" -}}
{{- $replicas := .replicas -}}
{{- $live := .live -}}
{{- with .root -}}
rayVersion: {{ .Values.rayVersion | quote }}
{{- if eq .Values.auth.mode "token" }}
authOptions:
  mode: token
  {{- with .Values.auth.secretName }}
  secretName: {{ toYaml . }}
  {{- end }}
{{- end }}
{{- if .Values.elastic.enabled }}
{{- /* KubeRay submits the run once every desired pod is ready. So the cluster asks for the fewest slices, and the
       autoscaler adds the others when Ray Train asks for them. Version 2 knows slices of several hosts. */}}
enableInTreeAutoscaling: true
autoscalerOptions:
  version: v2
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  idleTimeoutSeconds: {{ int .Values.elastic.autoscaler.idleTimeoutSeconds }}
  {{- /* The autoscaler (Ray 2.60) asks KubeRay for hosts, and its KubeRay provider rounds down to whole slices. The hosts
         of a lost slice are missed one after the other, so each is asked for alone, rounded down to nothing and then
         waited for, ten minutes each and never together: the run does not grow back. With less than one of its
         rounds (5 s) it asks again for all that are still missing at once. Until the provider rounds up. */}}
  env:
    - name: RAY_AUTOSCALER_RECONCILE_REQUEST_STATUS_TIMEOUT_S
      value: "1"
  resources:
    {{- include "maxtext-multislice.resources" .Values.elastic.autoscaler.resources | nindent 4 }}
{{- end }}
headGroupSpec:
  rayStartParams:
    {{- include "maxtext-multislice.strings" .Values.head.rayStartParams | nindent 4 }}
  template:
    {{- include "maxtext-multislice.headPod" . | nindent 4 }}
workerGroupSpecs:
{{- if $live }}
  {{- include "maxtext-multislice.liveGroups" (list . $live) | nindent 2 }}
{{- else }}
{{- $slices := include "maxtext-multislice.minSlices" . | int }}
  - groupName: {{ toYaml .Values.worker.groupName }}
    {{- if $replicas }}
    replicas: {{ $slices }}
    minReplicas: {{ $slices }}
    maxReplicas: {{ int .Values.tpu.slices }}
    {{- end }}
    numOfHosts: {{ (include "maxtext-multislice.tpu" . | fromYaml).hosts }}
    rayStartParams:
      {{- include "maxtext-multislice.workerStartParams" . | nindent 6 }}
    template:
      {{- include "maxtext-multislice.workerPod" . | nindent 6 }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* (list ROOT LIVE): the worker groups as the cluster has them. The name says that nothing but the replica counts can
     differ from what would be rendered. KubeRay and the autoscaler write into this list, which is atomic to server-side
     apply: rendered anew, it would be a conflict for Helm 4, and take a grown cluster back to its first size. As YAML. */}}
{{- define "maxtext-multislice.liveGroups" -}}
{{- $root := index . 0 -}}
{{- $group := index . 1 | first | deepCopy -}}
{{- $min := include "maxtext-multislice.minSlices" $root | int -}}
{{- $max := int $root.Values.tpu.slices -}}
{{- $now := get $group "replicas" | int -}}
{{- if or (lt $now $min) (gt $now $max) -}}
{{- $_ := set $group "replicas" (max $min (min $now $max)) -}}
{{- end -}}
{{- range $name, $count := dict "minReplicas" $min "maxReplicas" $max -}}
{{- if ne $count (get $group $name | int) -}}
{{- $_ := set $group $name $count -}}
{{- end -}}
{{- end -}}
{{- list $group | toYaml -}}
{{- end -}}

{{/* Ray Train asks the autoscaler for hosts with the resource accelerator_type:<type>, which Ray gives each TPU host when
     it starts. The autoscaler (Ray 2.60, autoscaling_config.py) knows of it only what stands here, and without it adds no
     slice. Quoted as KubeRay does it when it adds the chips. As YAML. */}}
{{- define "maxtext-multislice.workerStartParams" -}}
{{- $params := .Values.worker.rayStartParams | default dict -}}
{{- if .Values.elastic.enabled -}}
{{- $type := (include "maxtext-multislice.tpu" . | fromYaml).rayAcceleratorType -}}
{{- $params = merge (dict "resources" (printf "'{\"accelerator_type:%s\":1}'" $type)) $params -}}
{{- end -}}
{{- include "maxtext-multislice.strings" $params -}}
{{- end -}}

{{- define "maxtext-multislice.headPod" -}}
metadata:
  {{- include "maxtext-multislice.podMetadata" (list . .Values.head) | nindent 2 }}
spec:
  {{- include "maxtext-multislice.podIdentity" . | nindent 2 }}
  {{- with .Values.job.priorityClassName }}
  priorityClassName: {{ toYaml . }}
  {{- end }}
  {{- if .Values.elastic.enabled }}
  restartPolicy: Never
  {{- end }}
  {{- with .Values.head.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with include "maxtext-multislice.withoutNulls" .Values.head.nodeSelector | fromYaml }}
  nodeSelector:
    {{- include "maxtext-multislice.strings" . | nindent 4 }}
  {{- end }}
  {{- with .Values.head.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.head.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.head.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: ray-head
      {{- include "maxtext-multislice.containerImage" . | nindent 6 }}
      ports:
        - containerPort: 6379
          name: gcs-server
        - containerPort: 8265
          name: dashboard
        - containerPort: 10001
          name: client
        - containerPort: {{ get (.Values.head.rayStartParams | default dict) "metrics-export-port" | default 8080 | int }}
          name: metrics
      {{- with include "maxtext-multislice.env" .Values.head.env }}
      env:
        {{- . | nindent 8 }}
      {{- end }}
      {{- with include "maxtext-multislice.envFrom" .Values.head.envFrom }}
      envFrom:
        {{- . | nindent 8 }}
      {{- end }}
      resources:
        {{- include "maxtext-multislice.resources" .Values.head.resources | nindent 8 }}
      {{- with .Values.head.securityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        {{- include "maxtext-multislice.volumeMounts" (list . .Values.head) | nindent 8 }}
    {{- include "maxtext-multislice.sidecars" .Values.head.sidecars | nindent 4 }}
  volumes:
    {{- include "maxtext-multislice.volumes" (list . .Values.storage.headMountOptions .Values.head) | nindent 4 }}
{{- end -}}

{{- define "maxtext-multislice.workerPod" -}}
metadata:
  {{- include "maxtext-multislice.podMetadata" (list . .Values.worker) | nindent 2 }}
spec:
  {{- include "maxtext-multislice.podIdentity" . | nindent 2 }}
  {{- with .Values.job.priorityClassName }}
  priorityClassName: {{ toYaml . }}
  {{- end }}
  {{- if .Values.elastic.enabled }}
  restartPolicy: Never
  {{- end }}
  {{- with .Values.worker.podSecurityContext }}
  securityContext:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  terminationGracePeriodSeconds: {{ int .Values.worker.terminationGracePeriodSeconds }}
  nodeSelector:
    {{- include "maxtext-multislice.workerNodeSelector" . | nindent 4 }}
  tolerations:
    {{- include "maxtext-multislice.workerTolerations" . | nindent 4 }}
  {{- if .Values.worker.hostNetwork }}
  hostNetwork: true
  {{- /* Else the head's name could not be resolved. */}}
  dnsPolicy: ClusterFirstWithHostNet
  {{- end }}
  {{- if .Values.network.dranet.enabled }}
  resourceClaims:
    - name: netdev
      resourceClaimTemplateName: {{ include "maxtext-multislice.claimTemplateName" . }}
  {{- end }}
  containers:
    - name: ray-worker
      {{- include "maxtext-multislice.containerImage" . | nindent 6 }}
      ports:
        - containerPort: {{ get (.Values.worker.rayStartParams | default dict) "metrics-export-port" | default 8080 | int }}
          name: metrics
      {{- with include "maxtext-multislice.env" .Values.worker.env }}
      env:
        {{- . | nindent 8 }}
      {{- end }}
      {{- with include "maxtext-multislice.envFrom" .Values.worker.envFrom }}
      envFrom:
        {{- . | nindent 8 }}
      {{- end }}
      resources:
        {{- include "maxtext-multislice.workerResources" . | nindent 8 }}
      {{- with .Values.worker.securityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if .Values.worker.drainOnTermination }}
      lifecycle:
        preStop:
          exec:
            command:
              - python
              - -c
              - |
                {{- include "maxtext-multislice.trainerFile" (dict "root" . "name" "drain.py") | nindent 16 }}
      {{- end }}
      volumeMounts:
        {{- include "maxtext-multislice.volumeMounts" (list . .Values.worker) | nindent 8 }}
    {{- include "maxtext-multislice.sidecars" .Values.worker.sidecars | nindent 4 }}
  volumes:
    {{- include "maxtext-multislice.volumes" (list . dict .Values.worker) | nindent 4 }}
{{- end -}}

{{/* Requests and limits without their null entries. */}}
{{- define "maxtext-multislice.resources" -}}
{{- $resources := dict -}}
{{- range $kind, $amounts := . -}}
{{- $_ := set $resources $kind (include "maxtext-multislice.withoutNulls" $amounts | fromYaml) -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{/* What the machine allows, then what the values say, then the chips and the network devices, which are not a choice. */}}
{{- define "maxtext-multislice.workerResources" -}}
{{- $tpu := include "maxtext-multislice.tpu" . | fromYaml -}}
{{- $chips := dict "google.com/tpu" (toString $tpu.chipsPerHost) -}}
{{- $resources := mustMergeOverwrite
      (dict "requests" (dict "cpu" $tpu.machine.cpu "memory" $tpu.machine.memory)
            "limits" (dict "memory" $tpu.machine.memory))
      (.Values.worker.resources | default dict | deepCopy)
      (dict "requests" $chips "limits" $chips) -}}
{{- if .Values.network.dranet.enabled -}}
{{- $_ := set $resources "claims" (list (dict "name" "netdev")) -}}
{{- end -}}
{{- omit $resources "claims" | include "maxtext-multislice.resources" | fromYaml | merge (pick $resources "claims") | toYaml -}}
{{- end -}}

{{/* (list ROOT GROUP): KubeRay and the TPU webhook find Ray's pods by app.kubernetes.io/name, which KubeRay sets. */}}
{{- define "maxtext-multislice.podMetadata" -}}
{{- $root := index . 0 -}}
{{- $group := index . 1 -}}
{{- $annotations := list (include "maxtext-multislice.fuseAnnotations" $root | fromYaml) $group.annotations -}}
{{- $labels := include "maxtext-multislice.merged" (list $root.Values.extraLabels $group.labels) | fromYaml -}}
labels:
  app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
  {{- with include "maxtext-multislice.strings" $labels | fromYaml }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with include "maxtext-multislice.merged" $annotations | fromYaml | include "maxtext-multislice.strings" | fromYaml }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "maxtext-multislice.podIdentity" -}}
serviceAccountName: {{ include "maxtext-multislice.serviceAccountName" . | toYaml }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "maxtext-multislice.containerImage" -}}
image: {{ include "maxtext-multislice.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end -}}

{{/* A map of names of secrets and config maps, each with its kind, as the list that a container has. */}}
{{- define "maxtext-multislice.envFrom" -}}
{{- range $name, $kind := . -}}
{{- if $kind }}
- {{ eq $kind "secret" | ternary "secretRef" "configMapRef" }}:
    name: {{ toYaml $name }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A map of containers by name. They come after Ray's, which KubeRay takes the first one for. */}}
{{- define "maxtext-multislice.sidecars" -}}
{{- range $name, $container := . -}}
{{- if $container }}
- name: {{ toYaml $name }}
  {{- toYaml $container | nindent 2 }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The network devices of a worker; the name of the ResourceClaimTemplate holds its hash. */}}
{{- define "maxtext-multislice.claimTemplateSpec" -}}
devices:
  requests:
    - name: netdev
      exactly:
        deviceClassName: {{ toYaml .Values.network.dranet.deviceClassName }}
        allocationMode: {{ .Values.network.dranet.allocationMode }}
        {{- if eq .Values.network.dranet.allocationMode "ExactCount" }}
        count: {{ int .Values.network.dranet.count }}
        {{- end }}
{{- end -}}
