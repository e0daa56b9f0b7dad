{{/* The name of all objects: `usher` for a release `usher`. */}}
{{- define "usher.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The agent's ServiceAccount. */}}
{{- define "usher.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "usher.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.create=false needs serviceAccount.name: the ServiceAccount that the agents use" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The labels by which the DaemonSet selects its pods. A selector can never change, so no value adds to it and it has no version. */}}
{{- define "usher.selectorLabels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: agent
{{- end -}}

{{/* The nodes of the agents: those of the value, and Linux in any case. */}}
{{- define "usher.nodeSelector" -}}
{{- toYaml (merge (dict "kubernetes.io/os" "linux") (default (dict) .Values.nodeSelector)) -}}
{{- end -}}

{{/* The labels of an object, with those of `labels`. The chart's own labels win over `labels`, and these over commonLabels. */}}
{{- define "usher.labelsWith" -}}
{{- $context := .context -}}
{{- $own := dict
  "app.kubernetes.io/name" (default $context.Chart.Name $context.Values.nameOverride)
  "app.kubernetes.io/instance" $context.Release.Name
  "app.kubernetes.io/version" $context.Chart.AppVersion
  "app.kubernetes.io/part-of" "usher"
  "app.kubernetes.io/managed-by" $context.Release.Service
  "helm.sh/chart" (printf "%s-%s" $context.Chart.Name $context.Chart.Version | replace "+" "_") -}}
{{- toYaml (merge $own (default (dict) .labels) $context.Values.commonLabels) -}}
{{- end -}}

{{- define "usher.labels" -}}
{{- include "usher.labelsWith" (dict "context" .) -}}
{{- end -}}

{{/* The labels of the agent's pods. */}}
{{- define "usher.podLabels" -}}
{{- $selector := include "usher.selectorLabels" . | fromYaml -}}
{{- $unmeshed := include "usher.unmeshedLabels" . | fromYaml -}}
{{- toYaml (merge $selector $unmeshed .Values.podLabels .Values.commonLabels) -}}
{{- end -}}

{{/* No mesh injects a sidecar into usher's own pods. */}}
{{- define "usher.unmeshedLabels" -}}
sidecar.istio.io/inject: "false"
istio.io/dataplane-mode: none
kuma.io/sidecar-injection: disabled
{{- end -}}

{{- define "usher.unmeshedAnnotations" -}}
linkerd.io/inject: disabled
consul.hashicorp.com/connect-inject: "false"
{{- end -}}

{{/* global.imageRegistry replaces the registry's host of the repository, or is put before a repository without one. */}}
{{- define "usher.image" -}}
{{- $repository := .Values.image.repository -}}
{{- if not $repository -}}
{{- fail "image.repository is empty: push usher's image to your registry, then add --set image.repository=REGISTRY/usher-agent (docs/install.md)" -}}
{{- end -}}
{{- with .Values.global.imageRegistry -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) (regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $repository "") -}}
{{- end -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{/* A list of Secrets, as YAML; empty without any. */}}
{{- define "usher.imagePullSecrets" -}}
{{- with concat (default (list) .Values.global.imagePullSecrets) .Values.imagePullSecrets | uniq -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{- define "usher.podSecurityLabels" -}}
pod-security.kubernetes.io/enforce: privileged
pod-security.kubernetes.io/audit: privileged
pod-security.kubernetes.io/warn: privileged
{{- end -}}
