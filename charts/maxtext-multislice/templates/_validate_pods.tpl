{{/* Rules of _validate.tpl. What the pods may be given: labels, annotations, parameters of Ray, volumes, sidecars. */}}

{{/* Selectors of the chart, of KubeRay and of the TPU webhook go by labels that are not the values' to choose. */}}
{{- define "maxtext-multislice.rule.labels" -}}
{{- $scope := . -}}
{{- $places := dict "extraLabels" .Values.extraLabels "head.labels" .Values.head.labels "worker.labels" .Values.worker.labels
      "rayJob.labels" .Values.rayJob.labels "monitoring.labels" .Values.monitoring.labels "dashboard.labels" .Values.dashboard.labels
      "networkPolicy.operator.podLabels" .Values.networkPolicy.operator.podLabels
      "head.nodeSelector" .Values.head.nodeSelector "worker.nodeSelector" .Values.worker.nodeSelector -}}
{{- range $where, $labels := $places -}}
{{- $free := or (hasSuffix ".nodeSelector" $where) (hasSuffix ".podLabels" $where) -}}
{{- range $name, $value := include "maxtext-multislice.strings" $labels | fromYaml -}}
{{- if not (regexMatch "^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$" $name) -}}
{{- list $scope "labels" (printf "%s has %q. A label's name is at most 63 letters, digits, dashes, underscores and dots, behind an optional domain and a slash: rename it."
      $where $name) | include "maxtext-multislice.problem" -}}
{{- else if not (regexMatch "^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$" $value) -}}
{{- list $scope "labels" (printf "%s has %s=%q. A label's value is at most 63 letters, digits, dashes, underscores and dots, a letter or digit first and last: change it, or make it an annotation."
      $where $name $value) | include "maxtext-multislice.problem" -}}
{{- else if eq $name "kueue.x-k8s.io/queue-name" -}}
{{- list $scope "labels" (printf "%s has %s. It belongs on the RayJob or on the RayCluster, whichever is admitted: set rayJob.queue=%s instead." $where $name $value) | include "maxtext-multislice.problem" -}}
{{- else if and (eq $where "rayJob.labels") (hasPrefix "kueue.x-k8s.io/" $name) (not $scope.Values.rayJob.ownCluster) -}}
{{- list $scope "labels" (printf "rayJob.labels has %s and rayJob.ownCluster is false. Kueue then admits the cluster and does not look at the job: set it in extraLabels, or rayJob.ownCluster=true." $name) | include "maxtext-multislice.problem" -}}
{{- else if and (not $free) (regexMatch "^(app\\.kubernetes\\.io|helm\\.sh|ray\\.io)/" $name) -}}
{{- list $scope "labels" (printf "%s has %s. The chart, KubeRay and GKE's TPU webhook find their pods by it: remove it, or use a name of your own." $where $name) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "maxtext-multislice.rule.annotations" -}}
{{- $scope := . -}}
{{- range $where, $annotations := dict "head.annotations" .Values.head.annotations "worker.annotations" .Values.worker.annotations "storage.sidecarAnnotations" .Values.storage.sidecarAnnotations
      "serviceAccount.annotations" .Values.serviceAccount.annotations "dashboard.annotations" .Values.dashboard.annotations -}}
{{- range $name, $value := include "maxtext-multislice.strings" $annotations | fromYaml -}}
{{- if not (regexMatch "^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$" $name) -}}
{{- list $scope "annotations" (printf "%s has %q. An annotation's name is at most 63 letters, digits, dashes, underscores and dots, behind an optional domain and a slash: rename it."
      $where $name) | include "maxtext-multislice.problem" -}}
{{- else if or (eq $name "gke-gcsfuse/volumes") (eq $name "ray.io/overwrite-container-cmd") -}}
{{- list $scope "annotations" (printf "%s has %s. The pod's storage and its `ray start` go by it, and the chart or KubeRay sets it: remove it." $where $name) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* setMissingRayStartParams of KubeRay's controllers/ray/common/pod.go; the ports are those of the pods, the head's service and
     the NetworkPolicy. */}}
{{- define "maxtext-multislice.rule.rayStartParams" -}}
{{- $scope := . -}}
{{- $both := dict "address" "KubeRay sets it to the cluster's head" "block" "KubeRay sets it" "head" "KubeRay sets it" "labels" "KubeRay refuses it"
      "autoscaling-config" "KubeRay's autoscaler has its own" "node-ip-address" "Ray finds the pod's own"
      "dashboard-agent-listen-port" "KubeRay's probes ask at Ray's own port" -}}
{{- $head := dict "port" "the chart's port is 6379" "dashboard-host" "KubeRay sets it to all interfaces" "dashboard-port" "the chart's port is 8265" "ray-client-server-port" "the chart's port is 10001"
      "include-dashboard" "jobs are submitted through the dashboard" "redis-password" "the chart has no Redis" "redis-username" "the chart has no Redis" -}}
{{- $worker := dict "resources" "the chips follow from tpu.type and tpu.topology" -}}
{{- range $group, $owned := dict "head" (merge $head $both) "worker" (merge $worker $both) -}}
{{- range $name, $value := include "maxtext-multislice.strings" (get $scope.Values $group).rayStartParams | fromYaml -}}
{{- if not (regexMatch "^[a-z][-a-z0-9]*$" $name) -}}
{{- list $scope "rayStartParams" (printf "%s.rayStartParams has %q. A parameter's name stands there without dashes in front, spaces and its value, as in num-cpus: \"0\": rename it."
      $group $name) | include "maxtext-multislice.problem" -}}
{{- else if and (eq $name "metrics-export-port") (not (regexMatch "^[1-9][0-9]{0,4}$" $value)) -}}
{{- list $scope "rayStartParams" (printf "%s.rayStartParams has metrics-export-port=%q. It is the port that metrics are read from: set it to a number." $group $value) | include "maxtext-multislice.problem" -}}
{{- else if hasKey $owned $name -}}
{{- list $scope "rayStartParams" (printf "%s.rayStartParams has %s. It is not a choice (%s): remove it." $group $name (get $owned $name)) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A shared cluster's run ends with its head. A toleration is enough to get there. */}}
{{- define "maxtext-multislice.rule.headOnSpot" -}}
{{- $scope := . -}}
{{- $spot := list "cloud.google.com/gke-spot" "cloud.google.com/gke-preemptible" "cloud.google.com/gke-provisioning" -}}
{{- $rule := "The run ends with its head, and Spot VMs are taken back with 30 seconds' notice" -}}
{{- range $name, $value := include "maxtext-multislice.strings" .Values.head.nodeSelector | fromYaml -}}
{{- if and (has $name $spot) (has $value (list "true" "spot" "preemptible")) -}}
{{- list $scope "headOnSpot" (printf "head.nodeSelector has %s=%s. %s: remove it, or, where that is wanted, set guards.allow.headOnSpot=true." $name $value $rule) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- range .Values.head.tolerations -}}
{{- $key := get . "key" | default "" -}}
{{- if has $key $spot -}}
{{- list $scope "headOnSpot" (printf "head.tolerations has %s. %s: remove it, or, where that is wanted, set guards.allow.headOnSpot=true." $key $rule) | include "maxtext-multislice.problem" -}}
{{- else if not $key -}}
{{- list $scope "headOnSpot" (printf "head.tolerations has one without a key, which tolerates every taint, that of Spot VMs too. %s: give it a key, or, where that is wanted, set guards.allow.headOnSpot=true." $rule) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "maxtext-multislice.rule.volumes" -}}
{{- $scope := . -}}
{{- $own := list "storage" "dshm" "gke-gcsfuse-cache" "ray-logs" "shared-mem" -}}
{{- $paths := list "/dev/shm" (trimSuffix "/" .Values.storage.mountPath) -}}
{{- range $name, $mount := include "maxtext-multislice.withoutNulls" .Values.storage.dataMounts | fromYaml -}}
{{- $paths = trimSuffix "/" $mount.mountPath | append $paths -}}
{{- end -}}
{{- range $group := list "head" "worker" -}}
{{- $values := get $scope.Values $group -}}
{{- $volumes := include "maxtext-multislice.withoutNulls" $values.volumes | fromYaml -}}
{{- range $name, $source := $volumes -}}
{{- if or (has $name $own) (hasPrefix "data-" $name) (hasPrefix "gke-gcsfuse-" $name) -}}
{{- list $scope "volumes" (printf "%s.volumes has %s. That name is the chart's, KubeRay's or GKE's own: use another one." $group $name) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- if or (empty $source) (hasKey $source "name") -}}
{{- list $scope "volumes" (printf "%s.volumes.%s %s. It is what a pod's volume has beside its name, for example {emptyDir: {}}: change it, or remove it by null."
      $group $name (empty $source | ternary "is empty" "has a name")) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- range $path, $mount := include "maxtext-multislice.withoutNulls" $values.volumeMounts | fromYaml -}}
{{- if not (hasKey $volumes $mount.name) -}}
{{- list $scope "volumes" (printf "%s.volumeMounts has %s of the volume %s, which %s.volumes does not have: add it there, or remove the mount." $group $path $mount.name $group) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- if has (trimSuffix "/" $path) $paths -}}
{{- list $scope "volumes" (printf "%s.volumeMounts has %s, where the chart mounts something already: use another path." $group $path) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The webhook and Ray count the chips of a host by its containers. */}}
{{- define "maxtext-multislice.rule.sidecars" -}}
{{- $scope := . -}}
{{- range $group := list "head" "worker" -}}
{{- range $name, $container := include "maxtext-multislice.withoutNulls" (get $scope.Values $group).sidecars | fromYaml -}}
{{- if has $name (list "ray-head" "ray-worker" "autoscaler" "gke-gcsfuse-sidecar") -}}
{{- list $scope "sidecars" (printf "%s.sidecars has %s. That name is the chart's, KubeRay's or GKE's own: use another one." $group $name) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- if hasKey $container "name" -}}
{{- list $scope "sidecars" (printf "%s.sidecars.%s has a name. Its key is its name: remove the other one." $group $name) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- if not $container.image -}}
{{- list $scope "sidecars" (printf "%s.sidecars.%s has no image. A container runs one: set %s.sidecars.%s.image." $group $name $group $name) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- if contains "google.com/tpu" (toJson (get $container "resources")) -}}
{{- list $scope "sidecars" (printf "%s.sidecars.%s asks for google.com/tpu. A host's chips are Ray's container's alone: remove it." $group $name) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
