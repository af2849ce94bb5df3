{{/* The environment of a container: that of the chart, and that of the values. A name that is there
     twice has one value for some tools, and is a mistake for others. The argument is a list: the
     name of the value, the environment of the chart, the value. */}}
{{- define "purelb.env" -}}
{{- $names := list -}}
{{- range index . 1 | fromYamlArray -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- range index . 2 -}}
{{- if has .name $names -}}
{{- fail (printf "%s has the name %s, which the container has already. Remove the entry." (index $ 0) .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{ index . 1 }}
{{- with index . 2 }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The limit of the Go runtime: with more memory in use, it collects garbage more often. The MiB of the
     container's limit, read as MB, are 95 % of it. The argument is the environment of the values. */}}
{{- define "purelb.memoryEnv" -}}
{{- $names := list -}}
{{- range . -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- if not (has "GOMEMLIMIT" $names) -}}
- name: MEMORY_LIMIT_MIB
  valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}
- name: GOMEMLIMIT
  value: $(MEMORY_LIMIT_MIB)000000B
{{- end }}
{{- end }}

{{/* Where agents and speakers find the API server, if not by its Service. */}}
{{- define "purelb.apiServer" -}}
{{- with .Values.lbnodeagent.apiServer -}}
{{- if .host -}}
- name: KUBERNETES_SERVICE_HOST
  value: {{ .host | quote }}
- name: KUBERNETES_SERVICE_PORT
  value: {{ .port | int64 | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "purelb.allocatorEnv" -}}
{{- with include "purelb.memoryEnv" .Values.allocator.extraEnv }}
{{ . }}
{{- end }}
- name: PURELB_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: PURELB_POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: DEFAULT_ANNOUNCER
  value: {{ .Values.defaultAnnouncer | quote }}
{{- with .Values.readAnnotations }}
- name: PURELB_READ_ANNOTATIONS
  value: {{ join "," . | quote }}
{{- end }}
{{- if .Values.gossip.enabled }}
- name: PURELB_GOSSIP_SECRET
  value: {{ .Values.gossip.secretName | quote }}
{{- end }}
{{- if .Values.gobgp.enabled }}
- name: PURELB_BGP
  value: "true"
{{- end }}
{{- if not .Values.allocator.podCIDRs }}
- name: PURELB_POD_CIDRS
  value: "false"
{{- end }}
{{- with .Values.allocator.ipam.clusterName }}
- name: PURELB_CLUSTER_NAME
  value: {{ . | toJson }}
{{- end }}
{{- with .Values.allocator.ipam.replacesCluster }}
- name: PURELB_REPLACES_CLUSTER
  value: {{ . | toJson }}
{{- end }}
{{- with include "purelb.configNamespaces" . }}
{{ . }}
{{- end }}
- name: PURELB_LOG_LEVEL
  value: {{ .Values.logLevel }}
{{- end }}

{{- define "purelb.agentEnv" -}}
{{- with include "purelb.memoryEnv" .Values.lbnodeagent.extraEnv }}
{{ . }}
{{- end }}
- name: PURELB_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: PURELB_NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
- name: PURELB_POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: PURELB_POD_UID
  valueFrom: {fieldRef: {fieldPath: metadata.uid}}
- name: PURELB_MAX_ADDRESS_METRICS
  value: {{ .Values.lbnodeagent.maxAddressMetrics | int64 | quote }}
- name: PURELB_KUBELET_HEALTH
  value: {{ .Values.lbnodeagent.kubeletHealth | quote }}
- name: PURELB_KUBE_PROXY_HEALTH
  value: {{ .Values.lbnodeagent.kubeProxyHealth | quote }}
{{- with include "purelb.apiServer" . }}
{{ . }}
{{- end }}
{{- if .Values.gossip.enabled }}
- name: PURELB_GOSSIP_ADDRESS
  valueFrom: {fieldRef: {fieldPath: status.hostIP}}
- name: PURELB_GOSSIP_PORT
  value: {{ .Values.gossip.port | quote }}
- name: PURELB_GOSSIP_SECRET
  value: {{ .Values.gossip.secretName | quote }}
- name: PURELB_GOSSIP_PATIENCE
  value: {{ .Values.gossip.patience }}
- name: PURELB_STATE_DIR
  value: /var/run/purelb
{{- end }}
- name: PURELB_LEASE_DURATION
  value: {{ .Values.leaseConfig.leaseDuration | quote }}
- name: PURELB_RENEW_DEADLINE
  value: {{ .Values.leaseConfig.renewDeadline | quote }}
- name: PURELB_RETRY_PERIOD
  value: {{ .Values.leaseConfig.retryPeriod | quote }}
{{- with include "purelb.configNamespaces" . }}
{{ . }}
{{- end }}
{{- if .Values.prober.enabled }}
- name: PURELB_PROBES
  value: "true"
{{- end }}
- name: PURELB_LOG_LEVEL
  value: {{ .Values.logLevel }}
{{- with include "purelb.host" . }}
{{ . }}
{{- end }}
{{- end }}
