package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Types of conditions.
const (
	// ConditionReady of a BGPConfiguration says whether all of it is in effect;
	// of a BGPNodeStatus, whether all that is wanted of the node works.
	ConditionReady = "Ready"
	// ConditionRouterIDResolved says whether there is a router ID.
	ConditionRouterIDResolved = "RouterIDResolved"
	// ConditionConfigured of a BGPNodeStatus says whether the configuration is
	// in effect on the node; its message lists what is not, by field.
	ConditionConfigured = "Configured"
)

// BGPConfigurationStatus is what is true of a BGPConfiguration on every node.
type BGPConfigurationStatus struct {
	// observedGeneration is the generation of the object that this is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions hold the types Ready (False with the reason
	// ConfigurationInvalid when something is wrong with the configuration
	// itself; the message says what, by field) and RouterIDResolved (False with
	// the reason ResolutionFailed when global.routerID cannot lead to one on any
	// node).
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// lastReconcileTime is when this was last found to be different from before.
	// +optional
	LastReconcileTime *metav1.Time `json:"lastReconcileTime,omitempty"`

	// neighborCount is how many neighbors the configuration lists.
	// +optional
	NeighborCount int32 `json:"neighborCount,omitempty"`

	// establishedNeighbors is not in use: it differs from node to node. See
	// BGPNodeStatus.
	// +optional
	EstablishedNeighbors int32 `json:"establishedNeighbors,omitempty"`

	// message is that of the condition Ready.
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
