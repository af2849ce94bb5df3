package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Types of conditions.
const (
	// ConditionReady of a BGPConfiguration says whether all of it is in effect.
	// ConditionReady of a BGPNodeStatus says whether everything that the node
	// should do works.
	ConditionReady = "Ready"
	// ConditionRouterIDResolved says whether there is a router ID.
	ConditionRouterIDResolved = "RouterIDResolved"
	// ConditionConfigured of a BGPNodeStatus says whether the configuration is in
	// effect on the node. Its message lists what is not, by field.
	ConditionConfigured = "Configured"
)

// BGPConfigurationStatus is what holds for a BGPConfiguration on every node.
type BGPConfigurationStatus struct {
	// observedGeneration is the generation of the object that this status is
	// about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions have the types Ready and RouterIDResolved. Ready is False with
	// the reason ConfigurationInvalid if the configuration itself is wrong; the
	// message says what, by field. RouterIDResolved is False with the reason
	// ResolutionFailed if global.routerID cannot yield a router ID on any node.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// lastReconcileTime is when this status last changed.
	// +optional
	LastReconcileTime *metav1.Time `json:"lastReconcileTime,omitempty"`

	// neighborCount is how many neighbors the configuration lists.
	// +optional
	NeighborCount int32 `json:"neighborCount,omitempty"`

	// establishedNeighbors is not in use: it differs from node to node. See
	// BGPNodeStatus.
	// +optional
	EstablishedNeighbors int32 `json:"establishedNeighbors,omitempty"`

	// message is the message of the condition Ready.
	// +optional
	Message string `json:"message,omitempty"`

	// routerIDSource is not in use: it differs from node to node. See
	// BGPNodeStatus.
	// +optional
	RouterIDSource string `json:"routerIDSource,omitempty"`

	// routerIDResolutionTime is not in use: it differs from node to node. See
	// BGPNodeStatus.
	// +optional
	RouterIDResolutionTime *metav1.Time `json:"routerIDResolutionTime,omitempty"`
}
