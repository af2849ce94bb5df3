package linux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/rtnetlink"
	"purelb.io/purelb/internal/testing/expect"
)

// links shows all links except lo.
func links(node announce.Node) string {
	var b strings.Builder
	for _, l := range node.Links {
		if l.Name == "lo" {
			continue
		}
		fmt.Fprint(&b, l.Name, " ", l.Kind)
		for _, flag := range []struct {
			name string
			is   bool
		}{{"up", l.Up}, {"carrier", l.Carrier}, {"default4", l.Default4}, {"default6", l.Default6}} {
			if flag.is {
				fmt.Fprint(&b, " ", flag.name)
			}
		}
		for _, m := range node.Links {
			if l.Master != 0 && l.Master == m.Index {
				fmt.Fprint(&b, " of ", m.Name)
			}
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

func TestCarrierIsObserved(t *testing.T) {
	newWorld(t)
	there := newNeighborhood(t)
	s := newStack(t)
	ip(t, `link add macvlan7 link eth0 type macvlan
		link set macvlan7 up
		link add br0 type bridge
		link set br0 up
		link add eth8 type veth peer name eth9
		link set eth9 up
		link set eth8 master br0 up`)
	works := func(link string, want bool) {
		t.Helper()
		eventually(t, fmt.Sprintf("carrier of %s: %v", link, want), func() bool {
			for _, l := range observe(t, s).Links {
				if l.Name == link {
					return l.Up && l.Carrier == want
				}
			}
			return false
		})
	}
	for _, tt := range []struct {
		here, there string
		want        bool
		links       []string
	}{
		{want: true, links: []string{"lo", "eth0", "macvlan7", "br0"}},
		{there: "link set eth0 down", want: false, links: []string{"eth0", "macvlan7"}},
		{there: "link set eth0 up", want: true, links: []string{"eth0", "macvlan7"}},
		{here: "link set eth9 down", want: false, links: []string{"br0"}},
		{here: "link set eth9 up", want: true, links: []string{"br0"}},
		{here: "link set eth0 mode dormant\nlink set eth0 state dormant", want: false, links: []string{"eth0"}},
		{here: "link set eth0 mode default\nlink set eth0 state up", want: true, links: []string{"eth0"}},
	} {
		there.ip(t, tt.there)
		ip(t, tt.here)
		for _, link := range tt.links {
			works(link, tt.want)
		}
	}
}

func TestMACOfALinkIsObserved(t *testing.T) {
	newWorld(t)
	newNeighborhood(t)
	s := newStack(t)
	ip(t, "link add macvlan7 link eth0 address 02:00:00:00:00:07 type macvlan")
	want := map[string][6]byte{"lo": {}, "eth0": testMAC, "macvlan7": {2, 0, 0, 0, 0, 7}}
	got := map[string][6]byte{}
	for _, l := range observe(t, s).Links {
		got[l.Name] = l.MAC
	}
	expect.Equal(t, "MACs", got, want)
}

// A DHCP client adds the new address before or after it removes the old one. In the second case the
// kernel removes all addresses of that network. Either way, our address is present after another
// round.
func TestServiceAddressSurvivesDHCPRenewal(t *testing.T) {
	for _, tt := range []struct{ name, change, node string }{
		{"the same address, removed for a moment", "addr del 192.0.2.1/24 dev eth0\naddr add 192.0.2.1/24 dev eth0", "192.0.2.1/24"},
		{"the same address, and its secondaries stay", "addr del 192.0.2.1/24 dev eth0\naddr add 192.0.2.1/24 dev eth0", "192.0.2.1/24"},
		{"another address of the network, added before the removal", "addr add 192.0.2.50/24 dev eth0\naddr del 192.0.2.1/24 dev eth0", "192.0.2.50/24"},
		{"another address of the network, added after the removal", "addr del 192.0.2.1/24 dev eth0\naddr add 192.0.2.50/24 dev eth0", "192.0.2.50/24"},
		{"another network", "addr flush dev eth0\naddr add 198.51.100.1/24 dev eth0", "198.51.100.1/24"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			newWorld(t)
			s := newStack(t)
			ip(t, "link add eth0 type ifb\nlink set eth0 up\naddr add 192.0.2.1/24 dev eth0")
			if strings.HasPrefix(tt.change, "addr add") || strings.Contains(tt.name, "secondaries") {
				sysctl(t, "ipv4.conf.eth0.promote_secondaries", "1") // as systemd sets it
			}
			wanted := []announce.Address{local("eth0", "192.0.2.9/24"), local("eth0", "192.0.2.10/24")}
			round(t, s, wanted)
			ip(t, tt.change)
			round(t, s, wanted)
			got := addresses(t, s, "eth0")
			for _, want := range []string{
				"192.0.2.9/24 valid 1h preferred 1h noprefixroute mark 80\n", "192.0.2.10/24 valid 1h preferred 1h noprefixroute mark 80\n", tt.node + " valid forever preferred forever\n",
			} {
				if !strings.Contains(got, want) {
					t.Errorf("%s is not in:\n%s", strings.TrimSpace(want), got)
				}
			}
			network := netip.MustParsePrefix(tt.node).Masked().String()
			if routes := ip(t, "-4 route show dev eth0"); !strings.Contains(routes, network+" ") {
				t.Errorf("no route to %s of the node:\n%s%s", network, routes, ip(t, "-4 addr show dev eth0"))
			}
		})
	}
}

// The agent observes, decides and acts until nothing is left to do. One round is enough, and
// foreign addresses stay unchanged.
func TestSecondRoundChangesNothing(t *testing.T) {
	newWorld(t)
	s := newStack(t)
	ip(t, `link add eth0 type bridge
		link set eth0 up
		link add kube-ipvs0 type ifb
		link set kube-ipvs0 up
		addr add 192.0.2.1/24 dev eth0
		addr add fd00::1/64 dev eth0 nodad
		addr add 192.0.2.9/32 dev kube-ipvs0
		addr add fd00::9/128 dev kube-ipvs0
		addr add 203.0.113.1/32 dev lo`)
	dummy(t, s)
	put(t, s, local("eth0", "192.0.2.7/24"), remote("kube-lb0", "198.51.100.1/32"), remote("kube-lb0", "2001:db8::1/128"))
	foreign := unmarked(observe(t, s))
	wanted := []announce.Address{
		local("eth0", "192.0.2.9/24"), local("eth0", "fd00::9/64"),
		remote("kube-lb0", "198.51.100.1/24"), remote("kube-lb0", "2001:db8::1/64"),
		local("eth0", "192.0.2.1/24"), remote("kube-lb0", "203.0.113.1/32"),
	}
	c := announce.Diff(wanted, observe(t, s))
	put(t, s, c.Add...)
	put(t, s, c.Refresh...)
	remove(t, s, c.Remove...)

	if again := announce.Diff(wanted, observe(t, s)); len(again.Add)+len(again.Refresh)+len(again.Remove) > 0 {
		t.Errorf("left to do: %+v", again)
	}
	want := "192.0.2.1/24 valid forever preferred forever\n" +
		"192.0.2.9/24 valid 1h preferred 1h noprefixroute mark 80\n" +
		"fd00::9/64 valid 1h preferred 0h nodad noprefixroute mark 80\n" +
		"fd00::1/64 valid forever preferred forever nodad\n"
	expect.Equal(t, "addresses of eth0", addresses(t, s, "eth0"), want)
	want = "198.51.100.1/24 valid forever preferred forever mark 80\n" +
		"2001:db8::1/64 valid forever preferred forever nodad mark 80\n"
	expect.Equal(t, "addresses of kube-lb0", addresses(t, s, "kube-lb0"), want)
	expect.Equal(t, "addresses of others", unmarked(observe(t, s)), foreign)
}

func unmarked(node announce.Node) (all []string) {
	for _, a := range node.Addresses {
		if a.Mark != announce.Mark && !a.Prefix.Addr().IsLinkLocalUnicast() {
			all = append(all, a.Link+" "+a.Prefix.String()+" "+a.Valid.String())
		}
	}
	return all
}

// The kernel reports if the table changed during a dump. An address that exists all the time must
// nevertheless be in every result.
func TestObserveReturnsNoPartialView(t *testing.T) {
	newWorld(t)
	s := newStack(t)
	ip(t, "link add eth0 type ifb\nlink set eth0 up\nlink add eth1 type ifb\nlink set eth1 up")
	put(t, s, block("eth0", "198.18.0.1/32", 3000)...)
	endChurn := churn(t)
	defer endChurn()
	for range 30 {
		node, err := s.Observe(t.Context())
		if err != nil {
			if !errors.Is(err, rtnetlink.ErrInterrupted) {
				t.Fatal(err)
			}
			continue
		}
		expect.Equal(t, "addresses seen", len(ours(node)), 3000)
	}
}

// churn adds and removes addresses of eth1 until the caller calls end.
func churn(t *testing.T) (end func()) {
	t.Helper()
	ip := exec.Command("ip", "-batch", "-")
	script, err := ip.StdinPipe()
	if err == nil {
		err = ip.Start()
	}
	expect.NoError(t, err)
	over, done := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-over:
				done <- errors.Join(script.Close(), ip.Wait())
				return
			default:
			}
			// A failed process does not read its input, and reports its error at the end.
			_, _ = io.WriteString(script, "addr add 192.0.2.1/24 dev eth1\naddr add fd00::1/64 dev eth1\n"+
				"addr del 192.0.2.1/24 dev eth1\naddr del fd00::1/64 dev eth1\n")
		}
	}()
	return func() {
		close(over)
		if err := <-done; err != nil {
			t.Errorf("churn: %v", err)
		}
	}
}

func TestObserveAfterTheDeadlineIsAnError(t *testing.T) {
	newWorld(t)
	s := newStack(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Observe(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("observe: %v", err)
	}
	if _, err := s.Addresses(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("addresses: %v", err)
	}
	if err := s.Put(ctx, []announce.Address{local("lo", "192.0.2.9/32")}); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
}

func TestAddressesAgreesWithObserve(t *testing.T) {
	newWorld(t)
	ip(t, `link add br0 type bridge
		link set br0 up
		addr add 192.0.2.1/24 dev br0
		addr add 198.51.100.1/32 dev lo`)
	s := newStack(t)
	node, err := s.Observe(t.Context())
	expect.NoError(t, err)
	all, err := s.Addresses(t.Context())
	if err != nil || len(all) < 2 {
		t.Fatalf("%v, %v", all, err)
	}
	show := func(addresses []announce.Address) (text string) {
		for _, a := range addresses {
			text += fmt.Sprintln(a.Prefix, a.Link, a.Mark)
		}
		return text
	}
	expect.Equal(t, "the result", show(all), show(node.Addresses))
}

func ours(node announce.Node) (all []announce.Address) {
	for _, a := range node.Addresses {
		if a.Mark == announce.Mark {
			all = append(all, a)
		}
	}
	return all
}

// block returns count consecutive remote addresses.
func block(link, first string, count int) []announce.Address {
	p := netip.MustParsePrefix(first)
	all := make([]announce.Address, count)
	for i := range all {
		all[i] = remote(link, p.String())
		p = netip.PrefixFrom(p.Addr().Next(), p.Bits())
	}
	return all
}
