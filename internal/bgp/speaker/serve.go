package speaker

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/process"
)

// MetricsHandler serves the metrics and the state.
func (s *Speaker) MetricsHandler(metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /state", s.serveState)
	return mux
}

// HealthHandler serves the probes. A separate probe reports whether the BGPNodeStatus is written,
// because a node also speaks BGP while the API server is away.
func (s *Speaker) HealthHandler(written func() error) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", process.Probe(s.Healthy))
	mux.Handle("GET /readyz", process.Probe(s.Ready))
	mux.Handle("GET /readyz/nodestatus-writer", process.Probe(written))
	mux.HandleFunc("GET /state", s.serveState)
	return mux
}

// stateShown is the answer of /state. It contains no passwords, because it shows neither the input
// nor the options of the server's state. Its status lists everything that the BGPNodeStatus counts.
type stateShown struct {
	Node       string                    `json:"node"`
	At         time.Time                 `json:"at"`
	Config     string                    `json:"config,omitempty"`
	Generation int64                     `json:"generation,omitempty"`
	Running    bool                      `json:"running"`
	Draining   string                    `json:"draining,omitempty"`
	Withdrawn  bool                      `json:"withdrawn,omitempty"`
	Problems   []peering.Problem         `json:"problems,omitempty"`
	Failures   []string                  `json:"failures,omitempty"`
	Peers      []peerShown               `json:"peers"`
	BFD        []bfdShown                `json:"bfd"`
	Status     bgpv1.BGPNodeStatusStatus `json:"status"`
}

type peerShown struct {
	Name     string            `json:"name"`
	ASN      uint32            `json:"asn"`
	NextHops map[string]string `json:"nextHops,omitempty"`
	Mute     []string          `json:"mute,omitempty"`
	MD5      bool              `json:"md5"`
	Path     string            `json:"path"`
}

type bfdShown struct {
	Peer       string        `json:"peer"`
	State      string        `json:"state"`
	Remote     string        `json:"remote"`
	Since      time.Time     `json:"since"`
	Diagnostic string        `json:"diagnostic"`
	Detection  time.Duration `json:"detection"`
	Downs      uint64        `json:"downs"`
	LastError  string        `json:"lastError,omitempty"`
}

// shown returns the answer of /state.
func (st standing) shown() stateShown {
	st.Whole = true
	shown := stateShown{
		Node: st.Node, At: st.Now, Running: st.running, Draining: st.drain.Reason, Withdrawn: st.drain.withdrawn,
		Problems: st.problems, Failures: st.Failures, Status: peering.NodeStatus(st.Report, st.status), Peers: []peerShown{}, BFD: []bfdShown{},
	}
	shown.Status.HeartbeatSeconds = st.status.HeartbeatSeconds
	if st.config != nil {
		shown.Config, shown.Generation = st.config.Namespace+"/"+st.config.Name, st.config.Generation
	}
	for _, p := range st.effect.State.Peers {
		peer := peerShown{Name: p.Name(), ASN: p.ASN, MD5: p.Password != "", Path: p.Path, NextHops: map[string]string{}}
		for f, hop := range p.NextHops {
			peer.NextHops[peering.FamilyNames[f]] = hop.String()
		}
		for _, f := range p.Mute {
			peer.Mute = append(peer.Mute, peering.FamilyNames[f])
		}
		shown.Peers = append(shown.Peers, peer)
	}
	for _, b := range st.bfd {
		shown.BFD = append(shown.BFD, bfdShown{
			b.Peer.String(), b.State.String(), b.Remote.String(), b.Since, b.Diagnostic.String(), b.Detection, b.Downs, b.LastError,
		})
	}
	return shown
}

func (s *Speaker) serveState(w http.ResponseWriter, _ *http.Request) {
	last := s.published.Load()
	if last == nil {
		http.Error(w, "nothing is known yet", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(last.shown())
}

// stuckAfter is the duration of one turn after which the loop is considered stuck.
const stuckAfter = time.Minute

// Healthy returns an error if the loop is stuck. It ignores neighbors, because an unreachable
// router is no reason for a restart.
func (s *Speaker) Healthy() error {
	return s.pulse.Stuck(time.Now(), stuckAfter)
}

// Ready returns an error until the speaker has once applied a configuration, or has seen that there
// is none.
func (s *Speaker) Ready() error {
	if s.pulse.Decided() {
		return nil
	}
	return errors.New("it is not known yet what is to be announced")
}
