package e2e

import (
	"fmt"
	"strings"
	"testing"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/product"
)

// Promise: kubectl purelb probe names the machine that answers for an address on the segments of the
// agents.
func TestProbeNamesTheMachineThatAnswers(t *testing.T) {
	w := &troubled{newWorld(t), buildPlugin(t)}
	w.expect("addressConflict")
	const foreign, free = "172.30.250.170", "172.30.250.171"
	w.apply(plain("held", 80, "purelb.io/service-group: local"))
	held := w.addresses("held", 1)[0]
	w.until(patience, "a node has the address", func() bool { return len(w.holders(held)) == 1 })
	holder := w.holders(held)[0].node

	w.exec(cluster.Router, "ip address add "+foreign+"/32 dev eth0")
	remove := w.undoable(func() { w.exec(cluster.Router, "ip address delete "+foreign+"/32 dev eth0") })
	w.answersProbe(foreign, 1, foreign+" is answered by another machine, ")
	w.answersProbe(held.String(), 0, fmt.Sprintf("%s is answered by node %s", held, holder))
	w.answersProbe(free, 0, "no machine answers for "+free)
	remove()
	w.answersProbe(foreign, 0, "no machine answers for "+foreign)

	w.exec(cluster.Router, "ip address add "+held.String()+"/32 dev eth0")
	remove = w.undoable(func() { w.exec(cluster.Router, "ip address delete "+held.String()+"/32 dev eth0") })
	w.answersProbe(held.String(), 1, held.String()+" is answered by another machine, ")
	remove()
	w.answersProbe(held.String(), 0, held.String()+" is answered by node ")
}

// Promise: a probe needs only the Role purelb-prober. Without it, the plugin names the Role.
func TestProbeNeedsTheRoleOfProbers(t *testing.T) {
	w := &troubled{newWorld(t), buildPlugin(t)}
	const free = "172.30.250.172"
	binding := func(role string) string {
		return fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: e2e-%[1]s, namespace: %[2]s}\n"+
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[1]s}\n"+
			"subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: pia}]\n", role, product.Namespace)
	}
	ends := func(code int, says string) {
		t.Helper()
		var got reply
		if !w.within(patience, func() bool {
			got = w.asks("probe " + free + " --as pia")
			return got.code == code && strings.Contains(got.first, says)
		}) {
			t.Errorf("a probe by pia ends with %d, want %d and %q:\n%s", got.code, code, says, got.all)
		}
	}
	ends(2, "the Role purelb-prober of namespace "+product.Namespace+" has that right")
	remove := w.undoable(w.applied(binding("purelb-prober")))
	ends(0, "no machine answers for "+free)
	remove()
	ends(2, "the Role purelb-prober of namespace "+product.Namespace+" has that right")
}

// answersProbe waits until a probe has this exit code and its first line begins with begins.
func (w *troubled) answersProbe(address string, code int, begins string) {
	w.t.Helper()
	var got reply
	if !w.within(patience, func() bool {
		got = w.asks("probe " + address)
		return got.code == code && strings.HasPrefix(got.first, begins)
	}) {
		w.t.Errorf("kubectl purelb probe %s ends with %d or does not begin with %q:\n%s", address, got.code, begins, got.all)
		return
	}
	w.t.Logf("probe %s: %s", address, got.first)
}

// Promise: kubectl purelb election --check ends with 1 while a node cannot announce, and otherwise
// with 0.
func TestElectionCheckFailsWhileANodeCannotAnnounce(t *testing.T) {
	w := &troubled{newWorld(t), buildPlugin(t)}
	w.expect("configProblem")
	ends := func(code int, says string) {
		t.Helper()
		var got reply
		if !w.within(patience, func() bool {
			got = w.asks("election --check")
			return got.code == code && strings.Contains(got.all, says)
		}) {
			t.Errorf("kubectl purelb election --check ends with %d, want %d and %q:\n%s", got.code, code, says, got.all)
		}
	}
	ends(0, "node-3")
	mend := w.undoable(w.applied(agentWith("node-3", "eth7")))
	ends(1, `node node-3 announces less than it should: no interface matches "eth7"`)
	mend()
	ends(0, "node-3")
}
