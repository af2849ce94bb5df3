package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/explain"
	"purelb.io/purelb/internal/lease"
	"purelb.io/purelb/internal/service"
)

// recorded is the world of testdata/cluster.yaml.
func recorded(t *testing.T) explain.World {
	t.Helper()
	o := &options{}
	newRoot(o)
	o.files = []string{"testdata/cluster.yaml"}
	w, err := o.readFiles()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// without returns the recorded world as a user reads it who has no right to list that kind.
func without(t *testing.T, kind string) explain.World {
	w := recorded(t)
	hide(&w, kind, explain.Forbidden)
	return w
}

// hide removes the objects of kind from w, and notes that they are unread.
func hide(w *explain.World, kind, reason string) {
	switch kind {
	case explain.KindServices:
		w.Services = nil
	case explain.KindGroups:
		w.Groups = nil
	case explain.KindAgents:
		w.Agents = nil
	case explain.KindLeases:
		w.Leases = nil
	case explain.KindNodes:
		w.Nodes = nil
	case explain.KindNetworks:
		w.Networks = nil
	case explain.KindNamespaces:
		w.Namespaces = nil
	case explain.KindPods:
		w.Pods, w.Settled = nil, false
	case explain.KindConfigurations:
		w.Configurations = nil
	case explain.KindNodeStatuses:
		w.NodeStatuses = nil
	}
	w.Unread = append(w.Unread, explain.NewUnread(kind, reason, "timed out"))
}

// first is the first line of an answer, or the error in its place.
func first(w explain.World, command string) string {
	what, name, _ := strings.Cut(command, " ")
	story := map[string]func(explain.World, string) (explain.Story, error){
		"service": explain.Service, "ip": explain.IP, "group": explain.Group, "node": explain.Node,
	}[what]
	var err error
	switch {
	case story != nil:
		var s explain.Story
		if s, err = story(w, name); err == nil {
			return s.Summary
		}
	case what == "pools":
		_, err = explain.PoolsOf(w, "", false)
	case what == "services":
		_, err = explain.ServicesOf(w, explain.Filter{})
	case what == "election":
		_, err = explain.ElectionOf(w, "", name)
	case what == "status":
		return explain.StatusOf(w).Overall
	}
	return fmt.Sprint(err)
}

// Without a right the first line says what is unknown because of it. What does not depend
// on the right is said as ever.
func TestAMissingRightIsNoFalseStatement(t *testing.T) {
	right := func(kind string) string {
		return "unknown because of the missing right to list " + kind + " (the ClusterRole purelb-viewer has it)"
	}
	for _, tt := range []struct{ kind, command, want string }{
		{explain.KindServices, "service default/web", "whether there is a Service default/web is " + right("Services")},
		{explain.KindServices, "ip 192.168.10.200", "which Service holds 192.168.10.200 is " + right("Services")},
		{explain.KindServices, "group far", "ServiceGroup far is in use; whether it has free addresses is " + right("Services")},
		{explain.KindServices, "services", "which Services there are is " + right("Services")},
		{explain.KindServices, "election n1", "what would move is " + right("Services")},
		{explain.KindServices, "node n1", "node n1 can announce local addresses of 192.168.10.0/24"},

		{explain.KindGroups, "service default/typo", "default/typo: what it gets is " + right("ServiceGroups") +
			`; its condition says UnknownPool: unknown pool "fra": there is no ServiceGroup of that name; create it, or change the annotation purelb.io/service-group`},
		{explain.KindGroups, "service default/fresh", "default/fresh: what it gets is " + right("ServiceGroups")},
		{explain.KindGroups, "service default/web", "default/web has 192.168.10.200 from default; node n1 announces it on eth0"},
		{explain.KindGroups, "ip 203.0.113.9", "which ServiceGroup has 203.0.113.9 is " + right("ServiceGroups")},
		{explain.KindGroups, "ip 192.168.10.200", "192.168.10.200 is held by default/web, and node n1 announces it on eth0"},
		{explain.KindGroups, "group far", "whether there is a ServiceGroup far is " + right("ServiceGroups")},
		{explain.KindGroups, "pools", "which ServiceGroups there are is " + right("ServiceGroups")},

		{explain.KindLeases, "service default/web", "default/web: whether its addresses are announced is " + right("Leases")},
		{explain.KindLeases, "service default/api", "default/api: whether its addresses are announced is " + right("Leases")},
		{explain.KindLeases, "service default/late", `default/late has no address: pool "default" exhausted: no available addresses for default/late (IPv4)`},
		{explain.KindLeases, "ip 192.168.10.200", "192.168.10.200 is held by default/web, and by its annotations node n1 announces it on eth0; whether that node lives is " + right("Leases")},
		{explain.KindLeases, "ip 203.0.113.9", "no Service has 203.0.113.9 of ServiceGroup far; whether a node has it is " + right("Leases")},
		{explain.KindLeases, "node n1", "what node n1 announces is " + right("Leases")},
		{explain.KindLeases, "node nowhere", "whether there is a node nowhere is " + right("Leases")},
		{explain.KindLeases, "election n1", "which nodes can announce what is " + right("Leases")},

		{explain.KindNodes, "node nowhere", "whether there is a node nowhere is " + right("Nodes")},
		{explain.KindNodes, "node n1", "node n1 can announce local addresses of 192.168.10.0/24"},
		{explain.KindAgents, "node n1", "node n1 can announce local addresses of 192.168.10.0/24"},
		{explain.KindPods, "service default/fresh", "default/fresh: whether PureLB serves it, which has no loadBalancerClass, is " + right("Pods")},
		{explain.KindPods, "service default/web", "default/web has 192.168.10.200 from default; node n1 announces it on eth0"},
		{explain.KindPods, "node n3", "the agent of node n3 does not run or does not reach the API server: its Lease ended 17m0s ago; whether its pod runs is " + right("Pods")},
	} {
		t.Run(tt.kind+", "+tt.command, func(t *testing.T) {
			if got := first(without(t, tt.kind), tt.command); got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// wellWorld is the recorded world without what is wrong in it.
func wellWorld(t *testing.T) explain.World {
	w := recorded(t)
	keep := map[string]bool{"web": true, "api": true, "dns": true}
	var services []corev1.Service
	for _, svc := range w.Services {
		if keep[svc.Name] {
			services = append(services, svc)
		}
	}
	w.Services = services
	w.Leases, w.Nodes, w.NodeStatuses = w.Leases[:2], w.Nodes[:2], w.NodeStatuses[:1]
	w.Unread = nil
	delete(w.Leases[1].Annotations, lease.AnnotationClaims)
	var groups []v2.ServiceGroup
	for _, g := range w.Groups {
		if g.Name == "default" || g.Name == "far" {
			groups = append(groups, g)
		}
	}
	w.Groups = groups
	return w
}

// What is not known is not fine, and is no warning either.
func TestOverallIsUnknownWithoutARight(t *testing.T) {
	w := wellWorld(t)
	if s := explain.StatusOf(w); s.Overall != explain.OverallOK {
		t.Fatalf("with all rights it is %s: %q", s.Overall, s.Warnings)
	}
	for _, kind := range []string{explain.KindServices, explain.KindGroups, explain.KindAgents, explain.KindLeases, explain.KindNodes,
		explain.KindNetworks, explain.KindPods, explain.KindNodeStatuses} {
		for _, reason := range []string{explain.Forbidden, explain.Failed} {
			w := wellWorld(t)
			hide(&w, kind, reason)
			if s := explain.StatusOf(w); s.Overall != explain.OverallUnknown || len(s.Warnings) > 0 {
				t.Errorf("%s %s: it is %s: %q", kind, reason, s.Overall, s.Warnings)
			}
		}
	}
}

// at is a world with the Service of that name changed.
func changed(t *testing.T, name string, change func(*corev1.Service)) explain.World {
	w := recorded(t)
	for i := range w.Services {
		if w.Services[i].Name == name {
			change(&w.Services[i])
		}
	}
	return w
}

func says(reason, message string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Status.Conditions = []metav1.Condition{{Type: service.ConditionAllocated, Status: metav1.ConditionFalse, Reason: reason, Message: message}}
	}
}

// A contest with another controller is a problem, and so is what that has written.
func TestAContestedStatusIsNotFine(t *testing.T) {
	w := changed(t, "web", says(service.ReasonContested, `another controller (field manager "other") keeps changing the status of this Service`))
	want := `default/web: another controller (field manager "other") keeps changing the status of this Service`
	if got := first(w, "service default/web"); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	w = changed(t, "web", func(svc *corev1.Service) {
		svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: "192.0.2.77"})
	})
	if got := first(w, "service default/web"); !strings.Contains(got, "192.0.2.77") || !strings.Contains(got, "another controller") {
		t.Errorf("got %s", got)
	}
}

// netbox has ServiceGroup default managed by NetBox, of which its status says this.
func netbox(w explain.World, reason, message string) explain.World {
	for i := range w.Groups {
		if w.Groups[i].Name != "default" {
			continue
		}
		w.Groups[i].Spec = v2.ServiceGroupSpec{Netbox: &v2.NetboxSpec{URL: "https://netbox.example.com/", Tenant: "purelb"}}
		if reason != "" {
			w.Groups[i].Status.Conditions = []metav1.Condition{{Type: v2.ConditionBackendReady, Status: metav1.ConditionFalse, Reason: reason, Message: message}}
		}
	}
	return w
}

// What keeps a backend from granting an address is in the first line: the Service tells it,
// or the group.
func TestTheFaultOfABackendIsNamed(t *testing.T) {
	const refused = `pool "default" gives default/fresh no IPv4 address yet, and PureLB goes on asking: NetBox answers 403: invalid token`
	for _, tt := range []struct {
		name  string
		world explain.World
		want  string
	}{
		{"by the Service", netbox(changed(t, "fresh", says("BackendMisconfigured", refused)), "", ""), "default/fresh has no address: " + refused},
		{"by the group", netbox(recorded(t), "Misconfigured", "NetBox answers 403: invalid token"),
			"default/fresh has no address: NetBox of ServiceGroup default does not work (Misconfigured): NetBox answers 403: invalid token"},
		{"by nobody", netbox(recorded(t), "", ""), "default/fresh has no address: waiting for NetBox to grant an IPv4 address of pool \"default\" to default/fresh"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := first(tt.world, "service default/fresh"); got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
	broken := netbox(wellWorld(t), "Unavailable", "connection refused")
	if s := explain.StatusOf(broken); !strings.Contains(strings.Join(s.Warnings, "\n"), "NetBox of ServiceGroup default does not work (Unavailable): connection refused") {
		t.Errorf("status warns of %q", s.Warnings)
	}
}

// A speaker that has gone silent is not healthy, whatever it wrote last.
func TestASilentSpeakerIsNotHealthy(t *testing.T) {
	w := wellWorld(t)
	w.Now = w.Now.Add(171 * time.Second) // It wrote 10 s before, and should every 60 s.
	for i := range w.Leases {
		w.Leases[i].Spec.RenewTime = &metav1.MicroTime{Time: w.Now}
	}
	const silent = "its speaker has not reported for 3m1s, although it should every 60s"
	if got := first(w, "node n1"); !strings.Contains(got, "BGP is not healthy on node n1: "+silent) {
		t.Errorf("explain node says %s", got)
	}
	if s := explain.StatusOf(w); s.Overall != explain.OverallWarning || !strings.Contains(strings.Join(s.Warnings, "\n"), "BGP on node n1: "+silent) {
		t.Errorf("status is %s: %q", s.Overall, s.Warnings)
	}
}

// Nodes without an agent and nodes without an LBNodeAgent announce nothing.
func TestNodesThatCannotAnnounceAreNamed(t *testing.T) {
	w := wellWorld(t)
	w.Nodes = append(w.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n9"}})
	want := "no agent has run on node n9: it has no Lease, so it announces nothing; there is no pod of the DaemonSet lbnodeagent on it"
	if got := first(w, "node n9"); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if s := explain.StatusOf(w); s.Overall != explain.OverallWarning {
		t.Errorf("with a node without an agent all is %s", s.Overall)
	}
	w.Nodes[2].Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
	if s := explain.StatusOf(w); s.Overall != explain.OverallOK || len(s.Election.Nodes) != 3 {
		t.Errorf("with a tainted node without an agent all is %s: %q", s.Overall, s.Warnings)
	}
	w = wellWorld(t)
	w.Agents = w.Agents[1:] // the one for role=edge
	if got, want := first(w, "node n1"), "no usable LBNodeAgent is for node n1, so it announces nothing"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if s := explain.StatusOf(w); s.Overall != explain.OverallWarning {
		t.Errorf("with nodes without an LBNodeAgent all is %s", s.Overall)
	}
	w = wellWorld(t)
	w.Leases = []coordinationv1.Lease{w.Leases[0]}
	for i := range w.Pods {
		if w.Pods[i].Spec.NodeName == "n2" {
			w.Pods[i].Status.ContainerStatuses[0].Ready = false
			w.Pods[i].Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}
		}
	}
	want = "no agent has run on node n2: it has no Lease, so it announces nothing; its pod lbnodeagent-2 is not ready: ImagePullBackOff"
	if got := first(w, "node n2"); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}
