package agent

import (
	"net/netip"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/election"
)

// What is shown is for people who look for a mistake. It is bounded: the first of
// thousands explain as much as all.
const (
	maxShown  = 1000
	maxErrors = 20
	maxText   = 500
	// maxBytes is the longest answer.
	maxBytes = 1 << 20
)

// shown is a pass as it can be shown. Nothing of it changes any more.
type shown struct {
	at        time.Time
	seen      *observation
	decisions []announce.Decision
	done      outcome
	conflicts []conflictShown
}

// stateShown is what /state answers.
type stateShown struct {
	Node     string    `json:"node"`
	Version  string    `json:"version"`
	At       time.Time `json:"at"`
	Complete bool      `json:"complete"`
	Config   string    `json:"lbnodeagent"`
	Problem  string    `json:"problem,omitempty"`
	Draining string    `json:"draining,omitempty"`

	Subnets []netip.Prefix `json:"subnets"`
	Peers   peersShown     `json:"peers"`

	Here           []addressShown `json:"here"`
	HereLeftOut    int            `json:"hereLeftOut,omitempty"`
	NotHere        []addressShown `json:"notHere"`
	NotHereLeftOut int            `json:"notHereLeftOut,omitempty"`

	Conflicts []conflictShown `json:"conflicts"`
	Errors    []string        `json:"errors"`
	More      map[string]any  `json:"more,omitempty"`
}

type peersShown struct {
	Trusted bool              `json:"trusted"`
	CutOff  bool              `json:"cutOff"`
	Count   int               `json:"count"`
	Members []election.Member `json:"members"`
}

type addressShown struct {
	IP        netip.Addr `json:"ip"`
	Service   string     `json:"service"`
	Interface string     `json:"interface,omitempty"`
	Reason    string     `json:"reason"`
	Winner    string     `json:"winner,omitempty"`
	Why       string     `json:"why"`
	Failure   string     `json:"failure,omitempty"`
}

type conflictShown struct {
	IP   netip.Addr `json:"ip"`
	Link string     `json:"interface"`
	MAC  string     `json:"mac"`
	// Here says that this node has the address too.
	Here  bool      `json:"here"`
	Heard time.Time `json:"heard"`
}
