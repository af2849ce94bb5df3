// Package probe decides what an agent asks its segment when a user wants to know which machine has
// an address, and what the answers mean. The plugin for kubectl joins the answers of all agents.
//
// It sends nothing itself, and it does not know who may ask.
//
//	probe.go     a request and an answer, as they go over the wire
//	question.go  what to ask, on which link, and what the answers on that segment mean
//	summary.go   what the answers of all agents mean together
package probe

import "net/netip"

// A request is a POST to Path of an agent's port, with a token in Header. The token is for
// the Audience of the address: a token that is stolen on its way can only repeat the question.
const (
	Path   = "/probe"
	Header = "X-PureLB-Token"
)

// Audience returns the audience that a token for a probe of ip must have.
func Audience(ip netip.Addr) string { return "probe.purelb.io/" + ip.String() }

// Account is the ServiceAccount of the chart for such tokens, in the namespace of PureLB.
const Account = "purelb-prober"

// Request is the body of a request.
type Request struct {
	Address netip.Addr `json:"address"`
}

// The results of a probe.
const (
	// Answered: at least one other machine answered for the address.
	Answered = "answered"
	// Silent: no other machine answered for the address, but the control did.
	Silent = "silent"
	// Unknown: there is no result, for the reason in Why.
	Unknown = "unknown"
	// OffLink: no link of the node leads to the network of the address, so nothing was asked.
	OffLink = "offLink"
)

// Answer is what one agent found out.
type Answer struct {
	Node    string     `json:"node"`
	Address netip.Addr `json:"address"`
	// Interface is the link that was asked.
	Interface string `json:"interface,omitempty"`
	Result    string `json:"result"`
	Why       string `json:"why,omitempty"`
	// Here says that the node itself has the address, on a link where other machines reach it.
	Here     bool      `json:"here"`
	Machines []Machine `json:"machines"`
	Controls []Control `json:"controls"`
}

// Machine is a machine that answered for the address.
type Machine struct {
	MAC string `json:"mac"`
	// Node is the node of the cluster with this MAC, "" for another machine.
	Node string `json:"node,omitempty"`
}

// Control is a machine that must answer on the segment. Its answer shows that the segment
// carries questions and answers.
type Control struct {
	Address netip.Addr `json:"address"`
	// Node is the node that has the address, "" for a gateway.
	Node     string `json:"node,omitempty"`
	Answered bool   `json:"answered"`
}
