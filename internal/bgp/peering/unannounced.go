package peering

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"purelb.io/purelb/internal/addr"
)

// FamilyNames are the names of families in a BGPConfiguration.
var FamilyNames = map[addr.Family]string{addr.V4: "ipv4-unicast", addr.V6: "ipv6-unicast"}

// announceWait is how long a new session, or the first address of a family, may take until the neighbor has
// routes. After a restart the node first waits for its other neighbors.
const announceWait = 10 * time.Second

// Unannounced returns the number of addresses of each family that the node announces to no neighbor, although
// it has a session. What counts is what was sent to neighbors. The BGP server also has routes that no
// neighbor gets.
func (in Report) Unannounced() map[addr.Family]int {
	all := map[addr.Family]int{}
	if in.Unconfigured || in.Leaving {
		return all
	}
	announced, unnamed := in.announced(), in.unnamed()
	for _, f := range []addr.Family{addr.V4, addr.V6} {
		if !in.announcesNothing(f) {
			for _, count := range unnamed[f] {
				all[f] += count
			}
			continue
		}
		for _, i := range in.Imported {
			if addr.FamilyOf(i.Address.Addr()) == f && announced.has(i.Address) {
				all[f]++
			}
		}
	}
	return all
}

// unnamed counts the routes of each family that no neighbor of the node gets, by the group whose peers name no
// neighbor of the node. Without a session they are not counted. It leaves out groups whose addresses have
// several routes, because a neighbor may get another one: the names of their restrictions have a space.
func (in Report) unnamed() map[addr.Family]map[string]int {
	groups := map[string]string{} // by their marks
	for _, group := range in.Decision.Unnamed {
		if !strings.Contains(group, " ") {
			groups[MarkOf(group)] = group
		}
	}
	all := map[addr.Family]map[string]int{addr.V4: {}, addr.V6: {}}
	if len(groups) == 0 || len(in.up()) == 0 {
		return all
	}
	for _, r := range in.Local {
		i := slices.IndexFunc(r.Attributes.Marks, func(mark string) bool { return groups[mark] != "" })
		if i >= 0 {
			all[addr.FamilyOf(r.Prefix.Addr())][groups[r.Attributes.Marks[i]]]++
		}
	}
	return all
}

// announcesNothing reports whether neighbors are Established and none of them gets routes of a family. It
// gives new sessions and new addresses some time.
func (in Report) announcesNothing(f addr.Family) bool {
	up := in.up()
	if len(up) == 0 || in.Now.Sub(in.Since[f]) < announceWait {
		return false
	}
	return !slices.ContainsFunc(up, func(n NeighborStatus) bool {
		return n.Sent[f] > 0 || slices.Contains(n.Agreed, f) && in.Now.Sub(n.UpSince) < announceWait
	})
}

// up returns the neighbors with a session.
func (in Report) up() []NeighborStatus {
	return slices.DeleteFunc(slices.Clone(in.Neighbors), func(n NeighborStatus) bool { return n.State != Established })
}

// unannounced says which addresses no neighbor gets, and why each of them does not.
func (in Report) unannounced() []string {
	count, unnamed := in.Unannounced(), in.unnamed()
	var all []string
	for _, f := range []addr.Family{addr.V4, addr.V6} {
		if count[f] > 0 && in.announcesNothing(f) {
			var why []string
			for _, n := range in.up() {
				why = append(why, in.whyNot(n, f))
			}
			all = append(all, fmt.Sprintf("%s: %d addresses are announced to no neighbor: %s", f, count[f], strings.Join(why, ", ")))
			continue
		}
		for _, group := range slices.Sorted(maps.Keys(unnamed[f])) {
			all = append(all, fmt.Sprintf("%s: %d addresses are announced to no neighbor: spec.bgp.peers of ServiceGroup %s names none of this node: "+
				"name one, or let spec.bgp.nodeSelector leave out the node", f, unnamed[f][group], group))
		}
	}
	return all
}

// whyNot says why an Established neighbor gets no routes of a family.
func (in Report) whyNot(n NeighborStatus, f addr.Family) string {
	p := in.Decision.peer(n.Name())
	switch {
	case p != nil && !p.exchanges(f):
		return fmt.Sprintf("the afiSafis of %s lack %s", n.Name(), FamilyNames[f])
	case !slices.Contains(n.Agreed, f):
		return fmt.Sprintf("%s has not agreed to %s: activate the family on the router", n.Name(), FamilyNames[f])
	case p != nil && slices.Contains(p.Mute, f):
		return fmt.Sprintf("there is no next hop of the family for %s", n.Name())
	}
	return fmt.Sprintf("spec.bgp of their ServiceGroups keeps them from %s", n.Name())
}

// peer returns the wanted neighbor of that name, or nil.
func (d Decision) peer(name string) *Peer {
	for i := range d.State.Peers {
		if d.State.Peers[i].Name() == name {
			return &d.State.Peers[i]
		}
	}
	return nil
}

// restarts reports whether the node asks a neighbor to keep its routes while the speaker restarts.
func (d Decision) restarts(name string) bool {
	p := d.peer(name)
	return p != nil && p.GracefulRestart.Enabled && !p.GracefulRestart.HelperOnly
}
