//go:build tools

// Package metallb pins MetalLB. No code imports it: `lab build` compiles the programs named here, and scenes
// read MetalLB's own manifest from the module.
package metallb

import (
	_ "go.universe.tf/metallb/controller"
	_ "go.universe.tf/metallb/speaker"
)
