package service_test

import (
	"encoding/json"
	"maps"
	"net/netip"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/expect"
)

var now = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)

func allocated(addresses ...string) service.Result {
	return service.Result{
		Addresses: addrs(addresses...), Origin: service.Origin{From: "blue", PoolType: service.PoolLocal},
		Allocated: true, Reason: "Allocated", Message: "as asked",
	}
}

// says writes r into a Service.
func says(t interface{ Fatal(...any) }, s *corev1.Service, r service.Result, at time.Time) *corev1.Service {
	patch, err := r.Patch(s, at)
	if err != nil {
		t.Fatal(err)
	}
	return patched(t, s, patch)
}

// patched returns s after a merge patch, as the API server would store it.
func patched(t interface{ Fatal(...any) }, s *corev1.Service, patch []byte) *corev1.Service {
	if patch == nil {
		return s
	}
	before, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		t.Fatal(err)
	}
	after := &corev1.Service{}
	if err := json.Unmarshal(text, after); err != nil {
		t.Fatal(err)
	}
	return after
}

func TestAnAllocationIsOnePatch(t *testing.T) {
	r := allocated("192.0.2.1", "2001:db8::1")
	r.SkipIPv6DAD = true
	r.Objects = map[netip.Addr]string{netip.MustParseAddr("192.0.2.1"): "https://netbox/1/"}
	patch, err := r.Patch(svc(), now)
	expect.NoError(t, err)
	want := `{"metadata":{"uid":"uid-1","resourceVersion":"7","annotations":{` +
		`"purelb.io/allocated-addresses":"192.0.2.1,2001:db8::1","purelb.io/allocated-by":"PureLB","purelb.io/allocated-from":"blue","purelb.io/ipam-record":"192.0.2.1=https://netbox/1/","purelb.io/pool-type":"local","purelb.io/skip-ipv6-dad":"true"}},` +
		`"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1","ipMode":"VIP"},{"ip":"2001:db8::1","ipMode":"VIP"}]},` +
		`"conditions":[{"type":"purelb.io/Allocated","status":"True","observedGeneration":3,"lastTransitionTime":"2026-02-03T04:05:06Z",` +
		`"reason":"Allocated","message":"as asked"},{"type":"purelb.io/Record","status":"True","lastTransitionTime":"2026-02-03T04:05:06Z","reason":"Given",` +
		`"message":"{\"addresses\":[\"192.0.2.1\",\"2001:db8::1\"],\"from\":\"blue\",\"poolType\":\"local\",\"skipIPv6DAD\":true,` +
		`\"objects\":{\"192.0.2.1\":\"https://netbox/1/\"}}"}]}}`
	expect.Equal(t, "patch", string(patch), want)
}

func TestReevaluateAnnotationIsRemoved(t *testing.T) {
	for name, r := range map[string]service.Result{
		"with addresses": allocated("192.0.2.1"),
		"refused":        {Reason: "Exhausted", Message: "no available addresses"},
	} {
		wish := annotated(service.AnnotationReevaluate, "true", service.AnnotationGroup, "blue")
		if s := says(t, svc(wish), r, now); s.Annotations[service.AnnotationReevaluate] != "true" {
			t.Errorf("%s: the annotation stays", name)
		}
		r.Reevaluated = true
		s := says(t, svc(wish), r, now)
		if _, stays := s.Annotations[service.AnnotationReevaluate]; stays || s.Annotations[service.AnnotationGroup] != "blue" {
			t.Errorf("%s: the annotations are %v", name, s.Annotations)
		}
		if patch, err := r.Patch(s, now); patch != nil || err != nil {
			t.Errorf("%s: patch %s, error %v", name, patch, err)
		}
	}
}

func TestNoPatchWithoutAChange(t *testing.T) {
	r := allocated("192.0.2.1", "2001:db8::1")
	s := says(t, svc(), r, now)
	if patch, err := r.Patch(s, now.Add(time.Hour)); patch != nil || err != nil {
		t.Errorf("patch %s, error %v", patch, err)
	}
	s.Status.LoadBalancer.Ingress[0].IPMode = nil
	if patch, _ := r.Patch(s, now.Add(time.Hour)); patch != nil {
		t.Errorf("the patch changes an ipMode that is the default: %s", patch)
	}
}

func TestForeignDataStays(t *testing.T) {
	other := metav1.Condition{Type: "example.com/Fine", Status: "True", Reason: "Fine", LastTransitionTime: created}
	s := svc(annotated("example.com/a", "b", service.AnnotationGroup, "blue", service.AnnotationAnnouncingIPv4, "n1,eth0,192.0.2.1"))
	s.Status.Conditions = []metav1.Condition{other}
	s = says(t, s, allocated("192.0.2.1"), now)
	want := map[string]string{
		"example.com/a": "b", service.AnnotationGroup: "blue", service.AnnotationAnnouncingIPv4: "n1,eth0,192.0.2.1",
		service.AnnotationAllocatedBy: "PureLB", service.AnnotationAllocatedAddresses: "192.0.2.1",
		service.AnnotationAllocatedFrom: "blue", service.AnnotationPoolType: "local",
	}
	expect.Equal(t, "annotations", s.Annotations, want)
	if diff := cmp.Diff(other, s.Status.Conditions[0]); diff != "" || len(s.Status.Conditions) != 3 {
		t.Errorf("conditions: %v", s.Status.Conditions)
	}
}

func TestEntriesOfOtherControllersStay(t *testing.T) {
	vip, proxy := corev1.LoadBalancerIPModeVIP, corev1.LoadBalancerIPModeProxy
	ports := []corev1.PortStatus{{Port: 80, Protocol: "TCP"}}
	name := corev1.LoadBalancerIngress{Hostname: "lb.example.com"}
	tests := []struct {
		name         string
		present      []corev1.LoadBalancerIngress
		give         string
		want         []corev1.LoadBalancerIngress
		wantNoChange bool
	}{
		{"a host name", []corev1.LoadBalancerIngress{name}, "192.0.2.1", []corev1.LoadBalancerIngress{{IP: "192.0.2.1", IPMode: &vip}, name}, false},
		{"a host name and ports in our entry", []corev1.LoadBalancerIngress{{IP: "192.0.2.1", Hostname: "a.example.com", Ports: ports}}, "192.0.2.1",
			[]corev1.LoadBalancerIngress{{IP: "192.0.2.1", Hostname: "a.example.com", Ports: ports}}, true},
		{"not the mode", []corev1.LoadBalancerIngress{{IP: "192.0.2.1", IPMode: &proxy, Ports: ports}}, "192.0.2.1",
			[]corev1.LoadBalancerIngress{{IP: "192.0.2.1", IPMode: &vip, Ports: ports}}, false},
		{"not another address", []corev1.LoadBalancerIngress{{IP: "192.0.2.9"}, name, {IP: "192.0.2.1"}}, "192.0.2.1",
			[]corev1.LoadBalancerIngress{{IP: "192.0.2.1", IPMode: &vip}, name}, false},
		{"a host name, and we give no address", []corev1.LoadBalancerIngress{{IP: "192.0.2.9"}, name}, "", []corev1.LoadBalancerIngress{name}, false},
		{"nothing else", []corev1.LoadBalancerIngress{{IP: "192.0.2.9"}}, "", nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := svc()
			s.Status.LoadBalancer.Ingress = tt.present
			var r service.Result
			if tt.give != "" {
				r = allocated(tt.give)
			}
			before := s.DeepCopy()
			s = says(t, s, r, now)
			if diff := cmp.Diff(tt.want, s.Status.LoadBalancer.Ingress, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("ingress (-want +got):\n%s", diff)
			}
			if same := cmp.Equal(before.Status.LoadBalancer, s.Status.LoadBalancer); same != tt.wantNoChange {
				t.Errorf("the ingress is the same: %t, want %t", same, tt.wantNoChange)
			}
		})
	}
}

func TestDroppedFamilyLosesItsSlots(t *testing.T) {
	s := says(t, svc(), allocated("192.0.2.1", "2001:db8::1"), now)
	s.Annotations[service.AnnotationAnnouncingIPv6] = "n1,eth0,2001:db8::1"
	s.Annotations[service.AnnotationAnnouncingIPv4] = "n1,eth0,192.0.2.1"
	s = says(t, s, allocated("192.0.2.1"), now)
	if _, there := s.Annotations[service.AnnotationAnnouncingIPv6]; there || s.Annotations[service.AnnotationAnnouncingIPv4] == "" {
		t.Errorf("annotations: %v", s.Annotations)
	}
}

func TestTransitionTimeFollowsTheStatus(t *testing.T) {
	refused := service.Result{Reason: "Exhausted", Message: "none left"}
	s := says(t, svc(), refused, now)
	refused.Reason, refused.Message = "UnknownPool", "gone"
	s = says(t, s, refused, now.Add(time.Hour))
	if c := s.Status.Conditions[0]; !c.LastTransitionTime.Time.Equal(now) || c.Message != "gone" {
		t.Errorf("a new reason has moved the time: %+v", c)
	}
	s = says(t, s, allocated("192.0.2.1"), now.Add(2*time.Hour))
	if c := s.Status.Conditions[0]; !c.LastTransitionTime.Time.Equal(now.Add(2 * time.Hour)) {
		t.Errorf("a new status has not moved the time: %+v", c)
	}
}

func TestReleaseRemovesAllOurData(t *testing.T) {
	s := says(t, svc(annotated("example.com/a", "b", service.AnnotationGroup, "blue")), allocated("192.0.2.1", "2001:db8::1"), now)
	s.Annotations[service.AnnotationAnnouncingIPv6] = "n1,eth0,2001:db8::1"
	s.Spec.Type = corev1.ServiceTypeClusterIP
	patch, err := service.ReleasePatch(s)
	expect.NoError(t, err)
	s = patched(t, s, patch)
	want := map[string]string{"example.com/a": "b", service.AnnotationGroup: "blue"}
	if diff := cmp.Diff(want, s.Annotations); diff != "" || len(s.Status.Conditions) != 0 {
		t.Errorf("conditions %v, annotations (-want +got):\n%s", s.Status.Conditions, diff)
	}
	if patch, err := service.ReleasePatch(s); patch != nil || err != nil {
		t.Errorf("a second release: patch %s, error %v", patch, err)
	}
}

func TestPolicyPatchIsForThisVersion(t *testing.T) {
	patch, err := service.ClusterPolicyPatch(svc())
	if want := `{"metadata":{"uid":"uid-1","resourceVersion":"7"},"spec":{"externalTrafficPolicy":"Cluster"}}`; err != nil || string(patch) != want {
		t.Errorf("got %s, %v, want %s", patch, err, want)
	}
}

func TestPatchedServiceReadsBack(t *testing.T) {
	address := rapid.SampledFrom(addrs("192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"))
	result := rapid.Custom(func(t *rapid.T) service.Result {
		return service.Result{
			Addresses: rapid.SliceOfNDistinct(address, 0, 3, rapid.ID).Draw(t, "addresses"),
			Origin: service.Origin{
				From:        rapid.SampledFrom([]string{"blue", "green", "blue, green"}).Draw(t, "from"),
				PoolType:    rapid.SampledFrom([]string{service.PoolLocal, service.PoolRemote}).Draw(t, "type"),
				SkipIPv6DAD: rapid.Bool().Draw(t, "dad"),
				Objects: rapid.SampledFrom([]map[netip.Addr]string{nil, {netip.MustParseAddr("192.0.2.1"): "https://netbox/1/?a=b,c"},
					{netip.MustParseAddr("192.0.2.1"): "https://netbox/1/", netip.MustParseAddr("2001:db8::1"): "https://netbox/2/"}}).Draw(t, "objects"),
			},
			Allocated: rapid.Bool().Draw(t, "allocated"),
			Reason:    rapid.SampledFrom([]string{"A", "B"}).Draw(t, "reason"),
			Message:   rapid.SampledFrom([]string{"a", "b"}).Draw(t, "message"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		s := svc()
		for _, r := range rapid.SliceOfN(result, 1, 4).Draw(t, "results") {
			s = says(t, s, r, now)
			read := service.Rules{ByDefault: true}.Read(s)
			if read.Owner != service.Ours {
				t.Fatalf("the owner of the patched Service is %s", read.Owner)
			}
			if diff := cmp.Diff(r.Addresses, read.Held, cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("addresses (-want +got):\n%s", diff)
			}
			if has := len(r.Addresses) > 0; service.Branded(s) != has || has == (len(s.Annotations) == 0) || has && (read.From != r.From || read.PoolType != r.PoolType || read.SkipIPv6DAD != r.SkipIPv6DAD || !maps.Equal(read.Objects, r.Objects)) {
				t.Fatalf("annotations %v after %+v", s.Annotations, r)
			}
			if !service.Says(s, r.Reason, r.Message) {
				t.Fatalf("conditions %v after %+v", s.Status.Conditions, r)
			}
			if patch, err := r.Patch(s, now.Add(time.Hour)); patch != nil || err != nil {
				t.Fatalf("once more: patch %s, error %v", patch, err)
			}
		}
	})
}
