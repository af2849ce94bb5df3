package agent

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/nodes/ending"
	"purelb.io/purelb/internal/nodes/lease"
	"purelb.io/purelb/internal/process"
)

// observation is the world as one pass sees it.
type observation struct {
	announce.Situation
	// services are the objects of Situation.Services, by key.
	services map[string]*Service
	// chosen is the LBNodeAgent of this node, in force or broken. It is nil if none selects
	// the node. overruled are the others that select it. agents is the number of all
	// LBNodeAgents.
	chosen    *config.Agent
	overruled []config.Agent
	agents    int
	// problem is what is wrong with the configuration, or "". The record has it too.
	problem string
	record  lease.Record
	// hazards are what else is wrong on the node. The record has them too.
	hazards []announce.Hazard
	// lately are the addresses that were here until now, see announce.Lately.
	lately map[netip.Addr]string
	// newMACs are the links with another Ethernet address than in the last observation.
	newMACs map[string]bool
	// tasks are questions to kube-proxy.
	tasks []task
	// again is when another observation is needed without an event, or zero.
	again time.Time
}

// toShow returns what /state, reports and probes need of o. It leaves out the objects: they are most
// of an agent's memory, and would stay until the next pass. Of the addresses it keeps those of the node itself.
func (o *observation) toShow() *observation {
	s := announce.Situation{Self: o.Self, Complete: o.Complete, Config: o.Config, Agent: o.Agent, Node: o.Node, Peers: o.Peers}
	s.Node.Addresses = nil
	for _, a := range o.Node.Addresses {
		if a.Mark != announce.Mark && slices.Contains(o.record.Addresses, a.Prefix.Addr()) {
			s.Node.Addresses = append(s.Node.Addresses, a)
		}
	}
	return &observation{Situation: s, record: o.record}
}

// observe reads the kernel and the cluster.
func (a *Agent) observe(ctx context.Context, now time.Time) (*observation, error) {
	node, err := a.Kernel.Observe(ctx)
	if err != nil {
		return nil, err
	}
	a.markSilent(&node)
	objects, complete := a.Cluster.Read()
	o := &observation{services: make(map[string]*Service, len(objects.Services)), agents: len(objects.Agents)}
	o.Self, o.Node, o.Held, o.HeldRemote = a.Node, node, a.held.read(), a.held.remote
	objects.Node = a.lastSeen(objects.Node)
	// A node without an object is about to leave, or its name is a mistake. In both cases the
	// agent cannot know which LBNodeAgent is meant for it.
	o.Complete = complete && objects.Node != nil
	if o.Complete {
		a.read(o, objects)
		a.readEndpoints(now, o)
	}
	o.Share()
	o.Adopt()
	o.lately, o.newMACs = announce.Lately(o.Held, a.links, node.Links), announce.NewMACs(a.links, node.Links)
	a.links = node.Links
	if !a.planned.IsZero() && time.Since(a.planned) > stopped { // the stop may have been after now
		o.lately = nil
	}
	if o.Agent != nil {
		o.again = announce.Sooner(o.again, a.networks.Observe(now, *o.Agent, &o.Node))
		node = o.Node
	}
	o.Waits = a.waits(o)
	if o.Agent != nil && a.leaving == "" { // even a node that drains is better than one that leaves
		o.record.Subnets = announce.Subnets(o.Agent, node)
	}
	o.problem = problem(o)
	o.hazards = announce.Hazards(o.Situation)
	if a.gate.unanswered != "" {
		o.hazards = append(o.hazards, announce.Hazard{Reason: eventProxySilent, Text: a.gate.unanswered})
	}
	if a.noDummy != "" {
		o.hazards = append(o.hazards, announce.Hazard{Reason: eventNoDummy, Text: "announces no remote addresses: " + a.noDummy})
	}
	if a.open != "" {
		o.hazards = append(o.hazards, announce.Hazard{Reason: announce.HazardOpen, Text: "answers with all of its ports at the addresses of Services, " +
			"because its kernel refuses nftables: " + a.open})
	}
	if h, again, ok := a.removals.Hazard(now); ok {
		o.hazards, o.again = append(o.hazards, h), announce.Sooner(o.again, again)
	}
	o.record.Problem = joined(append([]string{o.problem, a.conflicts.Problem(o.Services)}, textsOf(o.hazards)...)...)
	o.Contested, o.Returning = a.conflicts.Contested(now), a.returns.Going
	o.Offered, o.Given = a.addresses.Offers(now)
	if o.Complete {
		var again time.Time
		o.record.Draining, again = a.soft.draining(now, objects.Node)
		o.again = announce.Sooner(o.again, again)
		if o.Waits {
			o.record.Draining = cmp.Or(o.record.Draining, waitingText)
		}
		o.record.Draining = cmp.Or(a.leaving, o.record.Draining)
		o.record.Addresses = announce.Own(node, o.Services)
		o.record.Gateways, o.record.MACs = node.Gateways, macsOf(node)
		if a.gossip.IsValid() {
			a.gossip = netip.AddrPortFrom(announce.Moved(a.gossip.Addr(), o.Situation), a.gossip.Port())
			o.record.Gossip = a.gossip
		}
		o.record.Unable = a.addresses.Unable(now)
		if a.inheritConflicts(now, o); a.inherited { // before, the Lease keeps the claims that it has
			o.record.Claims = claimsOf(a.conflicts, o.Held)
		}
	}
	return o, nil
}

// textsOf returns the texts of hazards as sentences about the node.
func textsOf(hazards []announce.Hazard) (all []string) {
	for _, h := range hazards {
		all = append(all, "it "+h.Text)
	}
	return all
}

// publish tells the other nodes about this node. Then it reads the view of all nodes, because what
// this node publishes also counts for its own decisions.
func (a *Agent) publish(o *observation) {
	if o.Complete {
		a.Peers.Publish(o.record)
	}
	o.Peers = a.ofThisNode(a.Peers.Peers(), o)
	a.Metrics.configLoaded.Set(process.Gauge(o.Complete))
}

// lastSeen returns node, this node's object. If there is none any more, an agent that leaves
// uses the last one: without it the agent could not tell which addresses other nodes may
// take.
func (a *Agent) lastSeen(node *corev1.Node) *corev1.Node {
	if node == nil && a.leaving != "" {
		return a.node
	}
	if node != nil {
		a.node = node
	}
	return node
}

// macsOf returns the Ethernet addresses of node in the form of the Lease.
func macsOf(node announce.Node) []lease.MAC {
	var macs []lease.MAC
	for _, m := range announce.MACs(node) {
		macs = append(macs, m)
	}
	return macs
}

// ofThisNode updates the entry of this node in p. Peers may still have an older record of this
// node.
func (a *Agent) ofThisNode(p election.Peers, o *observation) election.Peers {
	p.Members = slices.Clone(p.Members)
	for i := range p.Members {
		if m := &p.Members[i]; m.Node == a.Node {
			m.Draining, m.Eligible = o.record.Draining != "", m.Eligible && a.leaving == ""
			m.Unconfigured, m.Unable, m.Weights = o.Agent == nil, o.record.Unable, o.record.Weights
		}
	}
	return p
}

// joined joins the texts that are not empty.
func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), "; ")
}

// read fills in what the objects configure.
func (a *Agent) read(o *observation, objects Snapshot) {
	o.Config = a.config.of(objects.Groups, objects.Agents, a.Namespace, a.ConfigNamespaces)
	o.record.NodeUID = objects.Node.UID
	for _, at := range objects.Node.Status.Addresses {
		if ip, err := netip.ParseAddr(at.Address); err == nil { // the others are names
			o.NodeAddresses = append(o.NodeAddresses, ip)
		}
	}
	if agent, ok := o.Config.AgentFor(objects.Node.Labels); ok {
		o.Agent, o.chosen = &agent, &agent
	} else if broken, ok := o.Config.BrokenFor(objects.Node.Labels); ok {
		o.Broken, o.chosen = true, &broken
	}
	if o.chosen != nil {
		o.record.Agent = o.chosen.Namespace + "/" + o.chosen.Name
	}
	o.record.Weights = o.Config.Groups.WeightsOf(objects.Node.Labels)
	o.overruled = overruled(o.Config, objects.Node.Labels, o.chosen)
	o.Services = make([]announce.Service, 0, len(objects.Services))
	for _, s := range objects.Services {
		o.Services = append(o.Services, s.Service)
		o.services[s.Key] = s
	}
}

// readEndpoints fills in the endpoints of the Services that depend on them.
func (a *Agent) readEndpoints(now time.Time, o *observation) {
	withdrawing := a.idle.Withdrawing(o.Services, o.Config.Groups)
	ready, ending := a.Cluster.Endpoints(announce.Follows(o.Services, withdrawing))
	var ends, idle time.Time
	o.Endpoints, ends = a.endings.Observe(now, ready, ending)
	o.Ending = ending
	o.Unserved, o.tasks = a.unserved(announce.HealthPorts(o.Self, o.Services, ready), o.NodeAddresses)
	o.Idle, idle = a.idle.Observe(now, withdrawing, ready, ending)
	o.again = announce.Sooner(o.again, announce.Sooner(ends, idle))
}

// problem says why this node cannot announce as it is configured, or returns "".
func problem(o *observation) string {
	switch {
	case o.Broken:
		return strings.Join(refusals(o), "; ")
	case o.Agent != nil:
		return announce.Problem(*o.Agent, o.Node)
	}
	return ""
}

// refusals returns what is wrong with the LBNodeAgent that would be in force.
func refusals(o *observation) []string {
	var all []string
	for _, p := range o.Config.Problems {
		if p.Kind == config.KindLBNodeAgent && p.Severity == config.Refused && p.UID == o.chosen.UID {
			all = append(all, p.String())
		}
	}
	return all
}

// parsed is the configuration. It is parsed again only when an object changed.
type parsed struct {
	from  string
	value config.Config
}

func (p *parsed) of(groups []v2.ServiceGroup, agents []v2.LBNodeAgent, namespace string, others []string) config.Config {
	var versions []string
	for _, g := range groups {
		// Of two groups that overlap, the one that was accepted first stays.
		versions = append(versions, version(g.UID, g.Generation)+fmt.Sprintf(".%d", config.Standing(g)))
	}
	for _, a := range agents {
		versions = append(versions, version(a.UID, a.Generation))
	}
	slices.Sort(versions)
	if from := strings.Join(versions, " "); from != p.from || p.value.Problems == nil && p.value.Groups.Usable == nil {
		p.from, p.value = from, config.For(groups, agents, namespace, others...)
	}
	return p.value
}

func version(uid types.UID, generation int64) string { return fmt.Sprintf("%s.%d", uid, generation) }

// notReadyFor is how long a node may be not ready before it is avoided: a kubelet that
// restarts is no reason to move an address.
const notReadyFor = 10 * time.Second

// soft holds the signals that a node should have an address only if no other node can have it.
// notReady is when this agent first saw the node not ready, by its own clock.
type soft struct{ notReady time.Time }

// draining returns why the node should be avoided, or "". again is when the answer may change
// without an event, or zero.
func (s *soft) draining(now time.Time, node *corev1.Node) (reason string, again time.Time) {
	if ending.Ready(node) {
		s.notReady = time.Time{}
	} else if s.notReady.IsZero() {
		s.notReady = now
	}
	switch reason := ending.Marked(node).Reason; {
	case reason != "":
		return reason, time.Time{}
	case s.notReady.IsZero():
		return "", time.Time{}
	case now.Sub(s.notReady) < notReadyFor:
		return "", s.notReady.Add(notReadyFor)
	}
	return "the node is not ready", time.Time{}
}
