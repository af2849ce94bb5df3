package allocate_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/allocate"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/apitest"
)

// badInputTest runs an allocator that gets one bad object after another. All of them stay in the
// cluster. The test counts the allocator's writes.
type badInputTest struct {
	*world
	running  *running
	proxy    *proxy
	groups   []badGroup
	services []badService
	// good is the number of Services without a mistake.
	good int
	// writes are how many writes each object may still cost, by path. seen are the writes so far,
	// of all rows.
	writes, seen map[string]int
}

// TestBadInputIsReportedAndStopsNoOther checks what users see after a mistake. After each row,
// another Service gets its address, and the mistake has cost only the writes that report it.
func TestBadInputIsReportedAndStopsNoOther(t *testing.T) {
	w := newWorld(t)
	w.since(33, "the API server refuses the same input with other words, and there are no ServiceCIDRs")
	for _, ns := range []string{"elsewhere", "bank", "torn", "strict"} {
		apitest.EnsureNamespace(t, ns)
	}
	w.node("n1", "10.200.3.200")
	w.create(w.lease("n1", "10.210.0.0/24", "purelb.io/gateways", "10.200.3.1",
		"purelb.io/node-macs", "02:00:00:00:00:01", "purelb.io/claimed-addresses", "10.200.3.7=02:00:00:00:00:07"))
	w.apply(apitest.Text(t, "internal/allocate/testdata/bad_input_groups.yaml"))
	through, p := w.proxied(func(*http.Request, string) proxyAction { return pass })
	o := &badInputTest{world: w, proxy: p, groups: badGroups(t), services: badServices(t), writes: map[string]int{}, seen: map[string]int{}}
	for _, name := range []string{"twin-a", "twin-b"} {
		twin := balancer(name, annotated(service.AnnotationAllocatedBy, service.Brand))
		w.create(twin)
		w.patchStatus(twin, `{"status":{"loadBalancer":{"ingress":[{"ip":"10.200.3.60"}]}}}`)
		o.due(twin, 1)
	}
	o.running = through.allocator(func(opt *allocate.Options) { opt.ConfigNamespaces = []string{"bank", "torn"} })
	o.fill("full", 14)
	w.outdate(w.remote("default")) // the older of two conflicting groups is valid
	for _, row := range o.groups {
		t.Run(row.name, func(t *testing.T) { o.in(t).group(row) })
	}
	o.judge()
	for _, row := range o.groups {
		delete(o.writes, pathOf(row.object(w))) // from here on the allocator may write their counters
	}
	for _, row := range o.services {
		t.Run(row.name, func(t *testing.T) { o.in(t).service(row) })
	}
	o.stays()
	o.eachHasEvent()
	o.counted()
}

// in returns o for the test of one row.
func (o *badInputTest) in(t *testing.T) *badInputTest {
	row, w := *o, *o.world
	w.TB = t
	row.world = &w
	t.Cleanup(func() { o.good = row.good })
	return &row
}

// apply creates the ServiceGroups of a YAML text, in PureLB's namespace unless the text
// names another.
func (w *world) apply(text string) {
	w.Helper()
	objects, err := apitest.Parse([]byte(text))
	must(w, err)
	for _, o := range objects {
		if o.GetNamespace() == "" {
			o.SetNamespace(w.namespace)
		}
		w.create(o)
	}
}

// fine creates one more Service, waits for its address, and fails if there was an unexpected write.
func (o *badInputTest) fine() {
	o.Helper()
	o.good++
	svc := balancer(fmt.Sprintf("good-%03d", o.good))
	o.due(svc, 1)
	o.create(svc)
	o.soon(func() error {
		if addressesOf(fetch(o.world, svc)) == "" {
			return fmt.Errorf("%s has no address: %v", svc.Name, svc.Status.Conditions)
		}
		return nil
	})
	o.count()
}

// fill creates n Services, which get all addresses of a group.
func (o *badInputTest) fill(group string, n int) {
	o.Helper()
	for i := range n {
		svc := balancer(fmt.Sprintf("%s-%02d", group, i), inGroup(group))
		o.due(svc, 1)
		o.create(svc)
	}
	o.settled(n + 2)
}

// due notes how many writes object may cost.
func (o *badInputTest) due(object client.Object, writes int) {
	o.writes[pathOf(object)] = writes
}

// count fails if there were more writes than expected.
func (o *badInputTest) count() {
	o.Helper()
	for _, write := range o.proxy.seen() {
		path := strings.TrimSuffix(write[strings.IndexByte(write, ' ')+1:], "/status")
		most, counts := o.writes[path]
		switch o.seen[path]++; {
		case counts && o.seen[path] > most:
			o.Errorf("%s: the allocator already wrote it %d times, and may not do so again", write, most)
		case !counts && strings.Contains(path, "/services/"):
			o.Errorf("the allocator must not write %s", path)
		}
	}
}

func pathOf(o client.Object) string {
	if _, isService := o.(*corev1.Service); isService {
		return "/api/v1/namespaces/" + o.GetNamespace() + "/services/" + o.GetName()
	}
	return "/apis/purelb.io/v2/namespaces/" + o.GetNamespace() + "/servicegroups/" + o.GetName()
}

// change applies a merge patch to svc, or to its status.
func (o *badInputTest) change(svc *corev1.Service, patch string) {
	o.Helper()
	if strings.HasPrefix(patch, `{"status"`) {
		o.patchStatus(svc, "%s", patch)
		return
	}
	o.patch(svc, "%s", patch)
}

// group creates a group with a mistake. judge checks its condition later, because
// conditions of groups are written once a second.
func (o *badInputTest) group(row badGroup) {
	g := row.object(o.world)
	o.due(g, 1)
	if err := o.client.Create(context.Background(), g); err != nil {
		o.same(objectionsOf(err), row.want)
	} else if strings.HasPrefix(row.want, "refused: ") {
		o.Errorf("the API server accepts the group, want the error\n%s", row.want)
	}
	o.fine()
}

// judge waits until the condition of every bad group reports its mistake.
func (o *badInputTest) judge() {
	for _, row := range o.groups {
		if strings.HasPrefix(row.want, "refused: ") {
			continue
		}
		g := &v2.ServiceGroup{ObjectMeta: metav1.ObjectMeta{Namespace: row.object(o.world).GetNamespace(), Name: row.object(o.world).GetName()}}
		o.TB.(*testing.T).Run(row.name+" is told", func(t *testing.T) {
			o := o.in(t)
			o.saying(row.want, func() string {
				return strings.ReplaceAll(saying(fetch(o.world, g).Status.Conditions, v2.ConditionAccepted), o.namespace, "purelb-system")
			})
		})
	}
}
