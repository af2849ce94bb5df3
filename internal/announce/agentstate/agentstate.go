// Package agentstate is the answer of an agent at /state: what the last pass of its loop saw
// and decided. The agent writes it, and the plugin for kubectl reads it.
//
// It decides nothing. The decisions are those of package announce, in words.
package agentstate

import (
	"net/netip"
	"time"

	"purelb.io/purelb/internal/nodes/election"
)

// Path is the path of the answer, on the port of the agent's metrics.
const Path = "/state"

// ByAddress is the parameter of a request that asks about some addresses only. Its value is
// IP addresses, separated by commas.
const ByAddress = "ip"

// MaxAddresses is how many different addresses a request may ask about. Every client that
// reaches the port may ask, so a question must stay cheap.
const MaxAddresses = 64

// Format is the version of State. It rises when a field changes its meaning or goes away. New
// fields do not change it.
const Format = 1

// MaxBytes is the maximum length of an answer.
const MaxBytes = 1 << 20

// State is what one agent knows at a time. The lists are bounded, and what they leave out is
// counted.
type State struct {
	Format int    `json:"format"`
	Node   string `json:"node"`
	// Version is the release of the program.
	Version string    `json:"version"`
	At      time.Time `json:"at"`
	// Complete says that the agent has read all of its objects once. Until then it changes
	// nothing.
	Complete bool `json:"complete"`
	// Config is the LBNodeAgent in force, and Problem is what is wrong with it.
	Config  string `json:"lbnodeagent"`
	Problem string `json:"problem,omitempty"`
	// Draining says why other nodes should be preferred.
	Draining string `json:"draining,omitempty"`

	Subnets []netip.Prefix `json:"subnets"`
	Peers   Peers          `json:"peers"`

	// Here are the addresses that the node has after the pass, and NotHere the others.
	Here           []Address `json:"here"`
	HereLeftOut    int       `json:"hereLeftOut,omitempty"`
	NotHere        []Address `json:"notHere"`
	NotHereLeftOut int       `json:"notHereLeftOut,omitempty"`

	Conflicts []Conflict `json:"conflicts"`
	// Errors are those of the last pass.
	Errors []string       `json:"errors"`
	More   map[string]any `json:"more,omitempty"`
}

// Peers are the nodes that count as alive.
type Peers struct {
	// Trusted says that a node that is missing is really gone.
	Trusted bool              `json:"trusted"`
	Count   int               `json:"count"`
	Members []election.Member `json:"members"`
}

// Address is an address of a Service, as the node sees it.
type Address struct {
	IP        netip.Addr `json:"ip"`
	Service   string     `json:"service"`
	Interface string     `json:"interface,omitempty"`
	// AnswersBy is the interface by which clients outside of the network get their answers, if it is
	// another one.
	AnswersBy string `json:"answersBy,omitempty"`
	// Reason is the decision in one word, and Why in a sentence. Winner is the node that should
	// have the address.
	Reason string `json:"reason"`
	Winner string `json:"winner,omitempty"`
	Why    string `json:"why"`
	// Failure is why the address is not here, although it should be.
	Failure string `json:"failure,omitempty"`
}

// Conflict is another machine that claims an address.
type Conflict struct {
	IP   netip.Addr `json:"ip"`
	Link string     `json:"interface"`
	MAC  string     `json:"mac"`
	// Here says that this node has the address too.
	Here  bool      `json:"here"`
	Heard time.Time `json:"heard"`
}
