package announce

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/election"
	"purelb.io/purelb/internal/service"
)

// Service is a Service that is to be announced.
type Service struct {
	// Key is "namespace/name".
	Key       string
	Addresses []netip.Addr
	// Slots say who announces the local ones.
	Slots []service.Slot
	// PoolType is what the addresses were when they were allocated.
	PoolType string
	// LocalPolicy says that only nodes with a ready endpoint take traffic.
	LocalPolicy bool
	SkipIPv6DAD bool
}

// Read reads svc; ok is false for one that is not ours to announce.
func Read(svc *corev1.Service) (s Service, ok bool) {
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer || !service.Branded(svc) {
		return Service{}, false
	}
	return Service{
		Key:       svc.Namespace + "/" + svc.Name,
		Addresses: service.Ingress(svc),
		Slots: append(service.ParseSlots(svc.Annotations[service.AnnotationAnnouncingIPv4]),
			service.ParseSlots(svc.Annotations[service.AnnotationAnnouncingIPv6])...),
		PoolType:    svc.Annotations[service.AnnotationPoolType],
		LocalPolicy: service.LocalPolicy(svc),
		SkipIPv6DAD: svc.Annotations[service.AnnotationSkipIPv6DAD] == "true",
	}, true
}

// Situation is everything that a decision depends on.
type Situation struct {
	// Self is the name of this node.
	Self string
	// Complete says that Services, Config and Agent are all that there is to
	// know. As long as it is false, or Peers are not trusted, this node keeps
	// what it has and takes nothing.
	Complete bool
	Services []Service
	Config   config.Config
	// Agent is the one in force on this node, nil when there is none. Broken
	// says that there would be one if it could be used.
	Agent  *config.Agent
	Broken bool
	Node   Node
	Peers  election.Peers
	// Ready says of the Services with LocalPolicy whether this node has a ready
	// endpoint of theirs. One that it does not mention is not known yet.
	Ready map[string]bool
}

// Where an address is announced on this node.
type Where string

const (
	// Nowhere is not on this node.
	Nowhere Where = ""
	// Local is on an interface of the address's network, on one node only.
	Local Where = "local"
	// Remote is on the dummy interface, on every node.
	Remote Where = "remote"
)

// Reasons of decisions, besides ReasonNodeAddress.
const (
	// Why it is announced here.
	ReasonElected = "electionWon"
	ReasonRemote  = "announcingNonLocal"
	ReasonKept    = "kept"
	// Why not.
	ReasonNoConfig        = "noConfig"
	ReasonLostElection    = "lostElection"
	ReasonNoEligibleNodes = "noEligibleNodes"
	ReasonNoInterface     = "noLocalInterface"
	ReasonNoEndpoints     = "noEndpoints"
	ReasonUndecided       = "undecided"
)

// Decision is what this node does with one address of one Service, and why.
type Decision struct {
	Service string
	IP      netip.Addr
	Where   Where
	Reason  string
	// Winner is the node that announces a local address, as far as is known.
	Winner string
	// Message says more of some reasons.
	Message string
	// Address is what is wanted, unless Where is Nowhere.
	Address Address
}

// Plan is what this node should carry.
type Plan struct {
	// Decisions are in order of Service, and for each of them in the order of
	// its addresses.
	Decisions []Decision
	// Wanted are the addresses to carry, each once.
	Wanted []Address
}

// Decide returns what this node should carry in situation s. It depends on
// nothing else, so nodes that see the same agree.
func Decide(s Situation) Plan {
	return newDecider(s).plan()
}

// decider is a Situation arranged so that many addresses can be asked for.
type decider struct {
	Situation
	view    election.View
	known   []netip.Prefix
	homes   map[addr.Family][]home
	ours    map[netip.Addr][]Address
	foreign map[netip.Addr]string
	holders map[netip.Addr][]Service
}

func newDecider(s Situation) *decider {
	ours, foreign := split(s.Node, Adopt(s.Config, s.Agent))
	d := &decider{
		Situation: s,
		view:      election.NewView(s.Peers.Members),
		known:     s.Peers.Known,
		homes:     map[addr.Family][]home{},
		ours:      map[netip.Addr][]Address{},
		foreign:   foreign,
		holders:   map[netip.Addr][]Service{},
	}
	if s.Agent != nil {
		for _, f := range []addr.Family{addr.V4, addr.V6} {
			d.homes[f] = homes(*s.Agent, s.Node, ours, f)
		}
	}
	for _, a := range s.Node.Addresses {
		if _, mine := ours[placeOf(a)]; mine {
			d.ours[a.Prefix.Addr()] = append(d.ours[a.Prefix.Addr()], a)
		}
	}
	d.Services = slices.SortedFunc(slices.Values(s.Services), func(a, b Service) int { return cmp.Compare(a.Key, b.Key) })
	for _, svc := range d.Services {
		for _, ip := range svc.Addresses {
			d.holders[ip] = append(d.holders[ip], svc)
		}
	}
	return d
}

// plan decides on every address. One that several Services hold is decided on
// once.
func (d *decider) plan() Plan {
	var p Plan
	decided := map[netip.Addr]Decision{}
	for _, svc := range d.Services {
		for _, ip := range svc.Addresses {
			decision, again := decided[ip]
			if !again {
				decision = d.decide(ip)
				decided[ip] = decision
				if decision.Where != Nowhere {
					p.Wanted = append(p.Wanted, decision.Address)
				}
			}
			decision.Service = svc.Key
			p.Decisions = append(p.Decisions, decision)
		}
	}
	if !d.sure() {
		p.Wanted = append(p.Wanted, d.leftovers(decided)...)
	}
	return p
}

// sure says that all is known that decisions depend on.
func (d *decider) sure() bool { return d.Complete && d.Peers.Trusted }

// decide decides on ip, unless it is a node's own address, which nobody may
// touch or take.
func (d *decider) decide(ip netip.Addr) Decision {
	decision := d.choose(ip)
	decision.IP = ip
	if link, taken := d.foreign[ip]; taken && decision.Where != Nowhere {
		refusal := refuse(decision.Address, link)
		return Decision{IP: ip, Reason: refusal.Reason, Message: refusal.Message, Winner: decision.Winner}
	}
	if node, taken := d.Peers.Own[ip]; taken && node != d.Self && d.sure() && decision.Where != Nowhere {
		return Decision{IP: ip, Reason: ReasonNodeAddress, Winner: decision.Winner, Message: fmt.Sprintf(
			"%s is an address of node %s itself; exclude it from the pool, or take it off that node", ip, node)}
	}
	return decision
}

// leftovers returns our addresses that are on this node and not among those
// decided on, or are there twice, each as it is.
func (d *decider) leftovers(decided map[netip.Addr]Decision) []Address {
	var left []Address
	for _, a := range d.Node.Addresses {
		if !slices.Contains(d.ours[a.Prefix.Addr()], a) {
			continue
		}
		if w := decided[a.Prefix.Addr()]; w.Where == Nowhere || placeOf(w.Address) != placeOf(a) {
			left = append(left, d.kept(a))
		}
	}
	return left
}
