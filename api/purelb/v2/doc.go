// Package v2 is the current form of PureLB's custom resources: ServiceGroup,
// where the addresses of Services come from, and LBNodeAgent, how nodes
// announce them. It is the form in which the API server stores them.
//
// The comment of a field is its manual. A field that an older generation of the
// API called by another name is here under both names, so that an object read
// and written by way of either version loses nothing; package v1 differs from
// this one in a default only. What the values mean together, and the defaults
// that the schema leaves open, is the business of internal/config.
//
// +kubebuilder:object:generate=true
// +groupName=purelb.io
package v2
