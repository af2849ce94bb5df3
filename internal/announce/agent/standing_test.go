package agent

import (
	"testing"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/gossip"
)

// The machines that should answer may be nodes that pause. A pause that gossip tolerates must not
// make the link of another node silent.
func TestALinkIsNotSilentWhileNodesPause(t *testing.T) {
	unanswered, between := 2*standingWait, standingEvery // each probe is sent twice
	var state announce.Standing
	needed := unanswered
	for !state.Asked(true) {
		needed += between + unanswered
	}
	if needed <= gossip.MaxPatience {
		t.Errorf("a link is silent when nodes pause for %v, but gossip tolerates %v", needed, gossip.MaxPatience)
	}
}
