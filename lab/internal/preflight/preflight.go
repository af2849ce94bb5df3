// Package preflight checks whether this host can run the lab. It lists what is missing, why the lab
// needs it, and how to get it. It leaves nothing behind.
//
// Inspect reads the host into a value, Missing judges the value, and Install gets the Debian
// packages.
package preflight

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Host is what the lab has to know of the machine that it runs on.
type Host struct {
	Root bool
	// System is the name of the distribution. Apt says that it has apt-get.
	System string
	Apt    bool
	// Programs are the programs that the host lacks.
	Programs []Program
	// Kernel are the features that the kernel lacks. They are known only to root.
	Kernel []Feature
	// Memory is the number of bytes that programs can get.
	Memory uint64
	Disks  []Disk
	// Built says that the programs of Kubernetes are compiled.
	Built bool
}

// Program is a program, and the Debian package that contains it.
type Program struct{ Name, Package string }

// Feature is a feature that the kernel lacks.
type Feature struct {
	Name   string
	Err    error
	Remedy string
}

// Disk is a directory that the lab writes to, and the bytes that it can still write.
type Disk struct {
	Path string
	Free uint64
	// Building says that the directory holds what is compiled.
	Building bool
}

const (
	gigabyte = 1 << 30
	// A cluster of four nodes uses about 1 GB. The linker needs more for Kubernetes.
	runningMemory, buildingMemory = gigabyte, 3 * gigabyte
	runningDisk, buildingDisk     = gigabyte, 6 * gigabyte
)

// Missing returns all that the host lacks, in one error for users. Packages that Install can get are
// not missing.
func (h Host) Missing() error { return h.missing(h.Root && h.Apt) }

// Unready is Missing for a host on which nothing more will be installed.
func (h Host) Unready() error { return h.missing(false) }

func (h Host) missing(installing bool) error {
	var lacks []error
	lack := func(what, why, how string) { lacks = append(lacks, fmt.Errorf("missing: %s, %s: %s", what, why, how)) }
	if !h.Root {
		lack("root", "for network namespaces, mounts and control groups", "run the same command as root, for example with sudo")
	}
	if len(h.Programs) > 0 && !installing {
		lack("programs ("+names(h.Programs)+")", "for the machines of the lab", h.installation())
	}
	for _, f := range h.Kernel {
		lack(f.Name, fmt.Sprintf("which this kernel does not have or does not allow (%v)", f.Err), f.Remedy)
	}
	if need := h.need(runningMemory, buildingMemory); h.Memory < need {
		lack("memory", fmt.Sprintf("of which %s are free and %s are needed%s", size(h.Memory), size(need), h.compiling()), "end other programs, or use a larger machine")
	}
	for _, d := range h.Disks {
		need := uint64(runningDisk)
		why, how := "", "free some, or set LAB_STATE to a directory on another disk"
		if d.Building {
			need, why, how = h.need(0, buildingDisk), h.compiling(), "free some, or set GOCACHE and XDG_CACHE_HOME to directories on another disk"
		}
		if d.Free < need {
			lack("disk space", fmt.Sprintf("of which %s has %s and needs %s%s", d.Path, size(d.Free), size(need), why), how)
		}
	}
	return errors.Join(lacks...)
}

// installation says how to get the missing programs.
func (h Host) installation() string {
	packages := strings.Join(h.packages(), " ")
	if !h.Apt {
		return fmt.Sprintf("this is %s, without apt-get, so install them by its own means (Debian has them in %s)", h.System, packages)
	}
	return "`make deps` installs them as root, or do it yourself, which also starts their daemons: apt-get install -y --no-install-recommends " + packages
}

// packages returns the Debian packages with the missing programs.
func (h Host) packages() (all []string) {
	for _, p := range h.Programs {
		if !slices.Contains(all, p.Package) {
			all = append(all, p.Package)
		}
	}
	return all
}

// need returns what is needed to run the lab, or to compile Kubernetes too.
func (h Host) need(running, building uint64) uint64 {
	if h.Built {
		return running
	}
	return building
}

func (h Host) compiling() string {
	if h.Built {
		return ""
	}
	return " to compile Kubernetes"
}

func names(programs []Program) string {
	var all []string
	for _, p := range programs {
		all = append(all, p.Name)
	}
	return strings.Join(all, " ")
}

func size(bytes uint64) string { return fmt.Sprintf("%.1f GB", float64(bytes)/gigabyte) }
