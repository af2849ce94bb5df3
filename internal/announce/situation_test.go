package announce

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/election"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/service"
)

// In the cluster of these tests, node-a, node-b and node-c are in 10.0.0.0/24,
// 192.168.1.0/24, fd00::/64 and 2001:db8::/64. The decisions are those of node-a. By hash,
// node-a gets 10.0.0.5 and fd00::50, node-b gets 2001:db8::1, and node-c gets 192.168.1.100.
var segment = []string{"10.0.0.0/24", "192.168.1.0/24", "fd00::/64", "2001:db8::/64"}

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

func member(node string, subnets ...string) election.Member {
	return election.Member{Node: node, Subnets: prefixes(subnets...), Eligible: true}
}

func groupOf(announce ipam.Announce, pools ...string) ipam.Group {
	g := ipam.Group{Name: strings.Join(pools, "+"), Announce: announce}
	for _, text := range pools {
		p, err := ipam.ParsePool(text, text, "default")
		if err != nil {
			panic(err)
		}
		g.Pools = append(g.Pools, p)
	}
	return g
}

func theAgent() *config.Agent {
	return &config.Agent{
		Namespace: "purelb", Name: "default", Selector: labels.Everything(), Dummy: "kube-lb0",
		LocalAddress: config.AddressOptions{Valid: lifetime, Preferred: lifetime, NoPrefixRoute: true},
	}
}

// theSituation is the view of node-a without faults and without Services.
func theSituation() Situation {
	return Situation{
		Self:     "node-a",
		Complete: true,
		Config: config.Config{Groups: ipam.Groups{Usable: []ipam.Group{
			groupOf(ipam.AnnounceLocal, "10.0.0.0/25", "192.168.1.0/24", "fd00::/120", "2001:db8::/120"),
			groupOf(ipam.AnnounceLocal, "172.18.0.0/24", "fd18::/64"),
			groupOf(ipam.AnnounceRemote, "172.16.0.0/24", "fd16::/64"),
			groupOf(ipam.AnnounceAuto, "172.17.0.0/24", "fd17::/64", "10.0.0.128/25", "fd00::1:0/120"),
		}}},
		Agent: theAgent(),
		Node: Node{
			Links: []Link{
				{Name: "lo", Index: 1, Up: true, Carrier: true},
				{Name: "eth0", Index: 2, Up: true, Carrier: true, Default4: true, Default6: true},
				{Name: "eth1", Index: 3, Up: true, Carrier: true},
				{Name: "kube-lb0", Index: 4, Kind: "dummy", Up: true, Carrier: true},
			},
			Addresses: []Address{
				hasNode("lo", "127.0.0.1/8"), hasNode("lo", "::1/128"),
				hasNode("eth0", "10.0.0.1/24"), hasNode("eth0", "192.168.1.1/24"),
				hasNode("eth0", "fd00::a/64"), hasNode("eth0", "2001:db8::a/64"), hasNode("eth0", "fe80::a/64"),
				hasNode("eth1", "10.9.0.1/16"), hasNode("eth1", "fd09::1/64"), hasNode("eth1", "fe80::b/64"),
			},
			MarksSupported: true,
		},
		Peers: election.Peers{
			Members: []election.Member{member("node-a", segment...), member("node-b", segment...), member("node-c", segment...)},
			Known:   prefixes(segment...),
			Trusted: true,
		},
		Endpoints: Endpoints{},
	}
}

type twist func(*Situation)

// serve adds a Service web with these addresses.
func serve(ips ...string) twist { return serveAs("default/web", nil, ips...) }

func serveAs(key string, change func(*Service), ips ...string) twist {
	return func(s *Situation) {
		svc := Service{Key: key}
		for _, ip := range ips {
			svc.Addresses = append(svc.Addresses, netip.MustParseAddr(ip))
		}
		if change != nil {
			change(&svc)
		}
		s.Services = append(s.Services, svc)
	}
}

func narrow(s *Service)  { s.LocalPolicy = true }
func skipDAD(s *Service) { s.SkipIPv6DAD = true }
func remote(s *Service)  { s.PoolType = service.PoolRemote }

func slots(texts ...string) func(*Service) {
	return func(s *Service) { s.Slots = service.ParseSlots(strings.Join(texts, " ")) }
}

func has(addresses ...Address) twist {
	return func(s *Situation) { s.Node.Addresses = append(s.Node.Addresses, addresses...) }
}

// ready sets whether this node has an endpoint of a Service.
func ready(key string, yes bool) twist {
	if yes {
		return endpointsOf(key, "node-a")
	}
	return endpointsOf(key, "node-z")
}

// onNodes returns the nodes with endpoints of a Service, the same for both families.
func onNodes(key string, nodes ...string) Endpoints {
	return Endpoints{{key, addr.V4}: nodes, {key, addr.V6}: nodes}
}

// held sets the addresses that this agent has had until now.
func held(link string, ips ...string) twist {
	return func(s *Situation) {
		s.Held = map[netip.Addr]string{}
		for _, ip := range ips {
			s.Held[netip.MustParseAddr(ip)] = link
		}
	}
}

// withoutMarks makes the kernel one before 5.18.
func withoutMarks(s *Situation) {
	s.Node.MarksSupported = false
	for i := range s.Node.Addresses {
		s.Node.Addresses[i].Mark = 0
	}
}

// owned makes these addresses node's own.
func owned(node string, ips ...string) twist {
	return func(s *Situation) {
		s.Peers.Own = map[netip.Addr]string{}
		for _, ip := range ips {
			s.Peers.Own[netip.MustParseAddr(ip)] = node
		}
	}
}

func members(m ...election.Member) twist { return func(s *Situation) { s.Peers.Members = m } }
func untrusted(s *Situation)             { s.Peers.Trusted = false }
func incomplete(s *Situation)            { s.Complete, s.Config, s.Agent = false, config.Config{}, nil }
func noAgent(s *Situation)               { s.Agent = nil }
func brokenAgent(s *Situation)           { s.Agent, s.Broken = nil, true }
func heldRemote(ip string) twist {
	return func(s *Situation) { s.HeldRemote = map[netip.Addr]string{netip.MustParseAddr(ip): "kube-lb0"} }
}

func noGroups(s *Situation) { s.Config.Groups = ipam.Groups{} }

func matching(expression string) twist {
	return func(s *Situation) { s.Agent.Local = regexp.MustCompile("^(?:" + expression + ")$") }
}

func further(names ...string) twist { return func(s *Situation) { s.Agent.Interfaces = names } }

func down(link string) twist {
	return func(s *Situation) {
		for i := range s.Node.Links {
			if s.Node.Links[i].Name == link {
				s.Node.Links[i].Up = false
			}
		}
	}
}

func dark(link string) twist {
	return func(s *Situation) {
		for i := range s.Node.Links {
			if s.Node.Links[i].Name == link {
				s.Node.Links[i].Carrier = false
			}
		}
	}
}

// show prints a plan: the decision on each address, and further wanted addresses as leftover.
func show(p Plan) string {
	var b strings.Builder
	shown := map[place]bool{}
	for _, d := range p.Decisions {
		fmt.Fprintf(&b, "%s %s: ", d.Service, d.IP)
		if d.Where == Nowhere {
			fmt.Fprintf(&b, "no, %s", d.Reason)
			if d.Winner != "" {
				fmt.Fprintf(&b, ", %s", d.Winner)
			}
		} else {
			fmt.Fprintf(&b, "%s, %s, %s", d.Where, d.Reason, showAddress(d.Address))
			shown[placeOf(d.Address)] = true
		}
		b.WriteByte('\n')
	}
	for _, w := range p.Wanted {
		if !shown[placeOf(w)] {
			fmt.Fprintf(&b, "leftover: %s\n", showAddress(w))
		}
	}
	return b.String()
}

func showAddress(a Address) string {
	text := fmt.Sprintf("%s dev %s", a.Prefix, a.Link)
	if a.Valid != Forever {
		text += fmt.Sprintf(" valid %s preferred %s", a.Valid, a.Preferred)
	}
	if a.NoPrefixRoute {
		text += " noprefixroute"
	}
	if a.NoDAD {
		text += " nodad"
	}
	return text
}

func TestReadTakesOnlyServicesThatPureLBAllocated(t *testing.T) {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.10"},
		Status:     corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "10.0.0.5"}, {IP: "fd00::50"}}}},
	}
	if _, ours := Read(svc); ours {
		t.Error("a Service without annotations is somebody else's")
	}
	svc.Annotations = map[string]string{service.AnnotationAllocatedBy: service.Brand, service.AnnotationAnnouncingIPv6: "node-b,eth0,fd00::50"}
	got, ours := Read(svc)
	want := Service{Key: "default/web", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("fd00::50")},
		Slots: service.ParseSlots("node-b,eth0,fd00::50")}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); !ours || diff != "" {
		t.Errorf("ours %v (-want +got)\n%s", ours, diff)
	}
	svc.Spec.Type = corev1.ServiceTypeNodePort
	if _, ours := Read(svc); ours {
		t.Error("a Service of another type is not announced")
	}
}

func TestReadTakesOnlyAddressesThatPureLBGave(t *testing.T) {
	const brand, list = service.AnnotationAllocatedBy, service.AnnotationAllocatedAddresses
	theirs, condition := "example.com/lb", func(message string) []metav1.Condition {
		return []metav1.Condition{{Type: service.ConditionAllocated, Status: "True", Message: message}}
	}
	tests := []struct {
		name        string
		class       *string
		annotations map[string]string
		conditions  []metav1.Condition
		shown       []string
		want        string
	}{
		{"ours", nil, map[string]string{brand: service.Brand, list: "10.0.0.5,fd00::50"}, nil, []string{"fd00::50", "10.0.0.5"}, "[fd00::50 10.0.0.5]"},
		{"with another address beside ours", nil, map[string]string{brand: service.Brand, list: "10.0.0.5"}, nil, []string{"10.0.0.9", "10.0.0.5"}, "[10.0.0.5]"},
		{"with another address in place of ours", nil, map[string]string{brand: service.Brand, list: "10.0.0.5"}, nil, []string{"10.0.0.9"}, "[]"},
		{"with a leftover brand on another class", &theirs, map[string]string{brand: service.Brand}, nil, []string{"10.0.0.9"}, "another's"},
		{"without the brand", nil, map[string]string{list: "10.0.0.5"}, nil, []string{"10.0.0.5"}, "another's"},
		{"of the version before, which wrote no list", nil, map[string]string{brand: service.Brand}, condition("Assigned 10.0.0.5 from pool blue"),
			[]string{"10.0.0.5"}, "[10.0.0.5]"},
		{"of the version before, replaced", nil, map[string]string{brand: service.Brand}, condition("Assigned 10.0.0.5 from pool blue"), []string{"10.0.0.9"}, "[]"},
		{"of the first versions, which wrote a brand only", nil, map[string]string{brand: service.Brand}, nil, []string{"10.0.0.5"}, "[10.0.0.5]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			svc := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Annotations: tt.annotations},
				Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.10", LoadBalancerClass: tt.class},
				Status:     corev1.ServiceStatus{Conditions: tt.conditions},
			}
			for _, ip := range tt.shown {
				svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
			}
			s, ours := Read(svc)
			got := fmt.Sprint(s.Addresses)
			if !ours {
				got = "another's"
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
