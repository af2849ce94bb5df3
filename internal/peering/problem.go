package peering

import (
	"fmt"
	"slices"

	"purelb.io/purelb/internal/addr"
)

// Reasons of problems.
const (
	ReasonParseError   = "ParseError"
	ReasonDuplicate    = "Duplicate"
	ReasonNotFound     = "NotFound"
	ReasonConflict     = "Conflict"
	ReasonNotSupported = "NotSupported"
	// ReasonAdjusted is of what is in effect otherwise than it is written.
	ReasonAdjusted = "Adjusted"
	// ReasonSecret is of passwords that cannot be had.
	ReasonSecret = "SecretUnusable"
	// ReasonNoNextHop is of families that cannot be announced to a neighbour.
	ReasonNoNextHop = "NoNextHop"

	ReasonRouterID            = "RouterIDResolutionFailed"
	ReasonPeerGroupMissing    = "PeerGroupMissing"
	ReasonNoMatchingNeighbors = "NoMatchingNeighbors"
)

// Problem is something in a BGPConfiguration that is not in effect, and why.
type Problem struct {
	// Field is its path, such as spec.neighbors[2].config.peerAsn.
	Field   string
	Reason  string
	Message string
	// Fatal means that there is no State at all; all others leave out only what
	// they are about.
	Fatal bool
	// Here means that it is so on this node and may be otherwise on another.
	Here bool
}

func (p Problem) String() string {
	if p.Field == "" {
		return p.Message
	}
	return p.Field + ": " + p.Message
}

// findings collect what is wrong while a configuration is read.
type findings struct {
	problems []Problem
	// why is the first reason why what is being read cannot be used.
	why string
}

// note leaves out only what the field is about.
func (f *findings) note(field, reason, format string, args ...any) {
	f.add(Problem{Field: field, Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// here is a note that may not be true of other nodes.
func (f *findings) here(field, reason, format string, args ...any) {
	f.add(Problem{Field: field, Reason: reason, Message: fmt.Sprintf(format, args...), Here: true})
}

// fatal leaves nothing.
func (f *findings) fatal(field, reason, format string, args ...any) {
	f.add(Problem{Field: field, Reason: reason, Message: fmt.Sprintf(format, args...), Fatal: true})
}

// refuse makes what is being read useless. It returns false, for callers that
// answer whether it can be used.
func (f *findings) refuse(field, reason, format string, args ...any) bool {
	return f.refuseBy(Problem{Field: field, Reason: reason, Message: fmt.Sprintf(format, args...)})
}

func (f *findings) refuseBy(p Problem) bool {
	f.add(p)
	if f.why == "" {
		f.why = p.String()
	}
	return false
}

// add keeps p, once: what a peer group says is read for each of its neighbours.
func (f *findings) add(p Problem) {
	if !slices.Contains(f.problems, p) {
		f.problems = append(f.problems, p)
	}
}

// at is the path of an element of a list.
func at(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// quote is s as it is shown to people, who may have written a lot.
func quote(s string) string { return addr.Quote(s) }
