package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/announce/linux"
	"purelb.io/purelb/internal/nodes/lease"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/expect"
)

func addrOf(text string) netip.Addr { return netip.MustParseAddr(text) }

// machine is a node: a network namespace with eth0 and eth1. The thread of the test is in this
// namespace.
type machine struct {
	cluster
	stack *linux.Stack
}

func newMachine(t *testing.T) machine {
	t.Helper()
	m := machine{cluster: newCluster(t)}
	runtime.LockOSThread() // never unlocked: the thread dies with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); errors.Is(err, unix.EPERM) {
		t.Fatal("this test makes a network namespace: run it as root")
	} else if err != nil {
		t.Fatal(err)
	}
	expect.NoError(t, os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0))
	ip(t, `link set lo up
		link add eth0 type veth peer name far0
		link add eth1 type veth peer name far1
		link set eth0 up
		link set far0 up
		link set eth1 up
		link set far1 up
		addr add 192.0.2.1/24 dev eth0
		addr add 2001:db8::1/64 dev eth0
		addr add 198.51.100.1/24 dev eth1
		addr add 2001:db8:1::1/64 dev eth1
		route add default via 192.0.2.254
		-6 route add default via 2001:db8::fe dev eth0`)
	var err error
	if m.stack, err = linux.New(slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.stack.Close() })
	return m
}

// ip runs iproute2's command, once per line of script.
func ip(t *testing.T, script string) {
	t.Helper()
	for line := range strings.Lines(script) {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Errorf("ip %s: %v\n%s", strings.TrimSpace(line), err, out) // maybe not on the goroutine of the test
		}
	}
}

// local is a Kernel that watches the namespace of the test.
type local struct {
	*linux.Stack
	changes <-chan struct{}
}

func (l local) Changes(context.Context) (<-chan struct{}, error) { return l.changes, nil }

// start runs the agent as the program does until the test calls stop.
func (m machine) start(log *bytes.Buffer) (stop func()) {
	m.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	m.t.Cleanup(cancel)
	changes, err := m.stack.Changes(ctx)
	expect.NoError(m.t, err)
	end := run(m.t, func(ctx context.Context) error {
		return Run(ctx, m.config, local{m.stack, changes}, Setup{
			Node: m.node, Namespace: m.namespace, Address: "127.0.0.1:0",
			Lease: lease.Options{Node: m.node, Instance: "pod", Duration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 500 * time.Millisecond},
			Log:   slog.New(slog.NewJSONHandler(log, nil)),
		})
	})
	return func() { end(); cancel() }
}

// carries lists the addresses on the interfaces. It leaves out the node's own addresses and those
// that the kernel adds.
func (m machine) carries() string {
	node, err := m.stack.Observe(m.t.Context())
	expect.NoError(m.t, err)
	own := []string{"192.0.2.1/24", "2001:db8::1/64", "198.51.100.1/24", "2001:db8:1::1/64", "127.0.0.1/8", "::1/128"}
	var lines []string
	for _, a := range node.Addresses {
		if text := a.Prefix.String(); !slices.Contains(own, text) && !a.Prefix.Addr().IsLinkLocalUnicast() {
			if a.Mark != announce.Mark && node.MarksSupported {
				text += " foreign"
			}
			lines = append(lines, a.Link+" "+text)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (m machine) expect(what string, lines ...string) {
	m.t.Helper()
	eventuallyIs(m.t, what, strings.Join(lines, "\n"), m.carries)
}

func (m machine) slots(name string) string {
	svc := m.get(name)
	return strings.TrimSpace(svc.Annotations[service.AnnotationAnnouncingIPv4] + " " + svc.Annotations[service.AnnotationAnnouncingIPv6])
}

// The agent sees the Services of all namespaces, so this test does not run in parallel with others.
func TestTheAgentWithARealKernelAndAPIServer(t *testing.T) {
	m := newMachine(t)
	m.apply(ptr(localGroup("near", "192.0.2.0/24", "2001:db8::/64")))
	m.apply(ptr(localGroup("second", "198.51.100.0/24", "2001:db8:1::/64")))
	m.apply(ptr(remoteGroup("far", "203.0.113.0/24", "2001:db8:9::/64")))
	m.apply(ptr(lbNodeAgent("default", v2.InterfaceSpec{Interfaces: []v2.InterfaceName{"eth1"}})))

	// A leftover of an earlier agent, a foreign address in our pool, and a Service that has
	// the node's own address. Without marks the leftover would stay until its lifetime ends.
	foreign := "eth0 192.0.2.78/24"
	before, err := m.stack.Observe(t.Context())
	expect.NoError(t, err)
	if before.MarksSupported {
		left := announce.Address{Prefix: netip.MustParsePrefix("192.0.2.77/24"), Link: "eth0", Valid: time.Minute, Preferred: time.Minute, NoPrefixRoute: true}
		expect.NoError(t, m.stack.Put(t.Context(), []announce.Address{left}))
		foreign += " foreign"
	}
	ip(t, "addr add 192.0.2.78/24 dev eth0")
	m.serve("own", nil, "192.0.2.1", "2001:db8::1")
	expect.Contains(t, "the node before", m.carries(), foreign)

	var log bytes.Buffer
	stop := m.start(&log)
	m.expect("the node without the leftover", foreign)

	m.serve("web", nil, "192.0.2.9", "2001:db8::9")
	m.serve("beside", nil, "198.51.100.9", "2001:db8:1::9")
	m.serve("far", nil, "203.0.113.7", "2001:db8:9::7")
	all := []string{
		foreign, "eth0 192.0.2.9/24", "eth0 2001:db8::9/64", "eth1 198.51.100.9/24", "eth1 2001:db8:1::9/64",
		"kube-lb0 2001:db8:9::7/128", "kube-lb0 203.0.113.7/32",
	}
	m.expect("the node with all Services", all...)
	eventuallyIs(t, "slots of web", fmt.Sprintf("%[1]s,eth0,192.0.2.9 %[1]s,eth0,2001:db8::9", m.node), func() string { return m.slots("web") })
	eventuallyIs(t, "slots of beside", fmt.Sprintf("%[1]s,eth1,198.51.100.9 %[1]s,eth1,2001:db8:1::9", m.node), func() string { return m.slots("beside") })
	m.expectLocalAttributes()
	m.expectEvents("AnnouncingLocal", "web")
	m.expectEvents("AnnouncingNonLocal", "far")
	m.expectEvents("AnnouncementFailed", "own")
	m.expectLease("192.0.2.0/24,198.51.100.0/24,2001:db8::/64,2001:db8:1::/64")

	// Between two agents the addresses stay, and the next agent has none to add.
	stop()
	expect.Equal(t, "the addresses after the end of the agent", m.carries(), strings.Join(all, "\n"))
	m.serve("meanwhile", nil, "192.0.2.10")
	log.Reset()
	stop = m.start(&log)
	all = slices.Insert(all, 0, "eth0 192.0.2.10/24")
	m.expect("the node with the next agent", all...)

	m.patch("far", `{"spec":{"externalTrafficPolicy":"Local"}}`)
	m.expect("policy Local without endpoints", all[:6]...)
	m.endpoint("far", m.node, true)
	m.expect("policy Local with an endpoint", all...)
	m.endpoint("far", "another-node", true)
	m.expect("policy Local with an endpoint elsewhere", all[:6]...)

	m.delete("web")
	m.expect("the node after a Service was deleted", "eth0 192.0.2.10/24", foreign, "eth1 198.51.100.9/24", "eth1 2001:db8:1::9/64")
	m.patch("beside", `{"spec":{"type":"ClusterIP"}}`)
	m.expect("the node after the type of a Service changed", "eth0 192.0.2.10/24", foreign)
	ip(t, "addr del 192.0.2.10/24 dev eth0")
	m.expect("the node after an address was removed by hand", "eth0 192.0.2.10/24", foreign)
	stop()
	lacks(t, "log", log.String(), "passFailed")
}

func TestWithoutAnAPIServerAddressesAreKeptAndRefreshed(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.config.Host = "https://127.0.0.1:1"
	put := func(link, prefix string, valid time.Duration) {
		t.Helper()
		a := announce.Address{Prefix: netip.MustParsePrefix(prefix), Link: link, Valid: valid, Preferred: valid, NoPrefixRoute: true}
		if a.Prefix.Addr().Is6() {
			a.Preferred = 0
		}
		expect.NoError(t, m.stack.Put(t.Context(), []announce.Address{a}))
	}
	put("eth0", "192.0.2.9/24", 29*time.Second)
	put("eth0", "2001:db8::9/64", 29*time.Second)
	ip(t, "addr add 192.0.2.78/24 dev eth0")
	before := m.carries()
	m.start(new(bytes.Buffer))
	eventually(t, "both addresses are refreshed", func() bool {
		node, err := m.stack.Observe(t.Context())
		expect.NoError(t, err)
		return !slices.ContainsFunc(node.Addresses, func(a announce.Address) bool { return a.Valid < 30*time.Second })
	})
	expect.Equal(t, "the addresses", m.carries(), before)
}

func (m machine) delete(name string) {
	m.t.Helper()
	expect.NoError(m.t, m.core.CoreV1().Services(m.namespace).Delete(m.t.Context(), name, metav1.DeleteOptions{}))
}

// expectLocalAttributes checks the attributes that carries does not show.
func (m machine) expectLocalAttributes() {
	m.t.Helper()
	node, err := m.stack.Observe(m.t.Context())
	expect.NoError(m.t, err)
	for _, a := range node.Addresses {
		switch a.Prefix.Addr().String() {
		case "192.0.2.9":
			if !a.NoPrefixRoute || a.Valid > time.Minute || a.Preferred == 0 {
				m.t.Errorf("the attributes of an address are wrong: %+v", a)
			}
		case "2001:db8::9":
			if !a.NoPrefixRoute || a.Valid > time.Minute || a.Preferred != 0 {
				m.t.Errorf("the attributes of an address are wrong: %+v", a)
			}
		case "203.0.113.7":
			if a.NoPrefixRoute || a.Valid != announce.Forever || a.Preferred != announce.Forever {
				m.t.Errorf("the attributes of an address are wrong: %+v", a)
			}
		case "2001:db8:9::7":
			if a.NoPrefixRoute || a.Valid != announce.Forever || a.Preferred != 0 {
				m.t.Errorf("the attributes of an address are wrong: %+v", a)
			}
		}
	}
}

func (m machine) expectEvents(reason, about string) {
	m.t.Helper()
	eventually(m.t, "event "+reason+" about "+about, func() bool {
		events, err := m.core.CoreV1().Events(m.namespace).List(m.t.Context(), metav1.ListOptions{})
		expect.NoError(m.t, err)
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.Reason == reason && e.InvolvedObject.Kind == "Service" && e.InvolvedObject.Name == about && e.Source.Component == "purelb-lbnodeagent"
		})
	})
}

func (m machine) expectLease(subnets string) {
	m.t.Helper()
	l, err := m.core.CoordinationV1().Leases(m.namespace).Get(m.t.Context(), lease.Prefix+m.node, metav1.GetOptions{})
	expect.NoError(m.t, err)
	expect.Equal(m.t, "the subnets of the Lease", l.Annotations[lease.AnnotationSubnets], subnets)
	if len(l.OwnerReferences) != 1 || l.OwnerReferences[0].UID == "" {
		m.t.Errorf("the Lease belongs to %+v", l.OwnerReferences)
	}
}
