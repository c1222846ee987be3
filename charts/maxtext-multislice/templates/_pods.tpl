{{/* The Ray cluster's spec, one for both shapes (RayCluster, and RayJob with a cluster of its own), and its pods. */}}

{{/* (dict "root" . "replicas" BOOL): without the replica counts it is what the cluster's name is the hash of. */}}
{{- define "maxtext-multislice.clusterSpec" -}}
{{- $replicas := .replicas -}}
{{- with .root -}}
{{- $tpu := include "maxtext-multislice.tpu" . | fromYaml -}}
{{- $min := include "maxtext-multislice.minSlices" . | int -}}
rayVersion: {{ .Values.rayVersion | quote }}
{{- if .Values.elastic.enabled }}
{{- /* KubeRay submits the run once every desired pod is ready. So the cluster asks for the fewest slices, and the
       autoscaler adds the others when Ray Train asks for them. Version 2 knows slices of several hosts. */}}
enableInTreeAutoscaling: true
autoscalerOptions:
  version: v2
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  idleTimeoutSeconds: {{ int .Values.elastic.autoscaler.idleTimeoutSeconds }}
  resources:
    {{- toYaml .Values.elastic.autoscaler.resources | nindent 4 }}
{{- end }}
headGroupSpec:
  rayStartParams:
    {{- include "maxtext-multislice.strings" .Values.head.rayStartParams | nindent 4 }}
  template:
    {{- include "maxtext-multislice.headPod" . | nindent 4 }}
workerGroupSpecs:
  - groupName: {{ .Values.worker.groupName }}
    {{- if $replicas }}
    replicas: {{ $min }}
    minReplicas: {{ $min }}
    maxReplicas: {{ int .Values.tpu.slices }}
    {{- end }}
    numOfHosts: {{ $tpu.hosts }}
    rayStartParams:
      {{- include "maxtext-multislice.strings" .Values.worker.rayStartParams | nindent 6 }}
    template:
      {{- include "maxtext-multislice.workerPod" . | nindent 6 }}
{{- end -}}
{{- end -}}

{{- define "maxtext-multislice.headPod" -}}
metadata:
  {{- include "maxtext-multislice.podMetadata" (list . .Values.head) | nindent 2 }}
spec:
  {{- include "maxtext-multislice.podIdentity" . | nindent 2 }}
  {{- if .Values.elastic.enabled }}
  restartPolicy: Never
  {{- end }}
  {{- with include "maxtext-multislice.withoutNulls" .Values.head.nodeSelector | fromYaml }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.head.tolerations }}
  tolerations:
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
      resources:
        {{- toYaml .Values.head.resources | nindent 8 }}
      {{- with .Values.head.securityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        {{- include "maxtext-multislice.volumeMounts" . | nindent 8 }}
  volumes:
    {{- include "maxtext-multislice.volumes" (list . .Values.storage.headMountOptions) | nindent 4 }}
{{- end -}}

{{- define "maxtext-multislice.workerPod" -}}
{{- $tpu := include "maxtext-multislice.tpu" . | fromYaml -}}
{{- $spot := eq .Values.tpu.capacity "spot" -}}
metadata:
  {{- include "maxtext-multislice.podMetadata" (list . .Values.worker) | nindent 2 }}
spec:
  {{- include "maxtext-multislice.podIdentity" . | nindent 2 }}
  {{- if .Values.elastic.enabled }}
  restartPolicy: Never
  {{- end }}
  terminationGracePeriodSeconds: {{ int .Values.worker.terminationGracePeriodSeconds }}
  nodeSelector:
    cloud.google.com/gke-tpu-accelerator: {{ $tpu.gkeAccelerator }}
    cloud.google.com/gke-tpu-topology: {{ .Values.tpu.topology | quote }}
    {{- if $spot }}
    cloud.google.com/gke-spot: "true"
    {{- end }}
    {{- with include "maxtext-multislice.withoutNulls" .Values.worker.nodeSelector | fromYaml }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  tolerations:
    - key: google.com/tpu
      operator: Equal
      value: present
      effect: NoSchedule
    {{- if $spot }}
    - key: cloud.google.com/gke-spot
      operator: Equal
      value: "true"
      effect: NoSchedule
    {{- end }}
    {{- with .Values.worker.tolerations }}
    {{- toYaml . | nindent 4 }}
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
        {{- include "maxtext-multislice.volumeMounts" . | nindent 8 }}
  volumes:
    {{- include "maxtext-multislice.volumes" (list . dict) | nindent 4 }}
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
{{- range list "requests" "limits" -}}
{{- $_ := set $resources . (include "maxtext-multislice.withoutNulls" (get $resources .) | fromYaml) -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{/* (list ROOT GROUP): KubeRay and the TPU webhook find Ray's pods by app.kubernetes.io/name, which KubeRay sets. */}}
{{- define "maxtext-multislice.podMetadata" -}}
{{- $root := index . 0 -}}
{{- $group := index . 1 -}}
{{- $annotations := list $group.annotations -}}
{{- if eq $root.Values.storage.kind "bucket" -}}
{{- $annotations = list (dict "gke-gcsfuse/volumes" "true") $root.Values.storage.sidecarAnnotations $group.annotations -}}
{{- end -}}
labels:
  app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
  {{- with include "maxtext-multislice.strings" $group.labels | fromYaml }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with include "maxtext-multislice.merged" $annotations | fromYaml | include "maxtext-multislice.strings" | fromYaml }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "maxtext-multislice.podIdentity" -}}
serviceAccountName: {{ include "maxtext-multislice.serviceAccountName" . }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "maxtext-multislice.containerImage" -}}
image: {{ include "maxtext-multislice.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end -}}

{{- define "maxtext-multislice.volumeMounts" -}}
- name: storage
  mountPath: {{ .Values.storage.mountPath | quote }}
- name: dshm
  mountPath: /dev/shm
{{- end -}}

{{/* (list ROOT MOUNT_OPTIONS): the second goes on top of storage.mountOptions. Ray keeps objects in shared memory, of which
     a container has 64 MiB by default. */}}
{{- define "maxtext-multislice.volumes" -}}
{{- $root := index . 0 -}}
{{- $storage := $root.Values.storage -}}
- name: dshm
  emptyDir:
    medium: Memory
{{- if eq $storage.kind "bucket" }}
{{- /* GCS FUSE takes a volume of this name for its cache; without one it fills the boot disk. */}}
- name: gke-gcsfuse-cache
  emptyDir:
    {{- $cache := pick $storage.cache (empty $storage.cache.medium | ternary "" "medium") (empty $storage.cache.sizeLimit | ternary "" "sizeLimit") }}
    {{- toYaml $cache | nindent 4 }}
- name: storage
  csi:
    driver: gcsfuse.csi.storage.gke.io
    volumeAttributes:
      bucketName: {{ $storage.bucket | quote }}
      mountOptions: {{ include "maxtext-multislice.merged" (list $storage.mountOptions (index . 1)) | fromYaml | include "maxtext-multislice.mountOptions" | quote }}
{{- else if eq $storage.kind "pvc" }}
- name: storage
  persistentVolumeClaim:
    claimName: {{ $storage.claimName }}
{{- else }}
- name: storage
  hostPath:
    path: {{ $storage.folder | quote }}
    type: DirectoryOrCreate
{{- end }}
{{- end -}}

{{/* GCS FUSE's command line options are key=value, those of its configuration file section:key:value, flags are bare. */}}
{{- define "maxtext-multislice.mountOptions" -}}
{{- $options := list -}}
{{- range $key, $value := . -}}
{{- if and (kindIs "bool" $value) (not (contains ":" $key)) -}}
{{- $options = $value | ternary (append $options $key) $options -}}
{{- else -}}
{{- $separator := contains ":" $key | ternary ":" "=" -}}
{{- $options = printf "%s%s%s" $key $separator (include "maxtext-multislice.text" $value) | append $options -}}
{{- end -}}
{{- end -}}
{{- join "," $options -}}
{{- end -}}
