package topology

import (
	"strings"
	"testing"
)

func TestAWorldHasItsFamiliesInTheirOrder(t *testing.T) {
	for name, want := range map[string]string{
		"":           "10.96.0.0/16 fd00:10:96::/112; 172.30.250.101; 10.244.1.0/24 fd00:10:244:1::/64",
		"ipv6-first": "fd00:10:96::/112 10.96.0.0/16; 2001:db8:1:250::101; fd00:10:244:1::/64 10.244.1.0/24",
		"ipv6-only":  "fd00:10:96::/112; 2001:db8:1:250::101; fd00:10:244:1::/64",
	} {
		w, err := FindWorld(name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(2, w)
		if err != nil {
			t.Fatal(err)
		}
		node, _ := p.Machine("node-1")
		var services, pods []string
		for _, s := range p.Services() {
			services = append(services, s.String())
		}
		for _, r := range node.Pods {
			pods = append(pods, r.String())
		}
		got := strings.Join([]string{strings.Join(services, " "), p.Primary(node).String(), strings.Join(pods, " ")}, "; ")
		if got != want {
			t.Errorf("world %q: %s, want %s", name, got, want)
		}
	}
}

func TestLinkOverTheCableHasTheAddresses(t *testing.T) {
	for name, want := range map[string]string{"": "eth0", "bridge": "bridge0", "macvlan": "macvlan0"} {
		w, err := FindWorld(name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(2, w)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range p.Machines {
			expected := "eth0"
			if m.Node {
				expected = want
			}
			if got := m.NICs[0].Carrier(); got != expected {
				t.Errorf("world %q: %s has its addresses on %s, want %s", name, m.Name, got, expected)
			}
		}
	}
}

func TestTheRouterHasNoRoutesToThePodsOfFlannel(t *testing.T) {
	w, err := FindWorld("flannel")
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(2, w)
	if err != nil {
		t.Fatal(err)
	}
	if r, _ := p.Machine(Router); len(r.Routes) > 0 {
		t.Errorf("it has the routes %v", r.Routes)
	}
}

func TestUnknownWorldErrorNamesAllWorlds(t *testing.T) {
	_, err := FindWorld("moon")
	if err == nil || !strings.Contains(err.Error(), "iptables") {
		t.Errorf("the error is %v, want one that names all worlds", err)
	}
}
