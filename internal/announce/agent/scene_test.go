package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
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
				before, after, cut := strings.Cut(script, "start\n")
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
		if line == "" || verb == "//" || s.act(t, verb, rest, strings.Fields(rest)) {
			continue
		}
		got, asked := s.ask(verb, strings.Fields(rest))
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
	case "groups": // leaves only the first groups
		s.cluster.change(func(o *objects) { o.Groups = o.Groups[:len(args)] })
	case "unknown": // the cluster is not known
		s.cluster.missing = true
	case "known":
		s.cluster.change(func(*objects) {})
	case "peers": // the nodes. Gossip reaches "node-b+". "node-b~" is drained, and "node-b-" is both
		s.peers.change(func(p *election.Peers) {
			p.Members = nil
			for _, name := range args {
				m := peer(strings.TrimRight(name, "+-~"))
				how := strings.TrimPrefix(name, m.Node)
				m.Draining, m.Reachable = how == "-" || how == "~", how == "-" || how == "+"
				p.Members = append(p.Members, m)
			}
		})
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
	case "claim": // of a machine with this last byte of its MAC
		s.kernel.heard <- heard(args[0], lastByte(t, args[1]))
	case "offer": // of web's addresses by a node
		s.peers.received <- from(rest, announce.Take)
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
	case "loose": // the kernel answers for addresses of other links
		s.kernel.change(func() { s.kernel.looseARP = true })
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
	case "remote": // an address of an earlier agent on kube-lb0
		a := permanent("kube-lb0", rest)
		a.Mark = announce.Mark
		s.kernel.change(func() {
			s.kernel.hold(a)
			s.kernel.links = append(s.kernel.links, announce.Link{Name: "kube-lb0", Up: true})
		})
	case "refuse":
		s.kernel.change(func() { s.kernel.putErr[args[0]] = errors.New(strings.Join(args[1:], " ")) })
	case "accept":
		s.kernel.change(func() { delete(s.kernel.putErr, args[0]) })
	case "fail": // what: the kernel's error
		at := map[string]*error{"observe": &s.kernel.dumpErr, "remove": &s.kernel.removeErr, "probe": &s.kernel.probeErr}[args[0]]
		s.kernel.change(func() { *at = errors.New(strings.Join(args[1:], " ")) })
	case "mend":
		s.kernel.change(func() { s.kernel.dumpErr, s.kernel.removeErr, s.kernel.probeErr = nil, nil, nil })
	case "flush": // somebody removes all addresses but the node's own
		s.kernel.change(func() { s.kernel.addresses = s.kernel.addresses[:3] })
	case "answered": // another machine answers for these addresses alone
		s.kernel.change(func() {
			clear(s.kernel.answers)
			for _, ip := range args {
				s.kernel.answers[ip] = someMAC
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
func (s *scene) ask(verb string, args []string) (answer string, ok bool) {
	switch verb {
	case "kernel":
		return s.kernel.String(), true
	case "changes":
		return s.kernel.changes(), true
	case "events":
		return s.reported(), true
	case "log":
		return s.logged(args...), true
	case "slots":
		return s.slots(args[0]), true
	case "published":
		return s.peers.publications(), true
	case "publishes": // says whether this is in the published record
		if strings.Contains(s.peers.publications(), strings.Join(args, " ")) {
			return "yes", true
		}
		return s.peers.publications(), true
	case "published-own":
		return s.peers.own, true
	case "published-gateways":
		return s.peers.gateways, true
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
	case "metric":
		return fmt.Sprint(testutil.ToFloat64(map[string]prometheus.Collector{
			"conflicts": s.metrics.conflicts, "winners": s.metrics.winnerChanges.WithLabelValues("default/web"),
			"affinity": s.metrics.affinityFallback.WithLabelValues("192.0.2.9"),
		}[args[0]])), true
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

// agents reads LBNodeAgents: name and spec.local.
func (s *scene) agents(t *testing.T, text string) (all []v2.LBNodeAgent) {
	for part := range strings.SplitSeq(text, ";") {
		name, spec, _ := strings.Cut(strings.TrimSpace(part), " ")
		if name == "" {
			continue
		}
		a := lbNodeAgent(name, v2.InterfaceSpec{})
		a.Generation = int64(s.changes)
		if spec == "" {
			a.Spec.Local = nil
		}
		expect.NoError(t, yaml.Unmarshal([]byte(spec), &a.Spec.Local))
		all = append(all, a)
	}
	return all
}
