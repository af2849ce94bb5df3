package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/announce/probe"
	"purelb.io/purelb/internal/kube/callers"
)

// Callers admits the requests of people for a probe, or refuses them.
type Callers interface {
	// Admit returns nil for a caller who may ask. token must be for audience. Its errors are
	// those of package callers.
	Admit(ctx context.Context, source netip.Addr, token, audience string) error
}

// Probes that people and other agents ask for run beside the loop, a few at a time.
const (
	probesAtOnce = 5
	probeLimit   = 15 * time.Second
	maxRequest   = 1 << 10
)

// prober answers requests for probes, by what the last pass saw.
type prober struct {
	*Agent
	callers Callers
	running chan struct{}
}

func newProber(a *Agent, c Callers) *prober {
	return &prober{Agent: a, callers: c, running: make(chan struct{}, probesAtOnce)}
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
	case p.running <- struct{}{}:
		defer func() { <-p.running }()
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
	last := p.shown.Load()
	unasked := probe.Answer{Node: p.Node, Address: ip, Machines: []probe.Machine{}, Controls: []probe.Control{}}
	if last == nil {
		unasked.Result, unasked.Why = probe.Unknown, "the agent has not read all of the cluster yet"
		return unasked
	}
	s := last.seen.Situation
	here, served := last.holds(ip)
	if _, _, pooled := s.Config.Groups.GroupOf(ip); s.Complete && !pooled && !served {
		unasked.Result, unasked.Why = probe.Unknown, "neither a ServiceGroup nor a Service has "+ip.String()+", and agents ask for no other addresses"
		return unasked
	}
	q, result, why := probe.Plan(ip, here, s)
	unasked.Here, unasked.Result, unasked.Why = here, result, why
	if result != "" {
		return unasked
	}
	answers, err := p.Kernel.Probe(ctx, q.Link, q.All(), q.Asking)
	if err != nil {
		unasked.Interface, unasked.Result, unasked.Why = q.Link, probe.Unknown, short(err.Error())
		return unasked
	}
	answer := probe.Judge(q, s.Peers, answers)
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
