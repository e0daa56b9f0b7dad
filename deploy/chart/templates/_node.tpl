{{/* The nodes' directories and features: the user's values, else the entry of the platform. As YAML, for fromYaml. */}}
{{- define "usher.node" -}}
{{- $platforms := .Files.Get "files/platforms.yaml" | fromYaml -}}
{{- $own := dict -}}
{{- with .Values.platform }}{{ $own = get $platforms . }}{{ end -}}
{{- $node := mergeOverwrite (deepCopy $platforms.default) $own -}}
{{- with .Values.cni.confDir }}{{ $_ := set $node "cniConfDir" . }}{{ end -}}
{{- with .Values.cni.binDir }}{{ $_ := set $node "cniBinDir" . }}{{ end -}}
{{- with .Values.runtime.dir }}{{ $_ := set $node "runtimeDir" . }}{{ end -}}
{{- if not (kindIs "invalid" .Values.cni.enabled) }}{{ $_ := set $node "cni" .Values.cni.enabled }}{{ end -}}
{{- if not (kindIs "invalid" .Values.runtime.enabled) }}{{ $_ := set $node "runtime" .Values.runtime.enabled }}{{ end -}}
{{- if not (kindIs "invalid" .Values.resourceQuota.enabled) }}{{ $_ := set $node "resourceQuota" .Values.resourceQuota.enabled }}{{ end -}}
{{- toYaml $node -}}
{{- end -}}

{{/* The keys `mode` and `modes` of the configuration, as YAML. Helm reads an unquoted `off` as false. */}}
{{- define "usher.modes" -}}
{{- $config := dict -}}
{{- with include "usher.mode" .Values.mode }}{{ $_ := set $config "mode" . }}{{ end -}}
{{- $modes := dict -}}
{{- range $capability, $mode := .Values.modes -}}
{{- with include "usher.mode" $mode }}{{ $_ := set $modes $capability . }}{{ end -}}
{{- end -}}
{{- with $modes }}{{ $_ := set $config "modes" . }}{{ end -}}
{{- toYaml $config -}}
{{- end -}}

{{- define "usher.mode" -}}
{{- if kindIs "bool" . }}off{{ else if . }}{{ . }}{{ end -}}
{{- end -}}

{{/* An AppArmor profile in the form of the annotation, which Kubernetes before 1.30 has instead of the field. */}}
{{- define "usher.appArmorAnnotation" -}}
{{- if eq .type "Localhost" }}localhost/{{ .localhostProfile }}
{{- else if eq .type "RuntimeDefault" }}runtime/default
{{- else }}unconfined
{{- end }}
{{- end -}}

{{- define "usher.httpPort" -}}
{{- regexFind "[0-9]+$" .Values.metrics.bindAddress -}}
{{- end -}}

{{/* Fails if scraping is enabled but no client can reach the metrics. */}}
{{- define "usher.requireReachableHttp" -}}
{{- if regexMatch "^(127[.]0[.]0[.]1|\\[::1\\]):" .context.Values.metrics.bindAddress -}}
{{- fail (printf "%s needs metrics.bindAddress to be $(HOST_IP):9643 or alike: on the node's loopback no Prometheus reaches it" .value) -}}
{{- end -}}
{{- end -}}

{{/* Whether an agent can run on a Node: by its selector, and not on those that values.yaml, affinity, excludes. Of a dict: context, node. */}}
{{- define "usher.fitsNode" -}}
{{- $fits := true -}}
{{- $labels := default (dict) .node.metadata.labels -}}
{{- range $key, $value := include "usher.nodeSelector" .context | fromYaml -}}
{{- if ne (get $labels $key) $value }}{{ $fits = false }}{{ end -}}
{{- end -}}
{{- if or (eq (get $labels "eks.amazonaws.com/compute-type") "fargate") (eq (get $labels "type") "virtual-kubelet") }}{{ $fits = false }}{{ end -}}
{{- if $fits }}true{{ end -}}
{{- end -}}

{{/* Whether the agents get nodes/proxy: as the value says, else where the cluster or a kubelet is older than 1.33. During an upgrade of
     a cluster its nodes are older than its control plane. With rbac.create=false the chart has no roles, and the installer may not
     list Nodes. */}}
{{- define "usher.nodesProxy" -}}
{{- if not (kindIs "invalid" .Values.kubelet.nodesProxy) -}}
{{- if .Values.kubelet.nodesProxy }}true{{ end -}}
{{- else if semverCompare "<1.33-0" .Capabilities.KubeVersion.Version -}}
true
{{- else if .Values.rbac.create -}}
{{- $context := . -}}
{{- $old := false -}}
{{- range (lookup "v1" "Node" "" "").items -}}
{{- /* Virtual kubelets may have any text here, with which semverCompare fails the installation. */ -}}
{{- $version := regexFind "^v?[0-9]+[.][0-9]+[.][0-9]+" (dig "status" "nodeInfo" "kubeletVersion" "" .) -}}
{{- if and $version (include "usher.fitsNode" (dict "context" $context "node" .)) (semverCompare "<1.33-0" $version) }}{{ $old = true }}{{ end -}}
{{- end -}}
{{- if $old }}true{{ end -}}
{{- end -}}
{{- end -}}

{{/* A duration such as 90s or 2m, in seconds. */}}
{{- define "usher.seconds" -}}
{{- $number := regexFind "^[0-9]+" . | int -}}
{{- if hasSuffix "m" . }}{{ $number = mul $number 60 }}{{ end -}}
{{- $number -}}
{{- end -}}

{{/* The deadline of the Job that cleans the nodes, in seconds: a minute after its own timeout. */}}
{{- define "usher.cleanupDeadline" -}}
{{- add (include "usher.seconds" .Values.cleanup.timeout | int) 60 -}}
{{- end -}}
