package joined_test

import (
	"log/slog"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/nodes/ending"
	"purelb.io/purelb/internal/testing/bgptest"
)

// race has two racers and a router that learns from both. The first racer is our speaker, the
// second is GoBGP alone.
type race struct {
	*testing.B
	router *bgptest.Router
	racers [2]racer
	// kernel is a namespace for the floor of adding addresses. No speaker runs in it.
	kernel *addresses
	events chan event
	// lost is the error after which events may be missing. The end of the test is no error.
	lost atomic.Pointer[error]
}

// racer gets routes and announces them to the router.
type racer interface {
	add([]netip.Prefix)
	clear()
}

// event is an addition of a route to the router's kernel.
type event struct {
	prefix netip.Prefix
	at     time.Time
}

// The router sends no routes: each side would spend its time on those of the other side.
const benchRouter = `
router bgp 64514
 bgp router-id 192.0.2.2
 no bgp ebgp-requires-policy
 neighbor 192.0.2.1 remote-as 65000
 neighbor 192.0.2.3 remote-as 65001
 neighbor 192.0.2.3 passive
 neighbor 192.0.2.1 prefix-list none out
 neighbor 192.0.2.3 prefix-list none out
!
ip prefix-list none deny any
`

var benchSnapshot = intent.Snapshot{
	Configs: []bgpv1.BGPConfiguration{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "purelb", Name: "default", UID: "1", Generation: 1},
		Spec: bgpv1.BGPConfigurationSpec{
			Global:        bgpv1.Global{ASN: 65000},
			NetlinkImport: &bgpv1.NetlinkImport{Enabled: true, InterfaceList: []string{"kube-lb*"}},
			Neighbors:     []bgpv1.Neighbor{{Config: bgpv1.NeighborConfig{NeighborAddress: "192.0.2.2", PeerConfig: bgpv1.PeerConfig{PeerASN: 64514}}}},
		},
	}},
	Node: &intent.NodeFacts{Node: peering.Node{Name: "node-a", InternalIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}},
}

func newRace(b *testing.B) *race {
	wire, here, there := bgptest.NewSegment(b), bgptest.Here(b), bgptest.NewNamespace(b)
	wire.Join(here, "eth0", "192.0.2.1/24", "192.0.2.3/24")
	wire.Join(there, "eth0", "192.0.2.2/24")
	w := &race{B: b, router: bgptest.FRR(b, there, benchRouter), events: make(chan event, 4*bulk)}
	w.watch()
	w.kernel = newAddresses(b, bgptest.NewNamespace(b))
	w.racers = [2]racer{newAddresses(b, here), newBare(b)}
	speak(b, slog.New(slog.DiscardHandler), &cluster{changed: make(chan struct{}, 1), snapshot: benchSnapshot}, &reports{}, w.router, ending.Restart)
	for side := range w.racers { // until it has a session
		w.time(side, prefixes(side, 0, 1))
	}
	w.clear()
	return w
}

// watch follows the router's kernel.
func (w *race) watch() {
	updates, done := make(chan netlink.RouteUpdate, 4*bulk), make(chan struct{})
	var err error
	w.router.Do(func() {
		err = netlink.RouteSubscribeWithOptions(updates, done, netlink.RouteSubscribeOptions{
			ReceiveBufferSize: 64 << 20, ReceiveBufferForceSize: true,
			ErrorCallback: func(err error) { w.lost.Store(&err) },
		})
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { close(done) })
	go func() {
		for u := range updates {
			if u.Dst == nil || u.Protocol != unix.RTPROT_BGP || u.Type != unix.RTM_NEWROUTE {
				continue
			}
			a, _ := netip.AddrFromSlice(u.Dst.IP)
			ones, _ := u.Dst.Mask.Size()
			w.events <- event{netip.PrefixFrom(a.Unmap(), ones), time.Now()}
		}
	}()
}

// time returns the time that a racer needs for some routes.
func (w *race) time(side int, some []netip.Prefix) time.Duration {
	w.Helper()
	began := time.Now()
	w.racers[side].add(some)
	return w.await(len(some)).Sub(began)
}

// clear removes all routes.
func (w *race) clear() {
	w.Helper()
	for _, r := range w.racers {
		r.clear()
	}
	w.router.AwaitCount(0)
	for len(w.events) > 0 {
		<-w.events
	}
}

// await waits until n routes have arrived. It returns the arrival time of the last one.
func (w *race) await(n int) time.Time {
	w.Helper()
	seen := map[netip.Prefix]bool{}
	late := time.After(bgptest.Patience)
	for {
		select {
		case e := <-w.events:
			seen[e.prefix] = true
			if len(seen) == n {
				return e.at
			}
		case <-late:
			if lost := w.lost.Load(); lost != nil {
				w.Fatalf("follow the router's routes: %v", *lost)
			}
			w.Fatalf("after %v the router has %d routes, want %d\n%s", bgptest.Patience, len(seen), n, w.router.Ask("show bgp summary"))
		}
	}
}
