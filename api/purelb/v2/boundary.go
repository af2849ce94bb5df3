package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Boundary says which Services a group is for. Without any of these fields, a
// group is for Services that name it. The group "default" is also for all
// Services that have no other group.
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
	// namespaces. An empty selector matches all namespaces. If the selector is
	// malformed, the group is not used. Default: none.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// serviceSelector makes this the group of Services that name no group and
	// whose labels it matches. It applies in the namespaces above if there are
	// any, and otherwise in all namespaces. A Service that names the group does
	// not have to match. If the selector is malformed, the group is not used.
	// Default: none.
	// +optional
	ServiceSelector *metav1.LabelSelector `json:"serviceSelector,omitempty"`

	// enforceNamespaces has two effects. Services of other namespaces cannot use
	// this group. Services of its namespaces can use only groups that are for
	// their namespace. Both are true even if a Service asks for a group or an
	// address, and even if another field of this group is wrong. Requires
	// namespaces or namespaceSelector. Default: false.
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
