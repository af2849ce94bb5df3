package linux

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
)

// BenchmarkAddresses10k measures how long it takes to add 10,000 addresses to a link, to read them
// and to renew them. It also measures the removal of 1,000 of them: for each one, the kernel
// searches all others. It compares adding and removing with `ip -batch`.
func BenchmarkAddresses10k(b *testing.B) {
	for _, family := range []struct{ name, first string }{
		{"v4", "198.18.0.1/32"}, {"v6", "2001:db8::1/128"},
	} {
		b.Run(family.name, func(b *testing.B) {
			newWorld(b)
			s := newStack(b)
			addrs := block("kube-lb0", family.first, 10_000)
			sum := map[string]time.Duration{}
			for range b.N {
				measure(b, s, addrs, sum)
			}
			for _, what := range []string{"put", "observe", "renew", "remove", "ip-add", "ip-del"} {
				b.ReportMetric(sum[what].Seconds()*1000/float64(b.N), what+"-ms")
			}
			b.ReportMetric(sum["put"].Seconds()/sum["ip-add"].Seconds(), "put/ip")
			b.ReportMetric(sum["remove"].Seconds()/sum["ip-del"].Seconds(), "remove/ip")
		})
	}
}

func measure(b *testing.B, s *Stack, addrs []announce.Address, sum map[string]time.Duration) {
	b.Helper()
	timed := func(what string, f func()) {
		start := time.Now()
		f()
		sum[what] += time.Since(start)
	}
	const some = 1000
	freshDummy(b, s)
	timed("put", func() { put(b, s, addrs...) })
	timed("observe", func() {
		if got := len(ours(observe(b, s))); got != len(addrs) {
			b.Fatalf("%d addresses are there", got)
		}
	})
	timed("renew", func() { put(b, s, addrs...) })
	timed("remove", func() { remove(b, s, addrs[:some]...) })
	if got := len(ours(observe(b, s))); got != len(addrs)-some {
		b.Fatalf("%d addresses are left", got)
	}
	freshDummy(b, s)
	add, del := batchOf("add", addrs), batchOf("del", addrs[:some])
	timed("ip-add", func() { ipBatch(b, add) })
	timed("ip-del", func() { ipBatch(b, del) })
}

func freshDummy(b *testing.B, s *Stack) {
	b.Helper()
	if _, err := s.link(b.Context(), "kube-lb0"); err == nil {
		ip(b, "link del kube-lb0")
	}
	if _, err := s.EnsureDummy(b.Context(), "kube-lb0"); err != nil {
		b.Fatal(err)
	}
}

func batchOf(verb string, addrs []announce.Address) string {
	var script strings.Builder
	for _, a := range addrs {
		fmt.Fprintf(&script, "addr %s %s dev %s\n", verb, a.Prefix, a.Link)
	}
	return script.String()
}

func ipBatch(b *testing.B, script string) {
	b.Helper()
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("ip -batch: %v\n%s", err, out)
	}
}
