package agent

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/ending"
)

// notReadyFor is how long a node may be not ready before it is avoided: a kubelet
// that restarts is no reason to move anything.
const notReadyFor = 10 * time.Second

// soft are the signals of a node that it should have addresses only if no other
// can. It remembers since when we see the node not ready, by our own clock.
type soft struct{ notReady time.Time }

// draining returns why the node should be avoided, or "", and when time alone may
// change that, or zero.
func (s *soft) draining(now time.Time, node *corev1.Node) (reason string, again time.Time) {
	if ending.Ready(node) {
		s.notReady = time.Time{}
	} else if s.notReady.IsZero() {
		s.notReady = now
	}
	switch reason := ending.Marked(node).Reason; {
	case reason != "":
		return reason, time.Time{}
	case s.notReady.IsZero():
		return "", time.Time{}
	case now.Sub(s.notReady) < notReadyFor:
		return "", s.notReady.Add(notReadyFor)
	}
	return "the node is not ready", time.Time{}
}
