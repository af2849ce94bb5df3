package agent

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestADeletedServiceGetsNoEvents(t *testing.T) {
	var gone *Service
	if ref := gone.ref(); ref != nil {
		t.Errorf("the event refers to %v", ref)
	}
	web := branded("web")
	if ref := kept(&web).ref(); ref.Namespace != "default" || ref.Name != "web" || ref.UID != "web" {
		t.Errorf("the event refers to %v", ref)
	}
}

// kept is what the agent keeps of svc.
func kept(svc *corev1.Service) *Service {
	s, _ := readService(svc)
	return s
}

// The agent sees only the second of the two changes.
func TestAServiceThatIsMadeAgainIsReportedAgain(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		near, far := branded("near", "192.0.2.9"), branded("far", "203.0.113.9")
		w.cluster.change(serving(near, far))
		pass(time.Minute)
		first := w.reported()
		for _, event := range []string{"AnnouncingLocal", "AnnouncingNonLocal"} {
			if strings.Count(first, event+" ") != 1 {
				t.Errorf("the events are %q, want one %s", first, event)
			}
		}
		near.UID, far.UID = "near-2", "far-2"
		w.kernel.changes()
		w.serve(near, far)
		want(t, "events, after both Services were made again", w.reported(), first)
		want(t, "changes of the kernel", w.kernel.changes(), "")
		w.cluster.change(func(*objects) {})
		pass(time.Minute)
		want(t, "events, without a change", w.reported(), "")
	})
}
