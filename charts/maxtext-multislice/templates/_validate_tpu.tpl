{{/* Rules of _validate.tpl. What the slices are: type, topology, number, capacity, and parallelism over them. */}}

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

{{/* How these values come to use Spot VMs, for a message; empty if they do not. */}}
{{- define "maxtext-multislice.spotIsUsed" -}}
{{- if has "spot" (include "maxtext-multislice.capacities" . | fromYamlArray) -}}
{{- $ranked := and .Values.computeClass.enabled (get (.Values.computeClass.priorities | default dict) "spot") -}}
{{- empty $ranked | ternary "tpu.capacity is spot" "computeClass.priorities has spot" -}}
{{- end -}}
{{- end -}}

{{- define "maxtext-multislice.rule.capacity" -}}
{{- $class := .Values.computeClass -}}
{{- $ranked := include "maxtext-multislice.withoutNulls" $class.priorities | fromYaml -}}
{{- $reserved := has "reservation" (include "maxtext-multislice.capacities" . | fromYamlArray) -}}
{{- $made := and $class.enabled $class.create -}}
{{- $idle := list -}}
{{- if $class.enabled -}}
{{- if and $class.zones (not $made) -}}
{{- $idle = append $idle "computeClass.zones is set and computeClass.create is false" -}}
{{- end -}}
{{- if and $class.reservationProject (not (and $made $reserved)) -}}
{{- $idle = append $idle "computeClass.reservationProject is set and no node of a class that the chart makes comes from a reservation" -}}
{{- end -}}
{{- if and $class.maxRunDurationSeconds (not (and $made (has "flex-start" (include "maxtext-multislice.capacities" . | fromYamlArray)))) -}}
{{- $idle = append $idle "computeClass.maxRunDurationSeconds is set and no node of a class that the chart makes is flex-start" -}}
{{- end -}}
{{- if and .Values.tpu.reservation $reserved (not $made) -}}
{{- $idle = append $idle "tpu.reservation is set and computeClass.create is false" -}}
{{- end -}}
{{- end -}}
{{- $scope := . -}}
{{- range $idle -}}
{{- list $scope "capacity" (printf "%s. A ComputeClass that exists has its own, and other capacities have none, so the value is not used: remove it, or change computeClass.create or the capacity." .) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- if and $reserved (not .Values.tpu.reservation) (or $made (not $class.enabled)) -}}
{{- list . "capacity" "the slices come from a reservation and tpu.reservation is empty. Set tpu.reservation to its name, or tpu.capacity (computeClass.priorities) to another capacity." | include "maxtext-multislice.problem" -}}
{{- else if and .Values.tpu.reservation (not $reserved) -}}
{{- list . "capacity" (printf "tpu.reservation is %s and tpu.capacity is %s, so the reservation is not used: set tpu.capacity=reservation, or leave tpu.reservation empty."
      .Values.tpu.reservation .Values.tpu.capacity) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- if and $ranked (not (and $class.enabled $class.create)) -}}
{{- list . "capacity" (printf "computeClass.priorities has %s, computeClass.enabled is %t and computeClass.create is %t. Only a ComputeClass that the chart makes has priorities: set both to true, or remove computeClass.priorities."
      (keys $ranked | sortAlpha | join " and ") $class.enabled $class.create) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- if and $class.enabled (not $class.create) (not $class.name) -}}
{{- list . "capacity" "computeClass.create is false and computeClass.name is empty. Set computeClass.name to the ComputeClass that exists." | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}

{{/* As MaxText 0.2.5 fills the axes of its mesh (max_utils.fill_unspecified_mesh_axes): one axis may be -1 and takes what the
     others leave, and by default it is the one below. Where the mesh is made otherwise, MaxText itself must tell. With one
     slice it does not look at the DCN axes, and the emulation has axes of its own (trainer/emulation.py). */}}
{{- define "maxtext-multislice.rule.parallelism" -}}
{{- $scope := . -}}
{{- $arguments := include "maxtext-multislice.withoutNulls" .Values.job.maxtext | fromYaml -}}
{{- $otherwise := .Values.tpu.emulated -}}
{{- range list "mesh_axes" "custom_mesh_and_rule" "ici_parallelism" "dcn_parallelism" "subslice_shape" -}}
{{- $otherwise = or $otherwise (hasKey $arguments .) -}}
{{- end -}}
{{- $row := get (.root.Files.Get "files/tpu-types.yaml" | fromYaml) .Values.tpu.type -}}
{{- $max := int .Values.tpu.slices -}}
{{- $min := include "maxtext-multislice.minSlices" . | int -}}
{{- if not (or $otherwise (not (hasKey $row.topologies .Values.tpu.topology)) (lt $max 1) (lt $min 1)) -}}
{{- $devices := int $row.devicesPerChip -}}
{{- range splitList "x" .Values.tpu.topology -}}
{{- $devices = mul $devices (int .) -}}
{{- end -}}
{{- $text := list $arguments "ici" $devices "fsdp" | include "maxtext-multislice.misfit" -}}
{{- if $text -}}
{{- list $scope "parallelism" (printf "%s, and a slice of %s %s has %d devices. The ici_* axes multiply to the devices of a slice: change job.maxtext, or tpu.topology."
      $text .Values.tpu.type .Values.tpu.topology $devices) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- $misfits := list -}}
{{- $text = "" -}}
{{- range $count := untilStep (max 2 $min | int) (int (add1 $max)) 1 -}}
{{- $misfit := list $arguments "dcn" $count "data" | include "maxtext-multislice.misfit" -}}
{{- if $misfit -}}
{{- $text = $misfit -}}
{{- $misfits = append $misfits (toString $count) -}}
{{- end -}}
{{- end -}}
{{- if $misfits -}}
{{- list $scope "parallelism" (printf "%s, and the run may have %s slices. The dcn_* axes multiply to the number of slices, under elastic at every number: leave one of them at -1 (dcn_data_parallelism is by default), change job.maxtext, tpu.slices or elastic.minSlices."
      $text (join " or " $misfits)) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* (list ARGUMENTS "ici"|"dcn" NUMBER DEFAULT_AXIS): what does not multiply to the number, or nothing. */}}
{{- define "maxtext-multislice.misfit" -}}
{{- $arguments := index . 0 -}}
{{- $kind := index . 1 -}}
{{- $number := index . 2 | int -}}
{{- $product := 1 -}}
{{- $open := list -}}
{{- $named := list -}}
{{- $default := index . 3 -}}
{{- range list "diloco" "data" "pipeline" "fsdp" "fsdp_transpose" "context" "context_usp_ulysses" "context_autoregressive" "tensor" "tensor_sequence" "expert" "autoregressive" -}}
{{- $key := printf "%s_%s_parallelism" $kind . -}}
{{- $size := eq . $default | ternary -1 1 -}}
{{- if hasKey $arguments $key -}}
{{- $size = get $arguments $key | int -}}
{{- $named = printf "%s=%d" $key $size | append $named -}}
{{- end -}}
{{- if eq $size -1 -}}
{{- $open = append $open $key -}}
{{- else -}}
{{- $product = mul $product $size -}}
{{- end -}}
{{- end -}}
{{- $what := printf "job.maxtext has %s" (join ", " $named | default "no axes") -}}
{{- if gt (len $open) 1 -}}
{{- printf "%s, and %s are -1 (one of them by default), where only one may be" $what (join " and " $open) -}}
{{- else if lt $product 1 -}}
{{- $what -}}
{{- else if and $open (ne 0 (mod $number $product | int)) -}}
{{- $what -}}
{{- else if and (not $open) (ne $number (int $product)) -}}
{{- $what -}}
{{- end -}}
{{- end -}}

{{- define "maxtext-multislice.rule.nodeSelector" -}}
{{- $scope := . -}}
{{- $computed := dict "cloud.google.com/gke-tpu-accelerator" "tpu.type" "cloud.google.com/gke-tpu-topology" "tpu.topology"
      "cloud.google.com/gke-spot" "tpu.capacity" "cloud.google.com/gke-flex-start" "tpu.capacity"
      "cloud.google.com/reservation-name" "tpu.reservation" "cloud.google.com/compute-class" "computeClass.enabled and computeClass.name" -}}
{{- range $label, $instead := $computed -}}
{{- if not (kindIs "invalid" (get ($scope.Values.worker.nodeSelector | default dict) $label | default nil)) -}}
{{- list $scope "nodeSelector" (printf "worker.nodeSelector sets %s. It follows from %s: set that instead." $label $instead) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Of a Spot VM's 30 seconds the kubelet gives the first 15 to pods like these, whatever they ask for; a node pool can be
     made with more (https://docs.cloud.google.com/kubernetes-engine/docs/concepts/spot-vms). */}}
{{- define "maxtext-multislice.rule.spotGracePeriod" -}}
{{- $seconds := int .Values.worker.terminationGracePeriodSeconds -}}
{{- $spot := include "maxtext-multislice.spotIsUsed" . -}}
{{- if and $spot (gt $seconds 15) -}}
{{- list . "spotGracePeriod" (printf "%s and worker.terminationGracePeriodSeconds is %d. Of a Spot VM's notice GKE gives pods the first 15 seconds: set worker.terminationGracePeriodSeconds to 15 or less, or, where the node pools are made with a longer shutdown, guards.allow.spotGracePeriod=true."
      $spot $seconds) | include "maxtext-multislice.problem" -}}
{{- end -}}
{{- end -}}
