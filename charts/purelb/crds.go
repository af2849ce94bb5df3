// Package chart has the definitions of the custom resources of the chart, for programs that judge
// manifests without an API server.
package chart

import "embed"

// Definitions are the CustomResourceDefinitions, as the chart installs them.
//
//go:embed crds/*.yaml
var Definitions embed.FS
