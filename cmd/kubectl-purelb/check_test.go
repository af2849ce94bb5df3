package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/explain"
)

// fine are the facts about a cluster in which nothing is wrong.
func fine() explain.Facts {
	return explain.Facts{Version: "v1.36.1", APIGroups: []string{"apps", "purelb.io", "bgp.purelb.io"}, Proxy: explain.Proxy{Known: true, Mode: "iptables"}}
}

// checks are the names of the findings that are not fine.
func checks(c explain.Checkup) (names []string) {
	for _, f := range c.Findings {
		if f.Status != explain.FindingFine {
			names = append(names, f.Status+" "+f.Check)
		}
	}
	return names
}

// Each check is there to find something: this breaks them one by one.
func TestEachCheckFindsItsFault(t *testing.T) {
	if c := explain.CheckUp(wellWorld(t), fine(), false); c.Bad() || c.Again() || c.Unknown > 0 || c.OK != len(c.Findings) {
		t.Fatalf("nothing is wrong, and it finds %q", checks(c))
	}
	found := map[string]bool{}
	for _, tt := range []struct {
		name    string
		breaks  func(w *explain.World, f *explain.Facts)
		want    string
		message string
	}{
		{"an old API server", func(_ *explain.World, f *explain.Facts) { f.Version = "v1.29.4+k3s1" }, "fault version", "v1.29.4+k3s1, and PureLB needs 1.30"},
		{"an odd version", func(_ *explain.World, f *explain.Facts) { f.Version = "main" }, "unknown version", `"main"`},
		{"a missing right", func(w *explain.World, _ *explain.Facts) {
			w.Unread = append(w.Unread, explain.NewUnread(explain.KindNodeStatuses, explain.Forbidden, ""))
		}, "warning rights", "no right to list them"},
		{"no right to install", func(_ *explain.World, f *explain.Facts) { f.Refused = []string{"create namespaces"} }, "fault rights", "the right to create namespaces"},
		{"IPVS without strictARP", func(_ *explain.World, f *explain.Facts) { f.Proxy.Mode = "ipvs" }, "fault proxy", "ipvs.strictARP"},
		{"kube-proxy is not known", func(_ *explain.World, f *explain.Facts) { f.Unsaid = map[string]string{"proxy": "forbidden"} }, "unknown proxy", "unknown: forbidden"},
		{"another load balancer", func(_ *explain.World, f *explain.Facts) { f.APIGroups = append(f.APIGroups, "metallb.io") }, "warning others", "MetalLB is installed too"},
		{"a port of the agents that another pod has", func(_ *explain.World, f *explain.Facts) {
			f.HostPorts = []explain.HostPort{{Node: "n1", Pod: "metallb-system/speaker-1", Protocol: "TCP", Port: 7472}}
		}, "fault ports", "TCP port 7472 of 1 node is that of pod metallb-system/speaker-1 on node n1, and the agent (metrics) needs it there"},
		{"a port of the speakers that another pod has", func(_ *explain.World, f *explain.Facts) {
			f.HostPorts = []explain.HostPort{{Node: "n1", Pod: "calico-system/node-1", Protocol: "TCP", Port: 179}, {Node: "n1", Pod: "x/y", Protocol: "UDP", Port: 7472}}
		}, "warning ports", "TCP port 179 of 1 node is that of pod calico-system/node-1 on node n1"},
		{"a namespace that refuses the pods", func(w *explain.World, _ *explain.Facts) {
			w.Namespaces = append(w.Namespaces, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "purelb-system", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}}})
		}, "fault podsecurity", "enforce=privileged"},
		{"a namespace that may not be read", func(w *explain.World, _ *explain.Facts) {
			w.Unread = append(w.Unread, explain.NewUnread(explain.KindNamespaces, explain.Forbidden, ""))
		}, "unknown podsecurity", "missing right to list Namespaces"},
		{"no definitions", func(_ *explain.World, f *explain.Facts) { f.APIGroups = []string{"apps"} }, "fault definitions", "the API server has no definitions of purelb.io: apply the folder crds of the chart"},
		{"definitions of an older version", func(w *explain.World, _ *explain.Facts) {
			w.Unread = append(w.Unread, explain.NewUnread(explain.KindGroups, explain.NotServed, ""))
		}, "fault definitions", "the API server does not serve ServiceGroups of purelb.io/v2: apply the folder crds of the chart"},
		{"no definitions of BGP", func(w *explain.World, _ *explain.Facts) {
			w.Unread = append(w.Unread, explain.NewUnread(explain.KindConfigurations, explain.NotServed, ""))
		}, "warning definitions", "the API server does not serve BGPConfigurations of bgp.purelb.io/v1: apply the folder crds of the chart"},
		{"a program that is not ready", func(w *explain.World, _ *explain.Facts) {
			w.Pods[0].Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "allocator", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off"}}}
		}, "fault programs", "allocator in pod allocator-1 on node n1 is not ready: CrashLoopBackOff: back-off"},
		{"no allocator", func(w *explain.World, _ *explain.Facts) { w.Pods = w.Pods[1:] }, "fault programs", "there is no pod of the allocator: the events of kubectl -n purelb-system describe replicaset -l component=allocator say why"},
		{"no agent", func(w *explain.World, _ *explain.Facts) { w.Pods = w.Pods[:1] }, "fault programs", "there is no pod of the lbnodeagent: the events of kubectl -n purelb-system describe daemonset -l component=lbnodeagent say why"},
		{"two versions", func(w *explain.World, _ *explain.Facts) {
			w.Pods[0].Spec.Containers[0].Image = "registry.example.com/purelb/allocator:2.0.0"
		}, "warning versions", "different versions"},
		{"a group that is refused", func(w *explain.World, _ *explain.Facts) { w.Groups[1].Spec.Remote.V4Pools[0].Pool = "nonsense" }, "fault configuration", "ServiceGroup purelb-system/far"},
		{"no group", func(w *explain.World, _ *explain.Facts) { w.Groups, w.Services = nil, nil }, "warning configuration", "no usable ServiceGroup"},
		{"a range in the Service network", func(w *explain.World, _ *explain.Facts) {
			w.Networks[0].Spec.CIDRs = []string{"203.0.113.0/24"}
		}, "fault networks", "ServiceGroup purelb-system/far"},
		{"a node without agent", func(w *explain.World, _ *explain.Facts) { w.Leases = w.Leases[:1] }, "fault nodes", "node n2: no agent has run on it"},
		{"a clock that is ahead", func(w *explain.World, _ *explain.Facts) {
			w.Leases[0].Spec.RenewTime = &metav1.MicroTime{Time: w.Now.Add(time.Minute)}
		}, "warning clocks", "the clock of node n1 is 1m0s ahead"},
		{"nodes that do not hear each other", func(w *explain.World, _ *explain.Facts) {
			w.Leases[1].Annotations["purelb.io/gossip"] = "192.168.10.12:8000"
			w.Leases[1].Spec.RenewTime = &metav1.MicroTime{Time: w.Now}
			w.Leases[1].Spec.LeaseDurationSeconds = new(int32(10))
		}, "warning gossip", "let port 8000"},
		{"a foreign machine", func(w *explain.World, _ *explain.Facts) {
			w.Leases[0].Annotations["purelb.io/claimed-addresses"] = "192.168.10.204=02:00:00:00:00:99"
		}, "fault wire", "192.168.10.204 is answered by another machine, 02:00:00:00:00:99, as node n1 reports"},
		{"a node without arp_ignore", func(w *explain.World, _ *explain.Facts) {
			w.Leases[0].Annotations["purelb.io/claimed-addresses"] = "192.168.10.204=02:00:00:00:00:12"
		}, "fault wire", "192.168.10.204 is answered by node n2, which does not announce it, as node n1 reports: set arp_ignore=1"},
		{"a router that is away", func(w *explain.World, _ *explain.Facts) { w.NodeStatuses[0].Status.Neighbors[0].State = "Active" }, "fault routers", "neighbor 192.168.10.1 is Active"},
		{"a Service without address", func(w *explain.World, _ *explain.Facts) { w.Services[0].Status.LoadBalancer.Ingress = nil }, "fault services", "Service default/web: Pending"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, f := wellWorld(t), fine()
			tt.breaks(&w, &f)
			c := explain.CheckUp(w, f, false)
			if !slices.Contains(checks(c), tt.want) {
				t.Fatalf("it finds %q, and not %q", checks(c), tt.want)
			}
			found[strings.Fields(tt.want)[1]] = true
			for _, one := range c.Findings {
				if one.Status+" "+one.Check == tt.want && strings.Contains(one.Message, tt.message) {
					return
				}
			}
			t.Errorf("no finding says %q: %+v", tt.message, c.Findings)
		})
	}
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "kubectl-purelb.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range explain.CheckUp(wellWorld(t), fine(), false).Findings {
		if !found[f.Check] {
			t.Errorf("nothing breaks the check %s", f.Check)
		}
		if !strings.Contains(string(manual), "\n### check "+f.Check+"\n") {
			t.Errorf("the manual has no section on the check %s", f.Check)
		}
	}
}

// What cannot be read is not fine.
func TestACheckOfUnreadObjectsIsUnknown(t *testing.T) {
	for _, tt := range []struct {
		kinds []string
		want  string
	}{
		{[]string{explain.KindNodeStatuses, explain.KindConfigurations}, "unknown routers"},
		{[]string{explain.KindNodeStatuses}, "unknown routers"},
		{[]string{explain.KindNodes}, "unknown nodes"},
		{[]string{explain.KindAgents}, "unknown nodes"},
	} {
		w := wellWorld(t)
		for _, kind := range tt.kinds {
			hide(&w, kind, explain.Forbidden)
		}
		if c := explain.CheckUp(w, fine(), false); !slices.Contains(checks(c), tt.want) {
			t.Errorf("without the right to list %q it finds %q, and not %q", tt.kinds, checks(c), tt.want)
		}
	}
}

func TestABGPConfigurationWithoutSpeakersIsNotFine(t *testing.T) {
	w := wellWorld(t)
	w.NodeStatuses = nil
	if c := explain.CheckUp(w, fine(), false); !slices.Contains(checks(c), "warning routers") {
		t.Errorf("it finds %q", checks(c))
	}
	w.Configurations[0].Namespace = "elsewhere"
	if c := explain.CheckUp(w, fine(), false); slices.Contains(checks(c), "warning routers") {
		t.Errorf("with a BGPConfiguration that does not count it finds %q", checks(c))
	}
}

// The chart of a release names images by their digests, and each program has its own.
func TestVersionsAreTheTags(t *testing.T) {
	const registry = "registry.example.com:5000/purelb/"
	for _, tt := range []struct {
		name       string
		image      func(pod int, program string) string
		consistent bool
	}{
		{"one release by digests", func(_ int, program string) string {
			return fmt.Sprintf("%s%s:1.0.0@sha256:%x", registry, program, sha256.Sum256([]byte(program)))
		}, true},
		{"digests alone", func(_ int, program string) string {
			return fmt.Sprintf("%s%s@sha256:%x", registry, program, sha256.Sum256([]byte(program)))
		}, true},
		{"an agent that was not upgraded", func(pod int, program string) string {
			return registry + program + map[bool]string{true: ":0.9.0", false: ":1.0.0"}[pod == 1]
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := wellWorld(t)
			for i := range w.Pods {
				for _, list := range [][]corev1.Container{w.Pods[i].Spec.InitContainers, w.Pods[i].Spec.Containers} {
					for j := range list {
						list[j].Image = tt.image(i, list[j].Name)
					}
				}
			}
			if v := explain.Versions(w, ""); *v.Consistent != tt.consistent {
				t.Errorf("of one version: %t, want %t: %+v", *v.Consistent, tt.consistent, *v.Components)
			}
			if found := checks(explain.CheckUp(w, fine(), false)); slices.Contains(found, "warning versions") == tt.consistent {
				t.Errorf("it finds %q", found)
			}
		})
	}
}

// A real API server answers all that a check asks.
func TestAClusterIsChecked(t *testing.T) {
	applied(t)
	out, code := cli(t, "", "check", "--pre")
	for _, want := range []string{"√ the API server is recent enough", "√ you have the rights that are needed", "? how kube-proxy is configured is unknown: there is no ConfigMap", "√ no other load balancer"} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
	if code != exitFine {
		t.Errorf("exit code %d", code)
	}
	if out, _ := cli(t, "", "check", "--pre", "--as", "nobody", "--as-group", "system:authenticated"); !strings.Contains(out, "forbidden") {
		t.Errorf("a user without rights is told\n%s", out)
	}
	out, code = cli(t, "", "check", "-o", "short")
	if code != exitProblems || strings.Contains(out, "√") || !strings.Contains(out, "× ServiceGroup purelb-system/twice") || !strings.Contains(out, "see docs/kubectl-purelb.md#check-configuration") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}
