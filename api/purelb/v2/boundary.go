package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Boundary says which Services a group is for. Without any of these fields, a
// group is for Services that name it. If it is called "default", it is also for
// all Services for which there is no other group.
//
// +kubebuilder:validation:XValidation:rule="!has(self.enforceNamespaces) || !self.enforceNamespaces || has(self.namespaceSelector) || (has(self.namespaces) && size(self.namespaces) > 0)",message="enforceNamespaces needs namespaces or namespaceSelector: name the namespaces that it is for"
// +kubebuilder:validation:XValidation:rule="!has(self.namespaceDefault) || !self.namespaceDefault || has(self.namespaceSelector) || (has(self.namespaces) && size(self.namespaces) > 0)",message="namespaceDefault needs namespaces or namespaceSelector: say for which namespaces this is the group of choice"
type Boundary struct {
	// namespaces are the namespaces whose Services get their addresses from this
	// group if they name no group. Default: none.
	// +kubebuilder:validation:MaxItems=1024
	// +listType=atomic
	// +optional
	Namespaces []Namespace `json:"namespaces,omitempty"`

	// namespaceSelector adds the namespaces whose labels it matches to those in
	// namespaces; an empty selector matches all. If the selector is malformed,
	// the group is not used. Default: none.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// serviceSelector makes this the group of Services whose labels it matches
	// and that name no group. It applies in the namespaces above if there are
	// any, and otherwise in all namespaces. A Service that names the group need
	// not match. If the selector is malformed, the group is not used. Default:
	// none.
	// +optional
	ServiceSelector *metav1.LabelSelector `json:"serviceSelector,omitempty"`

	// enforceNamespaces closes this group to Services of other namespaces, and
	// closes all groups that are not for its namespaces to the Services of these.
	// It also holds for a group or an address that a Service asks for. Requires
	// namespaces or namespaceSelector. It holds even if another field of the
	// group is wrong. Default: false.
	// +optional
	EnforceNamespaces bool `json:"enforceNamespaces,omitempty"`

	// namespaceDefault makes this the group of choice if several groups are for
	// the same Service. Requires namespaces or namespaceSelector. Default: false.
	// +optional
	NamespaceDefault bool `json:"namespaceDefault,omitempty"`

	// priority orders groups that are for the same Service, the highest first: if
	// a group has no free address, PureLB tries the next one. Default: none,
	// which means no order.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Priority *int32 `json:"priority,omitempty"`

	// autoAssign says whether Services that do not name the group can get
	// addresses from it. With false, only Services that ask for the group or for
	// one of its addresses can. Default: true.
	// +optional
	AutoAssign *bool `json:"autoAssign,omitempty"`

	// shareAcrossNamespaces lets Services of different namespaces share an
	// address of this group if they have the same key in the annotation
	// "purelb.io/allow-shared-ip". Without it, only Services of one namespace can
	// share. Default: false.
	// +optional
	ShareAcrossNamespaces bool `json:"shareAcrossNamespaces,omitempty"`
}

// Namespace is the name of a namespace.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespaces must hold names of namespaces: lower-case letters, digits and '-'; for patterns use namespaceSelector"
type Namespace string
