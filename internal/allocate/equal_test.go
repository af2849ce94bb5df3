package allocate

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/allocstate"
	"purelb.io/purelb/internal/allocate/census"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/explain"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/nodes/lease"
	"purelb.io/purelb/internal/service"
)

// equalWorlds is how many random clusters are compared. With -short they are fewer.
const equalWorlds, fewWorlds = 10000, 1000

// For any cluster, the plugin, the allocator and the agents agree: on the decisions about Services,
// and on the nodes that announce each address.
func TestAllocatorAgentsAndPluginAgree(t *testing.T) {
	seen, worlds := map[string]int{}, uint64(equalWorlds)
	if testing.Short() {
		worlds = fewWorlds
	}
	for seed := range worlds {
		w := randomWorld(rand.New(rand.NewPCG(seed, 0)))
		if complaint := cmp.Or(compareAllocator(w, seen), compareAgents(w, seen)); complaint != "" {
			t.Fatalf("world %d: %s", seed, complaint)
		}
	}
	for _, what := range []string{"Waiting", "Pending", "Contested", "Conflict", "local", "remote", "OK", "NotAnnounced", "another's", "moved", "no candidate", "Partial", "IPv6", "dual stack",
		"shared", "shared across namespaces", "of a group that is gone", "backend not asked", "backend refuses", "backend away", "idle"} {
		if seen[what]*200 < int(worlds) {
			t.Errorf("the test compared %s only %d times, because the worlds are too similar", what, seen[what])
		}
	}
}

var worldTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// randomWorld is a cluster of up to four nodes with a few groups and Services.
func randomWorld(r *rand.Rand) explain.World {
	w := explain.World{Now: worldTime, Settled: true, Rules: service.Rules{ByDefault: r.IntN(5) > 0}}
	w.Namespace = "purelb"
	w.Agents = []v2.LBNodeAgent{{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "purelb", UID: "agent"}, Spec: v2.LBNodeAgentSpec{Local: &v2.InterfaceSpec{}}}}
	for i := range 1 + r.IntN(4) {
		addNode(r, &w, i+1)
	}
	for i := range 1 + r.IntN(4) {
		w.Groups = append(w.Groups, randomGroup(r, i))
	}
	for i := range 1 + r.IntN(6) {
		svc := randomService(r, i)
		w.Services = append(w.Services, svc)
		if r.IntN(2) == 0 {
			w.EndpointSlices = append(w.EndpointSlices, endpointsOn(&svc, fmt.Sprintf("n%d", 1+r.IntN(4))))
		}
	}
	return w
}

func addNode(r *rand.Rand, w *explain.World, i int) {
	name := fmt.Sprintf("n%d", i)
	w.Nodes = append(w.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	var subnets, own []string
	for net := range 2 {
		if r.IntN(3) > 0 {
			subnets, own = append(subnets, fmt.Sprintf("10.0.%d.0/24", net)), append(own, fmt.Sprintf("10.0.%d.%d", net, i))
		}
		if r.IntN(3) > 0 {
			subnets, own = append(subnets, fmt.Sprintf("fd00:%d::/64", net+1)), append(own, fmt.Sprintf("fd00:%d::%d", net+1, i))
		}
	}
	o := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: lease.Prefix + name, Namespace: w.Namespace, Annotations: map[string]string{
		lease.AnnotationSubnets: strings.Join(subnets, ","), lease.AnnotationAddresses: strings.Join(own, ","), lease.AnnotationAgent: "purelb/default",
		lease.AnnotationMACs: fmt.Sprintf("02:00:00:00:00:%02d", i),
	}}}
	if r.IntN(5) == 0 {
		o.Annotations[lease.AnnotationDraining] = "drained"
	}
	if r.IntN(4) == 0 {
		o.Annotations[lease.AnnotationClaims] = fmt.Sprintf("10.0.0.%d=02:00:00:00:00:99", 10+r.IntN(4))
	}
	age := time.Duration(r.IntN(4)) * time.Minute // the drain time ends after three minutes
	o.Spec = coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: new(int32(180)), RenewTime: &metav1.MicroTime{Time: worldTime.Add(-age)}}
	w.Leases = append(w.Leases, o)
}

func randomGroup(r *rand.Rand, i int) v2.ServiceGroup {
	g := v2.ServiceGroup{ObjectMeta: metav1.ObjectMeta{
		Name: []string{"default", "a", "b", "c"}[i], Namespace: "purelb", UID: types.UID(fmt.Sprint(i)), CreationTimestamp: metav1.NewTime(worldTime.Add(time.Duration(i-9) * time.Hour)),
	}}
	net, from := r.IntN(3), 10+r.IntN(4)
	if r.IntN(3) == 0 {
		g.Spec.Namespaces = []v2.Namespace{"shop"}
		g.Spec.EnforceNamespaces = r.IntN(2) == 0
	}
	if r.IntN(3) == 0 {
		g.Spec.Priority = new(int32(r.IntN(3)))
	}
	pools := v2.Pools{}
	families := r.IntN(4) // half of the groups have both families
	if families != 1 {
		pools.V4Pools = []v2.AddressPool{{
			Subnet: v2.Subnet(fmt.Sprintf("10.0.%d.0/24", net)), Pool: v2.Range(fmt.Sprintf("10.0.%d.%d-10.0.%d.%d", net, from, net, from+r.IntN(3))),
		}}
	}
	if families != 2 {
		pools.V6Pools = []v2.AddressPool{{
			Subnet: v2.Subnet(fmt.Sprintf("fd00:%d::/64", net+1)), Pool: v2.Range(fmt.Sprintf("fd00:%d::%d-fd00:%d::%d", net+1, from, net+1, from+r.IntN(3))),
		}}
	}
	g.Spec.ShareAcrossNamespaces = r.IntN(3) > 0
	idle := v2.Withdrawal{WithdrawWithoutEndpoints: r.IntN(4) == 0}
	switch kind := r.IntN(8); {
	case kind == 0:
		g.Spec.Netbox = &v2.NetboxSpec{URL: "https://netbox.example.com", Tenant: "purelb"}
	case kind == 1:
		g.Spec.External = &v2.ExternalSpec{Provider: "Infoblox", Socket: "/var/run/purelb/ipam.sock"}
	case kind < 5:
		g.Spec.Remote = &v2.RemoteSpec{Pools: pools, Withdrawal: idle}
	default:
		g.Spec.Local = &v2.LocalSpec{Pools: pools, Withdrawal: idle, Announce: []v2.Announce{v2.AnnounceLocal, v2.AnnounceAuto}[r.IntN(2)]}
	}
	return g
}

func randomService(r *rand.Rand, i int) corev1.Service {
	svc := corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Finalizers: []string{service.Finalizer}, // it may claim addresses of backends
		Name:       fmt.Sprintf("s%d", i), Namespace: []string{"default", "shop"}[r.IntN(2)], UID: types.UID(fmt.Sprint(i)), Annotations: map[string]string{},
		CreationTimestamp: metav1.NewTime(worldTime.Add(time.Duration(r.IntN(5)-9) * time.Minute)),
	}}
	svc.Spec = corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, ClusterIP: fmt.Sprintf("10.96.0.%d", i+1), IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
		Ports: []corev1.ServicePort{{Port: int32(80 + r.IntN(3)), Protocol: corev1.ProtocolTCP}},
	}
	some := func(one int, do func()) {
		if r.IntN(one) == 0 {
			do()
		}
	}
	net, host := r.IntN(3), 10+r.IntN(5)
	ip, ip6 := fmt.Sprintf("10.0.%d.%d", net, host), fmt.Sprintf("fd00:%d::%d", net+1, host)
	switch policy := []corev1.IPFamilyPolicy{corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack}[r.IntN(2)]; r.IntN(5) {
	case 0:
		svc.Spec.IPFamilies, svc.Spec.ClusterIP, ip = []corev1.IPFamily{corev1.IPv6Protocol}, fmt.Sprintf("fd00:96::%d", i+1), ip6
	case 1, 2:
		svc.Spec.IPFamilies, svc.Spec.IPFamilyPolicy = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, &policy
	}
	dual := len(svc.Spec.IPFamilies) == 2
	some(3, func() { svc.Annotations[service.AnnotationGroup] = []string{"default", "a", "b", "typo"}[r.IntN(4)] })
	some(2, func() { svc.Annotations[service.AnnotationSharing] = []string{"key", "key", "key", "other"}[r.IntN(4)] })
	some(6, func() { svc.Annotations[service.AnnotationAddresses] = []string{ip, "nonsense", "10.0.0.1"}[r.IntN(3)] })
	some(5, func() { svc.Annotations[announce.AnnotationNodeAffinity] = "service-endpoints" })
	some(5, func() {
		svc.Annotations[service.AnnotationAllowLocal] = ""
		svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	})
	some(8, func() { svc.Spec.LoadBalancerClass = new(service.ClassV2) })
	some(10, func() { svc.Spec.LoadBalancerClass = new("example.com/other") })
	some(2, func() {
		svc.Annotations[service.AnnotationAllocatedBy], svc.Annotations[service.AnnotationAllocatedAddresses] = service.Brand, ip
		svc.Annotations[service.AnnotationPoolType] = []string{service.PoolLocal, service.PoolRemote}[r.IntN(2)]
		some(3, func() { svc.Annotations[service.AnnotationAllocatedFrom] = []string{"gone", "a", "b"}[r.IntN(3)] })
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
		some(2, func() {
			key := service.AnnotationAnnouncingIPv4
			if strings.Contains(ip, ":") {
				key = service.AnnotationAnnouncingIPv6
			}
			svc.Annotations[key] = fmt.Sprintf("n%d,eth0,%s", 1+r.IntN(4), ip)
		})
		if dual && r.IntN(2) == 0 { // the other Services have an address of one family, and want the other
			svc.Annotations[service.AnnotationAllocatedAddresses] += "," + ip6
			svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip6})
			some(2, func() {
				svc.Annotations[service.AnnotationAnnouncingIPv6] = fmt.Sprintf("n%d,eth0,%s", 1+r.IntN(4), ip6)
			})
		}
	})
	some(8, func() {
		svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: "192.0.2.77"})
	})
	some(9, func() {
		svc.Status.Conditions = []metav1.Condition{{Type: service.ConditionAllocated, Status: metav1.ConditionFalse, Reason: service.ReasonContested, Message: "contested"}}
	})
	return svc
}

func endpointsOn(svc *corev1.Service, node string) discoveryv1.EndpointSlice {
	return discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: svc.Name, Namespace: svc.Namespace, Labels: map[string]string{discoveryv1.LabelServiceName: svc.Name}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.9"}, NodeName: &node}},
	}
}

// compareAllocator returns how the plugin's view of w differs from an allocator's decisions.
func compareAllocator(w explain.World, seen map[string]int) string {
	s := census.Of(w.Objects)
	l := newAllocations(func(...ipam.Owner) {})
	l.change(clusterState{State: s})
	var requests []service.Request
	for i := range w.Services {
		requests = append(requests, w.Rules.Read(&w.Services[i]))
	}
	slices.SortFunc(requests, census.ByAge)
	l.open(requests)
	if !askBackends(l, requests, seen) {
		return ""
	}
	w.Services = waitingForBackends(l, w.Services, requests)
	w.Allocator = &allocstate.State{Format: allocstate.Format, Leading: true}
	l.describe(w.Allocator)
	told, err := explain.ServicesOf(w, explain.Filter{})
	if err != nil {
		return err.Error()
	}
	lines := map[string]explain.ServiceLine{}
	for _, line := range told.Services {
		lines[line.Namespace+"/"+line.Service] = line
	}
	for _, r := range requests {
		r, standing := l.identify(r)
		line, listed := lines[r.Key()]
		if listed != (standing == ours) {
			return fmt.Sprintf("%s is listed: %t, and its standing is %d", r.Key(), listed, standing)
		}
		if !listed {
			seen["another's"]++
			continue
		}
		d, err := l.decide(r)
		if err != nil {
			return err.Error()
		}
		seen[line.Status]++
		noteKinds(w, l, r, seen)
		switch {
		case len(r.Families) == 2:
			seen["dual stack"]++
		case r.Families[0] == addr.V6:
			seen["IPv6"]++
		}
		if complaint := disagrees(line, r, d); complaint != "" {
			return fmt.Sprintf("%s: the plugin says %+v; the allocator decides %v, %s: %s: %s", r.Key(), line, d.Result.Addresses, d.Result.Reason, d.Result.Message, complaint)
		}
	}
	return ""
}

// askBackends carries the claims of requests to backends. Some backends refuse, some are away, and
// some get no request. It reports whether the objects alone determine the decisions then. They do
// not if a Service gets an address from its next group because a backend gave none: other Services
// then get other addresses, and until the statuses show that, only the allocator knows it.
func askBackends(l *allocations, requests []service.Request, seen map[string]int) (told bool) {
	claimed := map[string]bool{}
	for _, r := range requests {
		if r, standing := l.identify(r); standing == ours {
			_, _ = l.decide(r)
		}
	}
	for i, g := range l.cluster.Groups.Usable {
		if g.Backend == "" {
			continue
		}
		claims := takeClaims(l, g.Ref())
		for _, c := range claims {
			claimed[c.Service] = true
		}
		switch {
		case len(claims) == 0:
		case (i+len(claims))%3 == 0:
			seen["backend not asked"]++
		case (i+len(claims))%3 == 1:
			seen["backend away"]++
			l.noteFault(g.Ref(), &ipam.Error{Kind: ipam.KindUnavailable, Message: "connection refused"})
			answerEach(l, claims, answers(claims, ipam.KindUnavailable, "connection refused")...)
		default:
			seen["backend refuses"]++
			answerEach(l, claims, answers(claims, ipam.KindExhausted, "no address is free there")...)
		}
	}
	for _, r := range requests {
		r, standing := l.identify(r)
		if standing != ours {
			continue
		}
		d, err := l.decide(r)
		if err == nil && claimed[r.Key()] && len(addr.Without(d.Result.Addresses, r.Shown)) > 0 {
			seen["next group"]++
			return false
		}
	}
	return true
}

// waitingForBackends returns services, of which those that wait for a backend have the condition that
// the allocator writes then.
func waitingForBackends(l *allocations, services []corev1.Service, requests []service.Request) []corev1.Service {
	services = slices.Clone(services)
	for _, r := range requests {
		r, standing := l.identify(r)
		if standing != ours || len(r.Shown) > 0 {
			continue
		}
		d, err := l.decide(r)
		if err != nil || len(d.Claims) == 0 || d.Refusal == nil {
			continue
		}
		i := slices.IndexFunc(services, func(svc corev1.Service) bool { return svc.Namespace+"/"+svc.Name == r.Key() })
		services[i] = *services[i].DeepCopy()
		meta.SetStatusCondition(&services[i].Status.Conditions, metav1.Condition{
			Type: service.ConditionAllocated, Status: metav1.ConditionFalse, Reason: d.Result.Reason, Message: d.Result.Message,
		})
	}
	return services
}

// answers refuses all claims.
func answers(claims []ipam.Claim, kind ipam.Kind, message string) []ipam.Answer {
	return slices.Repeat([]ipam.Answer{{Err: &ipam.Error{Kind: kind, Message: message}}}, len(claims))
}

// noteKinds counts the rare kinds that the Service of r belongs to.
func noteKinds(w explain.World, l *allocations, r service.Request, seen map[string]int) {
	for _, a := range r.Shown {
		holders := l.holders(a)
		if len(holders) > 1 {
			seen["shared"]++
			if slices.ContainsFunc(holders, func(o ipam.Owner) bool { return o.Namespace() != r.Namespace }) {
				seen["shared across namespaces"]++
			}
		}
	}
	if len(r.Shown) > 0 && r.From == "gone" {
		seen["of a group that is gone"]++
	}
	idle := !slices.ContainsFunc(w.EndpointSlices, func(s discoveryv1.EndpointSlice) bool { return s.Namespace+"/"+s.Name == r.Key() })
	for _, a := range r.Shown {
		if g, _, ok := l.cluster.Groups.GroupOf(a); ok && g.WithdrawIdle && idle {
			seen["idle"]++
		}
	}
}

// disagrees returns how the plugin's line differs from the allocator's decision, or "".
func disagrees(line explain.ServiceLine, r service.Request, d decision) string {
	refused := d.Refusal != nil
	switch {
	case line.Status == "Contested":
		return "" // the allocator writes that when it restores the status, whatever the decision is
	case len(r.Shown) == 0 && refused != (line.Status == "Waiting"):
		return "only one of them says that it waits"
	case line.Status == "Waiting" && (line.Code != d.Result.Reason || line.Message != d.Result.Message):
		return "it waits for another reason"
	case line.Status == "Pending" && !strings.Contains(line.Message, "it is to get "+strings.Trim(strings.ReplaceAll(fmt.Sprint(d.Result.Addresses), " ", ", "), "[]")+" from "+d.Result.From):
		return "it is to get another address"
	case line.Status == "Partial" && !refused, line.Status == "OK" && refused:
		return "only one of them says that an address is missing"
	case (line.Status == "Conflict") != (len(r.Shown) > 0 && d.Result.Reason == ipam.ReasonConflict):
		return "only one of them knows of a conflict"
	}
	return ""
}

// compareAgents returns how the plugin's view of w differs from the agents' decisions.
func compareAgents(w explain.World, seen map[string]int) string {
	nodes := agentsOf(w)
	for i := range w.Services {
		svc, ours := announce.Read(&w.Services[i])
		if !ours {
			continue
		}
		told, err := explain.Inspect(w, svc.Key)
		if err != nil {
			return err.Error()
		}
		if told.Status == "NotPureLB" {
			continue // another announcer announces it, which agents do not know
		}
		for _, said := range told.Announcements {
			if complaint := compareNodes(*told.Inspection, said, nodes, seen); complaint != "" {
				return fmt.Sprintf("%s, %s: the plugin says %+v of %+v: %s", svc.Key, said.IP, told.Elections, said, complaint)
			}
		}
	}
	return ""
}

func compareNodes(told explain.Inspection, said explain.Announcement, nodes map[string]announce.Plan, seen map[string]int) string {
	var local, remote []string
	winner := ""
	i := slices.IndexFunc(told.Elections, func(p explain.Poll) bool { return p.IP == said.IP })
	if i >= 0 {
		winner = told.Elections[i].Winner
	}
	for node, plan := range nodes {
		for _, d := range plan.Decisions {
			if d.Service != told.Service || d.IP.String() != said.IP {
				continue
			}
			switch d.Where {
			case announce.Local:
				local = append(local, node)
			case announce.Remote:
				remote = append(remote, node)
			}
			if i >= 0 && d.Winner != winner {
				return fmt.Sprintf("%s says that %q is to have it: %s", node, d.Winner, d.Why())
			}
		}
	}
	switch {
	case i >= 0 && len(remote) > 0, i < 0 && len(local) > 0:
		return fmt.Sprintf("%v have it on a local interface, and %v on the dummy interface", local, remote)
	case i >= 0 && winner != "" && !slices.Equal(local, []string{winner}):
		return fmt.Sprintf("%v have it", local)
	case i >= 0 && winner == "" && len(local) > 0:
		return fmt.Sprintf("%v have it", local)
	case strings.HasPrefix(said.Text, "all nodes announce it") && len(remote) != len(nodes):
		return fmt.Sprintf("%v of %d nodes have it", remote, len(nodes))
	}
	switch {
	case i < 0 && len(remote) > 0:
		seen["remote"]++
	case i >= 0 && winner == "":
		seen["no candidate"]++
	case i >= 0:
		seen["local"]++
		if said.Node != "" && said.Node != winner {
			seen["moved"]++
		}
	}
	return ""
}

// agentsOf returns the decisions of the live agents. Each of them reads w for itself.
func agentsOf(w explain.World) map[string]announce.Plan {
	s := announce.Situation{Complete: true, Config: census.Of(w.Objects).Config}
	evidence := election.Evidence{LeasesTrusted: true, Settled: true, Contact: w.Now}
	wanted := map[string]bool{}
	for i := range w.Services {
		if svc, ours := announce.Read(&w.Services[i]); ours {
			s.Services = append(s.Services, svc)
			wanted[svc.Key] = true
		}
	}
	s.Endpoints, s.Ending = announce.EndpointNodes(w.EndpointSlices, wanted)
	// The endpoints have not changed for an hour. An agent that was running before a group was
	// deleted may remember that it withdrew addresses of that group, and the objects do not show
	// that. So these agents started later.
	damping := &announce.IdleDamping{}
	withdrawing := damping.Withdrawing(s.Services, s.Config.Groups)
	for _, at := range []time.Time{w.Now.Add(-time.Hour), w.Now} {
		s.Idle, _ = damping.Observe(at, withdrawing, s.Endpoints, s.Ending)
	}
	for i := range w.Leases {
		o := &w.Leases[i]
		one := election.Leased{Record: election.Record{Node: lease.Node(o), Subnets: lease.Subnets(o), Own: lease.Addresses(o), Draining: lease.Draining(o)}}
		if w.Now.Before(o.Spec.RenewTime.Add(time.Duration(*o.Spec.LeaseDurationSeconds) * time.Second)) {
			one.Alive, one.Renewed = true, o.Spec.RenewTime.Time
		}
		evidence.Leases = append(evidence.Leases, one)
	}
	plans := map[string]announce.Plan{}
	for _, one := range evidence.Leases {
		if one.Alive {
			plans[one.Node] = announce.Decide(situationOn(s, one, evidence, w.Now))
		}
	}
	return plans
}

// situationOn returns s as the agent sees it on a node with the interfaces of its Lease.
func situationOn(s announce.Situation, node election.Leased, e election.Evidence, now time.Time) announce.Situation {
	agent, _ := s.Config.AgentFor(nil)
	e.Self = node.Node
	s.Self, s.Agent, s.Peers = node.Node, &agent, election.Merge(e, now)
	s.Node = announce.Node{MarksSupported: true, Links: []announce.Link{
		{Name: "eth0", Index: 2, Up: true, Carrier: true, Neighbors: true, Default4: true}, {Name: agent.Dummy, Index: 3, Kind: "dummy", Up: true, Carrier: true},
	}}
	for i, own := range node.Own {
		s.Node.Addresses = append(s.Node.Addresses, announce.Address{Prefix: netip.PrefixFrom(own, node.Subnets[i].Bits()), Link: "eth0", Valid: announce.Forever, Preferred: announce.Forever})
	}
	return s
}
