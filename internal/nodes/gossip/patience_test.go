package gossip

import (
	"fmt"
	"testing"
	"time"

	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/expect"
)

// inPatientCluster runs a cluster of n agents with this patience.
func inPatientCluster(t *testing.T, n int, patience time.Duration, f func(*cluster)) {
	inCluster(t, 0, func(c *cluster) {
		for i := range n {
			c.start(fmt.Sprintf("node-%03d", i), i, func(o *Options) { o.Patience = patience })
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
					seen, ok := a.saw(dead.self.node, election.Dead)
					if after := seen.Sub(at); !ok || after < patience-200*time.Millisecond || after > patience+200*time.Millisecond {
						t.Errorf("%d nodes with the patience %v: a death is detected after %v, %t", nodes, patience, after, ok)
					}
				}
			})
		}
	}
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
}
