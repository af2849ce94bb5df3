//go:build tools

// Package cni pins the network plugins that the lab's nodes use. Nothing is
// imported for its code; `lab build` compiles the plugins named here.
package cni

import (
	_ "github.com/containernetworking/plugins/plugins/ipam/host-local"
	_ "github.com/containernetworking/plugins/plugins/main/bridge"
	_ "github.com/containernetworking/plugins/plugins/main/loopback"
	_ "github.com/containernetworking/plugins/plugins/meta/portmap"
)
