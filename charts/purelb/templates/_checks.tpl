{{- define "purelb.checkImage" -}}
{{- if not (regexMatch "^([A-Za-z0-9.-]+|\\[[0-9a-fA-F:]+\\])(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$" .repository) -}}
{{- fail (printf "image.repository is %q, which is not the beginning of an image name. Write it without https:// and without a slash at the end, such as registry.example.org:5000/purelb." .repository) -}}
{{- end -}}
{{- if and .tag (not (regexMatch "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$" .tag)) -}}
{{- fail (printf "image.tag is %q, but a tag has only letters, digits, '_', '.' and '-'. A digest belongs in image.digests." .tag) -}}
{{- end -}}
{{- end }}

{{/* Agents and speakers share the ports of the node. */}}
{{- define "purelb.checkPorts" -}}
{{- $used := dict (int .lbnodeagent.port | toString) "lbnodeagent.port" -}}
{{- if .gobgp.enabled -}}
{{- $port := int .gobgp.port | toString -}}
{{- if has $port (list "179" "7474") -}}
{{- fail (printf "gobgp.port is %s, which is another port of the BGP speaker. Choose another port." $port) -}}
{{- end -}}
{{- range list "179" "3784" "4784" $port "7474" -}}
{{- if hasKey $used . -}}
{{- fail (printf "lbnodeagent.port is %s, which is a port of the BGP speaker on the same node. Choose another port." .) -}}
{{- end -}}
{{- $_ := set $used . "a port of the BGP speaker" -}}
{{- end -}}
{{- end -}}
{{- $gossip := int .gossip.port | toString -}}
{{- if and .gossip.enabled (hasKey $used $gossip) -}}
{{- fail (printf "gossip.port is %s, which is %s on the same node. Choose another port." $gossip (get $used $gossip)) -}}
{{- end -}}
{{- end }}

{{/* An agent with other durations ends at its start. */}}
{{- define "purelb.checkLeases" -}}
{{- $duration := include "purelb.milliseconds" .leaseDuration | int64 -}}
{{- $deadline := include "purelb.milliseconds" .renewDeadline | int64 -}}
{{- $retry := include "purelb.milliseconds" .retryPeriod | int64 -}}
{{- if lt $duration 1000 -}}
{{- fail (printf "leaseConfig.leaseDuration is %s, but it must be at least 1s. Otherwise no agent starts." .leaseDuration) -}}
{{- end -}}
{{- if ge $deadline $duration -}}
{{- fail (printf "leaseConfig.renewDeadline is %s, but it must be shorter than leaseConfig.leaseDuration, which is %s. Otherwise no agent starts." .renewDeadline .leaseDuration) -}}
{{- end -}}
{{- if or (eq $retry 0) (ge $retry $deadline) -}}
{{- fail (printf "leaseConfig.retryPeriod is %s, but it must be longer than 0 and shorter than leaseConfig.renewDeadline, which is %s. Otherwise no agent starts." .retryPeriod .renewDeadline) -}}
{{- end -}}
{{- end }}

{{/* An older name beside the present one, with another value. */}}
{{- define "purelb.checkOlderNames" -}}
{{- $defaults := dict "localInterface" "default" "dummyInterface" "kube-lb0" -}}
{{- range $older, $name := dict "localint" "localInterface" "extlbint" "dummyInterface" -}}
{{- $old := index $ $older -}}
{{- $value := index $ $name -}}
{{- if and $old (ne $value (index $defaults $name)) (ne $value $old) -}}
{{- fail (printf "lbnodeagent.%s is %q, but lbnodeagent.%s, its older name, is %q. Remove lbnodeagent.%s." $name $value $older $old $older) -}}
{{- end -}}
{{- end -}}
{{- $enabled := (.garpConfig | default dict).enabled -}}
{{- if and (hasKey . "sendgarp") (kindIs "bool" $enabled) (ne $enabled .sendgarp) -}}
{{- fail (printf "lbnodeagent.garpConfig.enabled is %t, but lbnodeagent.sendgarp, its older name, is %t. Remove lbnodeagent.sendgarp." $enabled .sendgarp) -}}
{{- end -}}
{{- end }}

{{- define "purelb.milliseconds" -}}
{{- $units := dict "ms" 1.0 "s" 1000.0 "m" 60000.0 "h" 3600000.0 -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+(ms|s|m|h)" . -1 -}}
{{- $unit := regexFind "[a-z]+" . -}}
{{- $sum = addf $sum (mulf (trimSuffix $unit . | float64) (get $units $unit)) -}}
{{- end -}}
{{- $sum | int64 -}}
{{- end }}
