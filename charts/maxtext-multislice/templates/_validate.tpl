{{/* Values that cannot work together are refused here, before anything reaches the cluster: every problem of one
     rendering in one message, each with what was found, the rule and the fix.

     To add a rule: a template below that calls maxtext-multislice.problem, its name in maxtext-multislice.rules, and,
     where a values file may break it on purpose, its name in guards.allow of values.schema.json. */}}

{{- define "maxtext-multislice.rules" -}}
- tpuShape
- slices
- elastic
- names
- runName
- storage
- outputFolder
- networkDevices
- maxtextArguments
- libtpuFlags
- tpuEnvironment
- nodeSelector
- checkpointPeriod
- spotGracePeriod
- data
- runtimeInstall
- suspend
- jobEnvironment
{{- end -}}

{{/* Every manifest calls this first. */}}
{{- define "maxtext-multislice.validate" -}}
{{- $found := include "maxtext-multislice.problems" . | fromYamlArray -}}
{{- $texts := list -}}
{{- range $found -}}
{{- if not (get $.Values.guards.allow .rule) -}}
{{- $texts = append $texts (printf "  %d. %s [%s]" (len $texts | add1) .text .rule) -}}
{{- end -}}
{{- end -}}
{{- if $texts -}}
{{- fail (printf "\n\n%s in the values of %s:\n\n%s\n" (len $texts | plural "One problem" (printf "%d problems" (len $texts)))
      .Release.Name (join "\n" $texts)) -}}
{{- end -}}
{{- end -}}

{{/* The names of the rules that guards.allow lets these values break, whether they break them or not. As YAML. */}}
{{- define "maxtext-multislice.guardsAllowed" -}}
{{- $names := list -}}
{{- range $name, $allowed := .Values.guards.allow -}}
{{- if $allowed -}}
{{- $names = append $names $name -}}
{{- end -}}
{{- end -}}
{{- toYaml $names -}}
{{- end -}}

{{/* All problems, as a YAML list of {rule, text}. */}}
{{- define "maxtext-multislice.problems" -}}
{{- $problems := dict "list" list -}}
{{- range include "maxtext-multislice.rules" . | fromYamlArray -}}
{{- $_ := include (printf "maxtext-multislice.rule.%s" .) (dict "root" $ "Values" $.Values "problems" $problems) -}}
{{- end -}}
{{- toYaml $problems.list -}}
{{- end -}}

{{/* (list SCOPE RULE TEXT) */}}
{{- define "maxtext-multislice.problem" -}}
{{- $problems := (index . 0).problems -}}
{{- $_ := set $problems "list" (append $problems.list (dict "rule" (index . 1) "text" (index . 2))) -}}
{{- end -}}

{{- define "maxtext-multislice.rule.tpuShape" -}}
{{- $tpu := .Values.tpu -}}
{{- $row := get (.root.Files.Get "files/tpu-types.yaml" | fromYaml) $tpu.type -}}
{{- $ways := get $row.topologies $tpu.topology -}}
{{- if not $ways -}}
{{- list . "tpuShape" (printf "tpu.topology is %s, which %s does not have. Set tpu.topology to one of %s, or another tpu.type."
      $tpu.topology $tpu.type (include "maxtext-multislice.topologies" $row)) | include "maxtext-multislice.problem" -}}
{{- else if $tpu.chipsPerHost -}}
{{- if not (has (int $tpu.chipsPerHost | toString) (toStrings $ways)) -}}
{{- list . "tpuShape" (printf "tpu.chipsPerHost is %d, and %s %s has hosts of %s chips. Set tpu.chipsPerHost to that, or leave it out."
      (int $tpu.chipsPerHost) $tpu.type $tpu.topology (join " or " $ways)) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A type's topologies, the smallest first. */}}
{{- define "maxtext-multislice.topologies" -}}
{{- $sorted := list -}}
{{- range $topology, $ways := .topologies -}}
{{- $chips := 1 -}}
{{- range splitList "x" $topology -}}
{{- $chips = mul $chips (int .) -}}
{{- end -}}
{{- $sorted = append $sorted (printf "%06d %s" $chips $topology) -}}
{{- end -}}
{{- regexReplaceAll "[0-9]{6} " (sortAlpha $sorted | join ", ") "" -}}
{{- end -}}

{{- define "maxtext-multislice.rule.slices" -}}
{{- $slices := int .Values.tpu.slices -}}
{{- if lt $slices 1 -}}
{{- list . "slices" (printf "tpu.slices is %d. A run has at least one slice: set tpu.slices to 1 or more." $slices) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}

{{- define "maxtext-multislice.rule.elastic" -}}
{{- if .Values.elastic.enabled -}}
{{- $min := int .Values.elastic.minSlices -}}
{{- $max := int .Values.tpu.slices -}}
{{- if lt $min 1 -}}
{{- list . "elastic" (printf "elastic.minSlices is %d. Set it to 1 or more." $min) | include "maxtext-multislice.problem" -}}
{{- else if gt $min $max -}}
{{- list . "elastic" (printf "elastic.minSlices is %d and tpu.slices is %d. tpu.slices is the most that an elastic run has: lower elastic.minSlices or raise tpu.slices."
      $min $max) | include "maxtext-multislice.problem" -}}
{{- else if eq .Values.elastic.globalBatch "keep" -}}
{{- $odd := list -}}
{{- range $count := untilStep $min (int (add1 $max)) 1 -}}
{{- if mod $max $count -}}
{{- $odd = append $odd (toString $count) -}}
{{- end -}}
{{- end -}}
{{- if $odd -}}
{{- list . "elastic" (printf "elastic.minSlices is %d and tpu.slices is %d, so the run may have %s slices, which do not divide %d. elastic.globalBatch=keep accumulates gradients tpu.slices / n times on n slices: raise elastic.minSlices to %d, change tpu.slices, or set elastic.globalBatch=scale."
      $min $max (join " or " $odd) $max (last $odd | int | add1)) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- if semverCompare "<2.56.0-0" .Values.rayVersion -}}
{{- list . "elasticRayVersion" (printf "elastic.enabled is true and rayVersion is %s. Before 2.56.0 a lost slice ends the run: set rayVersion to 2.56.0 or newer, or elastic.enabled=false."
      .Values.rayVersion) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}

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

{{- define "maxtext-multislice.rule.runName" -}}
{{- $name := include "maxtext-multislice.runName" .root -}}
{{- if not (regexMatch "^[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?$" $name) -}}
{{- list . "runName" (printf "job.runName is %q. It names a folder and a label: at most 63 letters, digits, dashes, underscores and dots, a letter or digit first and last."
      $name) | include "maxtext-multislice.problem" -}}
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
{{- else if and $installing (not $storage.bucket) -}}
{{- list . "storage" "storage.bucket is empty. A run writes its checkpoints to a Cloud Storage bucket: add --set storage.bucket=NAME." | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- else if and (eq $storage.kind "pvc") (not $storage.claimName) -}}
{{- list . "storage" "storage.kind is pvc and storage.claimName is empty. Set storage.claimName to an existing claim that can be mounted ReadWriteMany." | include "maxtext-multislice.problem" -}}
{{- else if and (eq $storage.kind "folder") (not (hasPrefix "/" $storage.folder)) -}}
{{- list . "storage" (printf "storage.kind is folder and storage.folder is %q. Set storage.folder to an absolute path on the nodes." $storage.folder) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}

{{/* Another place than the mount would be the pod's own disk, and the checkpoints would go with the pod. */}}
{{- define "maxtext-multislice.rule.outputFolder" -}}
{{- $folder := .Values.job.outputFolder -}}
{{- if or (hasPrefix "/" $folder) (contains "://" $folder) (has ".." (splitList "/" $folder)) -}}
{{- list . "outputFolder" (printf "job.outputFolder is %s. It is a folder below storage.mountPath, without a leading `/`, a scheme or a `..`: set job.outputFolder to such a path, for example team-a/runs."
      $folder) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}

{{/* Not kubeVersion in Chart.yaml, because `helm template` has the version that Helm was built with and no cluster's. */}}
{{- define "maxtext-multislice.rule.networkDevices" -}}
{{- $versions := .root.Capabilities.APIVersions -}}
{{- if and .Values.network.dranet.enabled ($versions.Has "ray.io/v1") (not ($versions.Has "resource.k8s.io/v1")) -}}
{{- list . "networkDevices" (printf "network.dranet.enabled is true and the cluster (Kubernetes %s) has no resource.k8s.io/v1. GKE DRANET needs 1.34.1-gke.1829001, on Autopilot 1.35.2-gke.1842000: upgrade the cluster, or set network.dranet.enabled=false, at the price of slow traffic between slices."
      .root.Capabilities.KubeVersion.Version) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- if and (not .Values.network.dranet.enabled) (regexMatch "(^|,) *eth[12] *(,|$)" .Values.job.megascaleInterfaces) -}}
{{- list . "networkDevices" (printf "network.dranet.enabled is false and job.megascaleInterfaces is %s. eth1 and eth2 are the devices that DRANET adds: set job.megascaleInterfaces=auto, or network.dranet.enabled=true."
      .Values.job.megascaleInterfaces) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}

{{/* MaxText arguments that the trainer computes, and the value to set in their place: COMPUTED of trainer/arguments.py and
     OWNED of trainer/data_arguments.py. */}}
{{- define "maxtext-multislice.computedArguments" -}}
run_name: job.runName
base_output_directory: storage.mountPath and job.outputFolder
steps: job.steps
num_slices: tpu.slices
hardware: tpu.type and tpu.emulated
jax_cache_dir: job.compileCache
skip_jax_distributed_system: ""
compile_topology: tpu.type and tpu.topology
compile_topology_num_slices: tpu.slices
dataset_type: data.kind
data_shuffle_seed: data.shuffleSeed
num_epoch: data.epochs
packing: data.packing
expansion_factor_real_data: ""
eval_interval: data.evalEverySteps
eval_steps: data.evalSteps
grain_train_files: data.trainFiles
grain_eval_files: data.evalFiles
grain_train_mixture_config_path: data.trainFiles
grain_file_type: data.fileType
grain_use_elastic_iterator: ""
generate_padding_batch_train: ""
generate_padding_batch_eval: ""
tokenizer_type: data.tokenizer.type
tokenizer_path: data.tokenizer.path
tokenize_train_data: data.tokenized
tokenize_eval_data: data.tokenized
hf_path: data.hf.path
hf_name: data.hf.name
hf_train_files: data.hf.trainFiles
hf_eval_files: data.hf.evalFiles
hf_eval_split: data.hf.evalSplit
{{- end -}}

{{- define "maxtext-multislice.rule.maxtextArguments" -}}
{{- $scope := . -}}
{{- $computed := include "maxtext-multislice.computedArguments" . | fromYaml -}}
{{- range $key, $value := .Values.job.maxtext -}}
{{- if and (hasKey $computed $key) (not (kindIs "invalid" $value)) -}}
{{- $instead := get $computed $key -}}
{{- list $scope "maxtextArguments" (printf "job.maxtext.%s is set. The trainer computes it%s: remove it from job.maxtext." $key
      (empty $instead | ternary "" (printf " from %s" $instead))) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.elastic.enabled (eq .Values.elastic.globalBatch "keep") (hasKey (.Values.job.maxtext | default dict) "gradient_accumulation_steps") -}}
{{- list . "maxtextArguments" "job.maxtext.gradient_accumulation_steps is set. In an elastic run that keeps its global batch the trainer computes it from the number of slices: remove it, or set elastic.globalBatch=scale." | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}

{{- define "maxtext-multislice.rule.libtpuFlags" -}}
{{- $scope := . -}}
{{- range $flag, $value := .Values.job.libtpuFlags -}}
{{- if not (regexMatch "^[a-z][a-z0-9_]*$" $flag) -}}
{{- list $scope "libtpuFlags" (printf "job.libtpuFlags has %q. A flag's name stands there without dashes, spaces and its value: set job.libtpuFlags.%s."
      $flag (index (trimAll "-" $flag | splitList "=") 0)) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "maxtext-multislice.rule.tpuEnvironment" -}}
{{- $scope := . -}}
{{- range $where, $env := dict "job.env" .Values.job.env "head.env" .Values.head.env "worker.env" .Values.worker.env -}}
{{- range $name, $value := $env -}}
{{- if and (regexMatch "^(MEGASCALE|TPU)_|^LIBTPU_INIT_ARGS$" $name) (not (kindIs "invalid" $value)) -}}
{{- $instead := dict "LIBTPU_INIT_ARGS" "set job.libtpuFlags instead" "MEGASCALE_PORT" "set job.megascalePort instead" -}}
{{- list $scope "tpuEnvironment" (printf "%s sets %s. GKE and Ray Train set it for each start of the workers, and a fixed value makes libtpu wait for slices that are gone: %s."
      $where $name (get $instead $name | default "remove it")) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "maxtext-multislice.rule.nodeSelector" -}}
{{- $scope := . -}}
{{- $computed := dict "cloud.google.com/gke-tpu-accelerator" "tpu.type" "cloud.google.com/gke-tpu-topology" "tpu.topology"
      "cloud.google.com/gke-spot" "tpu.capacity" -}}
{{- range $label, $instead := $computed -}}
{{- if not (kindIs "invalid" (get ($scope.Values.worker.nodeSelector | default dict) $label | default nil)) -}}
{{- list $scope "nodeSelector" (printf "worker.nodeSelector sets %s. It follows from %s: set that instead." $label $instead) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* MaxText's own default is 10000 steps. */}}
{{- define "maxtext-multislice.rule.checkpointPeriod" -}}
{{- $steps := int .Values.job.steps -}}
{{- $period := get (.Values.job.maxtext | default dict) "checkpoint_period" | default 10000 | int -}}
{{- $reason := .Values.elastic.enabled | ternary "elastic.enabled is true" "tpu.capacity is spot" -}}
{{- $saves := get (.Values.job.maxtext | default dict) "enable_checkpointing" | toString -}}
{{- if or .Values.elastic.enabled (eq .Values.tpu.capacity "spot") -}}
{{- if eq (lower $saves) "false" -}}
{{- list . "checkpointPeriod" (printf "%s and job.maxtext.enable_checkpointing is false. A preemption then costs the whole run: remove job.maxtext.enable_checkpointing."
      $reason) | include "maxtext-multislice.problem" -}}
{{- else if and (ge $period $steps) (gt $steps 1) -}}
{{- list . "checkpointPeriod" (printf "%s, job.steps is %d and job.maxtext.checkpoint_period is %d. A preemption costs up to one checkpoint period, here the whole run: set job.maxtext.checkpoint_period below job.steps."
      $reason $steps $period) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Of a Spot VM's 30 seconds the kubelet gives the first 15 to pods like these, whatever they ask for; a node pool can be
     made with more (https://docs.cloud.google.com/kubernetes-engine/docs/concepts/spot-vms). */}}
{{- define "maxtext-multislice.rule.spotGracePeriod" -}}
{{- $seconds := int .Values.worker.terminationGracePeriodSeconds -}}
{{- if and (eq .Values.tpu.capacity "spot") (gt $seconds 15) -}}
{{- list . "spotGracePeriod" (printf "tpu.capacity is spot and worker.terminationGracePeriodSeconds is %d. Of a Spot VM's notice GKE gives pods the first 15 seconds: set worker.terminationGracePeriodSeconds to 15 or less, or, where the node pools are made with a longer shutdown, guards.allow.spotGracePeriod=true."
      $seconds) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}

{{/* What trainer/data_arguments.py would refuse once the run has started. */}}
{{- define "maxtext-multislice.rule.data" -}}
{{- $data := .Values.data -}}
{{- $found := list -}}
{{- if ne $data.kind "synthetic" -}}
{{- if not $data.tokenizer.path -}}
{{- $found = printf "data.kind is %s and data.tokenizer.path is empty. Real text needs a tokenizer: set data.tokenizer.path (`driver data prepare` makes one)." $data.kind | append $found -}}
{{- end -}}
{{- end -}}
{{- if and $data.evalEverySteps (not $data.evalSteps) -}}
{{- $found = printf "data.evalEverySteps is %d and data.evalSteps is 0. An evaluation reads a fixed number of batches: set data.evalSteps to 1 or more." (int $data.evalEverySteps) | append $found -}}
{{- end -}}
{{- if eq $data.kind "grain" -}}
{{- if not $data.trainFiles -}}
{{- $found = append $found "data.kind is grain and data.trainFiles is empty. Set data.trainFiles to a file pattern below storage.mountPath." -}}
{{- end -}}
{{- if and $data.evalEverySteps (not $data.evalFiles) -}}
{{- $found = printf "data.evalEverySteps is %d and data.evalFiles is empty. Set data.evalFiles, or data.evalEverySteps=0." (int $data.evalEverySteps) | append $found -}}
{{- end -}}
{{- else if eq $data.kind "hf" -}}
{{- if not $data.hf.path -}}
{{- $found = append $found "data.kind is hf and data.hf.path is empty. Set data.hf.path to a data set on the Hugging Face hub." -}}
{{- end -}}
{{- if and $data.evalEverySteps (not $data.hf.evalSplit) -}}
{{- $found = printf "data.evalEverySteps is %d and data.hf.evalSplit is empty. Set data.hf.evalSplit (train, where data.hf.evalFiles names files of one's own), or data.evalEverySteps=0." (int $data.evalEverySteps) | append $found -}}
{{- end -}}
{{- if not (has $data.tokenizer.type (list "" "huggingface")) -}}
{{- $found = printf "data.kind is hf and data.tokenizer.type is %s. Its pipeline reads Hugging Face tokenizers only: set data.tokenizer.type=huggingface." $data.tokenizer.type | append $found -}}
{{- end -}}
{{- end -}}
{{- if and .Values.elastic.enabled (ne $data.kind "synthetic") -}}
{{- $lost := "Then the place in the data is lost when the number of slices changes" -}}
{{- if eq $data.kind "hf" -}}
{{- $found = printf "elastic.enabled is true and data.kind is hf. %s: set data.kind=grain." $lost | append $found -}}
{{- else -}}
{{- if ne $data.fileType "arrayrecord" -}}
{{- $found = printf "elastic.enabled is true and data.fileType is %s. %s: set data.fileType=arrayrecord." $data.fileType $lost | append $found -}}
{{- end -}}
{{- if $data.packing -}}
{{- $found = printf "elastic.enabled is true and data.packing is true. %s: set data.packing=false." $lost | append $found -}}
{{- end -}}
{{- if contains ";" $data.trainFiles -}}
{{- $found = printf "elastic.enabled is true and data.trainFiles is a mixture (it has a `;`). %s: name one pattern." $lost | append $found -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $scope := . -}}
{{- range $found -}}
{{- list $scope "data" . | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}

{{- define "maxtext-multislice.rule.runtimeInstall" -}}
{{- $scope := . -}}
{{- range .Values.runtimeInstall.packages -}}
{{- if regexMatch "^ray([^-_.A-Za-z0-9]|$)" . -}}
{{- list $scope "runtimeInstall" (printf "runtimeInstall.packages has %s. The workers run the image's own Ray, which must be the head's: set rayVersion or image.uri instead."
      .) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "maxtext-multislice.rule.suspend" -}}
{{- if and (not .Values.rayJob.ownCluster) (not (kindIs "invalid" .Values.rayJob.suspend)) -}}
{{- list . "suspend" (printf "rayJob.suspend is %t and rayJob.ownCluster is false. KubeRay suspends only a job that owns its cluster: set rayJob.ownCluster=true, or stop the run with job.enabled=false."
      .Values.rayJob.suspend) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}

{{- define "maxtext-multislice.rule.jobEnvironment" -}}
{{- if hasKey (.Values.rayJob.env | default dict) "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S" -}}
{{- list . "jobEnvironment" "rayJob.env sets RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S. It is job.workerGroupStartTimeoutSeconds, which run.yaml names as well: set that instead." | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
