package announce

import (
	"net/netip"
	"slices"
	"time"
)

// ipvsLink is where kube-proxy in IPVS mode keeps a copy of every service address. That copy
// does not say which node announces the address, and it belongs to kube-proxy. So this
// package ignores the whole link.
const ipvsLink = "kube-ipvs0"

// Diff returns the changes after which node carries exactly the wanted addresses, beside its
// own. It changes nothing about an address that the node has as its own, also if it is wanted.
//
// An address with our Mark is ours, and so is one that the agent has Adopted.
//
// If an address must be refreshed, Diff refreshes also those that are soon due. So addresses that
// came one by one are refreshed together, and an idle node needs few passes.
func Diff(wanted []Address, node Node) Changes {
	ours, foreign := oursOn(node), foreign(node)
	var c Changes
	var aged []Address
	keep, added, displaced := make([]bool, len(node.Addresses)), map[place]bool{}, displaced(node)
	joined := joined(node, ours)
	for _, w := range wanted {
		w.Join = joined[w.Prefix.Addr()]
		if _, taken := foreign[w.Prefix.Addr()]; taken {
			continue
		}
		p := placeOf(w)
		switch i, there := ours[p]; {
		case !there && !added[p]:
			added[p] = true
			c.Add = append(c.Add, w)
		case there && !keep[i]:
			keep[i] = true
			w.Anew = displaced[networkOf(w)]
			switch found := node.Addresses[i]; {
			case w.Anew || w.Join && !found.marked() || stale(found, w):
				c.Refresh = append(c.Refresh, w)
			case aging(found, w):
				aged = append(aged, w)
			}
		}
	}
	if len(c.Refresh) > 0 {
		c.Refresh = append(c.Refresh, aged...)
	}
	for _, a := range node.Addresses {
		if i, mine := ours[placeOf(a)]; mine && !keep[i] {
			a.Join = joined[a.Prefix.Addr()]
			c.Remove = append(c.Remove, a)
		}
	}
	return c
}

// place identifies one address of a node: for the kernel, the same address on two links, or
// with two masks, is two addresses.
type place struct {
	prefix netip.Prefix
	link   string
}

func placeOf(a Address) place { return place{a.Prefix, a.Link} }

// networkOf returns the network of a on its link.
func networkOf(a Address) place { return place{a.Prefix.Masked(), a.Link} }

// displaced returns the IPv4 networks in which one of our addresses has become the primary
// address instead of the node's own. The kernel promotes ours when the node's address is
// taken off, and the node's address gets no connected route when it comes back. If ours are
// removed and added again, the node's address is the primary one again. On a kernel without
// marks this is not noticed.
func displaced(node Node) map[place]bool {
	first, all := map[place]bool{}, map[place]bool{}
	for _, a := range node.Addresses {
		if a.Mark == Mark && a.Prefix.Addr().Is4() && !a.Secondary && a.NoPrefixRoute {
			first[networkOf(a)] = true
		}
	}
	for _, a := range node.Addresses {
		if a.Mark != Mark && a.Secondary && !a.NoPrefixRoute && first[networkOf(a)] {
			all[networkOf(a)] = true
		}
	}
	return all
}

// ours reports whether the found address a is ours.
func (a Address) ours() bool {
	return a.Link != ipvsLink && (a.Mark == Mark || a.Mark == 0 && a.Adopted)
}

// marked reports whether a has our mark.
func (a Address) marked() bool { return a.Mark == Mark }

// joined returns the addresses in ours that have no mark although the kernel of node keeps marks, and those
// that another program has too.
func joined(node Node, ours map[place]int) map[netip.Addr]bool {
	if !node.MarksSupported {
		return nil
	}
	all := map[netip.Addr]bool{}
	for _, i := range ours {
		if a := node.Addresses[i]; !a.marked() {
			all[a.Prefix.Addr()] = true
		}
	}
	for _, a := range node.Addresses {
		if a.Shared {
			all[a.Prefix.Addr()] = true
		}
	}
	return all
}

// oursOn returns our addresses of node with their index.
func oursOn(node Node) map[place]int {
	ours := make(map[place]int, len(node.Addresses))
	for i, a := range node.Addresses {
		if a.ours() {
			ours[placeOf(a)] = i
		}
	}
	return ours
}

// Failed returns our addresses on node that another machine has too, as duplicate address
// detection found. The kernel does not answer for them. It removes those that expire, and
// keeps the others.
func Failed(node Node) []Address {
	var failed []Address
	for _, a := range node.Addresses {
		if a.Failed && a.ours() {
			failed = append(failed, a)
		}
	}
	return failed
}

// foreign returns the addresses on node that PureLB must not have, and their links: those that are not ours,
// without those that PureLB shares.
func foreign(node Node) map[netip.Addr]string {
	links := map[netip.Addr]string{}
	for _, a := range node.Addresses {
		if a.Link != ipvsLink && !a.Shared && !a.ours() {
			links[a.Prefix.Addr()] = a.Link
		}
	}
	return links
}

// stale reports whether found must be written again to match wanted. NoDAD is no difference:
// it only matters when an address is added.
func stale(found, wanted Address) bool {
	return expiring(found.Valid, wanted.Valid) ||
		expiring(found.Preferred, wanted.Preferred) ||
		found.NoPrefixRoute != wanted.NoPrefixRoute
}

// aging reports whether found will soon be stale: less than three quarters of a lifetime remain.
func aging(found, wanted Address) bool {
	aged := func(left, wanted time.Duration) bool { return wanted != Forever && left < wanted/4*3 }
	return aged(found.Valid, wanted.Valid) || aged(found.Preferred, wanted.Preferred)
}

// expiring reports whether a lifetime with this much left must be set to wanted again: less
// than half of it remains, or more than wanted remains. The kernel counts in seconds, hence
// the tolerance.
func expiring(left, wanted time.Duration) bool {
	switch wanted {
	case Forever, 0:
		return left != wanted
	default:
		return left < wanted/2 || left > wanted+time.Second
	}
}

// NextRefresh returns when the first lifetime of a wanted address is half over, at most longest from
// now. node has the addresses from before this pass: an address that was missing, or was refreshed,
// has its whole lifetimes now (see Diff).
func NextRefresh(now time.Time, node Node, wanted []Address, longest time.Duration) time.Time {
	found := map[place]Address{}
	for _, f := range node.Addresses {
		if f.Valid != Forever {
			found[placeOf(f)] = f
		}
	}
	refreshes := slices.ContainsFunc(wanted, func(w Address) bool {
		f, there := found[placeOf(w)]
		return there && stale(f, w)
	})
	wait := longest
	for _, w := range wanted {
		f, there := found[placeOf(w)]
		if !there || stale(f, w) || refreshes && aging(f, w) {
			f = w
		}
		wait = min(wait, untilHalf(f.Valid, w.Valid), untilHalf(f.Preferred, w.Preferred))
	}
	return now.Add(wait)
}

// untilHalf returns when half of a wanted lifetime is over, if this much of it is left.
func untilHalf(left, wanted time.Duration) time.Duration {
	if wanted == Forever || wanted == 0 {
		return Forever
	}
	// The kernel counts in whole seconds: do not wake a second too early.
	return left - wanted/2 + time.Second
}
