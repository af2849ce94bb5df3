package peering

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"purelb.io/purelb/internal/addr"
)

// familyNames are the names of families in a BGPConfiguration.
var familyNames = map[addr.Family]string{addr.V4: "ipv4-unicast", addr.V6: "ipv6-unicast"}

// ToNoNeighbor is in the message of the condition Ready if no neighbor has routes of a family.
const ToNoNeighbor = "are announced to no neighbor"

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
	announced := in.announced()
	for _, i := range in.Imported {
		f := addr.FamilyOf(i.Address.Addr())
		if announced.has(i.Address) && in.announcesNothing(f) {
			all[f]++
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
	count := in.Unannounced()
	var all []string
	for _, f := range []addr.Family{addr.V4, addr.V6} {
		if count[f] == 0 {
			continue
		}
		var why []string
		for _, n := range in.up() {
			why = append(why, in.whyNot(n, f))
		}
		all = append(all, fmt.Sprintf("%s: %d addresses "+ToNoNeighbor+": %s", f, count[f], strings.Join(why, ", ")))
	}
	return all
}

// whyNot says why an Established neighbor gets no routes of a family.
func (in Report) whyNot(n NeighborStatus, f addr.Family) string {
	p := in.Decision.peer(n.Name())
	switch {
	case p != nil && !p.exchanges(f):
		return fmt.Sprintf("the afiSafis of %s lack %s", n.Name(), familyNames[f])
	case !slices.Contains(n.Agreed, f):
		return fmt.Sprintf("%s has not agreed to %s: activate the family on the router", n.Name(), familyNames[f])
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
