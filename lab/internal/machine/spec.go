// Package machine makes computers out of namespaces. A machine is a network namespace and a first
// process with its other namespaces. That process mounts the file systems of a computer, starts
// programs on request, and ends all of them when it is killed. The package does not know the
// programs.
package machine

import (
	"crypto/md5"
	"fmt"
	"path/filepath"
	"strings"
)

// Spec describes a machine completely. It is stored in a file, so that the machine can be started
// again unchanged.
type Spec struct {
	Name     string
	Group    string            // control group that contains the groups of the machines
	Cgroups  bool              // mounts its own control groups, as a node must
	Disks    map[string]string // directories of the host, by their paths in the machine
	Keep     []string          // directories of the host that stay visible at their own path
	Files    []File
	Programs []Program
	Path     string   // PATH of programs and of users in the machine
	Env      []string // further environment
	Socket   string   // where the first process accepts requests
	Logs     string   // directory of the programs' output
}

// File is a file in the machine.
type File struct {
	Path string
	Text string
}

// Program is a program that a machine runs.
type Program struct {
	Name string
	Args []string
	// Ready, when set, is a file that appears once the program serves.
	Ready string
	// Listener passes the socket that the machine was started with to the program, as file
	// descriptor 3.
	Listener bool
	// WithPods marks a program that a node starts together with its pods.
	WithPods bool
	// Once marks a program that does its work and ends.
	Once bool
}

// Program returns the program of that name.
func (s Spec) Program(name string) (Program, bool) {
	for _, p := range s.Programs {
		if p.Name == name {
			return p, true
		}
	}
	return Program{}, false
}

// environment is the environment of every program of the machine.
func (s Spec) environment() []string {
	return append([]string{"PATH=" + s.Path, "HOME=/root", "LANG=C.UTF-8"}, s.Env...)
}

// Environment is the environment of a command that a user or a test runs in the machine. It is
// their own, with the variables of the machine on top, and without the variables of the host's
// cluster.
func (s Spec) Environment(own []string) []string {
	var env []string
	for _, e := range own {
		if !strings.HasPrefix(e, "KUBECONFIG=") {
			env = append(env, e)
		}
	}
	return append(append(env, "PATH="+s.Path), s.Env...)
}

// id is the machine's identity. It is the same at every start.
func (s Spec) id() string { return fmt.Sprintf("%x", md5.Sum([]byte("purelb-lab/"+s.Name))) }

// overlays are the directories of the host in which a machine may write. The machine keeps its
// changes in memory.
var overlays = []string{"/etc", "/var/lib", "/var/log", "/var/tmp"}

// scratch is the directory of the overlays' upper layers.
const scratch = "/run/lab"

// files returns the spec's own files and those that every machine has.
func (s Spec) files() []File {
	return append([]File{
		{"/etc/hostname", s.Name + "\n"},
		{"/etc/machine-id", s.id() + "\n"},
		{"/etc/resolv.conf", ""},
	}, s.Files...)
}

// shields are kernel settings that the kubelet always changes, although they affect the whole host.
// The machine gets files in their place.
var shields = map[string]string{
	"/proc/sys/vm/overcommit_memory":      "1\n",
	"/proc/sys/vm/panic_on_oom":           "0\n",
	"/proc/sys/kernel/panic":              "10\n",
	"/proc/sys/kernel/panic_on_oops":      "1\n",
	"/proc/sys/kernel/keys/root_maxkeys":  "1000000\n",
	"/proc/sys/kernel/keys/root_maxbytes": "25000000\n",
}

func shieldFile(target string) string {
	return filepath.Join(scratch, "shield", filepath.Base(target))
}
