{{/* What the pods mount: the run's storage, data sets, shared memory, and what head.volumes and worker.volumes add. */}}

{{/* (list ROOT GROUP) */}}
{{- define "maxtext-multislice.volumeMounts" -}}
{{- $root := index . 0 -}}
- name: storage
  mountPath: {{ $root.Values.storage.mountPath | quote }}
- name: dshm
  mountPath: /dev/shm
{{- range $name, $mount := $root.Values.storage.dataMounts }}
{{- if $mount }}
- name: data-{{ $name }}
  mountPath: {{ $mount.mountPath | quote }}
  readOnly: true
{{- end }}
{{- end }}
{{- range $path, $mount := (index . 1).volumeMounts }}
{{- if $mount }}
- mountPath: {{ $path | quote }}
  {{- toYaml $mount | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* (list ROOT MOUNT_OPTIONS GROUP). Ray keeps objects in shared memory, of which a container has 64 MiB by default. */}}
{{- define "maxtext-multislice.volumes" -}}
{{- $root := index . 0 -}}
- name: dshm
  emptyDir:
    medium: Memory
{{ include "maxtext-multislice.storageVolumes" (list $root (index . 1) (index . 2).hostNetwork) }}
{{- range $name, $mount := $root.Values.storage.dataMounts }}
{{- if $mount }}
- name: data-{{ $name }}
  {{- include "maxtext-multislice.bucketVolume" (list $mount.bucket (list $root.Values.storage.mountOptions $mount.mountOptions) true (index $ 2).hostNetwork) | nindent 2 }}
{{- end }}
{{- end }}
{{- range $name, $source := (index . 2).volumes }}
{{- if $source }}
- name: {{ toYaml $name }}
  {{- toYaml $source | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* (list ROOT MOUNT_OPTIONS HOST_NETWORK): the run's storage; the second goes on top of storage.mountOptions. */}}
{{- define "maxtext-multislice.storageVolumes" -}}
{{- $root := index . 0 -}}
{{- $storage := $root.Values.storage -}}
{{- if include "maxtext-multislice.fuseAnnotations" $root | fromYaml }}
{{- /* GCS FUSE takes a volume of this name for its cache; without one it fills the boot disk. */ -}}
- name: gke-gcsfuse-cache
  emptyDir:
    {{- $cache := pick $storage.cache (empty $storage.cache.medium | ternary "" "medium") (empty $storage.cache.sizeLimit | ternary "" "sizeLimit") }}
    {{- toYaml $cache | nindent 4 }}
{{ end -}}
- name: storage
  {{- if eq $storage.kind "bucket" }}
  {{- include "maxtext-multislice.bucketVolume" (list $storage.bucket (list $storage.mountOptions (index . 1)) false (index . 2)) | nindent 2 }}
  {{- else if eq $storage.kind "pvc" }}
  persistentVolumeClaim:
    claimName: {{ toYaml $storage.claimName }}
  {{- else }}
  hostPath:
    path: {{ $storage.folder | quote }}
    type: DirectoryOrCreate
  {{- end }}
{{- end -}}

{{/* (list BUCKET MAPS_OF_MOUNT_OPTIONS READ_ONLY HOST_NETWORK): a volume of the GCS FUSE CSI driver. On the node's network it
     would come as the node's service account, unless it is told to come as the pod's. */}}
{{- define "maxtext-multislice.bucketVolume" -}}
csi:
  driver: gcsfuse.csi.storage.gke.io
  {{- if index . 2 }}
  readOnly: true
  {{- end }}
  volumeAttributes:
    bucketName: {{ index . 0 | quote }}
    {{- if index . 3 }}
    hostNetworkPodKSA: "true"
    {{- end }}
    mountOptions: {{ include "maxtext-multislice.merged" (index . 1) | fromYaml | include "maxtext-multislice.mountOptions" | quote }}
{{- end -}}

{{/* The annotations of a pod that mounts a bucket; none where no pod does. As YAML. */}}
{{- define "maxtext-multislice.fuseAnnotations" -}}
{{- if or (eq .Values.storage.kind "bucket") (include "maxtext-multislice.withoutNulls" .Values.storage.dataMounts | fromYaml) -}}
{{- include "maxtext-multislice.merged" (list (dict "gke-gcsfuse/volumes" "true") .Values.storage.sidecarAnnotations) -}}
{{- end -}}
{{- end -}}

{{/* GCS FUSE's command line options are key=value, those of its configuration file section:key:value, flags are bare. One
     that is false is said, since some are true by default, and in the file: GKE's driver knows few flags that may be false. */}}
{{- define "maxtext-multislice.mountOptions" -}}
{{- $options := list -}}
{{- range $key, $value := . -}}
{{- if and (kindIs "bool" $value) $value (not (contains ":" $key)) -}}
{{- $options = append $options $key -}}
{{- else -}}
{{- $separator := or (kindIs "bool" $value) (contains ":" $key) | ternary ":" "=" -}}
{{- $options = printf "%s%s%s" $key $separator (include "maxtext-multislice.text" $value) | append $options -}}
{{- end -}}
{{- end -}}
{{- join "," $options -}}
{{- end -}}
