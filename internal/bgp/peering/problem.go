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
	// ReasonAdjusted says that an option is in effect with another value than configured.
	ReasonAdjusted = "Adjusted"
	// ReasonSecret says that a password cannot be read.
	ReasonSecret = "SecretUnusable"
	// ReasonNoNextHop says that a family cannot be announced to a neighbor.
	ReasonNoNextHop = "NoNextHop"
	// ReasonNodeValue says that an annotation or a label of the node is missing or wrong.
	ReasonNodeValue = "NodeValueUnusable"
	// ReasonNoDefaultRoute says that the node has no default gateway to use as a neighbor.
	ReasonNoDefaultRoute = "NoDefaultRoute"
	// ReasonSessionTaken: another program on the node has a session with the neighbor.
	ReasonSessionTaken = "SessionTaken"

	ReasonRouterID            = "RouterIDResolutionFailed"
	ReasonPeerGroupMissing    = "PeerGroupMissing"
	ReasonNoMatchingNeighbors = "NoMatchingNeighbors"
)

// Problem is a part of a BGPConfiguration that is not in effect, with the reason.
type Problem struct {
	// Field is its path, such as spec.neighbors[2].config.peerAsn.
	Field   string
	Reason  string
	Message string
	// Fatal means that there is no State at all. Any other problem leaves out only its own
	// part.
	Fatal bool
	// Here means that the problem exists on this node and may not exist on another.
	Here bool
	// Routes means that some routes are not announced.
	Routes bool
}

func (p Problem) String() string {
	if p.Field == "" {
		return p.Message
	}
	return p.Field + ": " + p.Message
}

// findings collects the problems while a configuration is read.
type findings struct {
	problems []Problem
	// why is the first reason why the part that is being read cannot be used.
	why string
	// alone says that the part that is being read depends on the node. Each of its problems is then
	// Here. elsewhere says that the part is for other nodes.
	alone, elsewhere bool
}

// begin starts the next part.
func (f *findings) begin() { f.why, f.alone, f.elsewhere = "", false, false }

// note adds a problem that leaves out only the part of its field.
func (f *findings) note(field, reason, format string, args ...any) {
	f.add(Problem{Field: field, Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// here adds a problem like note. The problem may not exist on other nodes.
func (f *findings) here(field, reason, format string, args ...any) {
	f.add(Problem{Field: field, Reason: reason, Message: fmt.Sprintf(format, args...), Here: true})
}

// fatal adds a problem that leaves no State.
func (f *findings) fatal(field, reason, format string, args ...any) {
	f.add(Problem{Field: field, Reason: reason, Message: fmt.Sprintf(format, args...), Fatal: true})
}

// refuse adds a problem that makes the current part unusable. It returns false for callers that
// report whether the part can be used.
func (f *findings) refuse(field, reason, format string, args ...any) bool {
	return f.refuseBy(Problem{Field: field, Reason: reason, Message: fmt.Sprintf(format, args...)})
}

func (f *findings) refuseBy(p Problem) bool {
	p = f.add(p)
	if f.why == "" {
		f.why = p.String()
	}
	return false
}

// add adds p unless it was added before. Duplicates occur because the options of a peer group are
// read for each neighbor of the group, as some options may depend on the node. It returns p, which is
// Here if the part depends on the node.
func (f *findings) add(p Problem) Problem {
	p.Here = p.Here || f.alone
	same := slices.IndexFunc(f.problems, func(o Problem) bool { return o.Field == p.Field && o.Reason == p.Reason && o.Message == p.Message })
	if same < 0 {
		f.problems = append(f.problems, p)
		return p
	}
	f.problems[same].Here = f.problems[same].Here && p.Here
	f.problems[same].Fatal = f.problems[same].Fatal || p.Fatal
	return p
}

// at returns the path of a list element.
func at(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// quote returns s in a form to show, shortened.
func quote(s string) string { return addr.Quote(s) }
