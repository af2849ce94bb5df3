{{- define "purelb.name" -}}
{{ .Values.nameOverride | default .Chart.Name }}
{{- end }}

{{/* Labels of every object; the argument is a list: context, component. */}}
{{- define "purelb.labels" -}}
{{- $root := index . 0 -}}
app: purelb
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "purelb.name" $root | quote }}
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
app.kubernetes.io/version: {{ $root.Values.image.tag | default $root.Chart.AppVersion | trunc 63 | trimAll "-_." | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/part-of: purelb
{{- with index . 1 }}
app.kubernetes.io/component: {{ . }}
component: {{ . }}
{{- end }}
{{- end }}

{{/* Labels of pods: without what changes from chart to chart, so that an upgrade
     which changes nothing else restarts nothing. */}}
{{- define "purelb.podLabels" -}}
{{- $root := index . 0 -}}
{{ include "purelb.selector" (index . 1) }}
app.kubernetes.io/name: {{ include "purelb.name" $root | quote }}
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "purelb.selector" -}}
app: purelb
component: {{ . }}
{{- end }}

{{/* The image of a component; the argument is a list: context, component. The chart of a
     release names its own images by their digests. */}}
{{- define "purelb.image" -}}
{{- $root := index . 0 -}}
{{- $image := $root.Values.image -}}
{{- $digest := get ($image.digests | default dict) (index . 1) -}}
{{- if not (or $digest $image.tag) -}}
{{- $digest = index $root.Chart.Annotations (printf "purelb.io/image-digest-%s" (index . 1)) -}}
{{- end -}}
{{ printf "%s/%s:%s" $image.repository (index . 1) ($image.tag | default $root.Chart.AppVersion) }}
{{- with $digest }}@{{ . }}{{ end }}
{{- end }}

{{- define "purelb.podAnnotations" -}}
{{- $own := dict "prometheus.io/scrape" "true" "prometheus.io/port" (index . 2 | toString) -}}
{{ mergeOverwrite $own ((index (index . 0).Values (index . 1)).podAnnotations | default dict) | toYaml }}
{{- end }}

{{- define "purelb.nodeSelector" -}}
{{ mergeOverwrite (dict "kubernetes.io/os" "linux") (.nodeSelector | default dict) | toYaml }}
{{- end }}

{{/* Labels of every object, with those of a user; the argument is a list: context, component,
     labels of the user. */}}
{{- define "purelb.labelsWith" -}}
{{ mergeOverwrite (include "purelb.labels" . | fromYaml) (index . 2 | default dict) | toYaml }}
{{- end }}

{{/* The argument is a list: the name of the port, and the host, or "" for that of the pod. */}}
{{- define "purelb.probes" -}}
startupProbe:
  httpGet: {{ include "purelb.probe" (list "/healthz" .) }}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {{ include "purelb.probe" (list "/healthz" .) }}
  periodSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet: {{ include "purelb.probe" (list "/readyz" .) }}
  periodSeconds: 5
{{- end }}

{{- define "purelb.probe" -}}
{{- $at := index . 1 -}}
{path: {{ index . 0 }}, port: {{ index $at 0 }}{{ with index $at 1 }}, host: {{ . | quote }}{{ end }}}
{{- end }}

{{/* Where programs on the network of the node serve metrics and probes, as environment
     variable of the agent, and as host of its probes. The address of the node is also
     that of the pod. */}}
{{- define "purelb.host" -}}
{{- if eq .Values.lbnodeagent.host "node" -}}
- name: PURELB_HOST
  valueFrom: {fieldRef: {fieldPath: status.hostIP}}
{{- else if .Values.lbnodeagent.host -}}
- name: PURELB_HOST
  value: {{ .Values.lbnodeagent.host | quote }}
{{- end -}}
{{- end }}

{{- define "purelb.probeHost" -}}
{{- if ne .Values.lbnodeagent.host "node" }}{{ .Values.lbnodeagent.host }}{{ end -}}
{{- end }}

{{/* Two allocators on one node would go down together. */}}
{{- define "purelb.spread" -}}
{{- if .Values.allocator.topologySpreadConstraints -}}
{{ toYaml .Values.allocator.topologySpreadConstraints }}
{{- else if gt (int .Values.allocator.replicas) 1 -}}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{- include "purelb.selector" "allocator" | nindent 6 }}
{{- end -}}
{{- end }}

{{/* The Secrets with passwords of BGP sessions, as a JSON array: those of
     gobgp.passwordSecrets, and those that gobgp.configuration.spec names. */}}
{{- define "purelb.passwordSecrets" -}}
{{- $names := .Values.gobgp.passwordSecrets | default list -}}
{{- with .Values.gobgp.configuration -}}
{{- if .create -}}
{{- range concat (.spec.neighbors | default list) (.spec.peerGroups | default list) -}}
{{- with dig "config" "authPasswordSecretRef" "name" "" . -}}
{{- $names = append $names . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $names | uniq | sortAlpha | toJson -}}
{{- end }}

{{/* The Secrets for NetBox, as a JSON array: those of allocator.netbox.secrets, and those
     that serviceGroup.spec names. */}}
{{- define "purelb.netboxSecrets" -}}
{{- $names := .Values.allocator.netbox.secrets | default list -}}
{{- with .Values.serviceGroup -}}
{{- if .create -}}
{{- range list "tokenSecret" "caSecret" -}}
{{- with dig "netbox" . "name" "" ($.Values.serviceGroup.spec | default dict) -}}
{{- $names = append $names . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $names | uniq | sortAlpha | toJson -}}
{{- end }}

{{/* What all programs are told of where their configuration is. */}}
{{- define "purelb.configNamespaces" -}}
{{- with .Values.configNamespaces -}}
- name: PURELB_CONFIG_NAMESPACES
  value: {{ join "," . | quote }}
{{- end }}
{{- end }}
