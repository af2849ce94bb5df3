package explain

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
)

func TestADeletedGroupIsExplainedByTheServicesThatKeepIt(t *testing.T) {
	deleted := metav1.Now()
	g := v2.ServiceGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "purelb-system", Name: "edge", DeletionTimestamp: &deleted}}
	g.Spec.Remote = &v2.RemoteSpec{Pools: v2.Pools{V4Pool: &v2.AddressPool{Pool: "192.0.2.0/24", Subnet: "192.0.2.0/24"}}}
	g.Spec.BGP = &v2.RouteAttributes{Peers: []v2.Peer{"198.51.100.1"}}
	const why = "Services have addresses of the group: default/web"
	g.Status.Conditions = []metav1.Condition{{Type: v2.ConditionTerminating, Status: metav1.ConditionTrue, Message: why}}
	w := World{}
	w.Namespace, w.Groups = "purelb-system", []v2.ServiceGroup{g}
	s, err := Group(w, "edge")
	if err != nil {
		t.Fatal(err)
	}
	if want := "ServiceGroup edge is being deleted, and gives no new addresses"; s.Summary != want {
		t.Errorf("the summary is %q, want %q", s.Summary, want)
	}
	if len(s.Sections) == 0 || !strings.Contains(strings.Join(s.Sections[0].Lines, " "), why) {
		t.Errorf("the sections are %+v, want %q in the first", s.Sections, why)
	}
	r := checkConfiguration(newView(w), Facts{})
	if !strings.Contains(strings.Join(r.warnings, " "), "ServiceGroup purelb-system/edge is being deleted: "+why) {
		t.Errorf("the warnings of check are %q", r.warnings)
	}
}
