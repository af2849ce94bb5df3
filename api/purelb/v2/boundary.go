package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Boundary says which Services a group is for. A group that says nothing here
// is for Services that name it, and, when it is called "default", for all that
// no other group is for.
//
// +kubebuilder:validation:XValidation:rule="!has(self.enforceNamespaces) || !self.enforceNamespaces || has(self.namespaceSelector) || (has(self.namespaces) && size(self.namespaces) > 0)",message="enforceNamespaces needs namespaces or namespaceSelector: say which namespaces the fence is around"
// +kubebuilder:validation:XValidation:rule="!has(self.namespaceDefault) || !self.namespaceDefault || has(self.namespaceSelector) || (has(self.namespaces) && size(self.namespaces) > 0)",message="namespaceDefault needs namespaces or namespaceSelector: say for which namespaces this is the group of choice"
type Boundary struct {
	// namespaces are those whose Services get their addresses from this group
	// when they do not name one. Default: none.
	// +kubebuilder:validation:MaxItems=1024
	// +listType=atomic
	// +optional
	Namespaces []Namespace `json:"namespaces,omitempty"`

	// namespaceSelector adds the namespaces whose labels it matches to those
	// listed in namespaces; an empty selector matches all. A selector that
	// cannot be read takes the group out of use. Default: none.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// serviceSelector makes this the group of Services whose labels it matches
	// and that do not name one: in the namespaces above where there are any,
	// otherwise in all. A Service that names the group need not match. A
	// selector that cannot be read takes the group out of use. Default: none.
	// +optional
	ServiceSelector *metav1.LabelSelector `json:"serviceSelector,omitempty"`

	// enforceNamespaces keeps Services of other namespaces out of this group,
	// and those of its namespaces out of all groups that are not for them, also
	// when they ask for a group or an address by name. Requires namespaces or
	// namespaceSelector. The fence holds also while something else is wrong
	// with the group. Default: false.
	// +optional
	EnforceNamespaces bool `json:"enforceNamespaces,omitempty"`

	// namespaceDefault makes this the group of choice where several are for the
	// same Service. Requires namespaces or namespaceSelector. Default: false.
	// +optional
	NamespaceDefault bool `json:"namespaceDefault,omitempty"`

	// priority puts groups that are for the same Service into an order, the
	// highest first: one that has no free address passes the Service on to the
	// next. Default: none, and then there is no order.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Priority *int32 `json:"priority,omitempty"`

	// autoAssign says whether Services that do not name the group can get
	// addresses from it. false keeps it for those that ask, for the group or
	// for one of its addresses. Default: true.
	// +optional
	AutoAssign *bool `json:"autoAssign,omitempty"`

	// shareAcrossNamespaces lets Services of different namespaces share an
	// address of this group when they have the same key in the annotation
	// "purelb.io/allow-shared-ip"; otherwise those of one namespace can.
	// Default: false.
	// +optional
	ShareAcrossNamespaces bool `json:"shareAcrossNamespaces,omitempty"`
}

// Namespace is the name of a namespace.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespaces must hold names of namespaces: lower-case letters, digits and '-'; for patterns use namespaceSelector"
type Namespace string
