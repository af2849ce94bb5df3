// Package cluster lets a test or a demo control the running lab: run a command in a machine, cut a
// node's power, pull a cable, stop the API server. It neither builds the lab nor takes it down.
package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"purelb.io/purelb/lab/internal/build"
	"purelb.io/purelb/lab/internal/image"
	"purelb.io/purelb/lab/internal/machine"
	"purelb.io/purelb/lab/internal/spec"
	"purelb.io/purelb/lab/internal/state"
	"purelb.io/purelb/lab/internal/topology"
	"purelb.io/purelb/lab/internal/wire"
	"purelb.io/purelb/lab/kube"
)

// Names of the machines that are not nodes.
const (
	ControlPlane = topology.ControlPlane
	Router       = topology.Router
	Client       = topology.Client
)

// Machine is one computer of the lab: its name, interfaces and addresses.
type Machine = topology.Machine

// World is a variation of the lab.
type World = topology.World

// Program is the state of a program of a machine.
type Program = machine.Status

// ErrDown means that the lab does not exist, or only in part.
var ErrDown = errors.New("the lab is not up: run `make up`, or `go -C lab run . up`")

// Cluster is a lab.
type Cluster struct {
	Spec   spec.Lab
	Record state.Lab

	mu  sync.Mutex // guards api
	api *kube.Client
}

// Open connects to the running lab.
func Open() (*Cluster, error) {
	c, err := Recorded(state.Default())
	if err != nil {
		return nil, err
	}
	if !c.Record.Up {
		return nil, fmt.Errorf("%w (its start was not finished)", ErrDown)
	}
	return c, nil
}

// Recorded returns the lab of a state directory, even if the lab does not work.
func Recorded(dir state.Dir) (*Cluster, error) {
	rec, err := dir.Lab()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrDown
	}
	if err != nil {
		return nil, err
	}
	return New(dir, rec)
}

// New returns the lab of a record, whether it runs or not.
func New(dir state.Dir, rec state.Lab) (*Cluster, error) {
	world, err := topology.FindWorld(rec.World)
	if err != nil {
		return nil, err
	}
	plan, err := topology.New(rec.Nodes, world)
	if err != nil {
		return nil, err
	}
	return &Cluster{
		Spec:   spec.Lab{Plan: plan, State: dir, Bin: rec.Bin, Cache: filepath.Dir(rec.Bin)},
		Record: rec,
	}, nil
}

// Kubeconfig is the path of the file with which the host reaches the cluster.
func (c *Cluster) Kubeconfig() string { return c.Spec.State.Kubeconfig() }

// Server is the API server's URL on the host.
func (c *Cluster) Server() string { return fmt.Sprintf("https://127.0.0.1:%d", c.Record.Port) }

// Bin is the directory of kubectl and the other compiled programs.
func (c *Cluster) Bin() string { return c.Spec.Bin }

// World returns the variation of the lab.
func (c *Cluster) World() World { return c.Spec.Plan.World }

// Machines returns all machines.
func (c *Cluster) Machines() []Machine { return c.Spec.Plan.Machines }

// Nodes returns the machines that run a kubelet.
func (c *Cluster) Nodes() []Machine { return c.Spec.Plan.Nodes() }

// Machine returns the machine of that name.
func (c *Cluster) Machine(name string) (Machine, error) {
	m, ok := c.Spec.Plan.Machine(name)
	if !ok {
		return Machine{}, fmt.Errorf("no machine %q: the lab has %v", name, c.Spec.Plan.Names())
	}
	return m, nil
}

// Netns is the path of a machine's network namespace.
func (c *Cluster) Netns(machine string) string { return c.net().Netns(machine) }

func (c *Cluster) net() wire.Net { return wire.Net(c.Spec.State.Netns()) }

// AddImage makes an image of static programs. Its command is the first program, with the paths of the
// others as arguments. Every node can pull it at once by this name, from any registry.
func (c *Cluster) AddImage(ctx context.Context, name string, programs ...string) (digest string, err error) {
	img, err := image.New(programs...)
	if err != nil {
		return "", err
	}
	registry := fmt.Sprintf("127.0.0.1:%d", spec.RegistryPort)
	return image.Push(ctx, wire.Transport(c.Netns(ControlPlane), registry), name, img)
}

// BuildImage compiles a program of the module in a folder, and adds its image. The name of the image
// changes only if the program changes.
func (c *Cluster) BuildImage(ctx context.Context, module, pkg string) (image string, err error) {
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, filepath.Base(pkg))
	if err := build.Program(ctx, module, pkg, program); err != nil {
		return "", err
	}
	binary, err := os.ReadFile(program)
	if err != nil {
		return "", err
	}
	image = fmt.Sprintf("registry.lab/%s:%.6x", filepath.Base(pkg), sha256.Sum256(binary))
	_, err = c.AddImage(ctx, image, program)
	return image, err
}

// SetPort unplugs the cable of a machine's interface from the switch, or plugs it in.
func (c *Cluster) SetPort(machine, nic string, up bool) error {
	return c.net().SetPort(machine, nic, up)
}
