package purelb_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "purelb.io/purelb/api/purelb/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/testing/apitest"
)

// statusOf returns a status with every field set.
func statusOf(at time.Time) v2.ServiceGroupStatus {
	condition := func(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{
			Type: kind, Status: status, Reason: reason, Message: message,
			ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(at.Truncate(time.Second)),
		}
	}
	return v2.ServiceGroupStatus{
		Conditions: []metav1.Condition{
			condition(v2.ConditionAccepted, metav1.ConditionTrue, "Accepted", "in use"),
			condition(v2.ConditionIPv4Exhausted, metav1.ConditionTrue, "NoFreeAddress", "all 254 are taken"),
			condition(v2.ConditionIPv6Exhausted, metav1.ConditionFalse, "FreeAddresses", ""),
		},
		Announce: "Local", IPAM: "Cluster",
		Addresses:     []string{"192.0.2.0/24", "2001:db8::/64"},
		AllocatedIPv4: 254, AllocatedIPv6: 7,
		AvailableIPv4: new(int64), AvailableIPv6: new(int64(math.MaxInt64)),
		BoundNamespaces: []string{"a"},
	}
}

func TestStatusIsSeparateFromTheSpec(t *testing.T) {
	sg := &v2.ServiceGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: apitest.Namespace(t), Name: "example"},
		Spec:       v2.ServiceGroupSpec{Remote: &v2.RemoteSpec{Pools: v2.Pools{V4Pool: &v2.AddressPool{Pool: "192.0.2.0/24", Subnet: "192.0.2.0/24"}}}},
		Status:     v2.ServiceGroupStatus{IPAM: "whoever creates it"},
	}
	apitest.Report(t, typed(t), sg, func() {
		if diff := cmp.Diff(v2.ServiceGroupStatus{}, sg.Status); diff != "" {
			t.Errorf("creation wrote a status:\n%s", diff)
		}
		sg.Status, sg.Spec = statusOf(time.Now()), v2.ServiceGroupSpec{}
	})
	got := &v1.ServiceGroup{}
	if err := typed(t).Get(context.Background(), client.ObjectKeyFromObject(sg), got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(statusOf(got.Status.Conditions[0].LastTransitionTime.Time), got.Status); diff != "" {
		t.Errorf("status by way of v1 (-want +got):\n%s", diff)
	}
	if got.Spec.Remote == nil || got.Generation != 1 {
		t.Errorf("writing the status changed the spec: %+v, generation %d", got.Spec, got.Generation)
	}
}

func TestAnAgentHasConditions(t *testing.T) {
	a := &v2.LBNodeAgent{ObjectMeta: metav1.ObjectMeta{Namespace: apitest.Namespace(t), Name: "example"}}
	want := []metav1.Condition{
		{Type: v2.ConditionAccepted, Status: metav1.ConditionFalse, Reason: "ParseError", Message: "spec.local is missing", LastTransitionTime: metav1.Unix(1, 0)},
		{Type: v2.ConditionAnnouncing, Status: metav1.ConditionFalse, Reason: "NoInterface", Message: "node-3: no interface matches eth1", LastTransitionTime: metav1.Unix(1, 0)},
	}
	apitest.Report(t, typed(t), a, func() { a.Status.Conditions = want })
	got := &v1.LBNodeAgent{}
	if err := typed(t).Get(context.Background(), client.ObjectKeyFromObject(a), got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Status.Conditions, cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) })); diff != "" {
		t.Errorf("conditions by way of v1 (-want +got):\n%s", diff)
	}
}

func TestKubectlColumns(t *testing.T) {
	namespace := apitest.Namespace(t)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "example"}
	sg := &v2.ServiceGroup{ObjectMeta: meta, Spec: v2.ServiceGroupSpec{
		Local:    &v2.LocalSpec{Pools: v2.Pools{V4Pool: &v2.AddressPool{Pool: "192.0.2.0/24", Subnet: "192.0.2.0/24"}}},
		Boundary: v2.Boundary{Namespaces: []v2.Namespace{"a"}, EnforceNamespaces: true},
	}}
	a := &v2.LBNodeAgent{ObjectMeta: meta}
	apitest.Report(t, typed(t), sg, func() { sg.Status = statusOf(time.Now()) })
	apitest.Report(t, typed(t), a, func() {
		a.Status.Conditions = []metav1.Condition{
			{Type: v2.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Accepted", LastTransitionTime: metav1.Now()},
			{Type: v2.ConditionAnnouncing, Status: metav1.ConditionFalse, Reason: "NoInterface", Message: "node-3: no interface matches", LastTransitionTime: metav1.Now()},
		}
	})
	const (
		wantGroup     = "NAME ANNOUNCE IPAM ALLOCATED-V4 ALLOCATED-V6 ACCEPTED AGE example Local Cluster 254 7 True"
		wantGroupWide = "NAME ANNOUNCE IPAM ALLOCATED-V4 ALLOCATED-V6 ACCEPTED " +
			"ADDRESSES AVAILABLE-V4 AVAILABLE-V6 NAMESPACES ENFORCED BOUND REASON AGE " +
			"example Local Cluster 254 7 True " +
			`["192.0.2.0/24","2001:db8::/64"] 0 9223372036854775807 ["a"] true ["a"] Accepted`
		wantAgent     = "NAME ACCEPTED ANNOUNCING AGE example True False"
		wantAgentWide = "NAME ACCEPTED ANNOUNCING REASON MESSAGE AGE example True False Accepted node-3: no interface matches"
	)
	tests := []struct{ args, want string }{
		{"sg", wantGroup}, {"sgs", wantGroup}, {"servicegroups.v1.purelb.io", wantGroup}, {"servicegroup -o wide", wantGroupWide},
		{"lbna", wantAgent}, {"lbnas", wantAgent}, {"lbnodeagents.v1.purelb.io", wantAgent}, {"lbnodeagent -o wide", wantAgentWide},
	}
	for _, tt := range tests {
		args := append(strings.Fields(tt.args), "-n", namespace)
		out, err := apitest.Shared(t).Kubectl("", append([]string{"get"}, args...)...)
		fields := strings.Fields(out)
		if err != nil || len(fields) == 0 {
			t.Fatalf("kubectl get %s: %v: %s", tt.args, err, out)
		}
		// The last field is the age, which differs each time.
		if got := strings.Join(fields[:len(fields)-1], " "); got != tt.want {
			t.Errorf("kubectl get %s:\n got %s\nwant %s", tt.args, got, tt.want)
		}
	}
}
