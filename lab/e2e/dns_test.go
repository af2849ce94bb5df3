package e2e

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Promise of the lab: pods resolve names of Services, as in the clusters of users. Test suites of
// other projects need that.

func TestPodsResolveNamesOfServices(t *testing.T) {
	w := newWorld(t)
	w.apply(echo("web", 1), service("web", "remote"))
	w.deploymentReady("web")
	var server corev1.Service
	if err := w.Get(w.ctx, client.ObjectKey{Namespace: "default", Name: "kubernetes"}, &server); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"kubernetes.default":        server.Spec.ClusterIPs,
		"web":                       w.service("web").Spec.ClusterIPs,
		"web.e2e.svc.cluster.local": w.service("web").Spec.ClusterIPs,
	} {
		w.until(patience, "a pod resolves "+name, func() bool { return equal(w.lookup(name), slices.Sorted(slices.Values(want))) })
	}
	if got := w.lookup("nothing"); len(got) > 0 {
		t.Errorf("a pod resolves an unknown name as %v, want no addresses", got)
	}
}

// lookup returns the addresses of a name as a pod of web sees them, sorted.
func (w *world) lookup(name string) []string {
	w.t.Helper()
	pod := w.pods("web")[0]
	at := netip.AddrPortFrom(netip.MustParseAddr(pod.Status.PodIP), 8080)
	text, err := w.fetch(pod.Spec.NodeName, at.String()+"/lookup/"+name)
	if err != nil {
		w.t.Logf("%s: %v", name, err)
		return nil
	}
	return slices.Sorted(strings.FieldsSeq(text))
}
