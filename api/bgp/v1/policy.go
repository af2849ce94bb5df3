package v1

// ApplyPolicy names policies, by direction.
type ApplyPolicy struct {
	// importPolicy is for what neighbors announce.
	// +optional
	ImportPolicy *PolicyAssignment `json:"importPolicy,omitempty"`

	// exportPolicy is for what is announced to neighbors.
	// +optional
	ExportPolicy *PolicyAssignment `json:"exportPolicy,omitempty"`
}

// PolicyAssignment is a list of policies, and what becomes of the rest.
type PolicyAssignment struct {
	// name is for people.
	// +optional
	Name string `json:"name,omitempty"`

	// policies are names of policyDefinitions, in the order in which they are
	// asked. The first statement that accepts or rejects a route decides.
	// +listType=atomic
	// +optional
	Policies []string `json:"policies,omitempty"`

	// defaultAction decides what no statement has decided: "accept" or
	// "reject". Default: of a neighbor, what the policies of global say; of
	// global, "accept".
	// +optional
	DefaultAction string `json:"defaultAction,omitempty"`
}

// PolicyDefinition is a policy: statements that are asked one after the other.
// One with a mistake is not in use, and neither is what refers to it.
type PolicyDefinition struct {
	// name is what applyPolicy calls the policy. It must be the only one of its
	// name; a second one is not in use.
	// +optional
	Name string `json:"name,omitempty"`

	// statements are asked one after the other until one decides.
	// +listType=atomic
	// +optional
	Statements []Statement `json:"statements,omitempty"`
}

// Statement does something to routes that meet its conditions.
type Statement struct {
	// name is for people, and shown by tools. It must be the only one of its
	// name in the policy. Default: its place in the policy.
	// +optional
	Name string `json:"name,omitempty"`

	// conditions must all hold. Default: none, the statement is for all routes.
	// +optional
	Conditions Conditions `json:"conditions,omitzero"`

	// actions are what is done.
	// +optional
	Actions Actions `json:"actions,omitzero"`
}

// Conditions of a statement.
type Conditions struct {
	// prefixSet holds for routes whose prefix is in a set of type prefix.
	// +optional
	PrefixSet *MatchSet `json:"prefixSet,omitempty"`

	// neighborSet holds for neighbors whose address is in a set of type
	// neighbor: when importing the one that the route is from, when exporting
	// the one that it is for.
	// +optional
	NeighborSet *MatchSet `json:"neighborSet,omitempty"`

	// asPathSet holds for routes whose AS path is in a set of type as-path.
	// +optional
	ASPathSet *MatchSet `json:"asPathSet,omitempty"`

	// communitySet holds for routes with communities of a set of type
	// community.
	// +optional
	CommunitySet *MatchSet `json:"communitySet,omitempty"`

	// largeCommunitySet holds for routes with large communities of a set of
	// type large-community.
	// +optional
	LargeCommunitySet *MatchSet `json:"largeCommunitySet,omitempty"`

	// rpkiResult is not supported, as there is no validator to ask. A policy
	// with it is not in use.
	// +optional
	RPKIResult string `json:"rpkiResult,omitempty"`
}

// MatchSet refers to one of definedSets.
type MatchSet struct {
	// name is the name of the set.
	// +required
	Name string `json:"name"`

	// match says how much of the set must be met: "any" member, "all" (not of
	// prefixes and neighbors), or, by "invert", none. Default: "any".
	// +optional
	Match string `json:"match,omitempty"`
}

// Actions are what a statement does.
type Actions struct {
	// routeAction ends the walk through the policies: "accept" or "reject".
	// Default: none, the next statement is asked.
	// +optional
	RouteAction string `json:"routeAction,omitempty"`

	// community changes the route's communities.
	// +optional
	Community *CommunityAction `json:"community,omitempty"`

	// largeCommunity changes the route's large communities.
	// +optional
	LargeCommunity *LargeCommunityAction `json:"largeCommunity,omitempty"`

	// med changes the route's MED.
	// +optional
	MED *MEDAction `json:"med,omitempty"`

	// asPrepend makes the AS path longer.
	// +optional
	ASPrepend *ASPrepend `json:"asPrepend,omitempty"`

	// localPref sets the local preference, 1 to 4294967295; 0 cannot be set,
	// and a policy with it is not in use. It is told to neighbors in the node's
	// own autonomous system only.
	// +optional
	LocalPref *int64 `json:"localPref,omitempty"`
}

// CommunityAction changes the communities of a route (RFC 1997).
type CommunityAction struct {
	// type is "add", "remove" or "replace". Default: "add".
	// +optional
	Type string `json:"type,omitempty"`

	// communities are two numbers from 0 to 65535, such as "64512:100", or
	// well-known names such as "no-export". To "replace" without any takes all
	// of the route's away.
	// +listType=atomic
	// +optional
	Communities []string `json:"communities,omitempty"`
}

// LargeCommunityAction changes the large communities of a route (RFC 8092).
type LargeCommunityAction struct {
	// type is "add", "remove" or "replace". Default: "add".
	// +kubebuilder:validation:Enum=add;remove;replace
	// +optional
	Type string `json:"type,omitempty"`

	// communities are three numbers from 0 to 4294967295, such as
	// "64512:100:1". To "replace" without any takes all of the route's away.
	// +listType=atomic
	// +optional
	Communities []string `json:"communities,omitempty"`
}

// MEDAction changes the MED of a route.
type MEDAction struct {
	// type is "replace" to set the MED to value, or "mod" to add value to it.
	// Default: "replace".
	// +optional
	Type string `json:"type,omitempty"`

	// value is the MED from 0 to 4294967295, or what is added to it, from
	// -4294967295 to 4294967295 but not 0.
	// +optional
	Value int64 `json:"value,omitempty"`
}

// ASPrepend makes the AS path of a route longer.
type ASPrepend struct {
	// asn is the number that is put in front. Default (0): global.asn.
	// +optional
	ASN int64 `json:"asn,omitempty"`

	// repeat is how often it is put there, 1 to 255. Default (0): 1.
	// +optional
	Repeat int32 `json:"repeat,omitempty"`
}

// DefinedSet is something that policies refer to by name. One with a mistake is
// not in use, and neither are policies that refer to it.
type DefinedSet struct {
	// type is what the set consists of: "prefix", "neighbor", "as-path",
	// "community" or "large-community".
	// +required
	Type string `json:"type"`

	// name is what policies call the set. It must be the only one of its name
	// and type; a second one is not in use.
	// +required
	Name string `json:"name"`

	// list holds addresses or networks of neighbors, regular expressions over
	// AS paths ("_" stands for a boundary), communities such as "64512:100" or
	// regular expressions over them, by type.
	// +listType=atomic
	// +optional
	List []string `json:"list,omitempty"`

	// prefixes are those of a set of type prefix, all of one address family.
	// +listType=atomic
	// +optional
	Prefixes []PrefixMatch `json:"prefixes,omitempty"`
}

// PrefixMatch matches prefixes that lie in ipPrefix.
type PrefixMatch struct {
	// ipPrefix is a network, such as "192.0.2.0/24".
	// +optional
	IPPrefix string `json:"ipPrefix,omitempty"`

	// maskLengthMin is the shortest mask that matches. Default (0): that of
	// ipPrefix.
	// +optional
	MaskLengthMin int32 `json:"maskLengthMin,omitempty"`

	// maskLengthMax is the longest mask that matches. Default (0):
	// maskLengthMin, or without it that of ipPrefix.
	// +optional
	MaskLengthMax int32 `json:"maskLengthMax,omitempty"`
}
