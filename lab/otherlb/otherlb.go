// Package otherlb has the manifests of the lab's second load balancer controller (cmd/otherlb). It does
// not know the controller's work, or PureLB.
package otherlb

import "fmt"

// Name is the name of all objects of the controller, the label "app" of its pods, and its field
// manager.
const Name = "otherlb"

// Ranges is the ConfigMap with the controller's addresses. Each range is FIRST-LAST, and commas
// separate ranges. Without the ConfigMap, the controller has no addresses.
func Ranges(namespace, ranges string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata: {name: %s, namespace: %s}
data: {ranges: %q}
`, Name, namespace, ranges)
}

// Deployment runs the controller in a namespace. It serves Services of a class, or Services without
// a class if class is "". It can be applied again with another number of replicas.
func Deployment(namespace, image, class string, replicas int) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  replicas: %[5]d
  strategy: {type: Recreate}
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      serviceAccountName: %[1]s
      terminationGracePeriodSeconds: 1
      containers:
      - name: %[1]s
        image: %[3]s
        args: [-namespace=%[2]s, -config=%[1]s, %[4]q]
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
        resources: {requests: {cpu: 10m, memory: 16Mi}}
`, Name, namespace, image, "-class="+class, replicas)
}

// Rights are the rights of the controller: read Services, write their statuses, and read its
// ranges.
func Rights(namespace string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: %[1]s, namespace: %[2]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %[1]s}
rules:
- {apiGroups: [""], resources: [services], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [services/status], verbs: [update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}
subjects: [{kind: ServiceAccount, name: %[1]s, namespace: %[2]s}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: %[1]s, namespace: %[2]s}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %[1]s, namespace: %[2]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[1]s}
subjects: [{kind: ServiceAccount, name: %[1]s, namespace: %[2]s}]
`, Name, namespace)
}
