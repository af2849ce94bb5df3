package speaker

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/nodes/ending"
	"purelb.io/purelb/internal/testing/expect"
)

// The specs that a history ends with, and one that is refused.
var (
	usable = []string{
		oneNeighbor,
		strings.Replace(oneNeighbor, "}}]", "}, ebgpMultihop: {enabled: true}}]", 1),
		`{nodeSelector: {matchLabels: {rack: "1"}}, global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001}, bfd: {}}, {config: {neighborInterface: eth1, peerAsn: external}}]}`,
		`{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001, authPasswordSecretRef: {name: bgp, key: password}}}, {config: {neighborAddress: 192.0.2.3, peerAsn: 0}}]}`,
		`{global: {asn: 65000}, netlinkImport: {enabled: true, interfaceList: [lb7]}, peerGroups: [{config: {peerGroupName: tor, peerAsn: 65001}}], dynamicNeighbors: [{prefix: 192.0.2.0/24, peerGroup: tor}]}`,
	}
	refused = strings.Replace(oneNeighbor, "asn: 65000", "asn: 0", 1)
)

// happens changes one part of the world at random.
func happens(r *rand.Rand, w *world) {
	device := oneOf(r, "kube-lb0", "lb7")
	switch r.Intn(10) {
	case 0, 1:
		w.configure(r, oneOf(r, append(slices.Clone(usable), refused, "")...))
	case 2:
		w.kernel.hold(device, oneOf(r, nil, []string{"203.0.113.7/32"}, []string{"203.0.113.7/32", "203.0.113.8/32", "2001:db8:f::1/128"})...)
	case 3:
		addresses := oneOf(r, []string{"192.0.2.10"}, []string{"192.0.2.10", "2001:db8::10"}, []string{"2001:db8::11"})
		w.kernel.change(func(k *fakeKernel) {
			e := peering.Egress{Interface: "eth0"}
			for _, a := range addresses {
				e.Addresses = append(e.Addresses, netip.MustParseAddr(a))
			}
			k.egress[netip.MustParseAddr("192.0.2.1")] = e
		})
	case 4:
		node := *w.cluster.snapshot.Node
		node.Labels = map[string]string{"rack": oneOf(r, "1", "2")}
		node.DrainMark = oneOf(r, ending.DrainMark{}, ending.DrainMark{Reason: "a label"}, ending.DrainMark{Reason: "it leaves", Leaving: true})
		w.cluster.change(func(s *intent.Snapshot) { s.Node = &node })
	case 5:
		group := v2.ServiceGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "purelb", Name: "blue", UID: "b"}}
		group.Spec.Remote = &v2.RemoteSpec{Pools: v2.Pools{V4Pool: &v2.AddressPool{Pool: "203.0.113.0/24", Subnet: "203.0.113.0/24", Aggregation: "/32"}}}
		group.Spec.BGP = oneOf(r, nil, &v2.RouteAttributes{Communities: []v2.Community{"blue", "65000:1"}}, &v2.RouteAttributes{Peers: []v2.Peer{"192.0.2.1"}},
			&v2.RouteAttributes{NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "1"}}})
		w.cluster.change(func(s *intent.Snapshot) { s.Groups = []v2.ServiceGroup{group} })
	case 6:
		agent := v2.LBNodeAgent{ObjectMeta: metav1.ObjectMeta{Namespace: "purelb", Name: "default", UID: "1"}}
		agent.Spec.Local = &v2.InterfaceSpec{DummyInterface: v2.InterfaceName(device)}
		w.cluster.change(func(s *intent.Snapshot) { s.Agents = []v2.LBNodeAgent{agent} })
	case 7:
		err, up := oneOf(r, nil, errFake), r.Intn(2) == 0
		w.server.change(func(s *fakeServer) {
			delete(s.neighbors, "192.0.2.1")
			if s.err = err; up {
				established("192.0.2.1", 65001)(s)
			}
		})
	case 8:
		password := peering.Secret{Known: true, Exists: true, Data: map[string][]byte{"password": []byte(oneOf(r, "hush", "quiet"))}}
		w.cluster.change(func(s *intent.Snapshot) { s.Secrets = map[string]peering.Secret{"bgp": password} })
	default:
		pass(time.Duration(r.Intn(40)) * time.Second)
	}
}

func oneOf[T any](r *rand.Rand, all ...T) T { return all[r.Intn(len(all))] }

// configure makes spec that of the only BGPConfiguration. With "" there is none.
func (w *world) configure(r *rand.Rand, spec string) {
	w.cluster.change(func(s *intent.Snapshot) {
		s.Configs = nil
		if spec != "" {
			c := configuration(w.t, "default", spec)
			c.Generation = r.Int63()
			s.Configs = []bgpv1.BGPConfiguration{c}
		}
	})
}

// result prints what the speaker has brought about.
func (w *world) result() string {
	status := w.reports.last().Status
	for i := range status.Conditions {
		status.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	for i := range status.Neighbors {
		status.Neighbors[i].LastError = "" // it has a time
	}
	status.LastUpdated = nil
	state := w.server.state
	if !w.server.running {
		state = peering.State{}
	}
	text, err := json.MarshalIndent([]any{state, w.server.announces(), w.bfd.String(), w.kernel.advertising(), status}, "", " ")
	expect.NoError(w.t, err)
	return string(text)
}

// After any history, a speaker does the same as one that has just started.
func TestTheResultDoesNotDependOnTheHistory(t *testing.T) {
	dir := t.TempDir()
	for seed := range int64(100) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewSource(seed))
			w := newWorld(t, oneNeighbor, filepath.Join(dir, fmt.Sprint(seed)))
			w.start()
			for range 2 + r.Intn(14) {
				happens(r, w)
				pass(time.Duration(r.Intn(2)*r.Intn(3000)) * time.Millisecond)
			}
			w.server.change(func(s *fakeServer) { s.err = nil })
			w.configure(r, oneOf(r, usable...))
			pass(5 * time.Minute)
			fresh := newWorld(t, "", "")
			fresh.cluster.snapshot, fresh.server.neighbors = w.cluster.snapshot, w.server.neighbors
			fresh.kernel.addresses, fresh.kernel.egress = w.kernel.addresses, w.kernel.egress
			fresh.start()
			pass(5 * time.Minute)
			if diff := cmp.Diff(fresh.result(), w.result()); diff != "" {
				t.Errorf("with the seed %d, the results differ (-fresh +with a history)\n%s", seed, diff)
			}
			for _, one := range []*world{w, fresh} {
				if err := one.end(); err != nil {
					t.Errorf("the speaker ended with %v", err)
				}
			}
		})
	}
}
