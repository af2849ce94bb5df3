package v1

import "k8s.io/apimachinery/pkg/runtime"

// Unread is a part of older manifests that is stored as it was written, and has no effect.
//
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:validation:Type=object
type Unread struct {
	runtime.RawExtension `json:",inline"`
}

// Set reports whether the part says anything.
func (u Unread) Set() bool { return len(u.Raw) > len("{}") }
