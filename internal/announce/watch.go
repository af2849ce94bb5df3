package announce

import (
	"net/netip"
	"time"
)

// station is a machine that answers on a link of this node. The zero station has not
// answered.
type station struct {
	link string
	mac  [6]byte
}

// watchPause is the pause between probes of a station, to which comes a part of
// watchSpread: half a second at most.
const watchPause, watchSpread = 300 * time.Millisecond, 200 * time.Millisecond

// watch has each station that answers for addresses of nodes be asked every half second
// for one of these, as long as it answers. That is a node without an agent: it may lose
// its power at any time, and no gossip would tell. One address stands for all of the
// station, so that it costs the same whether they are one or thousands. When it is
// silent, the station is one of ended, and all the others are asked for at once.
//
// A machine that answers for what no node had is no node, and may stay for ever. It is
// not watched.
func (t *Takeovers) watch(now time.Time, ended map[station]bool) {
	first := map[station]netip.Addr{}
	for ip, one := range t.each {
		if one.answered.IsZero() || !one.used {
			continue
		}
		if ended[one.from] && !one.probing {
			one.retry = now
		}
		if before, more := first[one.from]; !more || ip.Less(before) {
			first[one.from] = ip
		}
	}
	for _, ip := range first {
		if one := t.each[ip]; !one.probing {
			one.retry = earlier(one.retry, now.Add(watchPause+t.stagger(ip, watchSpread)))
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
