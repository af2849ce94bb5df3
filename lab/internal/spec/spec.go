// Package spec says what each machine of the lab runs, with which flags and
// files. It computes values only; package machine brings them to life.
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

// RegistryPort is where the control plane machine serves images.
const RegistryPort = 5000

// APIPort is where the control plane machine serves the API.
const APIPort = 6443

// Lab is what the specs are computed from.
type Lab struct {
	Plan  topology.Plan
	State state.Dir
	Bin   string // the built programs
	Cache string // the directory that holds Bin
}

// APIServer is the API server's URL as the machines see it.
func (l Lab) APIServer() string {
	cp, _ := l.Plan.Machine(topology.ControlPlane)
	return fmt.Sprintf("https://%s", netip.AddrPortFrom(l.Plan.Primary(cp), APIPort))
}

// Machine returns what a machine is to be.
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

// hosts lets people write names in the absence of DNS.
func (l Lab) hosts() string {
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n::1 localhost\n")
	for _, m := range l.Plan.Machines {
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
