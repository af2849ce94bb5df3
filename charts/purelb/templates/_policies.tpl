{{/* The head of a ValidatingAdmissionPolicy and its binding. The argument is a list:
     context, name, component. What follows is the rest of the policy's spec. */}}
{{- define "purelb.policy" -}}
{{- $root := index . 0 -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ index . 1 }}
  labels: {{- include "purelb.labels" (list $root (index . 2)) | nindent 4 }}
spec:
  policyName: {{ index . 1 }}
  validationActions: [Deny]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ index . 1 }}
  labels: {{- include "purelb.labels" (list $root (index . 2)) | nindent 4 }}
spec:
  failurePolicy: Fail
  # Requests of everybody else end here.
  matchConditions:
  - name: account
    expression: request.userInfo.username == 'system:serviceaccount:{{ $root.Release.Namespace }}:{{ include "purelb.serviceAccountName" (list $root (index . 2)) }}'
{{- end }}

{{/* The node that the token of the request is for, "" for none. */}}
{{- define "purelb.policyNode" -}}
- name: node
  expression: request.userInfo.?extra[?'authentication.kubernetes.io/node-name'][?0].orValue('')
{{- end }}

{{/* A token that is for no node could be used from anywhere. */}}
{{- define "purelb.policyHasNode" -}}
- expression: variables.node != ''
  reason: Forbidden
  message: >-
    The token of the node agent names no node. Use the token that the kubelet mounts into the agent's pod: Kubernetes
    writes the node into it, unless the feature gate ServiceAccountTokenPodNodeInfo is off. To run
    without this check, set admissionPolicies.enabled=false in the chart of PureLB.
{{- end }}

{{/* Only in the namespace of PureLB, so that other namespaces pay nothing. */}}
{{- define "purelb.policyNamespace" -}}
namespaceSelector:
  matchLabels: {kubernetes.io/metadata.name: {{ .Release.Namespace | quote }}}
{{- end }}
