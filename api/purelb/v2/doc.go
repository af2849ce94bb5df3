// Package v2 is the current version of PureLB's custom resources: ServiceGroup,
// with the addresses for Services, and LBNodeAgent, which says how nodes announce
// them. The API server stores objects in this version.
//
// The comment of a field is its manual. If an older generation of the API had
// another name for a field, the field is here under both names, so that an object
// that is read and written in either version loses nothing. Package v1 differs
// from this package only in one default. internal/config decides what the values
// mean together, and sets the defaults that the schema leaves open.
//
// +kubebuilder:object:generate=true
// +groupName=purelb.io
package v2
