package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
)

// LBNodeAgent says on which interfaces nodes announce addresses, and how.
//
// A node uses the first LBNodeAgent that selects it. LBNodeAgents with a
// nodeSelector come before those without one, and those without spec.local come
// last; then namespace and name decide. Only LBNodeAgents in the namespace that
// PureLB is installed in count and, after them, those in the namespaces that the
// operator names (configNamespaces).
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=lbnodeagents,singular=lbnodeagent,scope=Namespaced,shortName=lbna;lbnas
// +kubebuilder:printcolumn:name=Accepted,type=string,JSONPath=`.status.conditions[?(@.type=="Accepted")].status`
// +kubebuilder:printcolumn:name=Announcing,type=string,JSONPath=`.status.conditions[?(@.type=="Announcing")].status`
// +kubebuilder:printcolumn:name=Reason,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Accepted")].reason`
// +kubebuilder:printcolumn:name=Message,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Announcing")].message`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type LBNodeAgent struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the node agents should do.
	// +required
	Spec v2.LBNodeAgentSpec `json:"spec"`

	// status is what PureLB reports about the object. Only the allocator writes
	// it.
	// +optional
	Status v2.LBNodeAgentStatus `json:"status,omitzero"`
}

// LBNodeAgentList is a list of LBNodeAgents.
//
// +kubebuilder:object:root=true
type LBNodeAgentList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LBNodeAgent `json:"items"`
}
