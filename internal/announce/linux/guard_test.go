package linux

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/testing/expect"
)

// The node has a local address and a remote one of each family. Port 80 of each is that of a Service whose
// endpoint is in the network namespace of the node, at port 8080. Port 81 is that of a Service without endpoints.
// Port 30080 is a NodePort of the node's own addresses. Ports 22, 179 and 10250 are programs of the node.
const guardedNode = `
addr add 192.0.2.1/24 dev eth0
addr add 2001:db8::1/64 dev eth0 nodad
route add default via 192.0.2.2
`

var guarded = []string{"192.0.2.9", "203.0.113.7", "2001:db8::9", "2001:db8:f::7"}

// kubeProxy has the chains and priorities of kube-proxy in nftables mode.
const kubeProxy = `
table inet kube-proxy {
	chain nat-prerouting {
		type nat hook prerouting priority dstnat
		ip daddr { 192.0.2.9, 203.0.113.7 } tcp dport 80 dnat ip to 192.0.2.1:8080
		ip6 daddr { 2001:db8::9, 2001:db8:f::7 } tcp dport 80 dnat ip6 to [2001:db8::1]:8080
		ip daddr 192.0.2.1 tcp dport 30080 dnat ip to 192.0.2.1:8080
		ip6 daddr 2001:db8::1 tcp dport 30080 dnat ip6 to [2001:db8::1]:8080
	}
	chain nat-output {
		type nat hook output priority -100
		ip daddr { 192.0.2.9, 203.0.113.7 } tcp dport 80 dnat ip to 192.0.2.1:8080
		ip6 daddr { 2001:db8::9, 2001:db8:f::7 } tcp dport 80 dnat ip6 to [2001:db8::1]:8080
	}
	chain nat-postrouting {
		type nat hook postrouting priority srcnat
		tcp dport 8080 masquerade
	}
	chain filter-input {
		type filter hook input priority %s
		ct state new tcp dport 81 reject
	}
}
`

// beforeFilter and inFilter are the priorities with which kube-proxy refuses in nftables and in iptables mode.
const beforeFilter, inFilter = "-110", "filter"

// refusedPort is that of the Service without endpoints.
const refusedPort = 81

type guardedWorld struct {
	*Stack
	there neighborhood
}

func newGuardedWorld(t *testing.T, refuses string) guardedWorld {
	newWorld(t)
	w := guardedWorld{newStack(t), newNeighborhood(t)}
	dummy(t, w.Stack)
	sysctl(t, "ipv4.icmp_ratelimit", "0") // the test tries more than a client does
	sysctl(t, "ipv6.icmp.ratelimit", "0")
	ip(t, guardedNode)
	w.there.ip(t, "addr add 192.0.2.2/24 dev eth0\naddr add 2001:db8::2/64 dev eth0 nodad\nroute add default via 192.0.2.1\n-6 route add default via 2001:db8::1")
	put(t, w.Stack, local("eth0", "192.0.2.9/24"), local("eth0", "2001:db8::9/64"), remote("kube-lb0", "203.0.113.7/32"), remote("kube-lb0", "2001:db8:f::7/128"))
	served(t, "eth0", "2001:db8::1", "2001:db8::9")
	served(t, "kube-lb0", "2001:db8:f::7")
	nft(t, fmt.Sprintf(kubeProxy, refuses))
	for _, port := range []int{22, 179, 10250, 8080, 30080} {
		serveTCP(t, net.ListenConfig{}, port)
	}
	return w
}

func TestTheNodeBehindItsAddressesIsClosed(t *testing.T) {
	for mode, priority := range map[string]string{"nftables": beforeFilter, "iptables": inFilter} {
		t.Run(mode, func(t *testing.T) {
			w := newGuardedWorld(t, priority)
			const open = "22: open, 179: open, 10250: open, 30080: open, 80: open, 81: refused, udp 33434: refused, ping: answered"
			const closed = "22: closed, 179: closed, 10250: closed, 30080: closed, 80: open, 81: refused, udp 33434: refused, ping: answered"
			for _, at := range guarded {
				expect.Equal(t, "without the table, "+at, w.tries(t, at), open)
			}
			guard(t, w.Stack, guarded...)
			for _, at := range guarded {
				expect.Equal(t, at, w.tries(t, at), closed)
				expect.Equal(t, "from the node itself, port 80 of "+at, dial(at, 80), "open")
				expect.Equal(t, "from the node itself, port 22 of "+at, dial(at, 22), "closed")
			}
			for _, at := range []string{"192.0.2.1", "2001:db8::1"} {
				expect.Equal(t, "the node's own address", w.tries(t, at), strings.Replace(open, "80: open, 81", "80: refused, 81", 1))
			}
			guard(t, w.Stack)
			for _, at := range guarded {
				expect.Equal(t, "after the table went, "+at, w.tries(t, at), open)
			}
			expect.Equal(t, "tables", strings.Contains(nft(t, "list tables"), "purelb"), false)
		})
	}
}

// A transparent proxy, such as Cilium's, gets packets with the destination of the Service.
func TestATransparentProxyIsReached(t *testing.T) {
	w := newGuardedWorld(t, beforeFilter)
	serveTCP(t, net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		_ = c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_TRANSPARENT, 1) })
		return err
	}}, 8443)
	guard(t, w.Stack, guarded...)
	for _, at := range guarded {
		expect.Equal(t, at, w.dials(at, 8443), "open")
	}
}

// A program may translate only the port.
func TestATranslatedPortOfTheAddressItselfIsReached(t *testing.T) {
	w := newGuardedWorld(t, beforeFilter)
	guard(t, w.Stack, guarded...)
	for _, at := range guarded {
		expect.Equal(t, "before, "+at, w.dials(at, 8080), "closed")
		family := "ip"
		if strings.Contains(at, ":") {
			family = "ip6"
		}
		nft(t, fmt.Sprintf("add rule inet kube-proxy nat-prerouting %[1]s daddr %[2]s tcp dport 88 dnat %[1]s to %[2]s :8080", family, at))
		expect.Equal(t, at, w.dials(at, 88), "open")
	}
}

// The node may have connections of its own from an address that a Service has, and their answers come in.
func TestTheNodeGetsAnswers(t *testing.T) {
	w := newGuardedWorld(t, beforeFilter)
	w.there.do(func() { serveTCP(t, net.ListenConfig{}, 443) })
	guard(t, w.Stack, guarded...)
	for from, to := range map[string]string{"192.0.2.9": "192.0.2.2", "2001:db8::9": "2001:db8::2"} {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
		c, err := d.Dial("tcp", net.JoinHostPort(to, "443"))
		expect.NoError(t, err)
		_ = c.Close()
	}
}

func TestTheTableFollowsTheAddresses(t *testing.T) {
	newWorld(t)
	s := newStack(t)
	guard(t, s)
	expect.Equal(t, "tables without addresses", nft(t, "list tables"), "")
	guard(t, s, "192.0.2.9", "2001:db8::9")
	first := nft(t, "-a list table inet purelb")
	guard(t, s, "192.0.2.9", "2001:db8::9")
	expect.Equal(t, "the table, written again", nft(t, "-a list table inet purelb"), first)
	for _, set := range []string{"services4", "services6"} {
		nft(t, "flush set inet purelb "+set)
	}
	guard(t, s, "192.0.2.9", "2001:db8::9")
	expect.Equal(t, "the table after a program emptied its sets", nft(t, "-a list table inet purelb"), first)
	nft(t, "flush chain inet purelb input")
	guard(t, s, "192.0.2.9", "2001:db8::9")
	expect.Equal(t, "the table after a program emptied its chain", nft(t, "list table inet purelb"), withoutHandles(first))
	nft(t, "flush ruleset")
	guard(t, s, "192.0.2.9", "2001:db8::9")
	expect.Equal(t, "the table after a program removed all tables", nft(t, "list table inet purelb"), withoutHandles(first))
	guard(t, s, "192.0.2.10")
	expect.Contains(t, "a set", nft(t, "list set inet purelb services4"), "elements = { 192.0.2.10 }")
	expect.Equal(t, "the other set has elements", strings.Contains(nft(t, "list set inet purelb services6"), "elements"), false)
	guard(t, s)
	expect.Equal(t, "tables", nft(t, "list tables"), "")
}

func withoutHandles(listing string) string {
	var b strings.Builder
	for line := range strings.Lines(listing) {
		text, _, found := strings.Cut(line, " # handle")
		if b.WriteString(text); found {
			b.WriteString("\n")
		}
	}
	return b.String()
}

// guard closes the node behind these addresses, and again, so that nothing is left to write.
func guard(t testing.TB, s *Stack, addresses ...string) {
	t.Helper()
	var closed []netip.Addr
	for _, a := range addresses {
		closed = append(closed, netip.MustParseAddr(a))
	}
	expect.NoError(t, s.Guard(t.Context(), closed))
	expect.NoError(t, s.Guard(t.Context(), closed))
}

// tries returns what a client in the neighborhood finds at an address.
func (w guardedWorld) tries(t *testing.T, at string) string {
	t.Helper()
	var found []string
	for _, port := range []int{22, 179, 10250, 30080, 80, refusedPort} {
		found = append(found, fmt.Sprintf("%d: %s", port, w.dials(at, port)))
	}
	w.there.do(func() {
		found = append(found, "udp 33434: "+sendUDP(at, 33434))
		ping := "answered"
		if err := exec.Command("ping", "-c1", "-W5", at).Run(); err != nil {
			ping = "silent"
		}
		found = append(found, "ping: "+ping)
	})
	return strings.Join(found, ", ")
}

func (w guardedWorld) dials(at string, port int) (found string) {
	w.there.do(func() { found = dial(at, port) })
	return found
}

// unanswered is how long a closed port is silent before a test goes on. A refusal may reach a socket that is
// busy with sending, and then counts only after the next packet, a second later.
const unanswered, unrefused = 300 * time.Millisecond, 10 * time.Second

// dial says what the network says about a port of TCP.
func dial(at string, port int) string {
	limit := unanswered
	if port == refusedPort {
		limit = unrefused
	}
	c, err := net.DialTimeout("tcp", net.JoinHostPort(at, fmt.Sprint(port)), limit)
	var timeout net.Error
	switch {
	case err == nil:
		_ = c.Close()
		return "open"
	case errors.Is(err, unix.ECONNREFUSED):
		return "refused"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "closed"
	}
	return err.Error()
}

// sendUDP says whether the other end refuses a packet, as traceroute needs it.
func sendUDP(at string, port int) string {
	c, err := net.Dial("udp", net.JoinHostPort(at, fmt.Sprint(port)))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = c.Write([]byte("x"))
	if _, err := c.Read(make([]byte, 1)); errors.Is(err, unix.ECONNREFUSED) {
		return "refused"
	}
	return "silent"
}

// serveTCP accepts connections at a port of all addresses, of both families.
func serveTCP(t testing.TB, c net.ListenConfig, port int) {
	t.Helper()
	l, err := c.Listen(t.Context(), "tcp", fmt.Sprintf("[::]:%d", port))
	if err != nil {
		t.Error(err)
		return
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			accepted, err := l.Accept()
			if err != nil {
				return
			}
			_ = accepted.Close()
		}
	}()
}

// nft runs the command of nftables in the test's namespace, with several lines from its input.
func nft(t testing.TB, script string) string {
	t.Helper()
	cmd := exec.Command("nft", strings.Fields(script)...)
	if strings.Contains(script, "\n") {
		cmd = exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(script)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("nft %s: %v\n%s", script, err, out)
	}
	return string(out)
}
