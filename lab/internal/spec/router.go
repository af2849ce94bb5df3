package spec

import (
	"fmt"
	"strings"

	"purelb.io/purelb/lab/internal/machine"
	"purelb.io/purelb/lab/internal/topology"
)

// Autonomous systems of the router and of the nodes.
const (
	RouterAS = 64514
	NodeAS   = 64515
)

// frr is where Debian puts the daemons.
const frr = "/usr/lib/frr/"

// router runs FRR without its watchdog: zebra and bgpd, and once the shell that
// gives both their configuration.
func (l Lab) router(s *machine.Spec, m topology.Machine) {
	s.Files = append(s.Files,
		machine.File{Path: "/etc/frr/vtysh.conf"},
		machine.File{Path: "/etc/frr/frr.conf", Text: frrConfig(m)},
	)
	s.Programs = []machine.Program{
		{Name: "prepare", Once: true, Args: []string{"/bin/sh", "-c", "mkdir -p /run/frr && chown frr:frr /run/frr && chown -R frr:frrvty /etc/frr"}},
		{Name: "zebra", Ready: "/run/frr/zebra.vty", Args: []string{frr + "zebra", "-s", "90000000", "-A", "127.0.0.1"}},
		{Name: "bgpd", Ready: "/run/frr/bgpd.vty", Args: []string{frr + "bgpd", "-A", "127.0.0.1"}},
		{Name: "configure", Once: true, Args: []string{"/usr/bin/vtysh", "-b"}},
	}
}

// frrConfig takes a BGP session from any node, over either family.
func frrConfig(m topology.Machine) string {
	mgmt := m.NICs[len(m.NICs)-1].V4.Addr()
	return fmt.Sprintf(`frr defaults traditional
hostname %[1]s
ip nht resolve-via-default
ipv6 nht resolve-via-default
router bgp %[2]d
 bgp router-id %[3]s
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 bgp bestpath as-path multipath-relax
 neighbor NODES peer-group
 neighbor NODES remote-as %[4]d
 neighbor NODES timers 3 9
 neighbor NODES6 peer-group
 neighbor NODES6 remote-as %[4]d
 neighbor NODES6 timers 3 9
%[5]s address-family ipv4 unicast
  neighbor NODES activate
  maximum-paths 8
 exit-address-family
 address-family ipv6 unicast
  neighbor NODES activate
  neighbor NODES6 activate
  maximum-paths 8
 exit-address-family
`, m.Name, RouterAS, mgmt, NodeAS, listenRanges())
}

func listenRanges() string {
	var b strings.Builder
	for _, s := range []topology.Segment{topology.SegmentA, topology.SegmentB} {
		fmt.Fprintf(&b, " bgp listen range %s peer-group NODES\n", s.V4)
		fmt.Fprintf(&b, " bgp listen range %s peer-group NODES6\n", s.V6)
	}
	return b.String()
}
