package agent

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"purelb.io/purelb/internal/announce"
)

// conflicts are the other machines that claim addresses of this node, or answer
// for those that it is to have.
type conflicts map[rival]*conflict

// rival is a machine, as one of our addresses sees it.
type rival struct {
	ip  netip.Addr
	mac [6]byte
}

type conflict struct {
	link string
	// here says that this node had the address too.
	here bool
	// heard is when the machine was heard last, and told when people were
	// told of it last, zero if they are to be told now.
	heard, told time.Time
	// asked is when the agent asked for the machine last, for no other reason
	// than to hear whether it is still there.
	asked time.Time
}

const (
	// contestedFor is how long it counts for decisions that another machine
	// claims what is here: it may do so only when it sends something.
	contestedFor = 30 * time.Second
	// repeatAfter is how long people are not told again, and how long a
	// machine that is silent is remembered.
	repeatAfter = 10 * time.Minute
	// maxRivals is how many machines are remembered: a MAC is easy to invent.
	maxRivals = 256
	// defendEvery is RFC 5227's DEFEND_INTERVAL.
	defendEvery = 10 * time.Second
)

// note notes that a machine was heard of, and says whether that is news.
func (c conflicts) note(now time.Time, who rival, link string, here bool) bool {
	one := c[who]
	if one == nil {
		if len(c) >= maxRivals {
			return false
		}
		one = &conflict{}
		c[who] = one
	}
	quiet := now.Sub(one.heard) >= contestedFor || one.here != here
	one.link, one.here, one.heard = link, here, now
	if now.Sub(one.told) >= repeatAfter {
		one.told = time.Time{}
		return true
	}
	return quiet
}

// forget forgets who has been silent for long.
func (c conflicts) forget(now time.Time) {
	for who, one := range c {
		if now.Sub(one.heard) >= repeatAfter {
			delete(c, who)
		}
	}
}

// contested are the addresses that are here and that another machine claims.
func (c conflicts) contested(now time.Time) map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	for who, one := range c {
		if one.here && now.Sub(one.heard) < contestedFor {
			all[who.ip] = true
		}
	}
	return all
}

// untold returns whom people have not been told of, who counts as told then.
func (c conflicts) untold(now time.Time) []rival {
	var all []rival
	for who, one := range c {
		if one.told.IsZero() {
			one.told = now
			all = append(all, who)
		}
	}
	return sortedRivals(all)
}

// problem tells the other nodes and people of those of c whose address is one of
// services, in short.
func (c conflicts) problem(services []announce.Service) string {
	if len(c) == 0 {
		return ""
	}
	var all []rival
	served := served(services)
	for who := range c {
		if served[who.ip] {
			all = append(all, who)
		}
	}
	const most = 5
	var texts []string
	for i, who := range sortedRivals(all) {
		if i == most {
			texts = append(texts, fmt.Sprintf("and %d more", len(all)-most))
			break
		}
		texts = append(texts, fmt.Sprintf("%s on %s is claimed by another machine, %s", who.ip, c[who].link, who.text()))
	}
	return strings.Join(texts, "; ")
}

// list returns what is known, for people to see.
func (c conflicts) list() []conflictShown {
	var all []conflictShown
	for who, one := range c {
		all = append(all, conflictShown{who.ip, one.link, who.text(), one.here, one.heard})
	}
	slices.SortFunc(all, func(a, b conflictShown) int { return cmp.Or(a.IP.Compare(b.IP), cmp.Compare(a.MAC, b.MAC)) })
	return all
}

// message tells a person about the conflict with who.
func (c conflicts) message(node string, who rival) string {
	one := c[who]
	if !one.here {
		return announce.Contest{Address: announce.Address{Prefix: netip.PrefixFrom(who.ip, who.ip.BitLen()), Link: one.link}, MAC: who.mac}.Message()
	}
	return fmt.Sprintf("%s, which node %s has on %s, is claimed by another machine, %s: clients reach one or the other; "+
		"if this is no node of the cluster, give it another address, or exclude this one from the pool", who.ip, node, one.link, who.text())
}

func (r rival) text() string { return net.HardwareAddr(r.mac[:]).String() }

func sortedRivals(all []rival) []rival {
	slices.SortFunc(all, func(a, b rival) int {
		return cmp.Or(a.ip.Compare(b.ip), slices.Compare(a.mac[:], b.mac[:]))
	})
	return all
}
