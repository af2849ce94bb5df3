package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/ending"
	"purelb.io/purelb/internal/testing/expect"
)

func (k *fakeKernel) guarded() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return fmt.Sprint(k.closed)
}

func TestTheNodeIsClosedBehindAllAddressesOfServices(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cluster.snapshot.Services = []corev1.Service{branded("web", "192.0.2.9", "2001:db8::9"), branded("far", "203.0.113.7")}
	}, func(w *world) {
		pass(time.Minute)
		expect.Equal(t, "closed", w.kernel.guarded(), "[192.0.2.9 203.0.113.7 2001:db8::9]")
		w.cluster.change(func(s *objects) { s.Agents[0].Spec.Local.ProtectNode, s.Agents[0].Generation = new(bool), 2 })
		settle()
		expect.Equal(t, "closed, with protectNode: false", w.kernel.guarded(), "[]")
	})
}

func TestTheNodeStaysClosedUntilTheAgentLeavesForGood(t *testing.T) {
	for cause, want := range map[ending.Cause]string{ending.Restart: "[203.0.113.7]", ending.Replaced: "[203.0.113.7]", ending.Uninstalled: "[]"} {
		inWorld(t, func(w *world) {
			w.agent.Departures = endOf(cause)
			w.cluster.snapshot.Services = []corev1.Service{branded("far", "203.0.113.7")}
		}, func(w *world) {
			w.end()
			expect.Equal(t, "closed after "+cause.String(), w.kernel.guarded(), want)
		})
	}
}

func TestANodeThatCannotBeClosedSaysSoAndAnnounces(t *testing.T) {
	for name, tt := range map[string]struct {
		given func(*fakeKernel)
		mend  func(*fakeKernel)
		text  string
	}{
		"nftables is refused": {
			func(k *fakeKernel) { k.guardErr = errors.New("operation not permitted") },
			func(k *fakeKernel) { k.guardErr = nil },
			"because its kernel refuses nftables: operation not permitted",
		},
		"IPVS": {
			func(k *fakeKernel) { k.links = append(k.links, announce.Link{Name: "kube-ipvs0", Index: 8, Up: true}) },
			func(k *fakeKernel) { k.links = k.links[:3] },
			"because kube-proxy uses IPVS: use its mode nftables, or set protectNode: false",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				tt.given(w.kernel)
				w.cluster.snapshot.Services = []corev1.Service{branded("web", "192.0.2.9", "2001:db8::9")}
			}, func(w *world) {
				pass(5 * time.Minute)
				expect.Equal(t, "kernel", w.kernel.String(), bothAddresses)
				expect.Equal(t, "closed", w.kernel.guarded(), "[]")
				const event = "Warning NodePortsOpen Node node-a answers with all of its ports at the addresses of Services, "
				expect.Equal(t, "events", strings.Count(w.reported(), event+tt.text), 1)
				expect.Contains(t, "the published record", w.peers.publications(), tt.text)
				w.kernel.change(func() { tt.mend(w.kernel) })
				pass(2 * time.Minute)
				expect.Equal(t, "closed", w.kernel.guarded(), "[192.0.2.9 2001:db8::9]")
				lacks(t, "the published record", w.peers.publications(), "ports")
			})
		})
	}
}
