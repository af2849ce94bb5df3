{{- define "purelb.name" -}}
{{ .Values.nameOverride | default .Chart.Name }}
{{- end }}

{{/* Labels of every object; the argument is a list: context, component, and further labels of
     the user, if any. */}}
{{- define "purelb.labels" -}}
{{- $own := include "purelb.ownLabels" . | fromYaml -}}
{{- $further := index (append . dict) 2 | default dict -}}
{{ mergeOverwrite $own ((index . 0).Values.commonLabels | default dict) $further | toYaml }}
{{- end }}

{{- define "purelb.ownLabels" -}}
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
{{- $values := (index . 0).Values -}}
{{ mergeOverwrite (include "purelb.ownPodLabels" . | fromYaml) ($values.commonLabels | default dict) ((index $values (index . 1)).podLabels | default dict) | toYaml }}
{{- end }}

{{- define "purelb.ownPodLabels" -}}
{{- $root := index . 0 -}}
{{ include "purelb.selector" (index . 1) }}
app.kubernetes.io/name: {{ include "purelb.name" $root | quote }}
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* The argument is a list: context, program. */}}
{{- define "purelb.serviceAccountName" -}}
{{ (index (index . 0).Values (index . 1)).serviceAccount.name | default (index . 1) }}
{{- end }}

{{- define "purelb.serviceAccount" -}}
{{- $root := index . 0 -}}
{{- $account := (index $root.Values (index . 1)).serviceAccount -}}
{{- if $account.create -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "purelb.serviceAccountName" . | quote }}
  namespace: {{ $root.Release.Namespace | quote }}
  labels: {{- include "purelb.labels" . | nindent 4 }}
  {{- with $account.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
---
{{- end }}
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

{{/* The probes of a container, with the times of the values. The argument is a list: the values of
     the program, the name of the port, and the host, or "" for that of the pod. */}}
{{- define "purelb.probes" -}}
{{- $probes := dict -}}
{{- range $kind, $path := dict "startupProbe" "/healthz" "livenessProbe" "/healthz" "readinessProbe" "/readyz" -}}
{{- $get := dict "path" $path "port" (index $ 1) -}}
{{- with index $ 2 -}}
{{- $_ := set $get "host" . -}}
{{- end -}}
{{- $_ := set $probes $kind (merge (dict "httpGet" $get) (index $ 0 $kind | default dict)) -}}
{{- end -}}
{{ toYaml $probes }}
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

{{/* One allocator ends before the next begins, which would only wait. Of several, one keeps running. */}}
{{- define "purelb.strategy" -}}
{{ .Values.allocator.strategy | default (dict "type" (ternary "RollingUpdate" "Recreate" (gt (int .Values.allocator.replicas) 1))) | toYaml }}
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
