package agent

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/lease"
)

// node is an agent with its own fake kernel in a cluster with a real API server.
type node struct {
	cluster
	kernel *fakeKernel
}

func (c cluster) newNode(name string) node {
	c.t.Helper()
	o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.node + "-" + name}}
	if _, err := c.core.CoreV1().Nodes().Create(c.t.Context(), o, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.node = o.Name
	return node{c, newFakeKernel()}
}

// start runs the agent. Its Lease is valid for the time counts.
func (n node) start(counts time.Duration) (stop func()) {
	return run(n.t, func(ctx context.Context) error {
		return Run(ctx, n.config, n.kernel, Setup{
			Node: n.node, Namespace: n.namespace, Address: "127.0.0.1:0",
			Lease: lease.Options{Node: n.node, Instance: "pod", Duration: counts, RenewDeadline: counts * 2 / 3, RetryPeriod: 500 * time.Millisecond},
			Log:   slog.New(slog.DiscardHandler),
		})
	})
}

// holders returns for each address the nodes whose kernels have it.
func holders(nodes map[string]node) map[string]string {
	by := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		for line := range strings.SplitSeq(nodes[name].kernel.String(), ", ") {
			if address, _, ok := strings.Cut(line, " "); ok {
				by[address] += name
			}
		}
	}
	return by
}

// settled waits until each of the addresses is on exactly one node, and that node is in its slot.
func settled(t *testing.T, nodes map[string]node, addresses int) map[string]string {
	t.Helper()
	var by map[string]string
	eventually(t, fmt.Sprintf("%d addresses are on one node each, and in the slots", addresses), func() bool {
		by = holders(nodes)
		if len(by) != addresses {
			return false
		}
		for address, name := range by {
			n, one := nodes[name]
			if !one || !strings.Contains(n.allSlots(), n.node+",eth0,"+address[:strings.IndexByte(address, '/')]) {
				return false
			}
		}
		return true
	})
	return by
}

func (n node) allSlots() string {
	services, err := n.core.CoreV1().Services(n.namespace).List(n.t.Context(), metav1.ListOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	var all []string
	for _, svc := range services.Items {
		all = append(all, svc.Annotations["purelb.io/announcing-IPv4"], svc.Annotations["purelb.io/announcing-IPv6"])
	}
	return strings.Join(all, " ")
}

func TestNodesShareAddressesAndTakeOverFromALostNode(t *testing.T) {
	c := newCluster(t)
	c.apply(ptr(localGroup("near", "192.0.2.0/24", "2001:db8::/64")))
	c.apply(ptr(lbNodeAgent("default", v2.InterfaceSpec{})))
	nodes := map[string]node{"a": c.newNode("a"), "b": c.newNode("b"), "c": c.newNode("c")}
	stop := map[string]func(){}
	// The Lease of b must expire soon. The Leases of the others must not expire, also on a slow
	// machine.
	for name, counts := range map[string]time.Duration{"a": time.Minute, "b": 3 * time.Second, "c": time.Minute} {
		stop[name] = nodes[name].start(counts)
	}
	leases := c.core.CoordinationV1().Leases(c.namespace)
	eventually(t, "all nodes have a Lease", func() bool {
		all, err := leases.List(t.Context(), metav1.ListOptions{})
		return err == nil && len(all.Items) == len(nodes)
	})
	const services = 12
	for i := range services {
		c.serve(fmt.Sprintf("s%d", i), nil, fmt.Sprintf("192.0.2.%d", 100+i), fmt.Sprintf("2001:db8::%x", 100+i))
	}
	before := settled(t, nodes, 2*services)

	stop["b"]()
	lost := nodes["b"]
	delete(nodes, "b")
	after := settled(t, nodes, 2*services)
	for address, was := range before {
		if was != "b" && after[address] != was {
			t.Errorf("%s moved from %s to %s when b was lost", address, was, after[address])
		}
	}

	lost.kernel = newFakeKernel() // the node rebooted
	nodes["b"] = lost
	began := time.Now()
	lost.start(time.Minute)
	eventually(t, "b is back", func() bool {
		l, err := leases.Get(t.Context(), lease.Prefix+lost.node, metav1.GetOptions{})
		return err == nil && l.Spec.RenewTime.After(began)
	})
	if again := settled(t, nodes, 2*services); !maps.Equal(after, again) {
		t.Errorf("the return of a node moved addresses\nbefore %v\nafter  %v", after, again)
	}
}
