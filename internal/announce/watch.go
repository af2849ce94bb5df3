package announce

import (
	"net/netip"
	"time"
)

// station is a machine that answers on a link of this node. The zero station stands for no
// answer.
type station struct {
	link string
	mac  [6]byte
}

// watchPause is the pause between probes of a station. A part of watchSpread is added: the
// sum is half a second at most.
const watchPause, watchSpread = 300 * time.Millisecond, 200 * time.Millisecond

// watch probes each station every half second for one of the addresses for which it answers,
// as long as it answers. Such a station is a node without an agent. It may lose its power at
// any time, and gossip would not notice. One address stands for all addresses of the station,
// so the cost does not depend on their number. The stations in ended no longer answer, so
// watch probes their other addresses at once.
//
// watch does not probe a machine that answers for an address that no node had. It is not a
// node, and may stay forever.
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
