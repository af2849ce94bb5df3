package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/nodes/ending"
	"purelb.io/purelb/internal/nodes/lease"
	"purelb.io/purelb/internal/nodes/membership"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/expect"
)

// Each scene of testdata has a world of its own. A scene begins with "# name". A line is a word of act
// or ask. What follows with "->" is the answer to the line before it. The agent starts at the line
// "start", or before the first line.
func TestScenes(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	expect.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		expect.NoError(t, err)
		for part := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
			name, script, _ := strings.Cut(part, "\n")
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+strings.TrimPrefix(name, "# "), func(t *testing.T) {
				before, after, cut := strings.Cut("\n"+script, "\nstart\n")
				if !cut {
					before, after = "", script
				}
				s := &scene{}
				inWorld(t, func(w *world) { s.world = w; s.play(t, before) }, func(*world) { s.play(t, after) })
			})
		}
	}
}

type scene struct {
	*world
	changes         int // of objects
	looked, written int // at the last "forget"
	unstick         func()
	restore         func()
}

func (s *scene) play(t *testing.T, script string) {
	lines := strings.Split(script, "\n")
	for i := 0; i < len(lines); {
		line := lines[i]
		var answer []string
		for i++; i < len(lines) && strings.HasPrefix(lines[i], "->"); i++ {
			answer = append(answer, strings.TrimSpace(lines[i][2:]))
		}
		verb, rest, _ := strings.Cut(line, " ")
		if verb == "repeat" { // the lines until "done"
			times, err := strconv.Atoi(rest)
			expect.NoError(t, err)
			end := i + slices.Index(lines[i:], "done")
			for range times {
				s.play(t, strings.Join(lines[i:end], "\n"))
			}
			i = end + 1
			continue
		}
		if line == "" || verb == "//" || s.act(t, verb, rest, strings.Fields(rest)) {
			continue
		}
		got, asked := s.ask(t, verb, strings.Fields(rest))
		if !asked {
			t.Fatalf("there is no word %q", verb)
		}
		expect.Equal(t, line, strings.TrimSpace(got), strings.Join(answer, "\n"))
	}
}

// act changes the world, and gives the agent time for that.
func (s *scene) act(t *testing.T, verb, rest string, args []string) bool {
	s.changes++
	switch verb {
	case "serve": // Services: "web 192.0.2.9; far 203.0.113.7"
		s.cluster.change(serving(s.services(rest)...))
	case "agents": // LBNodeAgents: "default {localInterface: eth1}; ..."
		s.cluster.change(func(o *objects) { o.Agents = s.agents(t, rest) })
	case "endpoints", "ending": // of a Service, on nodes
		s.cluster.change(func(o *objects) {
			if of := map[string]*map[string][]string{"endpoints": &o.Endpoints, "ending": &o.Ending}[verb]; *of == nil {
				*of = map[string][]string{"default/" + args[0]: args[1:]}
			} else {
				(*of)["default/"+args[0]] = args[1:]
			}
		})
	case "withdrawing":
		s.cluster.change(withdrawing)
	case "exclude":
		s.cluster.change(excluded)
	case "backend": // a group whose addresses another program manages
		s.cluster.change(func(o *objects) {
			netbox := v2.ServiceGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "purelb", Name: rest}}
			netbox.Spec.Netbox = &v2.NetboxSpec{URL: "https://netbox/"}
			o.Groups = append(o.Groups, netbox)
		})
	case "groups": // leaves only the first groups
		s.cluster.change(func(o *objects) { o.Groups = o.Groups[:len(args)] })
	case "unknown": // the cluster is not known
		s.cluster.missing = true
	case "known":
		s.cluster.change(func(*objects) {})
	case "no-node": // the Node is deleted
		s.cluster.change(func(o *objects) { o.Node = nil })
	case "node-addresses": // in Kubernetes
		s.cluster.change(known(args...))
	case "unreachable": // nodes whose kubelets are not heard
		s.cluster.change(func(o *objects) { o.NodesUnreachable = args })
	case "peers": // the nodes. Gossip reaches "node-b+". "node-b~" is drained, "node-b-" is both, and "node-b!" has no networks
		s.peers.change(func(p *election.Peers) {
			p.Members = nil
			for _, name := range args {
				m := peer(strings.TrimRight(name, "+-~!"))
				how := strings.TrimPrefix(name, m.Node)
				m.Draining, m.Reachable = how == "-" || how == "~", how == "-" || how == "+"
				if how == "!" {
					m.Subnets = nil
				}
				p.Members = append(p.Members, m)
			}
		})
	case "unable": // a node cannot add these addresses
		s.peers.change(func(p *election.Peers) {
			p.Members = slices.Clone(p.Members)
			i := slices.IndexFunc(p.Members, func(m election.Member) bool { return m.Node == args[0] })
			p.Members[i].Unable = addrsOf(args[1:])
		})
	case "prefer": // the local group prefers a node, to which addresses go back after a time
		s.cluster.change(func(o *objects) {
			local := o.Groups[0].Spec.Local
			local.RebalanceAfter, local.Nodes = v2.Duration(args[1]), []v2.NodeWeight{{NodeSelector: map[string]string{"rack": "b"}, Weight: 5}}
		})
		s.peers.change(func(p *election.Peers) {
			b := reachable(args[0])
			b.Weights = map[string]int{"local": 5}
			p.Members = append(p.Members, b)
		})
	case "answers": // the other nodes take all that they are offered
		s.peers.answer = takes
	case "inherited": // an address, a machine, and how long ago the agent before this one heard it
		ago, err := time.ParseDuration(args[2])
		expect.NoError(t, err)
		claim := lease.Claim{Addr: addrOf(args[0]), MAC: heard(args[0], lastByte(t, args[1])).MAC}
		s.peers.inherited = append(s.peers.inherited, lease.Heard{Claim: claim, At: time.Now().Add(-ago)})
	case "echo": // gossip returns the published record to this node at once
		s.peers.heard = func(p *election.Peers) {
			p.Members = slices.Clone(p.Members)
			p.Members[0].Subnets = nil
			if strings.HasPrefix(s.peers.published[len(s.peers.published)-1], fmt.Sprint(subnets)) {
				p.Members[0].Subnets = subnets
			}
		}
	case "unwritten": // annotations cannot be written
		s.agent.Annotations = unwritten{}
	case "deaf": // the goodbye does not end in time
		s.peers.deaf = true
	case "gossip": // the address at the start
		s.agent.gossip = netip.MustParseAddrPort(rest)
	case "trusted", "untrusted":
		s.peers.change(func(p *election.Peers) { p.Trusted = verb == "trusted" })
	case "own": // addresses of nodes themselves: "node-b 192.0.2.2; ..."
		own := map[netip.Addr]string{}
		for part := range strings.SplitSeq(rest, ";") {
			words := strings.Fields(part)
			maps.Copy(own, ownedBy(words[0], words[1:]...))
		}
		s.peers.change(func(p *election.Peers) { p.Own = own })
	case "macs": // the last byte of the MAC of a node, or no MACs: "7 node-b"
		nodes := map[[6]byte]string{}
		if len(args) > 0 {
			nodes[heard("192.0.2.9", lastByte(t, args[0])).MAC] = args[1]
		}
		s.peers.change(func(p *election.Peers) { p.MACs = nodes })
	case "claim", "question": // of a machine with this last byte of its MAC: on which link, and how long ago it came
		h := heard(args[0], lastByte(t, args[1]))
		h.Probe = verb == "question"
		if len(args) > 2 {
			h.Link = args[2]
		}
		if len(args) > 3 {
			ago, err := time.ParseDuration(args[3])
			expect.NoError(t, err)
			h.At = h.At.Add(-ago)
		}
		s.kernel.heard <- h
	case "offer": // of addresses by a node, by default those of web
		s.peers.received <- from(args[0], announce.Take, addrsOf(args[1:])...)
	case "took": // a node says that it has the addresses of web
		s.peers.received <- from(rest, announce.Taken)
		return true
	case "nonsense": // of a node
		s.peers.received <- membership.Message{From: rest, Body: []byte("nonsense")}
	case "taken": // by another machine: so many attempts to add the address will fail, each after a time
		s.kernel.taken[args[0]], _ = strconv.Atoi(args[1])
		var err error
		s.kernel.detecting, err = time.ParseDuration(args[2])
		expect.NoError(t, err)
	case "plug", "unplug": // the cable of a link
		s.kernel.plug(args[0], verb == "plug")
	case "probing": // how long a probe lasts
		var err error
		s.kernel.probing, err = time.ParseDuration(rest)
		expect.NoError(t, err)
	case "markless":
		s.kernel.markless = true
	case "ipvs": // addresses on kube-ipvs0, which kube-proxy uses
		s.kernel.change(func() {
			s.kernel.links = append(s.kernel.links, announce.Link{Name: "kube-ipvs0", Index: 8, Up: true})
			for _, prefix := range args {
				s.kernel.hold(permanent("kube-ipvs0", prefix))
			}
		})
	case "loose", "strict": // whether the kernel answers for addresses of other links
		s.kernel.change(func() { s.kernel.looseARP = verb == "loose" })
	case "putting": // how long it takes to add addresses
		var err error
		s.kernel.putting, err = time.ParseDuration(rest)
		expect.NoError(t, err)
	case "hold", "leased": // a local address of an earlier agent, or of the node
		left, err := time.ParseDuration(args[2])
		expect.NoError(t, err)
		a := ours(args[0], args[1], left)
		if verb == "leased" {
			a.Mark = 0
		}
		s.kernel.change(func() { s.kernel.hold(a) })
	case "foreign":
		s.kernel.change(func() { s.kernel.hold(permanent(args[0], args[1])) })
	case "remote": // an address of an earlier agent on kube-lb0, or on another dummy interface that it made
		made := announce.Link{Name: "kube-lb0", Up: true}
		if len(args) > 1 {
			made = announce.Link{Name: args[1], Index: 8, Kind: "dummy", Up: true, Carrier: true, Made: true}
		}
		a := permanent(made.Name, args[0])
		a.Mark = announce.Mark
		s.kernel.change(func() {
			s.kernel.hold(a)
			s.kernel.links = append(s.kernel.links, made)
		})
	case "link": // of another program
		s.kernel.change(func() {
			s.kernel.links = append(s.kernel.links, announce.Link{Name: rest, Index: 8, Kind: "dummy", Up: true, Carrier: true})
		})
	case "unlink":
		s.kernel.change(func() {
			s.kernel.links = slices.DeleteFunc(s.kernel.links, func(l announce.Link) bool { return l.Name == rest })
			s.kernel.addresses = slices.DeleteFunc(s.kernel.addresses, func(h held) bool { return h.Link == rest })
		})
	case "renew": // a link with the same name and the same own addresses replaces this one
		s.kernel.change(func() {
			s.kernel.link(rest).Index += 100
			s.kernel.addresses = slices.DeleteFunc(s.kernel.addresses, func(h held) bool { return h.Link == rest && h.Mark == announce.Mark })
		})
	case "flush-link": // a network manager removes all addresses and default routes of eth0, and "restore" adds the node's own again
		s.restore = s.kernel.flush()
	case "restore":
		s.restore()
	case "keeps-links": // the deletion of a link does not end in time
		s.kernel.keepsLinks = true
	case "mac": // the last byte of the MAC of a link
		s.kernel.change(func() {
			s.kernel.link(args[0]).MAC = heard("192.0.2.9", lastByte(t, args[1])).MAC
		})
	case "no-neighbors": // on a link: the agent speaks no ARP and no Neighbor Discovery there
		s.kernel.change(func() { s.kernel.link(rest).Neighbors = false })
	case "any-sender": // the kernel asks with any of its addresses as the sender
		s.kernel.change(func() { s.kernel.anySender = true })
	case "proxy": // the last byte of the MAC of a machine that answers for every address
		s.kernel.change(func() { s.kernel.proxy = heard("192.0.2.9", lastByte(t, rest)).MAC })
	case "stick": // the next observation lasts until "unstick"
		s.unstick = s.kernel.stick()
	case "unstick":
		s.unstick()
	case "wake":
		s.kernel.change(func() {})
	case "refuse":
		s.kernel.change(func() { s.kernel.putErr[args[0]] = errors.New(strings.Join(args[1:], " ")) })
	case "accept":
		s.kernel.change(func() { delete(s.kernel.putErr, args[0]) })
	case "fail": // what: the kernel's error
		at := map[string]*error{"observe": &s.kernel.dumpErr, "remove": &s.kernel.removeErr, "probe": &s.kernel.probeErr,
			"dummy": &s.kernel.dummyErr, "guard": &s.kernel.guardErr}[args[0]]
		s.kernel.change(func() { *at = errors.New(strings.Join(args[1:], " ")) })
	case "mend":
		s.mend()
	case "mend-after": // a time, during the next lines
		d, err := time.ParseDuration(rest)
		expect.NoError(t, err)
		time.AfterFunc(d, s.mend)
		return true
	case "flush": // somebody removes all addresses but the node's own
		s.kernel.change(func() { s.kernel.addresses = s.kernel.addresses[:3] })
	case "answered", "answered-by": // another machine, whose last byte may come first, answers for these addresses alone
		mac := someMAC
		if verb == "answered-by" {
			mac, args = heard("192.0.2.9", lastByte(t, args[0])).MAC, args[1:]
		}
		s.kernel.change(func() {
			clear(s.kernel.answers)
			for _, ip := range args {
				s.kernel.answers[ip] = mac
			}
		})
	case "gateways":
		s.kernel.reroute(args...)
	case "pass":
		d, err := time.ParseDuration(rest)
		expect.NoError(t, err)
		pass(d)
		return true
	case "forget": // what was until now
		s.reported()
		s.logged()
		s.kernel.changes()
		s.looked, s.written = s.kernel.observations(), s.notes.written()
	default:
		return false
	}
	settle()
	return true
}

// ask answers a question about the world.
func (s *scene) ask(t *testing.T, verb string, args []string) (answer string, ok bool) {
	switch verb {
	case "kernel":
		return s.kernel.String(), true
	case "changes":
		return s.kernel.changes(), true
	case "events":
		return s.reported(), true
	case "log":
		return s.logged(args...), true
	case "sorted-log": // without the order
		return strings.Join(slices.Sorted(strings.SplitSeq(s.logged(args...), "\n")), "\n"), true
	case "slots":
		return s.slots(args[0]), true
	case "published":
		return s.peers.publications(), true
	case "publishes": // says whether this is in the published record
		if strings.Contains(s.peers.publications(), strings.Join(args, " ")) {
			return "yes", true
		}
		return s.peers.publications(), true
	case "published-own", "published-macs", "published-gateways", "published-unable", "published-gossip":
		return map[string]string{
			"published-own": s.peers.own, "published-macs": s.peers.macs, "published-gateways": s.peers.gateways, "published-unable": s.peers.unable,
			"published-gossip": s.peers.gossip,
		}[verb], true
	case "messages": // to other nodes
		return s.messages(args...), true
	case "end": // the agent, for a cause: how long that takes, and what the others hear
		return s.ends(args[0]), true
	case "unchanged": // "unchanged 10m 2s" says whether the kernel has the same addresses every 2 s for 10 minutes
		return s.unchanged(t, args[0], args[1]), true
	case "has-link":
		return yesIf(s.kernel.has(args[0])), true
	case "closed": // addresses behind which the node is closed
		return s.kernel.guarded(), true
	case "probed":
		return yesIf(s.kernel.probed[addrOf(args[0])]), true
	case "probed-others": // how many addresses besides this one and the gateways
		others := maps.Clone(s.kernel.probed)
		maps.DeleteFunc(others, func(ip netip.Addr, _ bool) bool {
			return ip == addrOf(args[0]) || slices.Contains(s.kernel.gateways, ip)
		})
		return strconv.Itoa(len(others)), true
	case "asked-alone": // how many machines are asked by unicast whether the segment works
		return strconv.Itoa(len(s.kernel.known)), true
	case "state-says": // says whether this is in the answer of /state
		text, _ := s.agent.shown.Load().text("node-a", nil)
		return yesIf(strings.Contains(string(text), strings.Join(args, " "))), true
	case "kubelets-read": // says whether the agent asked so often for the Node of another node
		low, _ := strconv.Atoi(args[0])
		high, _ := strconv.Atoi(args[1])
		return within(s.cluster.kubeletsRead, low, high), true
	case "reports":
		return s.peers.reports(), true
	case "reports-so-far":
		return strconv.Itoa(s.peers.reportedTimes()), true
	case "selector":
		return state(s.world), true
	case "writes": // of slots
		return strconv.Itoa(s.notes.written() - s.written), true
	case "remaining": // all addresses of the node
		node, _ := s.kernel.Observe(context.Background())
		return strconv.Itoa(len(node.Addresses)), true
	case "series": // of announced addresses
		return strconv.Itoa(testutil.CollectAndCount(s.metrics.announced, "purelb_lbnodeagent_announced")), true
	case "series-of-services": // winner changes, affinity fallbacks, slot steals
		m := s.metrics
		return fmt.Sprint(testutil.CollectAndCount(m.winnerChanges), testutil.CollectAndCount(m.affinityFallback), testutil.CollectAndCount(m.slotSteals)), true
	case "metric":
		return fmt.Sprint(testutil.ToFloat64(map[string]prometheus.Collector{
			"conflicts": s.metrics.conflicts, "garp": s.metrics.garpSent, "na": s.metrics.naSent, "winners": s.metrics.winnerChanges.WithLabelValues("default/web"),
			"affinity": s.metrics.affinityFallback.WithLabelValues("192.0.2.9"), "handovers": s.metrics.handovers,
		}[args[0]])), true
	case "failed-probes": // says whether there were so many
		low, _ := strconv.Atoi(args[0])
		high, _ := strconv.Atoi(args[1])
		return within(int(testutil.ToFloat64(s.metrics.probes.WithLabelValues("failed"))), low, high), true
	case "times": // "times 18 21 put 192.0.2.9" says whether there were 18 to 21 such changes
		low, _ := strconv.Atoi(args[0])
		high, _ := strconv.Atoi(args[1])
		return within(strings.Count(strings.Join(s.kernel.did, "\n"), strings.Join(args[2:], " ")), low, high), true
	case "observed": // says whether the node was observed at most so often
		high, _ := strconv.Atoi(args[0])
		return within(s.kernel.observations()-s.looked, 0, high), true
	}
	return "", false
}

// mend ends all failures of the kernel.
func (s *scene) mend() {
	s.kernel.change(func() {
		s.kernel.dumpErr, s.kernel.removeErr, s.kernel.probeErr, s.kernel.dummyErr, s.kernel.guardErr = nil, nil, nil, nil, nil
	})
}

// messages returns the messages to other nodes, or those of one kind.
func (s *scene) messages(only ...string) string {
	kinds := map[announce.MessageKind]string{announce.Take: "take", announce.Taken: "taken", announce.Listen: "listen", announce.NotHeard: "not-heard"}
	var all []string
	for _, sent := range s.peers.messages() {
		to, body, _ := strings.Cut(sent, ": ")
		m, err := announce.Decode([]byte(body))
		if err == nil && (len(only) == 0 || kinds[m.Kind] == only[0]) {
			all = append(all, fmt.Sprintf("%s %s %s", to, kinds[m.Kind], strings.Trim(fmt.Sprint(m.Addresses), "[]")))
		}
	}
	return strings.Join(all, "\n")
}

// ends stops the agent for a cause.
func (s *scene) ends(cause string) string {
	for c := ending.Unknown; c <= ending.Uninstalled; c++ {
		if c.String() == cause {
			s.agent.Departures = endOf(c)
		}
	}
	began := time.Now()
	s.end()
	said := []string{time.Since(began).Truncate(time.Millisecond).String()}
	if s.peers.gone {
		said = append(said, "goodbye")
	}
	if s.peers.draining() != "" {
		said = append(said, "draining")
	}
	return strings.Join(said, ", ")
}

// unchanged says whether the kernel has the same addresses during a time.
func (s *scene) unchanged(t *testing.T, during, every string) string {
	whole, err := time.ParseDuration(during)
	expect.NoError(t, err)
	step, err := time.ParseDuration(every)
	expect.NoError(t, err)
	before := s.kernel.String()
	for passed := step; passed <= whole; passed += step {
		pass(step)
		if got := s.kernel.String(); got != before {
			return fmt.Sprintf("no: after %s %s", passed, got)
		}
	}
	return "yes"
}

// addrsOf parses addresses. Without any it returns nil.
func addrsOf(texts []string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, addrOf(text))
	}
	return all
}

func yesIf(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func lastByte(t *testing.T, text string) byte {
	b, err := strconv.ParseUint(text, 16, 8)
	expect.NoError(t, err)
	return byte(b)
}

func within(n, low, high int) string {
	if n < low || n > high {
		return fmt.Sprintf("no: %d", n)
	}
	return "yes"
}

// services reads Services: name, addresses, and what is special about it.
func (s *scene) services(text string) (all []corev1.Service) {
	for part := range strings.SplitSeq(text, ";") {
		words := strings.Fields(part)
		if len(words) == 0 {
			continue
		}
		svc := branded(words[0])
		svc.ResourceVersion = strconv.Itoa(s.changes)
		for _, word := range words[1:] {
			switch key, value, _ := strings.Cut(word, "="); key {
			case "held": // by a node
				for _, in := range svc.Status.LoadBalancer.Ingress {
					name := service.AnnotationAnnouncingIPv4
					if addr.FamilyOf(addrOf(in.IP)) == addr.V6 {
						name = service.AnnotationAnnouncingIPv6
					}
					svc.Annotations[name] = strings.TrimSpace(svc.Annotations[name] + " " + value + ",eth0," + in.IP)
				}
			case "uid":
				svc.UID = types.UID(value)
			case "policy":
				svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicy(value)
			case "old": // it got its addresses an hour ago
				svc.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
			default:
				if strings.HasPrefix(key, "purelb.io/") {
					svc.Annotations[key] = value
					continue
				}
				svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: word})
			}
		}
		all = append(all, svc)
	}
	return all
}

// agents reads LBNodeAgents: name and spec.local. "name@zone=b" selects nodes with this label.
func (s *scene) agents(t *testing.T, text string) (all []v2.LBNodeAgent) {
	for part := range strings.SplitSeq(text, ";") {
		name, spec, _ := strings.Cut(strings.TrimSpace(part), " ")
		if name == "" {
			continue
		}
		name, label, selects := strings.Cut(name, "@")
		a := lbNodeAgent(name, v2.InterfaceSpec{})
		if key, value, _ := strings.Cut(label, "="); selects {
			a.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
		}
		a.Generation = int64(s.changes)
		if spec == "" {
			a.Spec.Local = nil
		}
		expect.NoError(t, yaml.Unmarshal([]byte(spec), &a.Spec.Local))
		all = append(all, a)
	}
	return all
}
