package allocate_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// box is a NetBox with reserved addresses, and a group "box" that uses them.
type box struct {
	*world
	*netboxtest.Server
	http  *httptest.Server
	group *v2.ServiceGroup
}

func newBox(w *world, addresses ...string) *box {
	w.Helper()
	b := &box{world: w, Server: netboxtest.New(netboxtest.V46)}
	b.AddTenant("purelb", config.NetBoxTenant)
	for _, a := range addresses {
		b.AddAddress(netboxtest.Address{Prefix: netip.MustParsePrefix(a), Status: "reserved", Tenant: config.NetBoxTenant})
	}
	b.http = httptest.NewServer(b)
	w.Cleanup(b.http.Close)
	b.group = w.groupOf("box", v2.ServiceGroupSpec{Netbox: &v2.NetboxSpec{URL: b.http.URL, Tenant: config.NetBoxTenant}})
	w.create(b.group)
	return b
}

// token puts the token into its Secret.
func (b *box) token(text string) {
	b.Helper()
	b.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "netbox-client"}, StringData: map[string]string{"user-token": text}})
}

// asksAgain is the longest time until the allocator asks a backend again. The pause is 15 s after a
// refusal. It grows with each attempt: up to one minute while a server is away, and up to five
// minutes while the configuration is wrong.
const asksAgain = 6 * time.Minute

// gets waits until svc has these addresses, which may take more than one request to the
// backend.
func (w *world) gets(svc *corev1.Service, addresses string) {
	w.Helper()
	w.within(asksAgain, func() error {
		if got := addressesOf(fetch(w, svc)); got != addresses {
			return fmt.Errorf("%s has %q, want %q; conditions: %v", svc.Name, got, addresses, svc.Status.Conditions)
		}
		return nil
	})
}

// active waits until exactly these addresses are in use in NetBox, each with its key.
func (b *box) active(want ...string) {
	b.Helper()
	b.within(asksAgain, func() error {
		var got []string
		for _, a := range b.Addresses() {
			if a.Status == "active" {
				got = append(got, a.Prefix.String()+" "+ipam.HolderOf(a.Key(config.NetBoxField)))
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("in use in NetBox are %q, want %q", got, want)
		}
		return nil
	})
}

// ready waits for the group's condition BackendReady.
func (b *box) ready(status metav1.ConditionStatus, reason string, texts ...string) *v2.ServiceGroup {
	b.Helper()
	var g *v2.ServiceGroup
	b.within(asksAgain, func() error {
		g = fetch(b.world, b.group)
		return condition(g.Status.Conditions, v2.ConditionBackendReady, status, reason, texts)
	})
	return g
}

func TestNetBoxGivesAndTakesBackAddresses(t *testing.T) {
	w := newWorld(t)
	b := newBox(w, "203.0.113.1/24", "203.0.113.2/24", "2001:db8::1/64")
	b.token(netboxtest.AdminToken)
	w.create(w.local("default", "198.51.100.0/24", "198.51.100.0/24"))
	r := w.allocator()

	web := balancer("web", inGroup("box"))
	dual := balancer("dual", inGroup("box"), dualStack(corev1.IPFamilyPolicyRequireDualStack))
	w.allocate(web, "203.0.113.1")
	w.says(web, metav1.ConditionTrue, ipam.ReasonAllocated, "from pool box")
	w.hasEvent(web, "IPAMRecord", "NetBox holds 203.0.113.1 as "+b.http.URL+"/ipam/ip-addresses/")
	w.allocate(dual, "203.0.113.2 2001:db8::1")
	record := fetch(w, dual).Annotations[service.AnnotationIPAMRecord]
	for _, text := range []string{"203.0.113.2=" + b.http.URL + "/ipam/ip-addresses/", " 2001:db8::1=" + b.http.URL + "/ipam/ip-addresses/"} {
		if !strings.Contains(record, text) {
			t.Errorf("the record of the addresses in NetBox is %q and lacks %q", record, text)
		}
	}
	b.active("2001:db8::1/64 "+dual.Namespace+"/dual", "203.0.113.1/24 "+web.Namespace+"/web", "203.0.113.2/24 "+dual.Namespace+"/dual")

	g := b.ready(metav1.ConditionTrue, "Reached", "NetBox 4.6.8")
	if s := g.Status; s.Backend == nil || s.Backend.Name != "NetBox 4.6.8" || s.Backend.LastReached == nil {
		t.Errorf("the status of the group says %+v", s.Backend)
	}
	w.soon(func() error {
		if s := fetch(w, b.group).Status; s.AllocatedIPv4 != 2 || s.AllocatedIPv6 != 1 {
			return fmt.Errorf("the group counts %d and %d addresses", s.AllocatedIPv4, s.AllocatedIPv6)
		}
		return nil
	})
	recorded := fetch(w, web)
	third := balancer("third", inGroup("box"))
	w.create(third)
	w.says(third, metav1.ConditionFalse, ipam.ReasonExhausted, "NetBox at")
	w.remove(dual)
	b.gets(third, "203.0.113.2")
	b.active("203.0.113.1/24 "+web.Namespace+"/web", "203.0.113.2/24 "+third.Namespace+"/third") // nothing is left to do

	// Another allocator finds every claim in place, and makes no new one.
	r.stop()
	before := len(b.Requests())
	w.allocator()
	fourth := balancer("fourth") // of the local group
	w.allocate(fourth, "198.51.100.1")
	w.has(web, "203.0.113.1")
	if is := fetch(w, web); is.ResourceVersion != recorded.ResourceVersion {
		t.Errorf("the restart changed the Service: %v, was %v", is.Annotations, recorded.Annotations)
	}
	for _, q := range b.Requests()[before:] {
		if q.Method != http.MethodGet {
			t.Errorf("after the restart NetBox got %s %s", q.Method, q.Path)
		}
	}

	for _, svc := range []*corev1.Service{web, third} {
		w.remove(svc)
	}
	b.active()
}

// The conditions of Services that wait for a backend, as docs/refusals.md quotes them.
const (
	saidWaiting       = `waiting for NetBox to grant an IPv4 address of pool "public" to default/web`
	saidRefused       = `pool "public" gives default/web no IPv6 address yet, and PureLB goes on asking: the group public has no IPv6 prefix or range in NetBox: give it one, or ask for the other family`
	saidMisconfigured = `pool "public" gives default/web no IPv4 address yet, and PureLB goes on asking: the Secret purelb-system/netbox-client has no entry user-token, or is not there: put the API token of a user of NetBox there`
	saidUnavailable   = `pool "own" gives default/web no IPv4 address yet, and PureLB goes on asking: the IPAM server on /var/run/purelb/ipam.sock is not there: it makes the socket when it starts, in a folder that the allocator's container has too; look at the server's container and at spec.external.socket`
)

func TestServiceConditionQuotesItsBackend(t *testing.T) {
	w := newWorld(t)
	b := newBox(w)
	b.AddBlock(netboxtest.Block{Prefix: netip.MustParsePrefix("203.0.113.0/24")})
	prefix := []v2.NetboxParent{{Prefix: &v2.NetboxPrefix{CIDR: "203.0.113.0/24"}}}
	public := w.groupOf("public", v2.ServiceGroupSpec{Netbox: &v2.NetboxSpec{URL: b.http.URL, Parents: prefix}})
	tokenless := w.groupOf("tokenless", v2.ServiceGroupSpec{Netbox: &v2.NetboxSpec{URL: b.http.URL, Parents: prefix, TokenSecret: &v2.SecretKey{Name: "missing"}}})
	socket := t.TempDir() + "/ipam.sock"
	own := w.groupOf("own", v2.ServiceGroupSpec{External: &v2.ExternalSpec{Provider: "Example", Socket: socket, Announce: "remote"}})
	w.create(public, tokenless, own)
	b.token(netboxtest.AdminToken)
	release := b.Hold()
	t.Cleanup(release)
	w.allocator()
	says := func(name, group, reason, said string, change ...func(*corev1.Service)) *corev1.Service {
		svc := balancer(name, append(change, inGroup(group))...)
		w.create(svc)
		said = strings.NewReplacer("default/web", svc.Namespace+"/"+name, `"public"`, `"`+group+`"`, "netbox-client", "missing",
			"purelb-system", w.namespace, "/var/run/purelb/ipam.sock", socket).Replace(said)
		w.says(svc, metav1.ConditionFalse, reason, said)
		return svc
	}
	says("misconfigured", "tokenless", ipam.ReasonBackendMisconfigured, saidMisconfigured)
	w.soon(func() error {
		return condition(fetch(w, tokenless).Status.Conditions, v2.ConditionBackendReady, metav1.ConditionFalse, string(ipam.KindMisconfigured), []string{"missing"})
	})
	w.judged(tokenless, "True", "Accepted")
	says("unavailable", "own", ipam.ReasonBackendUnavailable, saidUnavailable)
	waiting := says("waiting", "public", ipam.ReasonBackend, saidWaiting)
	release()
	w.gets(waiting, "203.0.113.1")
	says("refused", "public", ipam.ReasonBackendRefused, saidRefused, ipv6)
}

// prefixGroup makes a prefix in NetBox, and a group that has it.
func (b *box) prefixGroup(name, cidr string) *v2.ServiceGroup {
	b.Helper()
	b.AddBlock(netboxtest.Block{Prefix: netip.MustParsePrefix(cidr)})
	g := b.groupOf(name, v2.ServiceGroupSpec{Netbox: &v2.NetboxSpec{
		URL: b.http.URL, Parents: []v2.NetboxParent{{Prefix: &v2.NetboxPrefix{CIDR: cidr}}},
	}})
	b.create(g)
	return g
}

func TestAServiceMovesBetweenGroupsOfOneNetBox(t *testing.T) {
	w := newWorld(t)
	b := newBox(w)
	b.token(netboxtest.AdminToken)
	b.prefixGroup("first", "203.0.113.0/24")
	b.prefixGroup("second", "192.0.2.0/24")
	w.allocator()
	web := w.allocate(balancer("web", inGroup("first")), "203.0.113.1")

	w.patch(web, `{"metadata":{"annotations":{"purelb.io/service-group":"second","purelb.io/re-evaluate":"true"}}}`)
	w.has(web, "192.0.2.1")
	b.active("192.0.2.1/24 " + web.Namespace + "/web")
	w.remove(web)
	b.active()
}
