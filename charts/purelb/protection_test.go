package chart

import (
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"purelb.io/purelb/internal/testing/apitest"
)

func TestTwoAllocatorsAreSpreadAndNotEvictedTogether(t *testing.T) {
	for _, tt := range []struct {
		name, values string
		budget       bool
		keys         []string
	}{
		{"one", "", false, nil},
		{"two", "allocator: {replicas: 2}", true, []string{"kubernetes.io/hostname"}},
		{"two replicas without a budget", "allocator: {replicas: 2, podDisruptionBudget: {enabled: false}}", false, []string{"kubernetes.io/hostname"}},
		{
			"two in zones", "allocator: {replicas: 2, topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}",
			true, []string{"zone"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects := mustRender(t, tt.values)
			pod := podOf(t, objects["Deployment allocator"])
			var keys []string
			for _, c := range pod.TopologySpreadConstraints {
				keys = append(keys, c.TopologyKey)
			}
			if diff := cmp.Diff(tt.keys, keys); diff != "" {
				t.Errorf("spread over (-want +got):\n%s", diff)
			}
			budget, ok := objects["PodDisruptionBudget allocator"]
			if ok != tt.budget {
				t.Fatalf("the chart has a budget: %t", ok)
			}
			if ok {
				spec := apitest.As[policyv1.PodDisruptionBudget](t, budget).Spec
				if *spec.MaxUnavailable != intstr.FromInt32(1) || spec.Selector.MatchLabels["component"] != "allocator" {
					t.Errorf("the budget is %+v", spec)
				}
			}
		})
	}
}

func TestNetworkPolicyAllowsTheAllocatorsTraffic(t *testing.T) {
	if _, ok := mustRender(t, "")["NetworkPolicy allocator"]; ok {
		t.Error("the chart has a policy by default, but not every network plugin allows probes then")
	}
	const values = "allocator: {networkPolicy: {enabled: true, from: [{ipBlock: {cidr: 192.0.2.0/24}}]}}"
	objects := mustRender(t, values)
	policy := apitest.As[networkingv1.NetworkPolicy](t, objects["NetworkPolicy allocator"]).Spec
	var in []int
	for _, p := range policy.Ingress[0].Ports {
		in = append(in, p.Port.IntValue())
	}
	var listens []int
	for _, p := range podOf(t, objects["Deployment allocator"]).Containers[0].Ports {
		listens = append(listens, int(p.ContainerPort))
	}
	if diff := cmp.Diff(listens, in); diff != "" {
		t.Errorf("allowed inbound ports (-ports of the pod +got):\n%s", diff)
	}
	if policy.Ingress[0].From[0].IPBlock.CIDR != "192.0.2.0/24" || policy.PodSelector.MatchLabels["component"] != "allocator" {
		t.Errorf("the policy is %+v", policy)
	}
	var out []int
	for _, p := range policy.Egress[0].Ports {
		out = append(out, p.Port.IntValue())
	}
	if diff := cmp.Diff([]int{443, 6443, 53, 53}, out); diff != "" || len(policy.PolicyTypes) != 2 {
		t.Errorf("allowed outbound ports (-want +got):\n%s", diff)
	}
}

func TestImageDigestIsUsedIfKnown(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for _, tt := range []struct{ values, want string }{
		{"", "ghcr.io/purelb/purelb/allocator:0.1.0"},
		{"image: {digests: {allocator: '" + digest + "'}}", "ghcr.io/purelb/purelb/allocator:0.1.0@" + digest},
		{"image: {tag: v2, digests: {allocator: '" + digest + "', k8gobgp: ''}}", "ghcr.io/purelb/purelb/allocator:v2@" + digest},
		{"image: {digests: {lbnodeagent: '" + digest + "'}}", "ghcr.io/purelb/purelb/allocator:0.1.0"},
	} {
		if got := podOf(t, mustRender(t, tt.values)["Deployment allocator"]).Containers[0].Image; got != tt.want {
			t.Errorf("with %q the image is %s, want %s", tt.values, got, tt.want)
		}
	}
	for _, values := range []string{"image: {digests: {allocator: abc}}", "image: {digests: {agent: '" + digest + "'}}"} {
		if _, err := render(t, values); err == nil {
			t.Errorf("%q is accepted", values)
		}
	}
}

func TestFurtherContainersAndVolumesReachThePods(t *testing.T) {
	const values = `{extraEnv: [{name: X, value: text}], extraVolumes: [{name: v, emptyDir: {}}],
  extraVolumeMounts: [{name: v, mountPath: /v}], extraContainers: [{name: proxy, image: x}]}`
	for object, text := range map[string]string{"Deployment allocator": "allocator: ", "DaemonSet lbnodeagent": "lbnodeagent: "} {
		pod := podOf(t, mustRender(t, text+values)[object])
		main := pod.Containers[0]
		last := pod.Containers[len(pod.Containers)-1]
		if !slices.Contains(main.Env, corev1.EnvVar{Name: "X", Value: "text"}) || main.VolumeMounts[len(main.VolumeMounts)-1].MountPath != "/v" ||
			pod.Volumes[len(pod.Volumes)-1].Name != "v" || last.Name != "proxy" {
			t.Errorf("the pod of %s has %v, %v, %v and last %s", object, main.Env, main.VolumeMounts, len(pod.Volumes), last.Name)
		}
	}
}

// TestMetricsListenOnTheConfiguredHost also checks the address of the probes.
func TestMetricsListenOnTheConfiguredHost(t *testing.T) {
	for _, tt := range []struct{ host, env, probe string }{
		{"", "", ""},
		{"node", "status.hostIP", ""},
		{"127.0.0.1", "127.0.0.1", "127.0.0.1"},
		{"::1", "::1", "::1"},
	} {
		pod := podOf(t, mustRender(t, "lbnodeagent: {host: '"+tt.host+"'}")["DaemonSet lbnodeagent"])
		for _, c := range []corev1.Container{pod.InitContainers[0], pod.Containers[0]} {
			var env string
			for _, v := range c.Env {
				if v.Name == "PURELB_HOST" && v.ValueFrom != nil {
					env = v.ValueFrom.FieldRef.FieldPath
				} else if v.Name == "PURELB_HOST" {
					env = v.Value
				}
			}
			if probe := c.LivenessProbe.HTTPGet.Host; env != tt.env || probe != tt.probe || c.ReadinessProbe.HTTPGet.Host != probe {
				t.Errorf("with %q, %s serves at %q and the probe asks %q", tt.host, c.Name, env, probe)
			}
			for _, arg := range c.Args {
				_, address, ok := strings.Cut(arg, "bind-address=")
				if l, err := net.Listen("tcp", strings.NewReplacer("$(PURELB_HOST)", "127.0.0.1", ":7473", ":0", ":7474", ":0").Replace(address)); ok && err != nil {
					t.Errorf("%s: %v", arg, err)
				} else if ok {
					_ = l.Close()
				}
			}
		}
	}
	if _, err := render(t, "lbnodeagent: {host: everywhere}"); err == nil {
		t.Error("the chart accepts an invalid host")
	}
}
