{{/* On how many nodes a check runs: preflight.nodes, else every node that can run a pod of the Job now; 1 without a cluster to look
     at. With rbac.create=false the installer may not list Nodes, and a lookup without that right fails the installation. */}}
{{- define "usher.checkNodes" -}}
{{- $count := .Values.preflight.nodes | int -}}
{{- if and (eq $count 0) .Values.rbac.create -}}
{{- $context := . -}}
{{- range (lookup "v1" "Node" "" "").items -}}
{{- $node := . -}}
{{- $fits := include "usher.fitsNode" (dict "context" $context "node" $node) -}}
{{- range $node.spec.taints }}{{ if eq .effect "NoExecute" }}{{ $fits = "" }}{{ end }}{{ end -}}
{{- $ready := false -}}
{{- range (default (dict) $node.status).conditions }}{{ if and (eq .type "Ready") (eq .status "True") }}{{ $ready = true }}{{ end }}{{ end -}}
{{- if and $fits $ready }}{{ $count = add $count 1 }}{{ end -}}
{{- end -}}
{{- end -}}
{{- max $count 1 -}}
{{- end -}}

{{/* What no pod can report: the reasons for which none would be admitted. */}}
{{- define "usher.checkCluster" -}}
{{- $namespace := lookup "v1" "Namespace" "" .Release.Namespace -}}
{{- if $namespace -}}
{{- $level := get (default (dict) $namespace.metadata.labels) "pod-security.kubernetes.io/enforce" -}}
{{- if and $level (ne $level "privileged") -}}
{{- fail (printf "the namespace %s enforces the Pod Security level %s, which admits no agent; run: kubectl label namespace %s --overwrite pod-security.kubernetes.io/enforce=privileged" .Release.Namespace $level .Release.Namespace) -}}
{{- end -}}
{{- end -}}
{{- $nodes := list -}}
{{- if .Values.rbac.create }}{{ $nodes = (lookup "v1" "Node" "" "").items }}{{ end -}}
{{- /* The constraints of the chart list the agent's account only, and Helm creates them after the hooks of an installation. So only the
       preflight of an upgrade is admitted, if it uses that account (serviceAccount.create=false). Both lookups are empty where
       Helm renders without a cluster. */ -}}
{{- if and (include "usher.node" . | fromYaml).constraints (or .Values.serviceAccount.create .Release.IsInstall) (or $nodes $namespace) -}}
{{- fail "preflight.enabled is not possible with platform openshift: the SecurityContextConstraints of the chart admit only the agent's ServiceAccount, and Helm creates them after its hooks; set preflight.enabled=false, and run `helm test` afterwards" -}}
{{- end -}}
{{- end -}}

{{/* Whether pods of the agent's priority class are not admitted yet: they need the ResourceQuota of this chart (GKE), which Helm creates
     after its hooks. It may be missing before an upgrade too, after an installation that failed. */}}
{{- define "usher.lacksQuota" -}}
{{- if (include "usher.node" . | fromYaml).resourceQuota -}}
{{- if not (lookup "v1" "ResourceQuota" .Release.Namespace (include "usher.fullname" .)) }}true{{ end -}}
{{- end -}}
{{- end -}}

{{/* The spec of a Job that runs `usher check` on each node, with what the agent has. Of a dict: context, component, account, args,
     isPreflight. */}}
{{- define "usher.checkJob" -}}
{{- $context := .context -}}
{{- $nodes := include "usher.checkNodes" $context | int -}}
{{- $own := dict "app.kubernetes.io/name" (default $context.Chart.Name $context.Values.nameOverride) "app.kubernetes.io/instance" $context.Release.Name "app.kubernetes.io/component" .component -}}
completions: {{ $nodes }}
parallelism: {{ $nodes }}
completionMode: Indexed
{{- if semverCompare ">=1.29-0" $context.Capabilities.KubeVersion.Version }}
# A failed node does not stop the check of the others.
backoffLimitPerIndex: 0
{{- else }}
backoffLimit: 0
{{- end }}
activeDeadlineSeconds: {{ include "usher.seconds" $context.Values.preflight.timeout }}
template:
  metadata:
    labels:
      {{- toYaml (merge $own (include "usher.unmeshedLabels" $context | fromYaml) $context.Values.commonLabels) | nindent 6 }}
    annotations:
      {{- include "usher.unmeshedAnnotations" $context | nindent 6 }}
      {{- if and $context.Values.appArmorProfile (semverCompare "<1.30-0" $context.Capabilities.KubeVersion.Version) }}
      container.apparmor.security.beta.kubernetes.io/check: {{ include "usher.appArmorAnnotation" $context.Values.appArmorProfile }}
      {{- end }}
  spec:
    serviceAccountName: {{ .account }}
    restartPolicy: Never
    {{- with include "usher.imagePullSecrets" $context }}
    imagePullSecrets:
      {{- . | nindent 6 }}
    {{- end }}
    {{- /* Without the class no pod starts on a full node, and the check fails at its timeout. */}}
    {{- if not (and .isPreflight (include "usher.lacksQuota" $context)) }}
    {{- with $context.Values.priorityClassName }}
    priorityClassName: {{ . }}
    {{- end }}
    {{- end }}
    hostPID: true
    hostNetwork: true
    nodeSelector:
      {{- include "usher.nodeSelector" $context | nindent 6 }}
    # Not on nodes that are away.
    tolerations:
      - operator: Exists
        effect: NoSchedule
    affinity:
      {{- with (default (dict) $context.Values.affinity).nodeAffinity }}
      nodeAffinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      # One pod on each node.
      podAntiAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          - topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- toYaml $own | nindent 16 }}
    terminationGracePeriodSeconds: 1
    containers:
      - name: check
        image: {{ include "usher.image" $context }}
        imagePullPolicy: {{ $context.Values.image.pullPolicy }}
        command: [/usher]
        args: {{ toJson .args }}
        env:
          {{- include "usher.agentEnv" $context | nindent 10 }}
        securityContext:
          {{- include "usher.agentSecurityContext" $context | nindent 10 }}
        resources:
          requests: {cpu: 10m, memory: 16Mi}
          {{- with (default (dict) $context.Values.resources).limits }}
          limits: {{- toYaml . | nindent 12 }}
          {{- end }}
        volumeMounts:
          {{- include "usher.agentVolumeMounts" $context | nindent 10 }}
    volumes:
      {{- include "usher.agentVolumes" $context | nindent 6 }}
{{- end -}}
