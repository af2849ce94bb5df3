// Package v1 is the older form of PureLB's custom resources. Its objects have
// the fields of package v2, which explains them, and are stored as those, so
// nothing is converted; only the default of spec.local.announce differs.
//
// +kubebuilder:object:generate=true
// +groupName=purelb.io
package v1
