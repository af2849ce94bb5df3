package gossip

import (
	"fmt"
	"math"
	"net/netip"
	"testing"
	"time"

	"purelb.io/purelb/internal/testing/expect"
)

// inPatientCluster runs a cluster of n agents. The first agent has this patience.
func inPatientCluster(t *testing.T, n int, patience time.Duration, f func(*cluster)) {
	inCluster(t, 0, func(c *cluster) {
		for i := range n {
			c.start(fmt.Sprintf("node-%03d", i), i, func(o *Options) {
				if i == 0 {
					o.Patience = patience
				}
			})
		}
		c.pass(10 * time.Second)
		f(c)
	})
}

func TestAPauseShorterThanThePatienceMovesNothing(t *testing.T) {
	for _, tt := range []struct {
		patience, pause time.Duration
		lost            bool
	}{
		{DefaultPatience, 1500 * time.Millisecond, true},
		{2 * time.Second, 1500 * time.Millisecond, false},
		{2 * time.Second, 2500 * time.Millisecond, true},
		{MaxPatience, 4500 * time.Millisecond, false},
		{MaxPatience, 6 * time.Second, true},
	} {
		for _, nodes := range []int{2, 10} {
			inPatientCluster(t, nodes, tt.patience, func(c *cluster) {
				for i := range 3 {
					c.agents[i%nodes].port.hold(tt.pause)
					c.pass(20 * time.Second)
				}
				if n := c.wronged(); n > 0 != tt.lost {
					t.Errorf("%d nodes with the patience %v pause for %v, and are seen as dead %d times", nodes, tt.patience, tt.pause, n)
				}
			})
		}
	}
}

func TestADeadNodeIsDetectedAfterItsPatience(t *testing.T) {
	for _, patience := range []time.Duration{2 * time.Second, MaxPatience} {
		for _, nodes := range []int{2, 10} {
			inPatientCluster(t, nodes, patience, func(c *cluster) {
				at := time.Now()
				dead := c.powerOff(1)
				c.pass(patience + 2*time.Second)
				for _, a := range c.agents {
					seen, ok := a.saw(dead.self.node, Dead)
					if after := seen.Sub(at); !ok || after < patience-200*time.Millisecond || after > patience+200*time.Millisecond {
						t.Errorf("%d nodes with the patience %v: a death is detected after %v, %t", nodes, patience, after, ok)
					}
				}
			})
		}
	}
}

func TestAllUseTheLongestPatienceOfLiveNodes(t *testing.T) {
	inPatientCluster(t, 3, 2*time.Second, func(c *cluster) {
		isPatient := func(when string, want time.Duration) {
			t.Helper()
			for _, a := range c.agents {
				expect.Equal(t, fmt.Sprintf("%s: the patience of %s", when, a.self.node), a.Patience(), want)
			}
		}
		isPatient("with a node of two seconds", 2*time.Second)
		c.start("node-003", 3, func(o *Options) { o.Patience = MaxPatience })
		c.pass(5 * time.Second)
		isPatient("with another node of five seconds", MaxPatience)
		c.powerOff(3)
		c.pass(10 * time.Second)
		isPatient("when that node is dead", 2*time.Second)
		expect.NoError(t, c.agents[0].Leave(c.t.Context()))
		c.powerOff(0)
		c.pass(2 * time.Minute)
		isPatient("when the other node has left", DefaultPatience)
	})
}

// The expected time is the one that memberlist 0.7.0 computes from SuspicionMult. It rounds
// the logarithm to thousandths.
func TestTheLibraryIsPatientInClustersOfAnySize(t *testing.T) {
	probe := (Timing{}).withDefaults().Probe
	for _, nodes := range []int{0, 1, 3, 10, 100, 1000, 5000} {
		for _, patience := range []time.Duration{DefaultPatience, 2 * time.Second, MaxPatience} {
			scale := max(1, math.Log10(max(1, float64(nodes))))
			each := time.Duration(math.Trunc(1000*scale) / 1000 * float64(probe))
			longer := patience - DefaultPatience
			got := time.Duration(libraryMult(longer, nodes, probe)) * each
			if least, most := suspicion*each+longer, (suspicion+1)*each+longer; got < least-10*time.Millisecond || got > most {
				t.Errorf("%d nodes with the patience %v: the library waits for %v, want %v to %v", nodes, patience, got, least, most)
			}
		}
	}
}

func TestThePatienceOfARefutedNodeCountsAtOnce(t *testing.T) {
	table, id := newTable(), identity{"a", 1}
	table.hear(id, netip.AddrPort{}, said{patience: MaxPatience}, epoch)
	table.suspect(id, epoch, epoch)
	table.settle(epoch)
	expect.Equal(t, "with a dead node, the patience", table.patience, 0)
	table.refute(id, epoch)
	expect.Equal(t, "after the node refuted its death, the patience", table.patience, MaxPatience)
}

func TestPatienceHasLimits(t *testing.T) {
	for text, want := range map[string]bool{
		"0s": true, "400ms": true, "2s": true, "5s": true, "300ms": false, "5.1s": false, "450ms": false, "-1s": false,
	} {
		d, err := time.ParseDuration(text)
		expect.NoError(t, err)
		if err := ValidPatience(d); (err == nil) != want {
			t.Errorf("the patience %s: the error is %v, want it accepted: %t", text, err, want)
		}
	}
	for b, want := range map[byte]time.Duration{0: DefaultPatience, 3: DefaultPatience, 4: DefaultPatience, 20: 2 * time.Second, 50: MaxPatience, 255: MaxPatience} {
		expect.Equal(t, fmt.Sprintf("the patience of a record with the byte %d", b), readPatience(b), want)
	}
}
