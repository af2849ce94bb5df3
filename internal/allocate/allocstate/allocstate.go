// Package allocstate is the answer of the allocator at /state: what the allocator knows and
// the API server does not. The allocator writes it, and the plugin for kubectl reads it.
//
// It decides nothing. The decisions are those of package ipam, in words.
package allocstate

import (
	"net/netip"
	"time"
)

// Path is the path of the answer, on the port of the allocator's metrics.
const Path = "/state"

// Format is the version of State. It rises when a field changes its meaning or goes away. New
// fields do not change it.
const Format = 4

// MaxBytes is more than any answer has.
const MaxBytes = 4 << 20

// State is what one allocator knows at a time.
type State struct {
	Format int `json:"format"`
	// Version is the release of the program.
	Version string    `json:"version"`
	At      time.Time `json:"at"`
	// Identity is the name of this allocator in the leader election: that of its pod. Leader is
	// the name of the allocator that leads, as last read, or "" if it is unknown.
	Identity string `json:"identity"`
	Leader   string `json:"leader"`
	// Leading says that this allocator decides. All that follows is empty in others.
	Leading bool `json:"leading"`
	// Complete says that the allocator has read all Services. It gives no address before.
	Complete bool `json:"complete"`
	// Services is how many Services it knows.
	Services int `json:"services"`

	// Delayed are the Services whose statuses are not written for now.
	Delayed         []Delayed `json:"delayed"`
	DelayedLeftOut  int       `json:"delayedLeftOut,omitempty"`
	Backends        []Backend `json:"backends"`
	BackendsLeftOut int       `json:"backendsLeftOut,omitempty"`
}

// Delayed is a Service whose status is not written for now.
type Delayed struct {
	Service string `json:"service"`
	Why     string `json:"why"`
	// Until is when the allocator writes it at the latest. It is zero if that is not known.
	Until time.Time `json:"until,omitzero"`
	// Holds are the addresses that are its own for the allocator. Its status may lag behind.
	Holds []netip.Addr `json:"holds,omitempty"`
}

// Backend is the IPAM system that has the addresses of a group. How it does is in the status of the
// ServiceGroup.
type Backend struct {
	Group string `json:"group"`
	// Orphans counts the addresses that it holds for this cluster and that no Service has. Listed
	// are the first of them, and Digest identifies all of them.
	Orphans int      `json:"orphans,omitempty"`
	Listed  []Orphan `json:"listed,omitempty"`
	Digest  string   `json:"digest,omitempty"`
}

// Orphan is an address that a backend holds for this cluster and that no Service has.
type Orphan struct {
	Address netip.Addr `json:"address"`
	// Key names its claim: the cluster, the holder, the group and the family.
	Key string `json:"key"`
}
