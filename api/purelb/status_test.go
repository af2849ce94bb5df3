package purelb_test

import (
	"math"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/testing/apitest"
)

// The columns show the status in both versions.
func TestKubectlColumns(t *testing.T) {
	namespace := apitest.Namespace(t)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "example"}
	sg := &v2.ServiceGroup{ObjectMeta: meta, Spec: v2.ServiceGroupSpec{
		Local:    &v2.LocalSpec{Pools: v2.Pools{V4Pool: &v2.AddressPool{Pool: "192.0.2.0/24", Subnet: "192.0.2.0/24"}}},
		Boundary: v2.Boundary{Namespaces: []v2.Namespace{"a"}, EnforceNamespaces: true},
	}}
	a := &v2.LBNodeAgent{ObjectMeta: meta}
	apitest.Report(t, typed(t), sg, func() {
		sg.Status = v2.ServiceGroupStatus{
			Conditions: []metav1.Condition{{Type: v2.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Accepted", LastTransitionTime: metav1.Now()}},
			Announce:   "Local", IPAM: "Cluster",
			Addresses:     []string{"192.0.2.0/24", "2001:db8::/64"},
			AllocatedIPv4: 254, AllocatedIPv6: 7,
			AvailableIPv4: new(int64), AvailableIPv6: new(int64(math.MaxInt64)),
			BoundNamespaces: []string{"a"},
		}
	})
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
