package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/kube"
)

// Promise: what happens to one Service changes no route of another.

// hands create and delete Services at the same time.
const hands = 10

// churnFor returns the number of Services that stay, and how many others come and go each second, and for how long, if
// the machine is fast enough. CHURN=2m asks for the long form.
func churnFor(t *testing.T) (steady, perSecond int, churning time.Duration) {
	long := os.Getenv("CHURN")
	if long == "" {
		return 150, 20, 20 * time.Second
	}
	churning, err := time.ParseDuration(long)
	if err != nil {
		t.Fatal(err)
	}
	return 450, 30, churning
}

func TestChurnOfServicesMovesNoOtherRoute(t *testing.T) {
	steady, perSecond, churning := churnFor(t)
	pause := time.Second / time.Duration(perSecond)
	w := newWorldFor(t, 15*time.Minute)
	w.group("e2e-many", `{remote: {v4pools: [{subnet: 10.241.0.0/16, pool: 10.241.0.0/16, aggregation: /32}],
    v6pools: [{subnet: "fd00:10:241::/64", pool: "fd00:10:241::/64", aggregation: /128}]}}`)
	w.peer(withoutBFD) // a small machine with four nodes gives none of them the CPU for 300 ms in time
	w.inHands(steady, func(i int) error {
		return w.create(fmt.Sprintf("stays-%03d", i), "e2e-many", corev1.IPFamilyPolicyPreferDualStack)
	})
	w.until(5*patience, "every Service has its addresses", func() bool { return w.unserved() == 0 })
	stays := w.allAddresses("stays-")
	if len(stays) != steady*families() {
		t.Fatalf("%d Services have %d addresses, want %d", steady, len(stays), steady*families())
	}
	w.until(5*patience, "the router has a route of every node to each address", func() bool {
		return len(w.routesSince(stays)) == len(stays)*len(lab.Nodes())
	})
	f, had := w.followRoutes(), w.told()

	time.Sleep(3 * time.Second) // the times of FRR vary by a second between two questions
	began := time.Now()
	total := perSecond * int(churning/time.Second)
	w.inHands(total+perSecond, func(i int) error {
		time.Sleep(time.Until(began.Add(time.Duration(i) * pause)))
		name := func(i int) string { return fmt.Sprintf("comes-%04d", i) }
		if i < total {
			if err := w.create(name(i), "e2e-many", corev1.IPFamilyPolicyPreferDualStack); err != nil {
				return err
			}
		}
		if i < perSecond {
			return nil
		}
		// Each lives for a second. The same hand has created it, because perSecond is a multiple of hands.
		return w.Delete(w.ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name(i - perSecond)}})
	})
	t.Logf("%d Services came and went in %s", total, time.Since(began).Round(time.Second))
	time.Sleep(3 * time.Second) // a late change counts too
	f.nothing(stays...)
	moved, after := 0, w.routesSince(stays)
	for _, since := range after {
		if since >= began.Unix() {
			moved++
		}
	}
	if want := len(stays) * len(lab.Nodes()); moved > 0 || len(after) != want {
		t.Errorf("the router has %d routes, want %d; %d of them came again", len(after), want, moved)
	}
	for node, s := range w.told() {
		if s.Established != had[node].Established {
			t.Errorf("the router has a new session with %s", node)
		}
	}
}

// create creates a Service without endpoints in a group.
func (w *world) create(name, group string, families corev1.IPFamilyPolicy) error {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{"purelb.io/service-group": group}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: new(bool), IPFamilyPolicy: &families,
			Selector: map[string]string{"app": "nobody"}, Ports: []corev1.ServicePort{{Port: 80}},
		},
	}
	return w.Create(w.ctx, svc)
}

// inHands calls do for each number below n, several at a time and in their order.
func (w *world) inHands(n int, do func(i int) error) {
	w.t.Helper()
	var work sync.WaitGroup
	for hand := range hands {
		work.Go(func() {
			for i := hand; i < n; i += hands {
				if err := do(i); err != nil {
					w.t.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
}

// allAddresses returns the addresses of the Services whose names have a prefix.
func (w *world) allAddresses(prefix string) (all []netip.Addr) {
	w.t.Helper()
	var list corev1.ServiceList
	if err := w.List(w.ctx, &list); err != nil {
		w.t.Fatal(err)
	}
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, prefix) {
			all = append(all, kube.Addresses(&list.Items[i])...)
		}
	}
	return all
}

// routesSince returns when the router last got a route to each address from each neighbor, in seconds since 1970.
// The keys have the address and the neighbor.
func (w *world) routesSince(addresses []netip.Addr) map[string]int64 {
	w.t.Helper()
	since := map[string]int64{}
	for some := range slices.Chunk(addresses, 100) {
		argv := []string{"vtysh"}
		for _, a := range some {
			family := "ipv4"
			if a.Is6() {
				family = "ipv6"
			}
			argv = append(argv, "-c", fmt.Sprintf("show bgp %s unicast %s json", family, host(a)))
		}
		out, err := lab.Exec(w.ctx, cluster.Router, argv...)
		if err != nil {
			w.t.Fatal(err)
		}
		for answers := json.NewDecoder(strings.NewReader(out)); ; {
			var route bgpRoute
			err := answers.Decode(&route)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				w.t.Fatalf("the router's routes: %v in\n%s", err, out)
			}
			for _, p := range route.Paths {
				since[route.Prefix+" "+p.Peer.ID] = p.Updated.Epoch
			}
		}
	}
	return since
}

// bgpRoute is the router's view of its routes to a prefix.
type bgpRoute struct {
	Prefix string `json:"prefix"`
	Paths  []struct {
		Updated struct {
			Epoch int64 `json:"epoch"`
		} `json:"lastUpdate"`
		Peer struct {
			ID string `json:"peerId"`
		} `json:"peer"`
	} `json:"paths"`
}
