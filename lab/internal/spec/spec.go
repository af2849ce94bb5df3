// Package spec computes what each machine of the lab runs, with its flags and files. Package
// machine starts the machines.
package spec

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"purelb.io/purelb/lab/internal/machine"
	"purelb.io/purelb/lab/internal/state"
	"purelb.io/purelb/lab/internal/topology"
)

// RegistryPort is the port of the image registry on the control plane machine.
const RegistryPort = 5000

// APIPort is the port of the API server on the control plane machine.
const APIPort = 6443

// Lab is the input of the specs.
type Lab struct {
	Plan  topology.Plan
	State state.Dir
	Bin   string // the compiled programs
	Cache string // the directory that contains Bin
}

// APIServer is the API server's URL as the machines see it.
func (l Lab) APIServer() string {
	cp, _ := l.Plan.Machine(topology.ControlPlane)
	return fmt.Sprintf("https://%s", netip.AddrPortFrom(l.Plan.Primary(cp), APIPort))
}

// Machine returns the spec of a machine.
func (l Lab) Machine(m topology.Machine) machine.Spec {
	s := machine.Spec{
		Name:   m.Name,
		Group:  l.State.Group(),
		Keep:   []string{string(l.State), l.Cache},
		Files:  []machine.File{{Path: "/etc/hosts", Text: l.hosts()}},
		Path:   l.Bin + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		Socket: filepath.Join(l.State.Machine(m.Name), "orders.sock"),
		Logs:   filepath.Dir(l.State.Log(m.Name, "any")),
	}
	switch {
	case m.Node:
		l.node(&s, m)
	case m.Name == topology.ControlPlane:
		l.controlPlane(&s, m)
	case m.Name == topology.Router:
		l.router(&s, m)
	}
	return s
}

// hosts lets users write names although the lab has no DNS for machines.
func (l Lab) hosts() string {
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n::1 localhost\n")
	for _, m := range l.Plan.Machines {
		if m.Node && l.Plan.World.NoNodeIP {
			continue
		}
		fmt.Fprintf(&b, "%s %s\n%s %s\n", m.V4(), m.Name, m.V6(), m.Name)
	}
	return b.String()
}

func (l Lab) program(name string, flags ...string) machine.Program {
	return machine.Program{Name: name, Args: append([]string{filepath.Join(l.Bin, name)}, flags...)}
}

func (l Lab) pki(file string) string { return filepath.Join(l.State.PKI(), file) }

func join(ps []netip.Prefix) string {
	var all []string
	for _, p := range ps {
		all = append(all, p.String())
	}
	return strings.Join(all, ",")
}
