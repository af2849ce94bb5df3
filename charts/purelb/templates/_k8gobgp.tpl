{{/* The container of the BGP speaker. It has no startup probe: a native sidecar that
     has one keeps the agent from starting until it succeeds, and local addresses need
     no BGP. */}}
{{- define "purelb.k8gobgp" -}}
name: k8gobgp
image: {{ include "purelb.image" (list . "k8gobgp") | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
{{ include "purelb.memoryEnv" list }}
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_UID
  valueFrom: {fieldRef: {fieldPath: metadata.uid}}
- name: PURELB_KUBELET_HEALTH
  value: {{ .Values.lbnodeagent.kubeletHealth | quote }}
{{- with include "purelb.apiServer" . }}
{{ . }}
{{- end }}
{{- with include "purelb.configNamespaces" . }}
{{ . }}
{{- end }}
- name: K8GOBGP_LOG_LEVEL
  value: {{ .Values.logLevel }}
{{- $host := include "purelb.host" . }}
{{- with $host }}
{{ . }}
{{- end }}
{{- $port := int .Values.gobgp.port }}
{{- $at := ternary "[$(PURELB_HOST)]" "" (ne $host "") }}
{{- if or $at (ne $port 7473) }}
args: ["--metrics-bind-address={{ $at }}:{{ $port }}", "--health-probe-bind-address={{ $at }}:7474"]
{{- end }}
ports:
- {name: bgp-monitoring, containerPort: {{ $port }}}
- {name: bgp-health, containerPort: 7474}
{{ omit (include "purelb.probes" (list .Values.gobgp "bgp-health" (include "purelb.probeHost" .)) | fromYaml) "startupProbe" | toYaml }}
volumeMounts:
- {name: gobgp-socket, mountPath: /var/run/gobgp}
resources: {{- toYaml .Values.gobgp.resources | nindent 2 }}
securityContext: {{- toYaml .Values.gobgp.containerSecurityContext | nindent 2 }}
{{- end }}
