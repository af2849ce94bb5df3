package agent

import (
	"encoding/json"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"

	"purelb.io/purelb/internal/announce"
)

// serveState shows what the last pass saw and decided.
func (a *Agent) serveState(w http.ResponseWriter, _ *http.Request) {
	last := a.shown.Load()
	if last == nil {
		http.Error(w, "no pass has ended yet", http.StatusServiceUnavailable)
		return
	}
	more := map[string]any{}
	for name, part := range a.State {
		more[name] = part()
	}
	text, err := last.text(a.Node, more)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}

// text is the state as JSON, with as many of everything as there is room for.
func (p *shown) text(node string, more map[string]any) (text []byte, err error) {
	for limit := maxShown; limit > 0; limit /= 4 {
		s := p.state(node, limit)
		s.More = more
		if text, err = json.Marshal(s); err != nil || len(text) <= maxBytes {
			return text, err
		}
	}
	return p.text(node, nil)
}

func (p *shown) state(node string, limit int) stateShown {
	s := stateShown{
		Node: node, Version: build(), At: p.at, Complete: p.seen.Complete,
		Config: p.seen.record.Agent, Problem: short(p.seen.record.Problem), Draining: p.seen.record.Draining,
		Subnets: first(p.seen.record.Subnets, limit), Conflicts: first(p.conflicts, limit),
		Peers: peersShown{
			Trusted: p.seen.Peers.Trusted, CutOff: p.seen.Peers.CutOff, Count: len(p.seen.Peers.Members),
		},
	}
	for _, m := range first(p.seen.Peers.Members, limit) {
		m.Subnets = first(m.Subnets, limit/10+1)
		s.Peers.Members = append(s.Peers.Members, m)
	}
	for _, d := range p.decisions {
		s.show(p.address(d), p.isHere(d), limit)
	}
	for _, err := range first(p.done.errs, maxErrors) {
		s.Errors = append(s.Errors, short(err.Error()))
	}
	return s
}

// show adds one address, or counts it when there are too many.
func (s *stateShown) show(one addressShown, here bool, limit int) {
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

// isHere says whether the address of d is on this node after the pass.
func (p *shown) isHere(d announce.Decision) bool {
	if _, parting := p.done.parting[d.IP]; parting {
		return true
	}
	_, waiting := p.done.waiting[d.IP]
	return d.Where != announce.Nowhere && !waiting && p.done.failed[d.IP] == nil
}

func (p *shown) address(d announce.Decision) addressShown {
	one := addressShown{IP: d.IP, Service: d.Service, Interface: d.Address.Link, Reason: d.Reason, Winner: d.Winner, Why: d.Why()}
	if err := p.done.failed[d.IP]; err != nil {
		one.Failure = short(err.Error())
	} else if _, waiting := p.done.waiting[d.IP]; waiting {
		one.Failure = errWaiting.Error()
		for _, c := range p.done.contests {
			if c.Address.Prefix.Addr() == d.IP {
				one.Failure = c.Message()
			}
		}
	}
	return one
}

// build is the version that this program was made from, as far as it knows.
var build = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return info.Main.Version + " " + s.Value
		}
	}
	return info.Main.Version
})

func first[T any](all []T, limit int) []T { return all[:min(len(all), limit)] }

func short(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "..."
}
