package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The security of the pods, as the documentation promises it:
//
//	Allocator    non-root (UID 65534), read-only filesystem   no capabilities       cluster network
//	LBNodeAgent  root (required for netlink), read-only       NET_ADMIN, NET_RAW    host network
func TestPodsHaveNoMoreRightsThanPromised(t *testing.T) {
	objects := mustRender(t, "")
	for name, tt := range map[string]struct {
		pod  corev1.PodSpec
		want string
	}{
		"allocator": {
			pod:  typed[appsv1.Deployment](t, objects["Deployment allocator"]).Spec.Template.Spec,
			want: "user 65534 nonRoot true readOnly true escalation false privileged false drop [ALL] add [] seccomp RuntimeDefault hostNetwork false volumes 0",
		},
		"lbnodeagent": {
			pod:  typed[appsv1.DaemonSet](t, objects["DaemonSet lbnodeagent"]).Spec.Template.Spec,
			want: "user 0 nonRoot false readOnly true escalation false privileged false drop [ALL] add [NET_ADMIN NET_RAW] seccomp RuntimeDefault hostNetwork true volumes 0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, security(tt.pod)); diff != "" {
				t.Errorf("security (-want +got):\n%s", diff)
			}
			if len(tt.pod.Containers) != 1 || tt.pod.Containers[0].Name != name || tt.pod.ServiceAccountName != name {
				t.Errorf("containers %v with service account %q, want only %s", tt.pod.Containers, tt.pod.ServiceAccountName, name)
			}
			if tt.pod.HostPID || tt.pod.HostIPC {
				t.Error("it shares the host's processes")
			}
		})
	}
}

func security(pod corev1.PodSpec) string {
	c := pod.Containers[0].SecurityContext
	user, nonRoot := pod.SecurityContext.RunAsUser, pod.SecurityContext.RunAsNonRoot
	if c.RunAsUser != nil {
		user = c.RunAsUser
	}
	return fmt.Sprintf("user %d nonRoot %t readOnly %t escalation %t privileged %t drop %v add %v seccomp %s hostNetwork %t volumes %d",
		value(user), value(nonRoot), value(c.ReadOnlyRootFilesystem), value(c.AllowPrivilegeEscalation), value(c.Privileged),
		c.Capabilities.Drop, c.Capabilities.Add, pod.SecurityContext.SeccompProfile.Type, pod.HostNetwork, len(pod.Volumes))
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func TestServiceAccountsHaveNoMoreRightsThanTheCodeNeeds(t *testing.T) {
	objects := mustRender(t, "")
	for _, tt := range []struct {
		role string
		want []string
	}{
		{"ClusterRole purelb:allocator", []string{
			"events: create patch",
			"lbnodeagents.purelb.io/status: patch",
			"lbnodeagents.purelb.io: get list watch",
			"namespaces: get list watch",
			"nodes: get list watch",
			"servicegroups.purelb.io/status: patch",
			"servicegroups.purelb.io: get list watch",
			"services/status: patch",
			"services: get list watch patch",
		}},
		{"Role purelb:allocator:leases", []string{
			"leases.coordination.k8s.io [purelb-allocator]: update",
			"leases.coordination.k8s.io: get list watch create",
		}},
		{"Role purelb:allocator:gossip", []string{
			"secrets [purelb-gossip]: get",
			"secrets: create",
		}},
		{"ClusterRole purelb:lbnodeagent", []string{
			"endpointslices.discovery.k8s.io: get list watch",
			"events: create patch",
			"nodes: get list watch",
			"services/status: patch",
			"services: get list watch",
		}},
		{"Role purelb:lbnodeagent", []string{
			"daemonsets.apps [lbnodeagent]: get",
			"lbnodeagents.purelb.io: get list watch",
			"leases.coordination.k8s.io: get list watch create update delete",
			"pods: get",
			"secrets [purelb-gossip]: get list watch",
			"servicegroups.purelb.io: get list watch",
		}},
	} {
		t.Run(tt.role, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, rights(t, objects[tt.role])); diff != "" {
				t.Errorf("rights (-want +got):\n%s", diff)
			}
		})
	}
}

// rights lists what a role allows, as "resource [names]: verbs", sorted.
func rights(t *testing.T, o *unstructured.Unstructured) []string {
	t.Helper()
	var list []string
	for _, rule := range typed[rbacv1.ClusterRole](t, o).Rules {
		for _, resource := range rule.Resources {
			name, sub, _ := strings.Cut(resource, "/")
			if group := rule.APIGroups[0]; group != "" {
				name += "." + group
			}
			if sub != "" {
				name += "/" + sub
			}
			if len(rule.ResourceNames) > 0 {
				name += fmt.Sprint(" ", rule.ResourceNames)
			}
			list = append(list, name+": "+strings.Join(rule.Verbs, " "))
		}
	}
	slices.Sort(list)
	return list
}

func TestRolesAreBoundToTheirServiceAccounts(t *testing.T) {
	for name, o := range mustRender(t, "") {
		if !strings.HasSuffix(o.GetKind(), "RoleBinding") {
			continue
		}
		b := typed[rbacv1.ClusterRoleBinding](t, o)
		component := strings.Split(o.GetName(), ":")[1]
		want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: component, Namespace: "purelb-system"}}
		if diff := cmp.Diff(want, b.Subjects); diff != "" || b.RoleRef.Name != o.GetName() || b.RoleRef.Kind+"Binding" != o.GetKind() {
			t.Errorf("%s binds %v to %v", name, b.RoleRef, b.Subjects)
		}
	}
}
