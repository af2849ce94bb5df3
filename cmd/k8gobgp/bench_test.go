package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/testing/bgptest"
)

const (
	// settling is how long a speaker has done nothing before its memory is
	// looked at: as long as the runtime takes to give back what it has no use
	// for.
	settling = 30 * time.Second
	// idle is how long it is watched doing nothing: all that it does every
	// minute is in it.
	idle = time.Minute
	// idleRoutes is how many addresses there are meanwhile.
	idleRoutes = 1000
	bulk       = 10_000
)

// Limits of what is measured.
const (
	mostMemory1Peer     = 15 // MB
	mostMemory10Peers   = 20
	mostMemory10kRoutes = 45
	mostIdleCPU         = 0.2 // percent of one core
)

// asBare is the environment variable that makes the test binary the floor.
const asBare = "K8GOBGP_TEST_AS_BARE"

func TestMain(m *testing.M) {
	if os.Getenv(asBare) != "" {
		if err := runBare(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(bgptest.Main(m))
}

// BenchmarkSpeaker measures what a k8gobgp costs while nothing happens, built as
// it is for its image and run by itself, with the API server and real neighbours.
//
// The floor of the CPU time is a process with nothing but GoBGP, the same routes
// and a session with the same router, at the same time: what a machine takes to
// wake a process up differs more than what the processes do.
func BenchmarkSpeaker(b *testing.B) {
	w := newSolo(b, 1)
	for b.Loop() {
		p := w.start()
		w.result("speaker_rss_1_peer_mb", p.settled(), "MB", mostMemory1Peer)
		w.idle(p)
		w.addresses(idleRoutes, bulk)
		w.routers[0].AwaitCount(bulk + idleRoutes) // with those of the floor
		w.result("speaker_rss_10k_routes_mb", p.settled(), "MB", mostMemory10kRoutes)
		p.end()
	}
}

// idle measures p with some addresses.
func (w *solo) idle(p *running) {
	w.Helper()
	w.addresses(0, idleRoutes)
	bare := w.startBare()
	w.routers[0].AwaitCount(2 * idleRoutes)
	time.Sleep(settling)
	ours, floor := p.cpu(), bare.cpu()
	began := time.Now()
	time.Sleep(idle)
	ours, floor = p.cpu()-ours, bare.cpu()-floor
	took := time.Since(began)
	percent := func(d time.Duration) float64 { return 100 * d.Seconds() / took.Seconds() }
	w.result("speaker_idle_cpu_percent", percent(ours), "%", mostIdleCPU)
	w.result("idle_floor_cpu_percent", percent(floor), "%", 0)
}

// BenchmarkSpeakerWithPeers is the same with more neighbours.
func BenchmarkSpeakerWithPeers(b *testing.B) {
	w := newSolo(b, 10)
	for b.Loop() {
		p := w.start()
		w.result("speaker_rss_10_peers_mb", p.settled(), "MB", mostMemory10Peers)
		p.end()
	}
}

// result prints a measurement, and fails if it is more than most (0: anything).
func (w *solo) result(name string, value float64, unit string, most float64) {
	fmt.Printf("RESULT %s %.3f %s\n", name, value, unit)
	w.ReportMetric(value, name)
	if most > 0 && value > most {
		w.Errorf("%s is %.3f; at most %.2f is wanted", name, value, most)
	}
}

// mostLeak is what a speaker may hold when a router announces far too much, in MB.
const mostLeak = 200

// BenchmarkLeak measures a k8gobgp whose router announces 100,000 routes, as one does
// that lost its filters.
func BenchmarkLeak(b *testing.B) {
	var leak strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&leak, " route 100.%d.%d.%d/32 blackhole;\n", 64+i>>16, i>>8&255, i&255)
	}
	w := newSolo(b, 1, "protocol static leak { disabled; ipv4;\n"+leak.String()+"}\n")
	for b.Loop() {
		p := w.start()
		w.addresses(0, 1)
		w.routers[0].AwaitCount(1)
		w.routers[0].Ask("enable leak")
		w.routers[0].AwaitSays("show protocols all speaker", "100000 exported")
		w.result("bgp_leak_100k_rss_mb", p.settled(), "MB", mostLeak)
		w.routers[0].AwaitCount(1)
		p.end()
	}
}
