package explain

import (
	"errors"
	"slices"
	"strings"
)

// The kinds of a World that may be unread.
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
	// Failed: the API server did not answer, or did not answer with a list.
	Failed = "Failed"
	// NotServed: the API server does not know the kind.
	NotServed = "NotServed"
	// Absent: the files have none.
	Absent = "Absent"
)

// Unread is a kind of objects that is unknown.
type Unread struct {
	Kind   string `json:"kind"`
	Reason string `json:"reason"`
	// Why says why the objects could not be read. Therefore says what is unknown as a consequence.
	Why       string `json:"why"`
	Therefore string `json:"therefore"`
}

// NewUnread returns an Unread for kind. detail is the error if reason is Failed.
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

// because returns the end of a sentence that says what is unknown.
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

// hidden reports whether such objects may exist although they cannot be seen. Files have no hidden
// objects.
func (u Unread) hidden() bool { return u.Reason == Forbidden || u.Reason == Failed }

// therefore says what is unknown if the objects of this kind are unknown.
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

// unknown says which of these kinds makes an answer unknown, or returns "" if all are known.
func (w World) unknown(kinds ...string) string {
	for _, kind := range kinds {
		i := slices.IndexFunc(w.Unread, func(u Unread) bool { return u.Kind == kind })
		if i >= 0 {
			return "unknown " + w.Unread[i].because()
		}
	}
	return ""
}

// needs returns an error that names what as unknown, if one of these kinds is unknown.
func (w World) needs(what string, kinds ...string) error {
	if why := w.unknown(kinds...); why != "" {
		return errors.New(what + " is " + why)
	}
	return nil
}

// unread returns the unknown ones of these kinds.
func (w World) unread(kinds ...string) []Unread {
	return slices.DeleteFunc(slices.Clone(w.Unread), func(u Unread) bool { return !slices.Contains(kinds, u.Kind) })
}

// absent reports whether the World is made from files, and they have no objects of this kind.
func (w World) absent(kind string) bool {
	return slices.ContainsFunc(w.Unread, func(u Unread) bool { return u.Kind == kind && u.Reason == Absent })
}

// Failed reports whether it may help to read again.
func (w World) Failed() bool {
	return slices.ContainsFunc(w.Unread, func(u Unread) bool { return u.Reason == Failed })
}
