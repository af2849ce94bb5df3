package v1

// ApplyPolicy names policies, by direction.
type ApplyPolicy struct {
	// importPolicy is for routes from neighbors.
	// +optional
	ImportPolicy *PolicyAssignment `json:"importPolicy,omitempty"`

	// exportPolicy is for routes to neighbors.
	// +optional
	ExportPolicy *PolicyAssignment `json:"exportPolicy,omitempty"`
}

// PolicyAssignment is a list of policies, with a default for routes about which
// none of them decides.
type PolicyAssignment struct {
	// name is for people.
	// +optional
	Name string `json:"name,omitempty"`

	// policies are names of policyDefinitions, in the order in which they are
	// applied. The first statement that accepts or rejects a route decides.
	// +listType=atomic
	// +optional
	Policies []string `json:"policies,omitempty"`

	// defaultAction decides if no statement has decided: "accept" or "reject".
	// Default: for a neighbor, the policies of global; for global, "accept".
	// +optional
	DefaultAction string `json:"defaultAction,omitempty"`
}

// PolicyDefinition is a policy: a list of statements that are applied in order. A
// policy with a mistake is not in use, and neither is anything that refers to it.
type PolicyDefinition struct {
	// name is the name by which applyPolicy refers to the policy. It must be
	// unique; a second policy of this name is not in use.
	// +optional
	Name string `json:"name,omitempty"`

	// statements are applied in order until one decides.
	// +listType=atomic
	// +optional
	Statements []Statement `json:"statements,omitempty"`
}

// Statement changes routes that meet its conditions, or decides about them.
type Statement struct {
	// name is for people, and tools show it. It must be unique in the policy.
	// Default: the position in the policy.
	// +optional
	Name string `json:"name,omitempty"`

	// conditions must all hold. Default: none, so that the statement is for all
	// routes.
	// +optional
	Conditions Conditions `json:"conditions,omitzero"`

	// actions are applied to the route.
	// +optional
	Actions Actions `json:"actions,omitzero"`
}

// Conditions of a statement.
type Conditions struct {
	// prefixSet holds if the prefix of the route is in a set of type prefix.
	// +optional
	PrefixSet *MatchSet `json:"prefixSet,omitempty"`

	// neighborSet holds if the address of the neighbor is in a set of type
	// neighbor. On import this is the neighbor that the route comes from, on
	// export the one that it goes to.
	// +optional
	NeighborSet *MatchSet `json:"neighborSet,omitempty"`

	// asPathSet holds if the AS path of the route is in a set of type as-path.
	// +optional
	ASPathSet *MatchSet `json:"asPathSet,omitempty"`

	// communitySet holds if the communities of the route match a set of type
	// community.
	// +optional
	CommunitySet *MatchSet `json:"communitySet,omitempty"`

	// largeCommunitySet holds if the large communities of the route match a set
	// of type large-community.
	// +optional
	LargeCommunitySet *MatchSet `json:"largeCommunitySet,omitempty"`

	// rpkiResult is not supported, because there is no validator. A policy with
	// it is not in use.
	// +optional
	RPKIResult string `json:"rpkiResult,omitempty"`
}

// MatchSet refers to one of definedSets.
type MatchSet struct {
	// name is the name of the set.
	// +required
	Name string `json:"name"`

	// match says which part of the set must match: "any" member, "all" members
	// (not for prefixes and neighbors), or none of them ("invert"). Default:
	// "any".
	// +optional
	Match string `json:"match,omitempty"`
}

// Actions are applied by a statement.
type Actions struct {
	// routeAction decides about the route and ends the policies: "accept" or
	// "reject". Default: none, the next statement follows.
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

	// localPref sets the local preference, 1 to 4294967295. 0 leaves it as it is,
	// and is reported. The local preference is announced only to
	// neighbors in the node's own autonomous system.
	// +optional
	LocalPref *int64 `json:"localPref,omitempty"`
}

// CommunityAction changes the communities of a route (RFC 1997).
type CommunityAction struct {
	// type is "add", "remove" or "replace". Default: "add".
	// +optional
	Type string `json:"type,omitempty"`

	// communities are two numbers from 0 to 65535, such as "64512:100", or
	// well-known names such as "no-export". "replace" without any removes all
	// communities of the route.
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

	// communities are three numbers from 0 to 4294967295, such as "64512:100:1".
	// "replace" without any removes all large communities of the route.
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

	// value is the MED, from 0 to 4294967295. With "mod", it is the number to
	// add, from -4294967295 to 4294967295. Adding 0 is reported.
	// +optional
	Value int64 `json:"value,omitempty"`
}

// ASPrepend makes the AS path of a route longer.
type ASPrepend struct {
	// asn is the number that is put in front. Default (0): global.asn.
	// +optional
	ASN int64 `json:"asn,omitempty"`

	// repeat is how often the number is put in front, 1 to 255. Default (0): 1.
	// +optional
	Repeat int32 `json:"repeat,omitempty"`
}

// DefinedSet is a set to which policies refer by name. A set with a mistake is
// not in use, and neither are policies that refer to it.
type DefinedSet struct {
	// type is what the set consists of: "prefix", "neighbor", "as-path",
	// "community" or "large-community".
	// +required
	Type string `json:"type"`

	// name is the name by which policies refer to the set. It must be unique
	// within its type; a second set is not in use.
	// +required
	Name string `json:"name"`

	// list holds addresses or networks of neighbors, regular expressions over
	// AS paths ("_" stands for a boundary), communities such as "64512:100" or
	// regular expressions over them, by type.
	// +listType=atomic
	// +optional
	List []string `json:"list,omitempty"`

	// prefixes are the members of a set of type prefix, all of one address
	// family.
	// +listType=atomic
	// +optional
	Prefixes []PrefixMatch `json:"prefixes,omitempty"`
}

// PrefixMatch matches prefixes that lie in ipPrefix.
type PrefixMatch struct {
	// ipPrefix is a network, such as "192.0.2.0/24".
	// +optional
	IPPrefix string `json:"ipPrefix,omitempty"`

	// maskLengthMin is the shortest mask that matches. Default (0): the mask of
	// ipPrefix.
	// +optional
	MaskLengthMin int32 `json:"maskLengthMin,omitempty"`

	// maskLengthMax is the longest mask that matches. Default (0): maskLengthMin
	// or, without it, the mask of ipPrefix.
	// +optional
	MaskLengthMax int32 `json:"maskLengthMax,omitempty"`
}
