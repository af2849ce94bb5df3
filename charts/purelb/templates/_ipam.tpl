{{/* The security of the allocator's pod. IPAM servers beside it make their sockets, and keep
     their state, in volumes of the allocator's group: so the allocator reaches a socket that
     its group may write to, whoever made it. */}}
{{- define "purelb.allocatorSecurity" -}}
{{- $security := deepCopy (.Values.allocator.securityContext | default dict) -}}
{{- if .Values.allocator.ipam.containers -}}
{{- $security = merge $security (dict "fsGroup" 65534 "fsGroupChangePolicy" "OnRootMismatch") -}}
{{- end -}}
{{ toYaml $security }}
{{- end }}

{{- define "purelb.ipamVolumes" -}}
{{- if .Values.allocator.ipam.containers -}}
- name: ipam-socket
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
# It hides the token of the allocator from the IPAM servers.
- name: ipam-no-token
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
{{- with .Values.allocator.ipam.volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{/* The containers of IPAM servers, with what they do not say themselves. */}}
{{- define "purelb.ipamContainers" -}}
{{- $containers := list -}}
{{- range .Values.allocator.ipam.containers -}}
{{- $container := deepCopy . -}}
{{- $mounts := .volumeMounts | default list -}}
{{- $names := list -}}
{{- $paths := list -}}
{{- range $mounts -}}
{{- $names = append $names .name -}}
{{- $paths = append $paths .mountPath -}}
{{- end -}}
{{- if not (has "ipam-socket" $names) -}}
{{- $mounts = append $mounts (dict "name" "ipam-socket" "mountPath" "/var/run/purelb") -}}
{{- end -}}
{{- $token := "/var/run/secrets/kubernetes.io/serviceaccount" -}}
{{- if not (has $token $paths) -}}
{{- $mounts = append $mounts (dict "name" "ipam-no-token" "mountPath" $token "readOnly" true) -}}
{{- end -}}
{{- $_ := set $container "volumeMounts" $mounts -}}
{{- if not (hasKey $container "securityContext") -}}
{{- $_ := set $container "securityContext" $.Values.allocator.containerSecurityContext -}}
{{- end -}}
{{- $containers = append $containers $container -}}
{{- end -}}
{{- with $containers }}{{ toYaml . }}{{ end -}}
{{- end }}
