package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/ending"
	"purelb.io/purelb/internal/nodes/membership"
	"purelb.io/purelb/internal/testing/expect"
)

// endOf is an end that always has this cause.
type endOf ending.Cause

func (e endOf) Ending(context.Context) ending.Ending {
	return ending.Ending{Cause: ending.Cause(e), Reason: "the test says so"}
}

func TestTheAddressesAfterTheEndOfAnAgent(t *testing.T) {
	const everything = bothAddresses + ", 203.0.113.7/32 kube-lb0"
	for _, tt := range []struct {
		name   string
		cause  ending.Cause
		alone  bool
		answer func(string, []byte) (membership.Message, bool)
		want   string
		gone   bool
		limit  time.Duration
	}{
		{"restart", ending.Restart, false, takes, everything, false, 0},
		{"replaced", ending.Replaced, false, takes, "203.0.113.7/32 kube-lb0", true, 0},
		{"replaced, no other node", ending.Replaced, true, takes, everything, true, 0},
		{"replaced, no answer", ending.Replaced, false, nil, everything, true, time.Second},
		{"evicted", ending.Evicted, false, takes, "203.0.113.7/32 kube-lb0", true, 0},
		{"evicted, no answer", ending.Evicted, false, nil, "203.0.113.7/32 kube-lb0", true, time.Second},
		{"evicted, no other node", ending.Evicted, true, takes, "203.0.113.7/32 kube-lb0", true, 0},
		{"uninstalled", ending.Uninstalled, false, takes, "", true, 0},
		{"uninstalled, no answer", ending.Uninstalled, false, nil, "", true, time.Second},
		{"uninstalled, no other node", ending.Uninstalled, true, takes, "", true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.agent.Departures = endOf(tt.cause)
				w.peers.answer = tt.answer
				w.cluster.snapshot.Services = []corev1.Service{heldBy("node-a"), branded("far", "203.0.113.7")}
				if !tt.alone {
					w.peers.peers.Members = append(w.peers.peers.Members, reachable("node-b"))
				}
			}, func(w *world) {
				expect.Equal(t, "kernel, before", w.kernel.String(), everything)
				w.kernel.changes()
				began := time.Now()
				w.end()
				if took := time.Since(began); took > tt.limit+time.Millisecond || took < tt.limit {
					t.Errorf("the end took %s, want %s", took, tt.limit)
				}
				expect.Equal(t, "kernel", w.kernel.String(), tt.want)
				expect.Equal(t, "the dummy interface exists", w.kernel.has("kube-lb0"), (tt.cause != ending.Uninstalled))
				expect.Equal(t, "the agent calls Leave", w.peers.gone, tt.gone)
				expect.Equal(t, "the agent publishes that it drains", w.peers.draining() != "", tt.gone)
			})
		})
	}
}

// atUninstall ends an agent with a remote address, because the product is uninstalled.
func atUninstall(t *testing.T, before, after func(*world)) {
	inWorld(t, func(w *world) {
		w.agent.Departures = endOf(ending.Uninstalled)
		w.cluster.snapshot.Services = []corev1.Service{branded("far", "203.0.113.7")}
		before(w)
	}, func(w *world) {
		w.end()
		after(w)
	})
}

// A kernel under load interrupts dumps, and the end of a node is a busy time.
func TestAHandoverIsTriedAgainAfterAFailedObservation(t *testing.T) {
	for _, cause := range []ending.Cause{ending.Replaced, ending.Evicted} {
		t.Run(cause.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.agent.Departures = endOf(cause)
				w.peers.answer = takes
				w.cluster.snapshot.Services = []corev1.Service{heldBy("node-a")}
				w.peers.peers.Members = append(w.peers.peers.Members, reachable("node-b"))
			}, func(w *world) {
				expect.Equal(t, "kernel, before", w.kernel.String(), bothAddresses)
				w.kernel.change(func() { w.kernel.dumpErr = errors.New("dump interrupted") })
				time.AfterFunc(300*time.Millisecond, func() { w.kernel.change(func() { w.kernel.dumpErr = nil }) })
				w.end()
				expect.Equal(t, "kernel", w.kernel.String(), "")
				expect.Equal(t, "addresses that node-b was asked to take", testutil.ToFloat64(w.metrics.handovers), 2)
			})
		})
	}
}

// The other nodes take the addresses only after Leave.
func TestLeaveDoesNotWaitForTheDeletionOfTheLink(t *testing.T) {
	atUninstall(t, func(w *world) { w.kernel.keepsLinks = true }, func(w *world) {
		expect.Equal(t, "kernel", w.kernel.String(), "")
		if !w.peers.gone {
			t.Error("the agent does not call Leave while the kernel deletes the link")
		}
	})
}

// Leave also deletes the Lease. During an uninstall, the API server removes many objects, so that
// request may take too long.
func TestTheLinkIsDeletedWhenLeaveTakesTooLong(t *testing.T) {
	atUninstall(t, func(w *world) { w.peers.deaf = true }, func(w *world) {
		expect.Equal(t, "kernel", w.kernel.String(), "")
		if w.kernel.has("kube-lb0") {
			t.Error("the dummy interface exists after the end of the agent")
		}
	})
}

func TestTheAgentOfADeletedNodeHandsOver(t *testing.T) {
	asked := 0
	inWorld(t, func(w *world) {
		w.agent.Departures = endOf(ending.Uninstalled)
		w.peers.answer = func(to string, message []byte) (membership.Message, bool) {
			asked++
			return takes(to, message)
		}
		w.cluster.snapshot.Services = []corev1.Service{heldBy("node-a"), branded("far", "203.0.113.7")}
		w.peers.peers.Members = append(w.peers.peers.Members, reachable("node-b"))
	}, func(w *world) {
		w.cluster.change(func(s *objects) { s.Node = nil })
		expect.Equal(t, "kernel, without a Node", w.kernel.String(), bothAddresses+", 203.0.113.7/32 kube-lb0")
		w.end()
		expect.Equal(t, "kernel", w.kernel.String(), "")
		if asked == 0 {
			t.Error("no other node was asked to take the addresses")
		}
	})
}

func TestADeletedNodeIsSeen(t *testing.T) {
	c := newCluster(t)
	caches, err := NewCaches(c.config, c.node, c.namespace)
	expect.NoError(t, err)
	if caches.nodeDeleted() {
		t.Error("the caches report a deleted node before they have read the nodes")
	}
	run(t, caches.Run)
	eventually(t, "the caches are complete", func() bool {
		_, complete := caches.Read()
		return complete
	})
	if caches.nodeDeleted() {
		t.Error("the caches report that an existing node is deleted")
	}
	expect.NoError(t, c.core.CoreV1().Nodes().Delete(t.Context(), c.node, metav1.DeleteOptions{}))
	eventually(t, "the caches report the deleted node", caches.nodeDeleted)
}

// The next agent on the node needs seconds to start.
func TestAnAgentThatRestartsCompletesHandovers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		taken bool
		want  string
	}{{"taken", true, ""}, {"not taken", false, bothAddresses}} {
		t.Run(tt.name, func(t *testing.T) {
			handsOver(t, nil, func(w *world) {
				w.agent.Departures = endOf(ending.Restart)
				expect.Equal(t, "kernel, before", w.kernel.String(), bothAddresses)
				if tt.taken {
					w.peers.received <- from("node-b", announce.Taken)
				}
				w.end()
				expect.Equal(t, "kernel", w.kernel.String(), tt.want)
				if w.peers.gone {
					t.Error("the agent calls Leave")
				}
			})
		})
	}
}

// Of nodes that drain, the holder keeps an address. So the others must see that this node cannot
// have it any more.
func TestOnlyAnAgentThatLeavesReportsNoSubnets(t *testing.T) {
	for cause, none := range map[ending.Cause]bool{ending.Restart: false, ending.Replaced: true, ending.Evicted: true} {
		t.Run(cause.String(), func(t *testing.T) {
			handsOver(t, nil, func(w *world) {
				w.agent.Departures = endOf(cause)
				w.end()
				expect.Equal(t, "the last record has no subnets", strings.HasPrefix(w.peers.publications(), "[] "), none)
			})
		})
	}
}
