package e2e

import (
	"fmt"
	"testing"
	"time"
)

// outages is the number of power cuts in the benchmark for each setting of BFD.
const outages = 10

// BenchmarkBGPPowerLoss measures the time for which a router sends packets to a dead node. It begins
// when the lab cuts the power, and ends when the router's kernel has no next hop to the node for
// addresses of both families.
func BenchmarkBGPPowerLoss(b *testing.B) {
	w := newWorldFor(b, time.Hour)
	addresses := w.remote()
	for b.Loop() {
		for _, bfd := range []struct{ how, suffix string }{
			{withBFD, ""},         // 300 ms x 3
			{withFastBFD, "_100"}, // 100 ms x 3
		} {
			w.peer(bfd.how)
			var gone []time.Duration
			for i := range outages {
				w.sessions()
				w.detects()
				node := nodeNames()[1+i%(len(nodeNames())-1)] // the first node has the server
				w.everywhere(addresses...)
				gone = append(gone, w.dies(node, addresses, time.Minute))
				b.Logf("power loss%s, %s: %v", bfd.suffix, node, gone[i])
				lab.boot(b, node)
				w.agentReady(node)
			}
			fmt.Printf("RESULT bgp_power_loss%s_p50_ms %.0f ms\n", bfd.suffix, percentile(gone, 50))
			fmt.Printf("RESULT bgp_power_loss%s_p99_ms %.0f ms\n", bfd.suffix, percentile(gone, 100)) // of ten samples the 99th percentile is the worst
		}
	}
}
