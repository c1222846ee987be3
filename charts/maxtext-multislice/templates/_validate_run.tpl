{{/* Rules of _validate.tpl. What is trained: the run, its data and its checkpoints. */}}

{{- define "maxtext-multislice.rule.runName" -}}
{{- $name := include "maxtext-multislice.runName" .root -}}
{{- if not (regexMatch "^[A-Za-z0-9]([-._A-Za-z0-9]{0,61}[A-Za-z0-9])?$" $name) -}}
{{- list . "runName" (printf "job.runName is %q. It names a folder and a label: at most 63 letters, digits, dashes, underscores and dots, a letter or digit first and last."
      $name) | include "maxtext-multislice.problem" -}}
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

{{/* A folder that no worker has would be told in a line of the log alone, with the slices already paid for. An emulated run
     loads no step, and `driver local` mounts the storage elsewhere. */}}
{{- define "maxtext-multislice.rule.compiledTrainsteps" -}}
{{- $given := .Values.job.compiledTrainsteps -}}
{{- if and $given (not .Values.tpu.emulated) -}}
{{- $folder := include "maxtext-multislice.compiledTrainsteps" .root -}}
{{- $mounts := list .Values.storage.mountPath -}}
{{- range $name, $mount := include "maxtext-multislice.withoutNulls" .Values.storage.dataMounts | fromYaml -}}
{{- $mounts = append $mounts $mount.mountPath -}}
{{- end -}}
{{- range $path, $mount := include "maxtext-multislice.withoutNulls" .Values.worker.volumeMounts | fromYaml -}}
{{- $mounts = append $mounts $path -}}
{{- end -}}
{{- $within := false -}}
{{- range $mounts -}}
{{- $within = or $within (hasPrefix (printf "%s/" (trimSuffix "/" .)) (printf "%s/" $folder)) -}}
{{- end -}}
{{- if or (contains "://" $given) (has ".." (splitList "/" $given)) (not $within) -}}
{{- list . "compiledTrainsteps" (printf "job.compiledTrainsteps is %s. It is a folder that the workers have mounted, without a scheme or a `..`: set it to a path below one of %s, or, without a leading `/`, below storage.mountPath."
      $given (join ", " $mounts)) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- if .Values.data.evalEverySteps -}}
{{- list . "compiledTrainsteps" (printf "job.compiledTrainsteps is %s and data.evalEverySteps is %d. MaxText cannot evaluate beside a step that it loaded, so none would be: set data.evalEverySteps=0, or job.compiledTrainsteps to nothing."
      $given (int .Values.data.evalEverySteps)) | include "maxtext-multislice.problem" -}}
{{- end -}}
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
compiled_trainstep_file: job.compiledTrainsteps
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
{{- else if and (not (kindIs "invalid" $value)) (regexMatch "\\s" (include "maxtext-multislice.text" $value)) -}}
{{- list $scope "libtpuFlags" (printf "job.libtpuFlags.%s is %q. libtpu takes what is behind a space for another flag: remove the spaces, and set each flag by itself."
      $flag (include "maxtext-multislice.text" $value)) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "maxtext-multislice.rule.tpuEnvironment" -}}
{{- $scope := . -}}
{{- range $where, $env := dict "job.env" .Values.job.env "head.env" .Values.head.env "worker.env" .Values.worker.env
      "rayJob.env" .Values.rayJob.env -}}
{{- range $name, $value := $env -}}
{{- if and (regexMatch "^(MEGASCALE|TPU)_|^LIBTPU_INIT_ARGS$" $name) (not (kindIs "invalid" $value)) -}}
{{- $instead := dict "LIBTPU_INIT_ARGS" "set job.libtpuFlags instead" "MEGASCALE_PORT" "set job.megascalePort instead" -}}
{{- list $scope "tpuEnvironment" (printf "%s sets %s. GKE and Ray Train set it for each start of the workers, and a fixed value makes libtpu wait for slices that are gone: %s."
      $where $name (get $instead $name | default "remove it")) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* MaxText's own default is 10000 steps. */}}
{{- define "maxtext-multislice.rule.checkpointPeriod" -}}
{{- $steps := int .Values.job.steps -}}
{{- $arguments := include "maxtext-multislice.withoutNulls" .Values.job.maxtext | fromYaml -}}
{{- $given := hasKey $arguments "checkpoint_period" | ternary (get $arguments "checkpoint_period") 10000 -}}
{{- $period := int $given -}}
{{- $spot := include "maxtext-multislice.spotIsUsed" . -}}
{{- $reason := .Values.elastic.enabled | ternary "elastic.enabled is true" $spot -}}
{{- $saves := get (.Values.job.maxtext | default dict) "enable_checkpointing" | toString -}}
{{- if and (ne (lower $saves) "false") (lt $period 1) -}}
{{- list . "maxtextArguments" (printf "job.maxtext.checkpoint_period is %v. It is a number of steps: set it to 1 or more." $given) | include "maxtext-multislice.problem" -}}
{{- else if or .Values.elastic.enabled $spot -}}
{{- if eq (lower $saves) "false" -}}
{{- list . "checkpointPeriod" (printf "%s and job.maxtext.enable_checkpointing is false. A preemption then costs the whole run: remove job.maxtext.enable_checkpointing."
      $reason) | include "maxtext-multislice.problem" -}}
{{- else if and (ge $period $steps) (gt $steps 1) -}}
{{- list . "checkpointPeriod" (printf "%s, job.steps is %d and job.maxtext.checkpoint_period is %d. A preemption costs up to one checkpoint period, here the whole run: set job.maxtext.checkpoint_period below job.steps."
      $reason $steps $period) | include "maxtext-multislice.problem" -}}
{{- end -}}
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
{{- if regexMatch "(?i)^\\s*ray([^-_.a-z0-9]|$)" . -}}
{{- list $scope "runtimeInstall" (printf "runtimeInstall.packages has %s. The workers run the image's own Ray, which must be the head's: set rayVersion or image.uri instead."
      .) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "maxtext-multislice.rule.jobEnvironment" -}}
{{- $scope := . -}}
{{- range $where, $env := dict "job.env" .Values.job.env "rayJob.env" .Values.rayJob.env -}}
{{- if hasKey (include "maxtext-multislice.withoutNulls" $env | fromYaml) "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S" -}}
{{- list $scope "jobEnvironment" (printf "%s sets RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S. It is job.workerGroupStartTimeoutSeconds, which run.yaml names as well: set that instead." $where) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}
