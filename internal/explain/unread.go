package explain

import (
	"errors"
	"slices"
	"strings"
)

// The kinds that a World has, and that may be unread.
const (
	KindServices       = "Services"
	KindGroups         = "ServiceGroups"
	KindAgents         = "LBNodeAgents"
	KindLeases         = "Leases"
	KindNodes          = "Nodes"
	KindNamespaces     = "Namespaces"
	KindNetworks       = "ServiceCIDRs"
	KindPods           = "Pods"
	KindConfigurations = "BGPConfigurations"
	KindNodeStatuses   = "BGPNodeStatuses"
	KindEndpoints      = "EndpointSlices"
)

// The reasons why a kind is unread.
const (
	// Forbidden: the user has no right to list them.
	Forbidden = "Forbidden"
	// Failed: the API server did not answer, or not with a list.
	Failed = "Failed"
	// NotServed: the API server does not know the kind.
	NotServed = "NotServed"
	// Absent: the files have none.
	Absent = "Absent"
)

// Unread is a kind of objects that is not known.
type Unread struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
	// Why says what kept them from being read, and Therefore what is unknown
	// because of it.
	Why       string `json:"why"`
	Therefore string `json:"therefore"`
}

// NewUnread returns that objects of kind are not known. Detail is the error if it is
// Failed.
func NewUnread(kind, reason, detail string) Unread {
	why := map[string]string{
		Forbidden: "you have no right to list them (the ClusterRole purelb-viewer has)",
		Failed:    "they could not be read: " + detail,
		NotServed: "the API server does not serve them",
		Absent:    "the files have none",
	}[reason]
	return Unread{Kind: kind, Reason: reason, Why: why, Therefore: therefore(kind)}
}

func (u Unread) String() string { return u.Kind + ": " + u.Why + "; " + u.Therefore }

// because ends a sentence that says what is unknown.
func (u Unread) because() string {
	switch u.Reason {
	case Forbidden:
		return "because of the missing right to list " + u.Kind + " (the ClusterRole purelb-viewer has it)"
	case NotServed:
		return "because the API server does not serve " + u.Kind
	case Absent:
		return "because the files have no " + u.Kind
	}
	return "because the " + u.Kind + " were not read: " + strings.TrimPrefix(u.Why, "they could not be read: ")
}

// hidden reports whether there may be objects of the kind that are only not shown. Files
// show all that they have.
func (u Unread) hidden() bool { return u.Reason == Forbidden || u.Reason == Failed }

// therefore says what is unknown when objects of a kind are.
func therefore(kind string) string {
	return map[string]string{
		KindServices:       "which addresses are in use is unknown",
		KindGroups:         "where addresses come from is unknown",
		KindAgents:         "which interfaces nodes use is unknown",
		KindLeases:         "which nodes can announce what, and which live, is unknown",
		KindNodes:          "which nodes there are, and their own addresses, is unknown",
		KindNamespaces:     "which namespaces the selectors of ServiceGroups match is unknown",
		KindNetworks:       "whether ranges overlap the Service network is unknown",
		KindPods:           "how PureLB is installed, and whether it runs, is unknown",
		KindConfigurations: "how nodes speak BGP is unknown",
		KindNodeStatuses:   "which BGP sessions there are is unknown",
		KindEndpoints:      "which Services have endpoints, and where, is unknown",
	}[kind]
}

// knows reports whether objects of this kind were read.
func (w World) knows(kind string) bool { return w.unknown(kind) == "" }

// unknown says that something is unknown because one of these kinds is, or "" if all of
// them are known.
func (w World) unknown(kinds ...string) string {
	for _, kind := range kinds {
		i := slices.IndexFunc(w.Unread, func(u Unread) bool { return u.Kind == kind })
		if i >= 0 {
			return "unknown " + w.Unread[i].because()
		}
	}
	return ""
}

// needs returns an error that says that what is unknown, if one of these kinds is.
func (w World) needs(what string, kinds ...string) error {
	if why := w.unknown(kinds...); why != "" {
		return errors.New(what + " is " + why)
	}
	return nil
}

// unread returns what of these kinds is not known.
func (w World) unread(kinds ...string) []Unread {
	return slices.DeleteFunc(slices.Clone(w.Unread), func(u Unread) bool { return !slices.Contains(kinds, u.Kind) })
}

// absent reports whether files are all that is known, and have no objects of this kind.
func (w World) absent(kind string) bool {
	return slices.ContainsFunc(w.Unread, func(u Unread) bool { return u.Kind == kind && u.Reason == Absent })
}

// Failed reports whether reading again may tell more.
func (w World) Failed() bool {
	return slices.ContainsFunc(w.Unread, func(u Unread) bool { return u.Reason == Failed })
}
