package announce

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
)

// decoys is for how many addresses that no machine has a machine must answer to count as a proxy. A
// machine may have one of them by chance.
const decoys = 3

// Decoys returns addresses that no machine has, as far as is known, in the first network of sources that contains
// ip. They are scattered over it, and in no pool unless a pool has the whole network. A small network may have none.
//
// A machine that answers for them answers for every address: a router with local proxy ARP, which private
// VLANs and networks that isolate their clients need. Its answer says nothing about ip.
func (s Situation) Decoys(ip netip.Addr, sources []Source) []netip.Addr {
	i := slices.IndexFunc(sources, func(s Source) bool { return s.Network.Contains(ip) })
	if i < 0 {
		return nil
	}
	network := sources[i].Network
	const tries = 20 * decoys
	served := addressesOf(s.Services)
	var all []netip.Addr
	for try := range 2 * tries {
		one := scattered(network, fmt.Sprintf("%s#%s#%d", s.Self, ip, try))
		edge := !network.Contains(one.Prev()) || !network.Contains(one.Next())
		_, _, pooled := s.Config.Groups.GroupOf(one)
		if edge || pooled && try < tries || served[one] || s.Peers.Own[one] != "" || slices.Contains(s.Node.Gateways, one) || slices.Contains(all, one) {
			continue
		}
		if all = append(all, one); len(all) == decoys {
			return all
		}
	}
	return nil
}

// scattered returns an address of network that depends on text.
func scattered(network netip.Prefix, text string) netip.Addr {
	b, random := network.Masked().Addr().AsSlice(), sha256.Sum256([]byte(text))
	for i := network.Bits(); i < 8*len(b); i++ {
		b[i/8] |= random[i/8] & (0x80 >> (i % 8))
	}
	ip, _ := netip.AddrFromSlice(b)
	return ip
}

// Proxies returns the machines that answered for all of decoys.
func (a Answers) Proxies(decoys []netip.Addr) [][6]byte {
	if len(decoys) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(a[decoys[0]]), func(mac [6]byte) bool {
		return slices.ContainsFunc(decoys, func(ip netip.Addr) bool { return !slices.Contains(a[ip], mac) })
	})
}

// Without returns the answers for ips without those of some machines.
func (a Answers) Without(ips []netip.Addr, macs [][6]byte) Answers {
	left := Answers{}
	for _, ip := range ips {
		others := slices.DeleteFunc(slices.Clone(a[ip]), func(mac [6]byte) bool { return slices.Contains(macs, mac) })
		if len(others) > 0 {
			left[ip] = others
		}
	}
	return left
}
