{{/* What the agent's container shares with the containers that check a node: they try what the agent does, with its permissions. */}}
{{- define "usher.agentEnv" -}}
{{- $node := include "usher.node" . | fromYaml -}}
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
- name: HOST_IP
  valueFrom: {fieldRef: {fieldPath: status.hostIP}}
# The plugin announces every pod to the agent except the agent's own, which it recognizes by namespace and name.
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
# An agent that is terminated after the deletion of this DaemonSet removes usher from its node.
- name: USHER_DAEMONSET
  value: {{ include "usher.fullname" . | quote }}
{{- if ne (include "usher.fullname" .) "usher" }}
- name: USHER_CNI_OWN_POD
  value: $(POD_NAMESPACE)/{{ include "usher.fullname" . }}-
{{- end }}
# The agent verifies the kubelet's certificate by the cluster's CA, or compares it with that of the file USHER_KUBELET_CERT,
# by default the node's /var/lib/kubelet/pki/kubelet.crt if that exists.
- name: USHER_KUBELET
  value: https://$(HOST_IP):{{ .Values.kubelet.port }}
{{- if ne .Values.kubelet.certificate "auto" }}
- name: USHER_KUBELET_CERT
  value: {{ if .Values.kubelet.certificate }}/host/kubelet.crt{{ else }}""{{ end }}
{{- end }}
- name: USHER_CGROUP_ROOT
  value: /host/sys/fs/cgroup{{ $node.cgroupRoot }}
- name: USHER_METRICS_BIND_ADDRESS
  value: {{ .Values.metrics.bindAddress | quote }}
- name: USHER_HEALTH_PROBE_BIND_ADDRESS
  value: "127.0.0.1:{{ .Values.healthProbe.port }}"
{{- if $node.cni }}
# While the Node's mode is enforce, the agent installs the CNI plugin usher-cni in these two directories of the host. It stays
# there over restarts of the agent: without an agent the plugin lets every pod start at once.
- name: USHER_CNI_CONF_DIR
  value: /host/etc/cni/net.d
- name: USHER_CNI_BIN_DIR
  value: /host/opt/cni/bin
{{- with .Values.cni.conf }}
# The pods' own configuration, if another plugin calls it.
- name: USHER_CNI_CONF
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- if not $node.runtime }}
# Without the runtime's bundles no start can be held.
- name: USHER_BUNDLE_DIR
  value: ""
{{- else if ne $node.runtimeDir "/run/containerd" }}
- name: USHER_BUNDLE_DIR
  value: {{ $node.runtimeDir }}/io.containerd.runtime.v2.task/k8s.io
{{- end }}
{{- if .Values.startupTaint.enabled }}
- name: USHER_STARTUP_TAINT
  value: {{ .Values.startupTaint.key | quote }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "usher.agentSecurityContext" -}}
{{- $node := include "usher.node" . | fromYaml -}}
{{- $hasAppArmorField := semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version -}}
privileged: false
# Kubernetes rejects false together with SYS_ADMIN. The image has no program that could gain privileges by it.
allowPrivilegeEscalation: true
readOnlyRootFilesystem: true
# Root, because other users lose their capabilities at the exec. All capabilities except those below are dropped.
runAsUser: 0
{{- with .Values.seccompProfile }}
seccompProfile:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if and .Values.appArmorProfile $hasAppArmorField }}
# The runtime's default profile denies access to processes under other profiles.
appArmorProfile:
  {{- toYaml .Values.appArmorProfile | nindent 2 }}
{{- end }}
{{- if .Values.seLinuxOptions }}
seLinuxOptions:
  {{- toYaml .Values.seLinuxOptions | nindent 2 }}
{{- else if $node.seLinuxType }}
# Confined containers may not write to the host's directories.
seLinuxOptions:
  type: {{ $node.seLinuxType }}
{{- end }}
capabilities:
  drop: ["ALL"]
  add:
    # setns into a pod's network namespace to open a socket there; fanotify, to hold starts and stop signals.
    - SYS_ADMIN
    # /proc/<pid>/ns/net, root and mountinfo of other users' processes.
    - SYS_PTRACE
    # A table in the network namespace of a pod with held connections, and the sockets that read from it.
    - NET_ADMIN
    # To send the first packets of those connections again.
    - NET_RAW
    # SIGTERM to a sidecar of another user, if requests did not terminate it.
    - KILL
    # Optional. The event loop runs before ordinary threads, which counts when many pods end at once.
    - SYS_NICE
{{- end -}}

{{- define "usher.agentVolumeMounts" -}}
{{- $node := include "usher.node" . | fromYaml -}}
# The host's kubepods tree. The agent reads only names of directories and cgroup.procs.
- name: cgroup
  mountPath: /host/sys/fs/cgroup
  readOnly: true
  mountPropagation: HostToContainer
# The ConfigMap of this name, key config.yaml, if there is one (docs/configuration.md). Where it is part of a Helm release, an
# upgrade replaces changes to it.
- name: config
  mountPath: /etc/usher
  readOnly: true
# The timeline, the last known state for a start without API server, and the socket of the CNI plugin.
- name: run
  mountPath: /run/usher
{{- if $node.runtime }}
# The bundles of containers that are being started, and their mounted root file systems, to hold the start of an app. Not the
# directory above, which has the runtime's sockets.
- name: bundles
  mountPath: {{ $node.runtimeDir }}/io.containerd.runtime.v2.task
  readOnly: true
  mountPropagation: HostToContainer
# The state of runc and crun, which containerd keeps here wherever its own directory is: to hold stop signals.
- name: runtime-state
  mountPath: /run/containerd/runc
  readOnly: true
  mountPropagation: HostToContainer
{{- end }}
{{- if $node.cni }}
# Network configurations: the agent adds one entry to the first file and replaces that file atomically.
- name: cni-conf
  mountPath: /host/etc/cni/net.d
# The agent installs one binary, usher-cni. Root must own both directories: the agent cannot write to those of other users.
- name: cni-bin
  mountPath: /host/opt/cni/bin
{{- end }}
{{- if hasPrefix "/" .Values.kubelet.certificate }}
# Only this file: the private key is next to it.
- name: kubelet-certificate
  mountPath: /host/kubelet.crt
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "usher.agentVolumes" -}}
{{- $node := include "usher.node" . | fromYaml -}}
- name: cgroup
  hostPath: {path: /sys/fs/cgroup, type: Directory}
- name: config
  configMap: {name: {{ include "usher.fullname" . }}, optional: true}
- name: run
  hostPath: {path: /run/usher, type: DirectoryOrCreate}
{{- if $node.runtime }}
- name: bundles
  hostPath: {path: {{ $node.runtimeDir }}/io.containerd.runtime.v2.task, type: DirectoryOrCreate}
- name: runtime-state
  hostPath: {path: /run/containerd/runc, type: DirectoryOrCreate}
{{- end }}
{{- if $node.cni }}
{{- /* Type Directory would keep the agent from starting where a directory is wrong. With this one it terminates sidecars, and
     reports which value to set. */}}
- name: cni-conf
  hostPath: {path: {{ $node.cniConfDir }}, type: DirectoryOrCreate}
- name: cni-bin
  hostPath: {path: {{ $node.cniBinDir }}, type: DirectoryOrCreate}
{{- end }}
{{- if hasPrefix "/" .Values.kubelet.certificate }}
- name: kubelet-certificate
  hostPath: {path: {{ .Values.kubelet.certificate }}, type: File}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
