package spec

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"purelb.io/purelb/lab/internal/machine"
	"purelb.io/purelb/lab/internal/topology"
)

// Autonomous system numbers of the router and of the nodes.
const (
	RouterAS = 64514
	NodeAS   = 64515
)

// frr is Debian's directory of the daemons.
const frr = "/usr/lib/frr/"

// router adds FRR without its watchdog: zebra, bgpd and bfdd, and a shell that configures them
// once.
func (l Lab) router(s *machine.Spec, m topology.Machine) {
	s.Files = append(s.Files,
		machine.File{Path: "/etc/frr/vtysh.conf"},
		machine.File{Path: "/etc/frr/frr.conf", Text: frrConfig(m, l.Plan.Nodes())},
	)
	s.Programs = []machine.Program{
		{Name: "prepare", Once: true, Args: []string{"/bin/sh", "-c", "mkdir -p /run/frr && chown frr:frr /run/frr && chown -R frr:frrvty /etc/frr"}},
		{Name: "zebra", Ready: "/run/frr/zebra.vty", Args: []string{frr + "zebra", "-s", "90000000", "-A", "127.0.0.1"}},
		{Name: "bfdd", Ready: "/run/frr/bfdd.vty", Args: []string{frr + "bfdd", "-A", "127.0.0.1"}},
		{Name: "bgpd", Ready: "/run/frr/bgpd.vty", Args: []string{frr + "bgpd", "-A", "127.0.0.1"}},
		{Name: "configure", Once: true, Args: []string{"/usr/bin/vtysh", "-b"}},
	}
}

// frrConfig has two sessions with every node, one over each family. The session over IPv4 carries
// both families. The session over IPv6 carries IPv6, and waits for the node to connect. The router
// keeps routes while a node restarts its speaker, and removes them at once when BFD reports that
// the node is gone.
//
// The configuration names each node. For a dynamic neighbor, FRR would make a new BFD session at
// each connection, and both sides would flap.
func frrConfig(m topology.Machine, nodes []topology.Machine) string {
	mgmt := m.NICs[len(m.NICs)-1].V4.Addr()
	return fmt.Sprintf(`frr defaults traditional
hostname %[1]s
ip nht resolve-via-default
ipv6 nht resolve-via-default
bfd
 profile NODES
  detect-multiplier 3
  receive-interval 100
  transmit-interval 100
 exit
exit
router bgp %[2]d
 bgp router-id %[3]s
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 bgp bestpath as-path multipath-relax
%[4]s%[5]s neighbor NODES6 passive
%[6]s address-family ipv4 unicast
  neighbor NODES activate
  maximum-paths 8
 exit-address-family
 address-family ipv6 unicast
  neighbor NODES activate
  neighbor NODES6 activate
  maximum-paths 8
 exit-address-family
`, m.Name, RouterAS, mgmt, peerGroup("NODES"), peerGroup("NODES6"), neighbors(m, nodes))
}

func peerGroup(name string) string {
	return fmt.Sprintf(` neighbor %[1]s peer-group
 neighbor %[1]s remote-as %[2]d
 neighbor %[1]s timers 3 9
 neighbor %[1]s graceful-restart-helper
 neighbor %[1]s bfd
 neighbor %[1]s bfd profile NODES
`, name, NodeAS)
}

// neighbors configures the first addresses of every node as neighbors, from the router's address in
// the same subnet.
func neighbors(m topology.Machine, nodes []topology.Machine) string {
	var b strings.Builder
	for _, n := range nodes {
		i := slices.IndexFunc(m.NICs, func(nic topology.NIC) bool { return nic.Segment == n.NICs[0].Segment })
		for _, peer := range []struct {
			group       string
			node, local netip.Addr
		}{{"NODES", n.V4(), m.NICs[i].V4.Addr()}, {"NODES6", n.V6(), m.NICs[i].V6.Addr()}} {
			fmt.Fprintf(&b, " neighbor %s peer-group %s\n", peer.node, peer.group)
			fmt.Fprintf(&b, " neighbor %s update-source %s\n", peer.node, peer.local)
		}
	}
	return b.String()
}
