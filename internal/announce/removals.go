package announce

import (
	"fmt"
	"time"
)

// Removals remembers when other programs on the node took addresses of Services off. The zero Removals is
// empty.
type Removals struct {
	// times are the last removals, newest last.
	times []time.Time
	// link is where they were, and by says how they looked.
	link string
	by   Remover
}

// Remover is a kind of program, as its removals show.
type Remover int

const (
	// PrunesForeign takes off only what it did not add itself, as systemd-networkd does.
	PrunesForeign Remover = iota
	// FlushesLink takes off everything, as NetworkManager and DHCP clients do.
	FlushesLink
	// ManagesDummy changes the link for remote addresses.
	ManagesDummy
)

const (
	// removalsBefore is the number of removals in removalsWithin that are no mistake any more.
	removalsBefore = 3
	removalsWithin = 10 * time.Minute
)

// Note records that addresses vanished from link.
func (r *Removals) Note(now time.Time, link string, by Remover) {
	if _, _, known := r.Hazard(now); !known { // otherwise the text stays, and is not reported again
		r.link, r.by = link, by
	}
	r.times = append(r.times, now)
	r.times = r.times[max(0, len(r.times)-removalsBefore):]
}

// Hazard returns what to do about a program that takes addresses off again and again. ok is false if there
// is none. again is when that may change without an event, or zero.
func (r *Removals) Hazard(now time.Time) (h Hazard, again time.Time, ok bool) {
	if len(r.times) < removalsBefore || now.Sub(r.times[0]) >= removalsWithin {
		return Hazard{}, again, false
	}
	return Hazard{HazardRemoved, fmt.Sprintf("has a program that took addresses of Services off %s again and again, most likely %s",
		r.link, r.by.advice(r.link))}, r.times[0].Add(removalsWithin), true
}

// advice names the program, and the setting that ends it.
func (b Remover) advice(link string) string {
	switch b {
	case ManagesDummy:
		return fmt.Sprintf("systemd-networkd (set Unmanaged=yes for %[1]s) or NetworkManager (unmanaged-devices=interface-name:%[1]s)", link)
	case FlushesLink:
		return "NetworkManager (unmanaged-devices, or no restart of the connection), a DHCP client, or systemd-networkd (KeepConfiguration=yes)"
	}
	return "systemd-networkd: set KeepConfiguration=yes for the interface, and ManageForeignRoutes=no in networkd.conf"
}
