{{/* What the trainer ConfigMap holds: run.yaml, and the modules that the entry point imports. */}}

{{/* Named one by one, so that what lies beside them in the folder (caches, locks, the Dockerfile) is not shipped and the
     hash is the same on every machine. */}}
{{- define "maxtext-multislice.trainerFiles" -}}
- train.py
- check.py
- run.py
- arguments.py
- data_arguments.py
- emulation.py
- turn.py
- ranks.py
- places.py
- worker.py
- saved_trainstep.py
- trainstep_manifest.py
- data_iterator.py
- watchdog.py
- progress.py
- checkpoints.py
- metrics.py
{{- end -}}

{{/* One file of the trainer's folder; a missing one fails the rendering and not, later, the run. */}}
{{- define "maxtext-multislice.trainerFile" -}}
{{- $content := .root.Files.Get (printf "files/trainer/%s" .name) -}}
{{- if not $content -}}
{{- fail (printf "the chart is incomplete: files/trainer/%s is missing or empty. In a checkout files/trainer is a link to trainer/; a packaged chart holds the files." .name) -}}
{{- end -}}
{{- $content -}}
{{- end -}}

{{- define "maxtext-multislice.trainerData" -}}
run.yaml: |
  {{- include "maxtext-multislice.run" . | nindent 2 }}
{{- range include "maxtext-multislice.trainerFiles" . | fromYamlArray }}
{{ . }}: |
  {{- include "maxtext-multislice.trainerFile" (dict "root" $ "name" .) | nindent 2 }}
{{- end -}}
{{- end -}}

{{/* run.yaml: the only description of a run, read by the trainer and by the driver. All keys are always there. */}}
{{- define "maxtext-multislice.run" -}}
{{- $v := .Values -}}
{{- $tpu := include "maxtext-multislice.tpu" . | fromYaml -}}
{{- $output := include "maxtext-multislice.below" (list $v.storage.mountPath $v.job.outputFolder) -}}
{{- $install := dict "packages" list "options" list -}}
{{- if not $v.image.uri -}}
{{- $packages := default (list (printf "maxtext[tpu]==%s" $v.maxtextVersion)) $v.runtimeInstall.packages -}}
{{- $install = dict "packages" $packages "options" (default list $v.runtimeInstall.options) -}}
{{- end -}}
{{- $run := dict
  "schemaVersion" 1
  "name" (include "maxtext-multislice.runName" .)
  "attempt" $v.job.attempt
  "steps" $v.job.steps
  "outputDirectory" $output
  "compileCacheDirectory" (ternary (printf "%s/.compile-cache" $output) "" $v.job.compileCache)
  "compiledTrainstepsDirectory" (include "maxtext-multislice.compiledTrainsteps" .)
  "versions" (dict "chart" .Chart.Version "ray" $v.rayVersion "maxtext" $v.maxtextVersion)
  "tpu" (dict "type" $v.tpu.type "topology" $v.tpu.topology "rayAcceleratorType" $tpu.rayAcceleratorType
          "acceleratorType" $tpu.acceleratorType "hostsPerSlice" $tpu.hosts "chipsPerHost" $tpu.chipsPerHost
          "devicesPerChip" $tpu.devicesPerChip
          "hbmGiBPerChip" $tpu.hbmGiBPerChip "peakTflopsPerChip" $tpu.peakTflopsPerChip "emulated" $v.tpu.emulated)
  "slices" (dict "min" (include "maxtext-multislice.minSlices" . | int) "max" (int $v.tpu.slices))
  "elastic" (dict "enabled" $v.elastic.enabled "resizeIntervalSeconds" $v.elastic.resizeIntervalSeconds
              "globalBatch" $v.elastic.globalBatch)
  "failures" (dict "maxFailures" $v.job.maxFailures "maxPreemptions" $v.job.maxPreemptions)
  "timeouts" (dict "workerGroupStartSeconds" $v.job.workerGroupStartTimeoutSeconds
               "stallSeconds" $v.job.stallTimeoutSeconds "previousJobSeconds" $v.job.previousJobTimeoutSeconds)
  "megascale" (dict "port" $v.job.megascalePort "interfacePrefixes" (include "maxtext-multislice.megascaleInterfaces" .))
  "maxtext" (include "maxtext-multislice.withoutNulls" $v.job.maxtext | fromYaml)
  "libtpuFlags" (include "maxtext-multislice.withoutNulls" $v.job.libtpuFlags | fromYaml)
  "env" (include "maxtext-multislice.strings" $v.job.env | fromYaml)
  "data" (include "maxtext-multislice.data" . | fromYaml)
  "runtimeInstall" $install
  "guardsAllowed" (include "maxtext-multislice.guardsAllowed" . | fromYamlArray)
-}}
{{- /* Go writes 3e-05, which YAML 1.1 (PyYAML) reads as text: it wants a point. */ -}}
{{- regexReplaceAll "(?m)((?:: |- )-?[0-9]+)(e[-+][0-9]+)$" (toYaml $run) "${1}.0${2}" -}}
{{- end -}}

{{/* The folder as the workers see it; empty without one. */}}
{{- define "maxtext-multislice.compiledTrainsteps" -}}
{{- with .Values.job.compiledTrainsteps -}}
{{- include "maxtext-multislice.below" (list $.Values.storage.mountPath .) | trimSuffix "/" -}}
{{- end -}}
{{- end -}}

{{/* Without DRANET a pod has no devices of its own to name, and libtpu takes the interface that there is. */}}
{{- define "maxtext-multislice.megascaleInterfaces" -}}
{{- if ne .Values.job.megascaleInterfaces "auto" -}}
{{- .Values.job.megascaleInterfaces -}}
{{- else if .Values.network.dranet.enabled -}}
eth1,eth2,lo
{{- end -}}
{{- end -}}

{{/* values.data with its file patterns made absolute. As YAML. */}}
{{- define "maxtext-multislice.data" -}}
{{- $data := deepCopy .Values.data -}}
{{- $mount := .Values.storage.mountPath -}}
{{- range list $data $data.hf -}}
{{- $_ := set . "trainFiles" (include "maxtext-multislice.patterns" (list $mount .trainFiles)) -}}
{{- $_ := set . "evalFiles" (include "maxtext-multislice.patterns" (list $mount .evalFiles)) -}}
{{- end -}}
{{- if $data.tokenizer.path -}}
{{- $_ := set $data.tokenizer "path" (include "maxtext-multislice.below" (list $mount $data.tokenizer.path)) -}}
{{- end -}}
{{- toYaml $data -}}
{{- end -}}

{{/* (list FOLDER PATTERNS): each of the patterns, which `;` separates, below the folder. */}}
{{- define "maxtext-multislice.patterns" -}}
{{- $folder := index . 0 -}}
{{- $absolute := list -}}
{{- range splitList ";" (index . 1) -}}
{{- if trim . -}}
{{- $absolute = append $absolute (include "maxtext-multislice.below" (list $folder (trim .))) -}}
{{- end -}}
{{- end -}}
{{- join ";" $absolute -}}
{{- end -}}

{{/* (list FOLDER PATH): the path below the folder, unless it is absolute or names a scheme. An empty path is the folder. */}}
{{- define "maxtext-multislice.below" -}}
{{- $folder := index . 0 | trimSuffix "/" -}}
{{- $path := index . 1 -}}
{{- if not $path -}}
{{- $folder -}}
{{- else if or (hasPrefix "/" $path) (contains "://" $path) -}}
{{- $path -}}
{{- else -}}
{{- printf "%s/%s" $folder (trimSuffix "/" $path) -}}
{{- end -}}
{{- end -}}

{{/* A map whose values are all text, without its null entries. As YAML. */}}
{{- define "maxtext-multislice.strings" -}}
{{- $texts := dict -}}
{{- range $key, $value := . -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $_ := set $texts $key (include "maxtext-multislice.text" $value) -}}
{{- end -}}
{{- end -}}
{{- include "maxtext-multislice.asYaml" $texts -}}
{{- end -}}
