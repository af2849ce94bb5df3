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

	"purelb.io/purelb/internal/testing/apitest"
)

// The documentation promises this security of the pods:
//
//	Allocator    non-root (UID 65534), read-only filesystem   no capabilities                          cluster network
//	LBNodeAgent  root (required for netlink), read-only       NET_ADMIN, NET_RAW                       host network
//	k8gobgp      root, read-only, in the agent's pod          NET_ADMIN, NET_BIND_SERVICE, NET_RAW     host network
func TestPodsHaveNoMoreRightsThanPromised(t *testing.T) {
	const (
		agent   = "lbnodeagent: user 0 nonRoot false readOnly true escalation false privileged false drop [ALL] add [NET_ADMIN NET_RAW] mounts [/var/run/purelb]"
		mute    = "lbnodeagent: user 0 nonRoot false readOnly true escalation false privileged false drop [ALL] add [NET_ADMIN NET_RAW] mounts []"
		speaker = "k8gobgp: user 0 nonRoot false readOnly true escalation false privileged false drop [ALL] add [NET_ADMIN NET_BIND_SERVICE NET_RAW] mounts [/var/run/gobgp]"
		host    = "seccomp RuntimeDefault hostNetwork true volumes "
	)
	for _, tt := range []struct {
		name, values, account string
		want                  []string
	}{
		{
			name: "Deployment allocator", account: "allocator",
			want: []string{
				"seccomp RuntimeDefault hostNetwork false volumes []",
				"allocator: user 65534 nonRoot true readOnly true escalation false privileged false drop [ALL] add [] mounts []",
			},
		},
		{
			name: "Deployment allocator", values: "allocator: {ipam: {containers: [{name: ipam, image: ipam}]}}", account: "allocator",
			want: []string{
				"seccomp RuntimeDefault hostNetwork false volumes [memory memory]",
				"allocator: user 65534 nonRoot true readOnly true escalation false privileged false drop [ALL] add [] mounts [/var/run/purelb]",
				"ipam: user 65534 nonRoot true readOnly true escalation false privileged false drop [ALL] add [] mounts [/var/run/purelb /var/run/secrets/kubernetes.io/serviceaccount]",
			},
		},
		{name: "DaemonSet lbnodeagent", account: "lbnodeagent", want: []string{host + "[memory memory]", speaker, agent}},
		{name: "DaemonSet lbnodeagent", values: "gobgp: {nativeSidecar: false}", account: "lbnodeagent", want: []string{host + "[memory memory]", agent, speaker}},
		{name: "DaemonSet lbnodeagent", values: "gobgp: {enabled: false}", account: "lbnodeagent", want: []string{host + "[memory]", agent}},
		{name: "DaemonSet lbnodeagent", values: "{gobgp: {enabled: false}, gossip: {enabled: false}}", account: "lbnodeagent", want: []string{host + "[]", mute}},
	} {
		t.Run(tt.name+" "+tt.values, func(t *testing.T) {
			o := mustRender(t, tt.values)[tt.name]
			pod := podOf(t, o)
			if diff := cmp.Diff(tt.want, security(pod)); diff != "" {
				t.Errorf("security (-want +got):\n%s", diff)
			}
			if pod.ServiceAccountName != tt.account {
				t.Errorf("the service account of the pod is %q", pod.ServiceAccountName)
			}
			if pod.HostPID || pod.HostIPC {
				t.Error("the pod shares the host's processes")
			}
		})
	}
}

func podOf(t *testing.T, o *unstructured.Unstructured) corev1.PodSpec {
	t.Helper()
	if o.GetKind() == "Deployment" {
		return apitest.As[appsv1.Deployment](t, o).Spec.Template.Spec
	}
	return apitest.As[appsv1.DaemonSet](t, o).Spec.Template.Spec
}

// security lists the rights of a pod, and of each container in the order of their start.
func security(pod corev1.PodSpec) []string {
	media := []string{}
	for _, v := range pod.Volumes {
		media = append(media, strings.ToLower(string(v.EmptyDir.Medium)))
	}
	list := []string{fmt.Sprintf("seccomp %s hostNetwork %t volumes %v", pod.SecurityContext.SeccompProfile.Type, pod.HostNetwork, media)}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		list = append(list, containerSecurity(pod.SecurityContext, c))
	}
	return list
}

func containerSecurity(pod *corev1.PodSecurityContext, container corev1.Container) string {
	c := container.SecurityContext
	user := pod.RunAsUser
	if c.RunAsUser != nil {
		user = c.RunAsUser
	}
	mounts := []string{}
	for _, m := range container.VolumeMounts {
		mounts = append(mounts, m.MountPath)
	}
	return fmt.Sprintf("%s: user %d nonRoot %t readOnly %t escalation %t privileged %t drop %v add %v mounts %v",
		container.Name, value(user), value(pod.RunAsNonRoot), value(c.ReadOnlyRootFilesystem), value(c.AllowPrivilegeEscalation), value(c.Privileged),
		c.Capabilities.Drop, c.Capabilities.Add, mounts)
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func TestServiceAccountsHaveOnlyNeededRights(t *testing.T) {
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
			"servicecidrs.networking.k8s.io: get list watch",
			"servicegroups.purelb.io/status: update patch",
			"servicegroups.purelb.io: get list watch",
			"servicegroups.purelb.io: patch",
			"services/status: patch",
			"services: get list watch patch",
		}},
		{"Role purelb:allocator:leases", []string{
			"leases.coordination.k8s.io [purelb-allocator]: update",
			"leases.coordination.k8s.io: get list watch create",
		}},
		{"Role purelb:allocator:bgp", []string{
			"configs.bgp.purelb.io/status: patch",
			"configs.bgp.purelb.io: get list watch patch",
		}},
		{"Role purelb:allocator:gossip", []string{
			"secrets [purelb-gossip]: get",
			"secrets: create",
		}},
		{"Role purelb:allocator:netbox", []string{
			"secrets [netbox-client]: get",
		}},
		{"ClusterRole purelb:lbnodeagent", []string{
			"endpointslices.discovery.k8s.io: get list watch",
			"events: create patch",
			"nodes: get list watch",
			"services/status: patch",
			"services: get list watch",
			"tokenreviews.authentication.k8s.io: create",
		}},
		{"Role purelb-prober", []string{
			"pods/proxy: create",
			"pods: list",
			"serviceaccounts/token [purelb-prober]: create",
		}},
		{"Role purelb-inspector", []string{
			"pods/log: get",
			"pods/proxy: get",
		}},
		{"Role purelb:lbnodeagent", []string{
			"daemonsets.apps [lbnodeagent]: get list watch",
			"lbnodeagents.purelb.io: get list watch",
			"leases.coordination.k8s.io: get list watch create update delete",
			"pods: get",
			"secrets [purelb-gossip]: get list watch",
			"servicegroups.purelb.io: get list watch",
		}},
		{"ClusterRole purelb:k8gobgp", []string{
			"bgpnodestatuses.bgp.purelb.io/status: update patch",
			"bgpnodestatuses.bgp.purelb.io: get list create update patch delete",
			"events: create patch",
			"nodes: get list watch",
			"services: get list watch",
		}},
		{"Role purelb:k8gobgp", []string{
			"configs.bgp.purelb.io: get list watch",
			"lbnodeagents.purelb.io: get list watch",
			"servicegroups.purelb.io: get list watch",
		}},
		{"ClusterRole purelb:bgpnodestatus-viewer", []string{
			"bgpnodestatuses.bgp.purelb.io: get list watch",
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
	for _, rule := range apitest.As[rbacv1.ClusterRole](t, o).Rules {
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
		b := apitest.As[rbacv1.ClusterRoleBinding](t, o)
		component := strings.Split(o.GetName(), ":")[1]
		if component == "k8gobgp" {
			component = "lbnodeagent" // the two programs are in one pod
		}
		want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: component, Namespace: "purelb-system"}}
		if diff := cmp.Diff(want, b.Subjects); diff != "" || b.RoleRef.Name != o.GetName() || b.RoleRef.Kind+"Binding" != o.GetKind() {
			t.Errorf("%s binds %v to %v", name, b.RoleRef, b.Subjects)
		}
	}
}

func TestViewersMayReadBGPStatus(t *testing.T) {
	role := mustRender(t, "")["ClusterRole purelb:bgpnodestatus-viewer"]
	if got := role.GetLabels()["rbac.authorization.k8s.io/aggregate-to-view"]; got != "true" {
		t.Errorf("the role is aggregated to view: %q", got)
	}
}

// A native sidecar with a startup probe delays the start of the agent. A limit on CPU delays the
// packets of BFD.
func TestSpeakerDoesNotDelayTheAgent(t *testing.T) {
	pod := podOf(t, mustRender(t, "")["DaemonSet lbnodeagent"])
	if len(pod.InitContainers) != 1 || value(pod.InitContainers[0].RestartPolicy) != corev1.ContainerRestartPolicyAlways {
		t.Fatalf("the init containers are %v, want one with restartPolicy Always", pod.InitContainers)
	}
	speaker := pod.InitContainers[0]
	if speaker.StartupProbe != nil {
		t.Error("the agent waits for the speaker")
	}
	if limit, ok := speaker.Resources.Limits[corev1.ResourceCPU]; ok {
		t.Errorf("the speaker is throttled at %s", &limit)
	}
	if limit := speaker.Resources.Limits.Memory().String(); limit != "256Mi" {
		t.Errorf("the memory limit of the speaker is %s", limit)
	}
}

func TestSpeakerReadsOnlyNamedPasswords(t *testing.T) {
	const configured = `
gobgp:
  passwordSecrets: [spare, bgp]
  configuration:
    create: true
    spec:
      global: {asn: 65001}
      neighbors:
      - config: {neighborAddress: 192.0.2.1, peerAsn: 65000, authPasswordSecretRef: {name: tor, key: password}}
      - config: {neighborAddress: 192.0.2.2, peerAsn: 65000}
      peerGroups:
      - config: {peerGroupName: core, authPasswordSecretRef: {name: bgp, key: core}}
`
	for _, tt := range []struct{ name, values, want string }{
		{"none", "", ""},
		{"passwords named in the values", "gobgp: {passwordSecrets: [bgp]}", "secrets [bgp]: get list watch"},
		{"passwords named in the configuration, too", configured, "secrets [bgp spare tor]: get list watch"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got string
			objects := mustRender(t, tt.values)
			for _, right := range rights(t, objects["Role purelb:k8gobgp"]) {
				if strings.HasPrefix(right, "secrets") {
					got += right
				}
			}
			if got != tt.want {
				t.Errorf("the rights are %q, want %q", got, tt.want)
			}
			checked := strings.TrimSuffix(tt.want, " list watch")
			if all := rights(t, objects["Role purelb:allocator:bgp"]); tt.want != "" && !slices.Contains(all, checked) {
				t.Errorf("the allocator, which checks the passwords, has the rights %q", all)
			}
		})
	}
}

// TestAllocatorReadsOnlyNamedSecretsForNetBox lists each namespace with the allocator's right in
// it.
func TestAllocatorReadsOnlyNamedSecretsForNetBox(t *testing.T) {
	const group = "serviceGroup: {create: true, spec: {netbox: {url: 'https://n/', tokenSecret: {name: token}, caSecret: {name: ca}}}}"
	for _, tt := range []struct {
		name, values string
		want         []string
	}{
		{"the Secret of earlier versions", "", []string{"purelb-system [secrets [netbox-client]: get]"}},
		{"others", "allocator: {netbox: {secrets: [b, a, b]}}", []string{"purelb-system [secrets [a b]: get]"}},
		{"Secrets that the group of the values names", group, []string{"purelb-system [secrets [ca netbox-client token]: get]"}},
		{"none", "allocator: {netbox: {secrets: []}}", nil},
		{"in all configured namespaces", "configNamespaces: [team, purelb-system]", []string{"purelb-system [secrets [netbox-client]: get]", "team [secrets [netbox-client]: get]"}},
		{"not in every namespace of the cluster", `configNamespaces: ["*"]`, []string{"purelb-system [secrets [netbox-client]: get]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			bindings := 0
			for _, o := range named(t, tt.values, "purelb:allocator:netbox") {
				if o.GetKind() == "Role" {
					got = append(got, fmt.Sprint(o.GetNamespace(), " ", rights(t, o)))
					continue
				}
				bindings++
				b := apitest.As[rbacv1.RoleBinding](t, o)
				if want := (rbacv1.Subject{Kind: "ServiceAccount", Name: "allocator", Namespace: "purelb-system"}); b.RoleRef.Name != o.GetName() || !slices.Contains(b.Subjects, want) {
					t.Errorf("%s in %s binds %v to %v", o.GetKind(), o.GetNamespace(), b.RoleRef, b.Subjects)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, got); diff != "" || bindings != len(got) {
				t.Errorf("%d bindings; roles (-want +got):\n%s", bindings, diff)
			}
		})
	}
}

func TestPoliciesCanBeLeftOut(t *testing.T) {
	for name := range mustRender(t, "admissionPolicies: {enabled: false}") {
		if strings.HasPrefix(name, "ValidatingAdmission") {
			t.Errorf("the chart has %s", name)
		}
	}
	if _, ok := mustRender(t, "gobgp: {enabled: false}")["ValidatingAdmissionPolicy purelb-agent-bgpnodestatuses"]; ok {
		t.Error("the chart has a policy for BGPNodeStatuses without BGP")
	}
}

func TestUnsupportedKubernetesIsRefused(t *testing.T) {
	_, _, err := helm(t, "template", "purelb", ".", "--kube-version", "1.30.14")
	if err == nil || !strings.Contains(err.Error(), ">=1.31.0") {
		t.Errorf("Kubernetes 1.30 cannot select Services by their type, but the error is %v", err)
	}
}

// environment returns a variable of the containers of all pods, by the name of the container.
func environment(t *testing.T, values, variable string) map[string]string {
	t.Helper()
	found, objects := map[string]string{}, mustRender(t, values)
	for _, pod := range []corev1.PodSpec{podOf(t, objects["Deployment allocator"]), podOf(t, objects["DaemonSet lbnodeagent"])} {
		for _, c := range slices.Concat(pod.Containers, pod.InitContainers) {
			found[c.Name] = ""
			for _, e := range c.Env {
				if e.Name == variable {
					found[c.Name] = e.Value
				}
			}
		}
	}
	return found
}

func TestAgentsReadTheConfiguredNamespaces(t *testing.T) {
	const right = "[lbnodeagents.purelb.io: get list watch servicegroups.purelb.io: get list watch]"
	for _, tt := range []struct {
		name, values, env string
		want              []string
	}{
		{"only PureLB's own namespace", "", "", nil},
		{"PureLB's own namespace by name", "configNamespaces: [purelb-system]", "purelb-system", nil},
		{"two more", "configNamespaces: [team-a, team-b, purelb-system]", "team-a,team-b,purelb-system", []string{"Role team-a " + right, "Role team-b " + right}},
		{"all", `configNamespaces: ["*"]`, "*", []string{"ClusterRole  " + right}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, o := range named(t, tt.values, "purelb:lbnodeagent:config") {
				if binding := strings.TrimSuffix(o.GetKind(), "Binding"); binding == o.GetKind() {
					got = append(got, fmt.Sprintf("%s %s %s", o.GetKind(), o.GetNamespace(), rights(t, o)))
				} else if b := apitest.As[rbacv1.ClusterRoleBinding](t, o); b.RoleRef.Kind != binding || b.Subjects[0].Name != "lbnodeagent" || b.Subjects[0].Namespace != "purelb-system" {
					t.Errorf("%s in %s binds %v to %v", o.GetKind(), o.GetNamespace(), b.RoleRef, b.Subjects)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("rights (-want +got):\n%s", diff)
			}
			for container, env := range environment(t, tt.values, "PURELB_CONFIG_NAMESPACES") {
				if env != tt.env {
					t.Errorf("%s gets %q, want %q", container, env, tt.env)
				}
			}
		})
	}
}
