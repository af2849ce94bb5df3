package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/announce/agentstate"
	"purelb.io/purelb/internal/announce/probe"
	"purelb.io/purelb/internal/buildinfo"
	"purelb.io/purelb/internal/process"
)

// Handler serves the metrics, the probes of the kubelet, the state, and probes of the segment for
// people. They share one port, because a port on the host network belongs to the whole node.
func (a *Agent) Handler(metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET "+agentstate.Path, a.serveState)
	mux.Handle("GET /healthz", process.Probe(a.Healthy))
	mux.Handle("GET /readyz", process.Probe(a.Ready))
	if a.Callers != nil {
		mux.Handle("POST "+probe.Path, a.prober)
	}
	return mux
}

// serviceAddresses returns a function that reads the addresses that this node has only for
// Services. The server does not answer on these addresses.
func serviceAddresses(kernel Kernel) func(context.Context) (map[netip.Addr]bool, error) {
	return func(ctx context.Context) (map[netip.Addr]bool, error) {
		all, err := kernel.Addresses(ctx)
		if err != nil {
			return nil, err
		}
		return announce.ForServices(all), nil
	}
}

// stuckAfter is how long a pass may take before the agent counts as stuck.
const stuckAfter = 2 * passLimit

// Healthy returns an error if the loop is stuck.
func (a *Agent) Healthy() error {
	return a.pulse.Stuck(time.Now(), stuckAfter)
}

// Ready returns an error until the agent has decided on all addresses once.
func (a *Agent) Ready() error {
	if a.pulse.Decided() {
		return nil
	}
	return errors.New("not all of the cluster has been seen yet")
}

// The answer of /state is bounded: the first thousand entries explain as much as all entries.
const (
	maxShown  = 1000
	maxErrors = 20
	maxText   = 500
)

// shown is a pass as /state shows it. It is immutable.
type shown struct {
	at        time.Time
	seen      *observation
	decisions []announce.Decision
	done      *announce.Outcome
	conflicts []agentstate.Conflict
}

// serveState serves the observations and decisions of the last pass.
func (a *Agent) serveState(w http.ResponseWriter, r *http.Request) {
	only, err := addressesIn(r.URL.Query().Get(agentstate.ByAddress))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	last := a.shown.Load()
	if last == nil {
		http.Error(w, "no pass has ended yet", http.StatusServiceUnavailable)
		return
	}
	text, err := last.about(only).text(a.Node, map[string]any{"gossip": a.Peers.State()})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}

// addressesIn reads the value of the parameter ByAddress.
func addressesIn(text string) (map[netip.Addr]bool, error) {
	if text == "" {
		return nil, nil
	}
	all := map[netip.Addr]bool{}
	for one := range strings.SplitSeq(text, ",") {
		ip, err := netip.ParseAddr(one)
		if err != nil {
			return nil, fmt.Errorf("%s=%q is not a list of IP addresses", agentstate.ByAddress, short(text))
		}
		if all[ip.Unmap()] = true; len(all) > agentstate.MaxAddresses {
			return nil, fmt.Errorf("%s has more than %d addresses", agentstate.ByAddress, agentstate.MaxAddresses)
		}
	}
	return all, nil
}

// about returns p with the decisions about these addresses alone, or p if there are none.
func (p *shown) about(only map[netip.Addr]bool) *shown {
	if len(only) == 0 {
		return p
	}
	some := *p
	some.decisions, some.conflicts = nil, nil
	for _, d := range p.decisions {
		if only[d.IP] {
			some.decisions = append(some.decisions, d)
		}
	}
	for _, c := range p.conflicts {
		if only[c.IP] {
			some.conflicts = append(some.conflicts, c)
		}
	}
	return &some
}

// text returns the state as JSON, with as many entries of each kind as fit.
func (p *shown) text(node string, more map[string]any) (text []byte, err error) {
	for limit := maxShown; limit > 0; limit /= 4 {
		s := p.state(node, limit)
		s.More = more
		if text, err = json.Marshal(s); err != nil || len(text) <= agentstate.MaxBytes {
			return text, err
		}
	}
	return p.text(node, nil)
}

func (p *shown) state(node string, limit int) agentstate.State {
	s := agentstate.State{
		Format: agentstate.Format, Node: node, Version: buildinfo.Version(), At: p.at, Complete: p.seen.Complete,
		Config: p.seen.record.Agent, Problem: short(p.seen.record.Problem), Draining: p.seen.record.Draining,
		Subnets: first(p.seen.record.Subnets, limit), Conflicts: first(p.conflicts, limit),
		Peers: agentstate.Peers{
			Trusted: p.seen.Peers.Trusted, Count: len(p.seen.Peers.Members),
		},
	}
	for _, m := range first(p.seen.Peers.Members, limit) {
		m.Subnets = first(m.Subnets, limit/10+1)
		s.Peers.Members = append(s.Peers.Members, m)
	}
	for _, d := range p.decisions {
		show(&s, p.address(d), p.isHere(d), limit)
	}
	for _, err := range first(p.done.Errs, maxErrors) {
		s.Errors = append(s.Errors, short(err.Error()))
	}
	return s
}

// show adds one address, or counts it if there are too many.
func show(s *agentstate.State, one agentstate.Address, here bool, limit int) {
	list, left := &s.NotHere, &s.NotHereLeftOut
	if here {
		list, left = &s.Here, &s.HereLeftOut
	}
	if len(*list) == limit {
		*left++
		return
	}
	*list = append(*list, one)
}

// isHere reports whether the address of d is on this node after the pass.
func (p *shown) isHere(d announce.Decision) bool {
	_, waiting := p.done.Waiting[d.IP]
	return p.done.Parting[d.IP] || d.Where != announce.Nowhere && !waiting && p.done.Failed[d.IP] == nil
}

func (p *shown) address(d announce.Decision) agentstate.Address {
	one := agentstate.Address{IP: d.IP, Service: d.Service, Interface: d.Address.Link, AnswersBy: d.AnswersBy, Reason: d.Reason, Winner: d.Winner, Why: d.Why()}
	if err := p.done.Failed[d.IP]; err != nil {
		one.Failure = short(err.Error())
	} else if _, waiting := p.done.Waiting[d.IP]; waiting {
		one.Failure = announce.ErrWaiting.Error()
		for _, c := range p.done.Contests {
			if c.Address.Prefix.Addr() == d.IP {
				one.Failure = c.Message(p.seen.Peers)
			}
		}
	}
	return one
}

func first[T any](all []T, limit int) []T { return all[:min(len(all), limit)] }

func short(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "..."
}
