package bgptest

import (
	"testing"
)

// birdBase makes BIRD write what BGP learns into the kernel.
const birdBase = `log stderr all;
protocol device { scan time 1; }
protocol direct { ipv4; ipv6; }
protocol kernel { ipv4 { import none; export where source = RTS_BGP; }; merge paths on; }
protocol kernel { ipv6 { import none; export where source = RTS_BGP; }; merge paths on; }
`

const (
	bird  = "/usr/sbin/bird"
	birdc = "/usr/sbin/birdc"
)

// BIRD runs the BIRD of this machine in n. See Suite.BIRD.
func BIRD(t testing.TB, n *Namespace, config string) *Router {
	t.Helper()
	return Suite{}.BIRD(t, n, config)
}

// BIRD runs BIRD in n. config has the router id and the BGP protocols; devices
// and the way into the kernel are there already.
func (s Suite) BIRD(t testing.TB, n *Namespace, config string) *Router {
	t.Helper()
	r := &Router{Namespace: n, suite: s, t: t, dir: routerDir(t)}
	r.ask = func(question string) (string, error) {
		return n.output(s.command(birdc, "-s", r.path("bird.ctl"), question))
	}
	conf := r.file("bird.conf", birdBase+config)
	if out, err := n.output(s.command(bird, "-p", "-c", conf)); err != nil {
		t.Fatalf("configure BIRD: %v\n%s", err, out)
	}
	r.run(bird, "-f", "-c", conf, "-s", r.path("bird.ctl"), "-P", r.path("bird.pid"))
	r.answers("bird.ctl")
	return r
}
