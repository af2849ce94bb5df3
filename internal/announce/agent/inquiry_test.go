package agent

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/nodes/ending"
	"purelb.io/purelb/internal/nodes/membership"
	"purelb.io/purelb/internal/testing/expect"
)

// everyNodeAnswers makes node-b and node-c answer for both addresses of web. Nodes whose
// kube-proxy is in IPVS mode do that. Gossip reaches both nodes.
func everyNodeAnswers(w *world) {
	macs := map[[6]byte]string{}
	for i, name := range []string{"node-b", "node-c"} {
		mac := [6]byte{2, 0, 0, 0, 0, byte(i + 0xb)}
		macs[mac] = name
		w.peers.peers.Members = append(w.peers.peers.Members, reachable(name))
		if i > 0 {
			w.kernel.others = map[string][][6]byte{"192.0.2.9": {mac}, "2001:db8::9": {mac}}
			continue
		}
		w.kernel.answers["192.0.2.9"], w.kernel.answers["2001:db8::9"] = mac, mac
	}
	w.peers.peers.MACs = macs
	w.cluster.snapshot.Services = nil
}

// answers makes each node answer a question with a message of the given kind.
func answers(kinds map[string]announce.MessageKind) func(string, []byte) (membership.Message, bool) {
	return func(to string, message []byte) (membership.Message, bool) {
		m, err := announce.Decode(message)
		kind, says := kinds[to]
		if err != nil || m.Kind != announce.Ask || !says {
			return membership.Message{}, false
		}
		m.Kind = kind
		return membership.Message{From: to, Body: m.Encode(), Received: time.Now()}, true
	}
}

// asked returns the nodes that were asked.
func (w *world) asked() (nodes []string) {
	for _, line := range w.peers.messages() {
		node, message, _ := strings.Cut(line, ": ")
		if m, err := announce.Decode([]byte(message)); err == nil && m.Kind == announce.Ask {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// servedByThisNode adds web with an annotation that elects node-a. By hash, another node could win.
func servedByThisNode(w *world) { w.cluster.change(serving(heldBy("node-a"))) }

func TestNodesThatAnswerByMistakeDoNotBlock(t *testing.T) {
	haveNot := announce.HaveNot
	for _, tt := range []struct {
		name    string
		kinds   map[string]announce.MessageKind
		twist   func(*world)
		asked   string
		taken   bool
		contest string // the holder that the events name
	}{
		{"all nodes deny that they have it", map[string]announce.MessageKind{"node-b": haveNot, "node-c": haveNot}, nil, "[node-b node-c]", true, ""},
		{"one node has it", map[string]announce.MessageKind{"node-b": haveNot, "node-c": announce.Have}, nil, "[node-b node-c]", false, "node node-c"},
		{"one node does not answer", map[string]announce.MessageKind{"node-c": haveNot}, nil, "[node-b node-c]", false, "node node-b"},
		{"another machine answers too", map[string]announce.MessageKind{"node-b": haveNot, "node-c": haveNot}, func(w *world) {
			for _, ip := range []string{"192.0.2.9", "2001:db8::9"} {
				w.kernel.others[ip] = append(w.kernel.others[ip], someMAC)
			}
		}, "[]", false, "another machine, 02:00:00:00:00:07"},
		{"gossip does not reach one node", map[string]announce.MessageKind{"node-b": haveNot, "node-c": haveNot}, func(w *world) {
			w.peers.peers.Members[2].Reachable = false
		}, "[]", false, "node node-c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				everyNodeAnswers(w)
				w.peers.answer = answers(tt.kinds)
				if tt.twist != nil {
					tt.twist(w)
				}
			}, func(w *world) {
				servedByThisNode(w)
				settle()
				expect.Equal(t, "the nodes that the agent asked", fmt.Sprint(w.asked()), tt.asked)
				if tt.taken {
					expect.Equal(t, "kernel, at once", w.kernel.String(), bothAddresses)
					expect.Equal(t, "events", w.reported(), "Normal AnnouncingLocal Node node-a announcing 192.0.2.9 on interface eth0\n"+
						"Normal AnnouncingLocal Node node-a announcing 2001:db8::9 on interface eth0")
					return
				}
				pass(2 * time.Minute)
				expect.Equal(t, "kernel", w.kernel.String(), "")
				if events := w.reported(); strings.Count(events, "is answered by "+tt.contest) != 2 || strings.Count(events, "\n") != 1 {
					t.Errorf("events are %q, want one for each address that names %s", events, tt.contest)
				}
			})
		})
	}
}

func TestOnlyTheAnswerToTheQuestionCounts(t *testing.T) {
	for _, tt := range []struct {
		name  string
		twist func(*membership.Message, *announce.Message)
		late  time.Duration
	}{
		{"an answer of another node", func(got *membership.Message, _ *announce.Message) { got.From = "node-x" }, 0},
		{"an answer to another question", func(_ *membership.Message, m *announce.Message) { m.Number += 100 }, 0},
		{"an answer about other addresses", func(_ *membership.Message, m *announce.Message) { m.Addresses = []netip.Addr{addrOf("192.0.2.10")} }, 0},
		{"an answer after the end of the question, repeated", func(*membership.Message, *announce.Message) {}, inquiryWait + time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				everyNodeAnswers(w)
				all := answers(map[string]announce.MessageKind{"node-b": announce.HaveNot, "node-c": announce.HaveNot})
				w.peers.answer = func(to string, message []byte) (membership.Message, bool) {
					got, ok := all(to, message)
					if m, err := announce.Decode(got.Body); ok && err == nil && to == "node-c" {
						tt.twist(&got, &m)
						got.Body = m.Encode()
						for range 2 {
							time.AfterFunc(tt.late, func() { w.peers.received <- got })
						}
						return got, false
					}
					return got, ok
				}
			}, func(w *world) {
				servedByThisNode(w)
				pass(10 * time.Second)
				expect.Equal(t, "kernel", w.kernel.String(), "")
			})
		})
	}
}

// asks sends the question of node-b's agent to node-a, and returns the answer.
func (w *world) asks(number uint64, addresses ...string) string {
	m := announce.Message{Kind: announce.Ask, Number: number}
	for _, text := range addresses {
		m.Addresses = append(m.Addresses, addrOf(text))
	}
	before := len(w.peers.messages())
	w.peers.received <- membership.Message{From: "node-b", Body: m.Encode(), Received: time.Now()}
	settle()
	var answers []string
	for _, line := range w.peers.messages()[before:] {
		_, text, _ := strings.Cut(line, ": ")
		got, err := announce.Decode([]byte(text))
		if err != nil || got.Number != number {
			answers = append(answers, "nonsense")
			continue
		}
		answers = append(answers, fmt.Sprintf("%s%v", map[announce.MessageKind]string{announce.Have: "have", announce.HaveNot: "have not"}[got.Kind], got.Addresses))
	}
	return strings.Join(answers, ", ")
}

func TestAnswersAreLimitedPerSecond(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		looks := w.kernel.observations()
		question := announce.Message{Kind: announce.Ask, Addresses: []netip.Addr{addrOf("192.0.2.9")}}.Encode()
		for range 3 * answersPerSecond {
			w.peers.received <- membership.Message{From: "node-b", Body: bytes.Clone(question), Received: time.Now()}
		}
		settle()
		expect.Equal(t, "answers", len(w.peers.messages()), answersPerSecond)
		expect.Equal(t, "observations because of the questions", w.kernel.observations()-looks, 0)
		pass(time.Second)
		expect.Equal(t, "answer a second later", w.asks(7, "192.0.2.9"), "have not[192.0.2.9]")
	})
}

// A pass may take longer than the time that another agent waits for an answer.
func TestAQuestionIsAnsweredDuringAPass(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.cluster.change(serving(branded("web", "192.0.2.9")))
		pass(time.Second)
		unstick := w.kernel.stick()
		defer unstick()
		backoff.Poke(w.kernel.changed)
		pass(time.Second)
		expect.Equal(t, "answer", w.asks(1, "192.0.2.9", "192.0.2.10"), "have[192.0.2.9], have not[192.0.2.10]")
		offer := announce.Message{Kind: announce.Take, Addresses: []netip.Addr{addrOf("192.0.2.10")}}
		w.peers.received <- membership.Message{From: "node-c", Body: offer.Encode(), Received: time.Now()}
		settle()
		expect.Equal(t, "answer after an offer that the loop has not read", w.asks(2, "192.0.2.10"), "have[192.0.2.10]")
		pass(announce.OfferLimit(announce.HandoverLimit))
		expect.Equal(t, "answer after the end of the offer", w.asks(3, "192.0.2.10"), "have not[192.0.2.10]")
		pass(fullCheck + passLimit)
		expect.Equal(t, "answer long after the last pass", w.asks(4, "192.0.2.9"), "")
	})
}

// node-b asks while this node hands its addresses over.
func TestAQuestionIsAnsweredWhileTheAgentLeaves(t *testing.T) {
	holdingBoth(t, true, func(w *world) {
		w.agent.Departures = endOf(ending.Evicted)
		w.peers.change(func(p *election.Peers) { p.Members = append(p.Members, reachable("node-b")) })
		settle()
		go w.end()
		pass(announce.HandoverLimit / 2)
		expect.Equal(t, "answer", w.asks(1, "192.0.2.9"), "have[192.0.2.9]")
		pass(announce.HandoverLimit)
	})
}

// misled makes a node with 192.0.2.10 and 192.0.2.9 on kube-ipvs0. The kernel answers for them.
func misled(w *world) {
	w.kernel.looseARP = true
	w.kernel.links = append(w.kernel.links, announce.Link{Name: "kube-ipvs0", Index: 8, Up: true})
	w.kernel.hold(permanent("kube-ipvs0", "192.0.2.10/32"), permanent("kube-ipvs0", "192.0.2.9/32"),
		permanent("kube-ipvs0", "2001:db8::a/128"), permanent("lo", "192.0.2.13/32"))
}

const notStrict = "Warning ARPNotStrict Node node-a answers ARP for addresses that it does not hold, such as 192.0.2.10: " +
	"kube-proxy in IPVS mode has them on kube-ipvs0; set strictARP: true in its configuration (ipvs.strictARP), " +
	"or net.ipv4.conf.all.arp_ignore to 1 on the node"

// kube-proxy has the address on kube-ipvs0, so another agent asks this node about it.
func TestANodeThatAnswersByMistakeWarnsOnce(t *testing.T) {
	inWorld(t, misled, func(w *world) {
		w.serve(branded("web", "192.0.2.9"))
		w.serve()
		w.reported()
		w.asks(1, "192.0.2.9", "192.0.2.12", "192.0.2.13", "2001:db8::a")
		pass(5 * time.Minute)
		w.asks(2, "2001:db8::a")
		pass(5 * time.Minute)
		expect.Equal(t, "events about other addresses: just removed, on lo, absent, of IPv6", w.reported(), "")
		w.asks(3, "192.0.2.10")
		w.asks(4, "192.0.2.9")
		pass(5 * time.Minute)
		expect.Equal(t, "events", w.reported(), notStrict)
	})
}

// Addresses come and go all the time in a busy cluster.
func TestTheRemovalOfAnotherAddressDelaysNoWarning(t *testing.T) {
	inWorld(t, misled, func(w *world) {
		w.serve(branded("web", "192.0.2.9"))
		w.serve()
		w.reported()
		w.asks(1, "192.0.2.10")
		pass(5 * time.Minute)
		expect.Equal(t, "events", w.reported(), notStrict)
	})
}

func TestStrictARPEndsTheWarning(t *testing.T) {
	for name, mend := range map[string]func(k *fakeKernel){
		"arp_ignore is 1": func(k *fakeKernel) { k.looseARP = false },
		"kube-proxy uses no IPVS": func(k *fakeKernel) {
			k.links = slices.DeleteFunc(k.links, func(l announce.Link) bool { return l.Name == "kube-ipvs0" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, misled, func(w *world) {
				pass(time.Minute)
				w.asks(1, "192.0.2.10")
				pass(time.Minute)
				expect.Equal(t, "events", w.reported(), notStrict)
				links := slices.Clone(w.kernel.links)
				w.kernel.change(func() { mend(w.kernel) })
				pass(time.Minute)
				if problems := w.agent.reporter.problems; len(problems) != 0 {
					t.Errorf("the agent still reports %v", problems)
				}
				w.asks(2, "192.0.2.10")
				pass(time.Minute)
				expect.Equal(t, "events, when the kernel does not answer", w.reported(), "")
				w.kernel.change(func() { w.kernel.looseARP, w.kernel.links = true, links })
				pass(time.Minute)
				expect.Equal(t, "events, before another node asks again", w.reported(), "")
				w.asks(3, "192.0.2.10")
				pass(time.Minute)
				expect.Equal(t, "events, when it happens again", w.reported(), notStrict)
			})
		})
	}
}
