package agent

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/service"
)

func TestOnlyNeededFieldsOfAServiceAreKept(t *testing.T) {
	web := branded("web", "192.0.2.9", "2001:db8::9")
	web.Annotations[service.AnnotationPoolType] = service.PoolRemote
	web.Annotations[service.AnnotationAnnouncingIPv6] = "node-b,eth0,2001:db8::9"
	web.Annotations["example.com/note"] = "long"
	web.Annotations[service.AnnotationAllocatedAddresses] = "192.0.2.9,2001:db8::9"
	web.CreationTimestamp = metav1.Unix(1000, 0)
	web.Status.Conditions = []metav1.Condition{{Type: service.ConditionAllocated, Status: metav1.ConditionTrue, LastTransitionTime: metav1.Unix(2000, 0)}}
	got, ours := readService(&web)
	if !ours {
		t.Error("the Service is not ours")
	}
	want := &Service{
		Service: announce.Service{
			Key: "default/web", Addresses: []netip.Addr{addrOf("192.0.2.9"), addrOf("2001:db8::9")}, PoolType: service.PoolRemote,
			Slots: []service.Slot{{Node: "node-b", Interface: "eth0", Address: addrOf("2001:db8::9")}},
		},
		UID: "web", Version: "1", announcing6: "node-b,eth0,2001:db8::9", given: 2000,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Service{}), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("the kept fields (-want +got)\n%s", diff)
	}
}

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
		w.cluster.change(serving(near, far))
		settle()
		want(t, "events, after both Services were made again", w.reported(), first)
		want(t, "changes of the kernel", w.kernel.changes(), "")
		w.cluster.change(func(*objects) {})
		pass(time.Minute)
		want(t, "events, without a change", w.reported(), "")
	})
}
