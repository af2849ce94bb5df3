package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/announce/observer"
	"purelb.io/purelb/internal/announce/probe"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/kube/callers"
	"purelb.io/purelb/internal/nodes/election"
)

// Callers admits the requests of people for a probe, or refuses them.
type Callers interface {
	// Admit returns nil for a caller who may ask. token must be for audience. Its errors are
	// those of package callers.
	Admit(ctx context.Context, source netip.Addr, token, audience string) error
}

// Probes that people ask for run one after another, beside the loop. A few may wait.
const (
	probesWaiting = 4
	probeLimit    = 15 * time.Second
	maxRequest    = 1 << 10
	// nodesAsked limits how many agents a probe asks whether they have the address.
	nodesAsked = 32
)

// prober answers requests for probes. The loop only sets seen.
type prober struct {
	*Agent
	callers Callers
	seen    atomic.Pointer[announce.Situation]
	waiting chan struct{}
	turn    chan struct{}
}

func newProber(a *Agent, c Callers) *prober {
	return &prober{Agent: a, callers: c, waiting: make(chan struct{}, 1+probesWaiting), turn: make(chan struct{}, 1)}
}

// see stores what probes depend on. It keeps only the addresses of the node itself, because objects
// are most of an agent's memory. It stores nothing if no caller may ask and the agent watches no
// address of other nodes.
func (p *prober) see(o *observation) {
	if p.callers == nil && p.Observed == nil {
		return
	}
	own := map[netip.Addr]bool{}
	for _, ip := range o.record.Addresses {
		own[ip] = true
	}
	s := announce.Situation{Self: o.Self, Complete: o.Complete, Config: o.Config, Agent: o.Agent, Node: o.Node, Peers: o.Peers}
	s.Node.Addresses = nil
	for _, a := range o.Node.Addresses {
		if own[a.Prefix.Addr()] && a.Mark != announce.Mark {
			s.Node.Addresses = append(s.Node.Addresses, a)
		}
	}
	p.seen.Store(&s)
}

// ServeHTTP implements http.Handler.
func (p *prober) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), probeLimit)
	defer cancel()
	ip, err := readProbe(w, r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	if err := p.callers.Admit(ctx, from.Addr(), r.Header.Get(probe.Header), probe.Audience(ip)); err != nil {
		refuse(w, err.Error(), codeOf(err))
		return
	}
	select {
	case p.waiting <- struct{}{}:
		defer func() { <-p.waiting }()
	default:
		refuse(w, "other probes run on this node; try again in a few seconds", http.StatusTooManyRequests)
		return
	}
	answer := p.probeFor(ctx, ip)
	p.Log.InfoContext(ctx, "probed", "node", p.Node, "address", ip, "interface", answer.Interface, "result", answer.Result)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// refuse answers with an error. A caller that is refused only for now is told when to ask again.
func refuse(w http.ResponseWriter, why string, code int) {
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "2")
	}
	http.Error(w, why, code)
}

// readProbe reads the address of a request.
func readProbe(w http.ResponseWriter, r *http.Request) (netip.Addr, error) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(5 * time.Second)) // A test's writer cannot.
	var asked probe.Request
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err == nil {
		err = json.Unmarshal(text, &asked)
	}
	ip := asked.Address.Unmap()
	if err != nil || !ip.IsGlobalUnicast() || ip.Zone() != "" {
		return netip.Addr{}, errors.New(`the body is not {"address": "ADDRESS"} with an address that other machines can reach`)
	}
	return ip, nil
}

// codeOf returns the status for an error of Callers.
func codeOf(err error) int {
	for is, code := range map[error]int{
		callers.ErrUnknown: http.StatusUnauthorized, callers.ErrForbidden: http.StatusForbidden, callers.ErrTooOften: http.StatusTooManyRequests,
	} {
		if errors.Is(err, is) {
			return code
		}
	}
	return http.StatusServiceUnavailable
}

// probeFor asks the segment about ip.
func (p *prober) probeFor(ctx context.Context, ip netip.Addr) probe.Answer {
	s, last := p.seen.Load(), p.shown.Load()
	unasked := probe.Answer{Node: p.Node, Address: ip, Machines: []probe.Machine{}, Controls: []probe.Control{}}
	if s == nil || last == nil {
		unasked.Result, unasked.Why = probe.Unknown, "the agent has not read all of the cluster yet"
		return unasked
	}
	here, served := last.holds(ip)
	if _, _, pooled := s.Config.Groups.GroupOf(ip); s.Complete && !pooled && !served {
		unasked.Result, unasked.Why = probe.Unknown, "neither a ServiceGroup nor a Service has "+ip.String()+", and agents ask for no other addresses"
		return unasked
	}
	q, result, why := probe.Plan(ip, here, *s)
	unasked.Here, unasked.Result, unasked.Why = here, result, why
	if result != "" {
		return unasked
	}
	answer, err := p.ask(ctx, q, s.Peers)
	if err != nil {
		unasked.Interface, unasked.Result, unasked.Why = q.Link, probe.Unknown, short(err.Error())
		return unasked
	}
	answer.Node = p.Node
	return answer
}

// holds reports whether ip is on this node after the pass, in a place where other machines reach
// it, and whether a Service has it. A remote address does not count as here: every node has it, and
// no node answers ARP for it.
func (p *shown) holds(ip netip.Addr) (here, served bool) {
	for _, d := range p.decisions {
		if d.IP == ip {
			here, served = here || p.isHere(d) && d.Where != announce.Remote, true
		}
	}
	return here, served
}

// ask asks q. It first waits for the probe of another caller.
func (p *prober) ask(ctx context.Context, q probe.Question, peers election.Peers) (probe.Answer, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return probe.Answer{}, ctx.Err()
	}
	answers, err := p.Kernel.Probe(ctx, q.Link, q.All(), q.Asking)
	if err != nil {
		return probe.Answer{}, err
	}
	return probe.Judge(q, peers, answers, p.denials(ctx, q.Address, answers, peers)), nil
}

// denials asks the agents of the nodes that answered for ip whether they have it.
func (p *prober) denials(ctx context.Context, ip netip.Addr, answers announce.Answers, peers election.Peers) announce.Denied {
	var nodes []string
	for _, mac := range answers[ip] {
		for _, node := range announce.Askable(mac, peers) {
			if !slices.Contains(nodes, node) && len(nodes) < nodesAsked {
				nodes = append(nodes, node)
			}
		}
	}
	return p.denying(ctx, nodes, ip)
}

// Observed counts what this agent sees of an address that another node has.
type Observed struct {
	observed, unanswered, double, packets prometheus.Counter
}

// NewObserved registers the metrics.
func NewObserved(registry prometheus.Registerer) *Observed {
	counter := func(name, help string) prometheus.Counter {
		return promauto.With(registry).NewCounter(prometheus.CounterOpts{Name: "purelb_observed_" + name, Help: help})
	}
	return &Observed{
		observed:   counter("seconds_total", "Seconds in which it is known whether an address of another node was answered."),
		unanswered: counter("unanswered_seconds_total", "Seconds of these in which no machine answered."),
		double:     counter("double_answer_seconds_total", "Seconds of these in which several machines answered."),
		packets:    counter("packets_total", "Packets sent to find that out."),
	}
}

func (o *Observed) count(c observer.Count) {
	o.observed.Add(c.Observed.Seconds())
	o.unanswered.Add(c.Unanswered.Seconds())
	o.double.Add(c.Double.Seconds())
}

// nothingToWatch is the pause while there is no address to watch.
const nothingToWatch = 2 * time.Second

// watchOthers watches addresses of other nodes, one at a time, beside the loop, until ctx is done.
func (a *Agent) watchOthers(ctx context.Context) {
	var w observer.Watch
	last := ""
	for {
		began := time.Now()
		q, c, pause := a.watchRound(ctx, &w, began)
		a.Observed.count(c)
		last = a.logObserved(ctx, q, c, last)
		if !backoff.Sleep(ctx, pause-time.Since(began)) {
			return
		}
	}
}

// watchRound asks once. It returns the pause until the next question.
func (a *Agent) watchRound(ctx context.Context, w *observer.Watch, now time.Time) (observer.Question, observer.Count, time.Duration) {
	v, known := a.observerView(now)
	if !known {
		*w = observer.Watch{}
		return observer.Question{}, observer.Count{}, nothingToWatch
	}
	q, c, ok := w.Next(now, v, rand.IntN)
	if !ok {
		return q, c, nothingToWatch
	}
	a.Observed.packets.Add(float64(len(q.All())))
	answers, err := a.Kernel.Probe(ctx, q.Link, q.All(), q.Asking)
	later, known := a.observerView(time.Now())
	if err != nil || !known {
		w.Forget()
		return q, c, w.Pause(q, 0)
	}
	nodes := w.ToAsk(later, q, answers)
	a.Observed.packets.Add(float64(len(nodes)))
	denied := a.denying(ctx, nodes, q.Address)
	return q, c.Plus(w.Learn(later, q, answers, denied)), w.Pause(q, len(nodes))
}

// observerView returns what the last pass of the loop left. known is false if that is missing
// or too old, or if this node is cut off.
func (a *Agent) observerView(now time.Time) (v observer.View, known bool) {
	s, last := a.prober.seen.Load(), a.shown.Load()
	if s == nil || last == nil || s.Peers.CutOff || now.Sub(last.at) > fullCheck+passLimit {
		return observer.View{}, false
	}
	return observer.View{Situation: *s, Decisions: last.decisions, Here: last.isHere}, true
}

// denying asks the agents of nodes whether they have ip.
func (a *Agent) denying(ctx context.Context, nodes []string, ip netip.Addr) announce.Denied {
	asked := make(map[string][]netip.Addr, len(nodes))
	for _, node := range nodes {
		asked[node] = []netip.Addr{ip}
	}
	return a.denied(ctx, asked)
}

// logObserved logs when an address is no longer answered, or begins to be answered twice. last is
// the event that it logged last.
func (a *Agent) logObserved(ctx context.Context, q observer.Question, c observer.Count, last string) string {
	event := ""
	switch {
	case c.Unanswered > 0:
		event = "addressUnanswered"
	case c.Double > 0:
		event = "addressAnsweredTwice"
	}
	if event != "" && event != last {
		a.Log.WarnContext(ctx, event, "node", a.Node, "address", q.Address, "interface", q.Link, "holder", q.Holder)
	}
	return event
}
