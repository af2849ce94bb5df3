package linux

import (
	"testing"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/testing/expect"
)

// The kernel takes the larger of the two settings.
func TestObserveTheSenderOfARP(t *testing.T) {
	for _, tt := range []struct {
		all, eth0 string
		want      bool
	}{
		{"0", "0", true}, {"1", "0", false}, {"0", "2", false}, {"2", "2", false},
	} {
		t.Run(tt.all+" for all, "+tt.eth0+" for eth0", func(t *testing.T) {
			newWorld(t)
			ip(t, `link add eth0 type veth peer name far
				link set eth0 up
				addr add 192.0.2.1/24 dev eth0`)
			sysctl(t, "ipv4.conf.all.arp_announce", tt.all)
			sysctl(t, "ipv4.conf.eth0.arp_announce", tt.eth0)
			expect.Equal(t, "any sender", observe(t, newStack(t)).AnySender, tt.want)
		})
	}
}

// The kernel takes the larger of the two settings.
func TestObserveLooseARP(t *testing.T) {
	for _, tt := range []struct {
		all, eth0 string
		want      bool
	}{
		{"0", "0", true}, {"1", "0", false}, {"0", "1", false}, {"2", "0", false}, {"0", "8", false},
		{"3", "0", true}, {"1", "3", true}, {"0", "4", true}, {"3", "8", false},
	} {
		t.Run(tt.all+" for all, "+tt.eth0+" for eth0", func(t *testing.T) {
			newWorld(t)
			ip(t, `link add eth0 type veth peer name far
				link add br0 type bridge
				link set eth0 up
				addr add 192.0.2.1/24 dev eth0
				link add pod1 type veth peer name inside
				link set pod1 up
				link add pod2 type veth peer name inside2
				link set pod2 up
				addr add 10.1.1.1/32 dev pod2
				addr add 169.254.1.1/24 dev pod2`)
			s := newStack(t)
			sysctl(t, "ipv4.conf.all.arp_ignore", tt.all)
			sysctl(t, "ipv4.conf.eth0.arp_ignore", tt.eth0)
			node := make(chan announce.Node)
			go func() { // on a thread in the namespace of the host
				n, err := s.Observe(t.Context())
				if err != nil {
					t.Error(err)
				}
				node <- n
			}()
			expect.Equal(t, "loose", (<-node).LooseARP, tt.want)
			ip(t, "link set eth0 down")
			if n, err := s.Observe(t.Context()); err != nil || n.LooseARP {
				t.Errorf("all links are down: loose %v, %v", n.LooseARP, err)
			}
		})
	}
}
