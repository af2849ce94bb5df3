package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"purelb.io/purelb/lab/kube"
	"purelb.io/purelb/lab/probe"
)

// served is a Service with local addresses and a Service with remote addresses. Clients use both.
type served struct {
	*watched
	remote []netip.Addr
}

// serve makes the Services and waits until clients reach all addresses.
func serve(w *world, peers string) *served {
	w.t.Helper()
	w.apply(groups)
	w.peer(peers)
	s := &served{watched: watchLocal(w)}
	w.apply(service("far", "remote"))
	s.remote = w.addresses("far", families())
	w.everywhere(s.remote...)
	w.answers(s.remote...)
	return s
}

// losesNothing fails the test if a client loses a datagram or a connection during change.
func (s *served) losesNothing(name string, change func()) {
	s.t.Helper()
	began := time.Now()
	s.everywhere(s.remote...)
	s.begin()
	far := s.spray(s.remote)
	lines := len(s.lines)
	for _, a := range s.remote {
		line, err := probe.Dial(s.ctx, lab.Netns("client"), netip.AddrPortFrom(a, 81), 50*time.Millisecond)
		if err != nil {
			s.t.Fatalf("open a connection to %s: %v", a, err)
		}
		s.lines = append(s.lines, line)
	}
	holder := s.holder()
	change()
	time.Sleep(3 * time.Second) // a late loss counts too
	for i, a := range s.remote {
		if talk := s.lines[lines+i].Stop(patience); talk.Broken != nil || talk.Returned < talk.Said {
			s.t.Errorf("%s: the connection to %s did not last: %s", name, a, talk)
		}
	}
	lost, sent := far.lost()
	if lost > 0 {
		s.t.Errorf("%s: %d of %d datagrams to remote addresses have no answer", name, lost, sent)
	}
	s.stays(holder)
	s.end(nothing)
	s.t.Logf("%s: %s; %d of %d datagrams to remote addresses were lost", name, time.Since(began).Round(time.Second), lost, sent)
}

// steady follows the Services of the test. It fails the test if a condition of PureLB says False, or
// if a Service that has addresses gets others.
func (w *world) steady() {
	w.t.Helper()
	had := map[string][]netip.Addr{}
	var broken []string
	follows := w.followServices(func(event watch.EventType, svc *corev1.Service) {
		if event == watch.Deleted {
			return
		}
		now := kube.Addresses(svc)
		if before := had[svc.Name]; len(before) > 0 && !equal(now, before) {
			broken = append(broken, fmt.Sprintf("%s: %s had %v and has %v", time.Now().Format(time.StampMilli), svc.Name, before, now))
		}
		had[svc.Name] = now
		for _, c := range svc.Status.Conditions {
			if strings.HasPrefix(c.Type, "purelb.io/") && c.Status == metav1.ConditionFalse {
				broken = append(broken, fmt.Sprintf("%s: %s says %s: %s %s", time.Now().Format(time.StampMilli), svc.Name, c.Type, c.Reason, c.Message))
			}
		}
	})
	w.t.Cleanup(func() {
		if err := follows.end(); err != nil {
			w.t.Error(err)
		}
		for _, b := range broken {
			w.t.Error(b)
		}
	})
}
