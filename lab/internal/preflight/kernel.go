package preflight

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"purelb.io/purelb/lab/internal/cgroup"
)

// probe tries a feature of the kernel, in namespaces that end after it.
type probe struct {
	feature string
	remedy  string
	try     func(scratch string) error
}

var namespaces = probe{"network and mount namespaces", "a container must be started with --privileged", unshare}

// probes run in the namespaces that the first probe makes.
var probes = []probe{
	{"veth interfaces", "modprobe veth", veth},
	{"bridges", "modprobe bridge", bridge},
	{"dummy or ifb interfaces", "modprobe dummy", dummy},
	{"packet filtering of bridged pods", "modprobe br_netfilter", bridgeFilter},
	{"nftables", "modprobe nf_tables", nftables},
	{"overlay file systems where the lab keeps its state", "modprobe overlay, or set LAB_STATE to a directory on an ordinary disk", overlay},
	{"control groups", "mount cgroup2 on /sys/fs/cgroup", groups},
}

// kernel runs the probes on a thread that ends after them.
func kernel(scratch string) []error {
	if !exists(bridgeSettings) {
		// No program of the lab loads this module by itself. If the load fails, a probe reports the
		// missing feature.
		_ = exec.Command("/sbin/modprobe", "br_netfilter").Run()
	}
	done := make(chan []error)
	go func() {
		runtime.LockOSThread()
		done <- runProbes(scratch)
	}()
	return <-done
}

func runProbes(scratch string) []error {
	if err := namespaces.try(scratch); err != nil {
		return []error{namespaces.missing(err)}
	}
	var errs []error
	for _, p := range probes {
		if err := p.try(scratch); err != nil {
			errs = append(errs, p.missing(err))
		}
	}
	return errs
}

func (p probe) missing(err error) error {
	return fmt.Errorf("- the kernel has no %s (%w): %s", p.feature, err, p.remedy)
}

func unshare(string) error {
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		return err
	}
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
}

func veth(string) error {
	return netlink.LinkAdd(&netlink.Veth{LinkAttrs: link("probe0"), PeerName: "probe1"})
}

func bridge(string) error { return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: link("probe2")}) }

func groups(string) error {
	_, err := cgroup.Discover("")
	return err
}

func link(name string) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name = name
	return a
}

// dummy tries both kinds of links that PureLB can use for remote addresses.
func dummy(string) error {
	err := netlink.LinkAdd(&netlink.Dummy{LinkAttrs: link("probe3")})
	if err == nil || netlink.LinkAdd(&netlink.Ifb{LinkAttrs: link("probe3")}) == nil {
		return nil
	}
	return err
}

const bridgeSettings = "/proc/sys/net/bridge"

func bridgeFilter(string) error {
	_, err := os.Stat(bridgeSettings)
	return err
}

// nftables succeeds if the program is missing, because the package check reports that.
func nftables(string) error {
	const nft = "/usr/sbin/nft"
	if !exists(nft) {
		return nil
	}
	out, err := exec.Command(nft, "add table inet probe").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// overlay mounts a file system as containerd does, on the disk of the containers.
func overlay(scratch string) error {
	defer os.RemoveAll(scratch)
	var errs []error
	for _, d := range []string{"low", "up", "work", "at"} {
		errs = append(errs, os.MkdirAll(filepath.Join(scratch, d), 0o755))
	}
	at := filepath.Join(scratch, "at")
	options := fmt.Sprintf("lowerdir=%[1]s/low,upperdir=%[1]s/up,workdir=%[1]s/work", scratch)
	if err := errors.Join(append(errs, unix.Mount("overlay", at, "overlay", 0, options))...); err != nil {
		return err
	}
	return unix.Unmount(at, unix.MNT_DETACH)
}
