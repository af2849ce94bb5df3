{{/* The values without which the objects would be wrong. Lists, maps and texts that are missing
     count as empty. */}}
{{- define "purelb.required" -}}
{{- $missing := list -}}
{{- range splitList " " (regexReplaceAll "\\s+" (trim `
Prometheus.allocator.Metrics.enabled Prometheus.allocator.prometheusRules.enabled
Prometheus.allocator.serviceMonitor.enabled Prometheus.allocator.serviceMonitor.endpoints
Prometheus.dashboards.enabled Prometheus.k8gobgp.Metrics.enabled
Prometheus.k8gobgp.prometheusRules.enabled Prometheus.k8gobgp.serviceMonitor.enabled
Prometheus.k8gobgp.serviceMonitor.endpoints Prometheus.lbnodeagent.Metrics.enabled
Prometheus.lbnodeagent.prometheusRules.enabled Prometheus.lbnodeagent.serviceMonitor.enabled
Prometheus.lbnodeagent.serviceMonitor.endpoints admissionPolicies.enabled
allocator.ipam allocator.netbox allocator.networkPolicy.enabled allocator.podCIDRs
allocator.podDisruptionBudget.enabled allocator.replicas defaultAnnouncer
gobgp.configuration.create gobgp.enabled
gobgp.nativeSidecar gossip.enabled gossip.patience gossip.port gossip.secretName
image.pullPolicy image.repository lbnodeagent.create lbnodeagent.dummyInterface
lbnodeagent.kubeletHealth lbnodeagent.localInterface lbnodeagent.maxAddressMetrics
lbnodeagent.port leaseConfig.leaseDuration leaseConfig.renewDeadline leaseConfig.retryPeriod
logLevel observer.enabled prober.enabled serviceGroup.create serviceGroup.name test.image
test.seconds
`) " ") -}}
{{- $value := $.Values -}}
{{- range splitList "." . -}}
{{- $value = get ($value | default dict) . -}}
{{- end -}}
{{- if eq (toString $value) "" -}}
{{- $missing = append $missing . -}}
{{- end -}}
{{- end -}}
{{- if $missing -}}
{{- fail (printf "These values are missing or null: %s. Remove each null from your values to get the default. If you upgrade with --reuse-values, use --reset-then-reuse-values: the former leaves out the values that are new in this chart." (join ", " $missing)) -}}
{{- end -}}
{{- end }}
