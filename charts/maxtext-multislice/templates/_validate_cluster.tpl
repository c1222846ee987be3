{{/* Rules of _validate.tpl. Where it runs: names, pods, storage, network and KubeRay. */}}

{{/* KubeRay takes longer names, but the TPU webhook keeps the last 50 characters of the headless service's name
     (<cluster>-headless), and hosts that are told a name that is cut wait for each other for ever. */}}
{{- define "maxtext-multislice.rule.names" -}}
{{- $stem := include "maxtext-multislice.fullname" .root -}}
{{- $longest := .Values.rayJob.ownCluster | ternary 28 34 -}}
{{- if gt (len $stem) $longest -}}
{{- list . "names" (printf "the objects' name %s has %d characters. With %s it may have %d, so that the Ray cluster's name stays within 41: use a shorter release name, or set fullnameOverride."
      $stem (len $stem) (printf "rayJob.ownCluster=%t" .Values.rayJob.ownCluster) $longest) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $stem) -}}
{{- list . "names" (printf "the objects' name is %s. KubeRay takes lower-case letters, digits and dashes, a letter first: use such a release name, or set fullnameOverride."
      $stem) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}

{{/* `helm template` and `helm lint` do without a bucket. An install does not: it is told by the cluster's having KubeRay. */}}
{{- define "maxtext-multislice.rule.storage" -}}
{{- $storage := .Values.storage -}}
{{- $installing := .root.Capabilities.APIVersions.Has "ray.io/v1" -}}
{{- if eq $storage.kind "bucket" -}}
{{- if hasPrefix "gs://" $storage.bucket -}}
{{- list . "storage" (printf "storage.bucket is %s. It is the bucket's name alone: set storage.bucket=%s, and a folder in it as job.outputFolder."
      $storage.bucket (index (trimPrefix "gs://" $storage.bucket | splitList "/") 0)) | include "maxtext-multislice.problem" -}}
{{- else if not (regexMatch "^([a-z0-9][-._a-z0-9]*)?$" $storage.bucket) -}}
{{- list . "storage" (printf "storage.bucket is %q. A bucket's name has lower-case letters, digits, dashes, underscores and dots: set storage.bucket to the name alone, and a folder in it as job.outputFolder."
      $storage.bucket) | include "maxtext-multislice.problem" -}}
{{- else if and $installing (not $storage.bucket) -}}
{{- list . "storage" "storage.bucket is empty. A run writes its checkpoints to a Cloud Storage bucket: add --set storage.bucket=NAME." | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- else if and (eq $storage.kind "pvc") (not $storage.claimName) -}}
{{- list . "storage" "storage.kind is pvc and storage.claimName is empty. Set storage.claimName to an existing claim that can be mounted ReadWriteMany." | include "maxtext-multislice.problem" -}}
{{- else if and (eq $storage.kind "folder") (not (hasPrefix "/" $storage.folder)) -}}
{{- list . "storage" (printf "storage.kind is folder and storage.folder is %q. Set storage.folder to an absolute path on the nodes." $storage.folder) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- $scope := . -}}
{{- $mounts := dict "storage.mountPath" $storage.mountPath -}}
{{- range $name, $mount := include "maxtext-multislice.withoutNulls" $storage.dataMounts | fromYaml -}}
{{- $_ := set $mounts (printf "storage.dataMounts.%s.mountPath" $name) $mount.mountPath -}}
{{- end -}}
{{- /* `driver local` renders with this image: nothing is mounted then, and the paths are this machine's. */ -}}
{{- if eq .Values.image.uri "driver-local" -}}
{{- $mounts = dict -}}
{{- end -}}
{{- range $where, $path := $mounts -}}
{{- $system := regexMatch "^/((bin|boot|etc|home|home/ray|lib|lib64|root|run|sbin|tmp|usr|var)/?$|(dev|proc|sys|tmp/ray|home/ray/anaconda3)(/|$))" $path -}}
{{- if or $system (has ".." (splitList "/" $path)) (not (regexMatch "^(/[^/:,\\s]+)+/?$" $path)) -}}
{{- list $scope "storage" (printf "%s is %q. It is mounted over what the image or Ray has there, or is no path that a container can mount (one without `:`, `,`, `..` and spaces): set %s to a folder of its own, for example /data."
      $where $path $where) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- $options := dict "storage.mountOptions" $storage.mountOptions "storage.headMountOptions" $storage.headMountOptions -}}
{{- range $name, $mount := include "maxtext-multislice.withoutNulls" $storage.dataMounts | fromYaml -}}
{{- $_ := set $options (printf "storage.dataMounts.%s.mountOptions" $name) $mount.mountOptions -}}
{{- end -}}
{{- range $where, $map := $options -}}
{{- range $name, $value := include "maxtext-multislice.strings" $map | fromYaml -}}
{{- if or (has $name (list "temp-dir" "config-file" "foreground" "log-file" "log-format" "key-file" "token-url" "reuse-token-from-url" "o" "cache-dir" "experimental-local-file-cache" "prometheus-port")) (hasPrefix "logging:log-rotate:" $name) -}}
{{- list $scope "storage" (printf "%s has %s. GKE's driver sets it itself and discards this one: remove it (an option of the kernel stands alone, as in `ro: true`)." $where $name) | include "maxtext-multislice.problem" -}}
{{- else if or (not $name) (regexMatch "[,\\s]" (print $name $value)) -}}
{{- list $scope "storage" (printf "%s has %q with %q. A comma ends an option, so neither may have one, nor a space, and it has a name: change it." $where $name $value) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $places := dict (trimSuffix "/" $storage.mountPath) "storage.mountPath" "/dev/shm" "Ray's shared memory" -}}
{{- range $name, $mount := include "maxtext-multislice.withoutNulls" $storage.dataMounts | fromYaml -}}
{{- $path := trimSuffix "/" $mount.mountPath -}}
{{- range $other, $whose := $places -}}
{{- if or (hasPrefix (print $other "/") (print $path "/")) (hasPrefix (print $path "/") (print $other "/")) -}}
{{- list $scope "storage" (printf "storage.dataMounts.%s.mountPath is %s, and %s is %s. One mount may not lie in another: set storage.dataMounts.%s.mountPath to a path beside it."
      $name $path $whose $other $name) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- $_ := set $places $path (printf "storage.dataMounts.%s.mountPath" $name) -}}
{{- end -}}
{{- end -}}

{{/* Not kubeVersion in Chart.yaml, because `helm template` has the version that Helm was built with and no cluster's. */}}
{{- define "maxtext-multislice.rule.networkDevices" -}}
{{- $versions := .root.Capabilities.APIVersions -}}
{{- if and .Values.network.dranet.enabled ($versions.Has "ray.io/v1") (not ($versions.Has "resource.k8s.io/v1")) -}}
{{- list . "networkDevices" (printf "network.dranet.enabled is true and the cluster (Kubernetes %s) has no resource.k8s.io/v1. GKE DRANET needs 1.34.1-gke.1829001, on Autopilot 1.35.2-gke.1842000: upgrade the cluster, or set network.dranet.enabled=false, at the price of slow traffic between slices."
      .root.Capabilities.KubeVersion.Version) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- if and .Values.network.dranet.enabled .Values.worker.hostNetwork -}}
{{- list . "networkDevices" "network.dranet.enabled is true and worker.hostNetwork is true. A pod on the node's own network gets no devices of its own, and Kubernetes refuses the claim: set worker.hostNetwork=false, or network.dranet.enabled=false." | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- if and .Values.networkPolicy.enabled .Values.worker.hostNetwork -}}
{{- list . "networkDevices" "networkPolicy.enabled is true and worker.hostNetwork is true. A NetworkPolicy does not hold for pods on the node's own network, and could not tell the workers apart from others: set one of them to false." | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- /* GKE's multi-networking gives a pod such interfaces too, by its annotation, and a node may have some. */ -}}
{{- $others := or .Values.worker.hostNetwork (hasKey (include "maxtext-multislice.withoutNulls" .Values.worker.annotations | fromYaml) "networking.gke.io/interfaces") -}}
{{- if and (not (or .Values.network.dranet.enabled $others)) (regexMatch "(^|,) *eth[12] *(,|$)" .Values.job.megascaleInterfaces) -}}
{{- list . "networkDevices" (printf "network.dranet.enabled is false and job.megascaleInterfaces is %s. eth1 and eth2 are the devices that DRANET adds: set job.megascaleInterfaces=auto, or network.dranet.enabled=true."
      .Values.job.megascaleInterfaces) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}

{{/* What a newer KubeRay brought is unknown to an older one, whose definitions drop or refuse it. */}}
{{- define "maxtext-multislice.rule.kuberayVersion" -}}
{{- $scope := . -}}
{{- $version := .Values.kuberay.version -}}
{{- $needed := dict "1.4.0" "The chart" -}}
{{- if eq .Values.auth.mode "token" -}}
{{- $_ := set $needed "1.5.1" "auth.mode=token" -}}
{{- end -}}
{{- if .Values.rayJob.preRunningDeadlineSeconds -}}
{{- $_ := set $needed "1.6.0" (printf "rayJob.preRunningDeadlineSeconds=%d" (int .Values.rayJob.preRunningDeadlineSeconds)) -}}
{{- end -}}
{{- if and (eq .Values.auth.mode "token") .Values.auth.secretName -}}
{{- $_ := set $needed "1.6.0" (get $needed "1.6.0" | empty | ternary "auth.secretName" (print (get $needed "1.6.0") " and auth.secretName")) -}}
{{- end -}}
{{- range $least, $what := $needed -}}
{{- if semverCompare (printf "<%s-0" $least) $version -}}
{{- list $scope "kuberayVersion" (printf "kuberay.version is %s. %s needs KubeRay %s or newer: upgrade the operator and set kuberay.version to what it is%s."
      $version $what $least (eq $least "1.4.0" | ternary "" ", or leave it out")) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "maxtext-multislice.rule.auth" -}}
{{- if and (eq .Values.auth.mode "token") (semverCompare "<2.52.0-0" .Values.rayVersion) -}}
{{- list . "auth" (printf "auth.mode is token and rayVersion is %s. Ray checks tokens since 2.52.0: set rayVersion to 2.52.0 or newer, or auth.mode=disabled."
      .Values.rayVersion) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- if and .Values.auth.secretName (ne .Values.auth.mode "token") -}}
{{- list . "auth" (printf "auth.secretName is %s and auth.mode is %s, so no token is asked for: set auth.mode=token, or leave auth.secretName empty."
      .Values.auth.secretName .Values.auth.mode) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}

{{/* The chart knows where GKE's own collectors are and not where another Prometheus is. */}}
{{- define "maxtext-multislice.rule.monitoring" -}}
{{- if and (eq .Values.monitoring.kind "prometheus-operator") .Values.networkPolicy.enabled (not (include "maxtext-multislice.policyRules" .Values.networkPolicy.ingress)) -}}
{{- list . "monitoring" "monitoring.kind is prometheus-operator, networkPolicy.enabled is true and networkPolicy.ingress is empty. The policy lets no Prometheus in: add a rule for the port metrics to networkPolicy.ingress, or set monitoring.kind=none." | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}

{{- define "maxtext-multislice.rule.operators" -}}
{{- $scope := . -}}
{{- range $name, $kind := .Values.operators.subjects -}}
{{- if and (eq (toString $kind) "ServiceAccount") (not (regexMatch "^([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?[a-z0-9]([-.a-z0-9]*[a-z0-9])?$" $name)) -}}
{{- list $scope "operators" (printf "operators.subjects has %q as a ServiceAccount. It is NAMESPACE/NAME, or NAME of the release's own namespace: correct it." $name) | include "maxtext-multislice.problem" -}}
{{- else if and $kind (not (trim $name)) -}}
{{- list $scope "operators" (printf "operators.subjects has a %s without a name: correct it." $kind) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* ValidateRayJobSpec of KubeRay's controllers/ray/utils/validation.go, 1.5.0 and 1.6.2; and whose field suspend is under a queue. */}}
{{- define "maxtext-multislice.rule.jobControl" -}}
{{- $scope := . -}}
{{- $job := .Values.rayJob -}}
{{- if not $job.ownCluster -}}
{{- $instead := "set rayJob.ownCluster=true, or leave it out" -}}
{{- if not (kindIs "invalid" $job.suspend) -}}
{{- list . "jobControl" (printf "rayJob.suspend is %t and rayJob.ownCluster is false. KubeRay suspends only a job that owns its cluster: set rayJob.ownCluster=true, or stop the run with job.enabled=false."
      $job.suspend) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- if not (kindIs "invalid" $job.ttlSecondsAfterFinished) -}}
{{- list . "jobControl" (printf "rayJob.ttlSecondsAfterFinished is %d and rayJob.ownCluster is false. A shared cluster outlives its jobs: %s." (int $job.ttlSecondsAfterFinished) $instead) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- if $job.backoffLimit -}}
{{- list . "jobControl" (printf "rayJob.backoffLimit is %d and rayJob.ownCluster is false. %s: %s. Within a run job.maxFailures counts retries." (int $job.backoffLimit)
      (semverCompare "<1.6.0-0" .Values.kuberay.version | ternary "For a retry KubeRay before 1.6 deletes the shared cluster" "KubeRay retries only a job that owns its cluster") $instead) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- if and $job.queue (not (kindIs "invalid" $job.suspend)) -}}
{{- list . "jobControl" (printf "rayJob.queue is %s and rayJob.suspend is %t. Kueue sets that field when it admits the run: leave rayJob.suspend out." $job.queue $job.suspend) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
