package preflight

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

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

var namespaces = probe{"network and mount namespaces", "start a container with --privileged, and bind the root of a chroot onto itself before it is entered: mount --rbind DIR DIR", unshare}

var errNoMountPoint = errors.New("the root directory is no mount point, as in a plain chroot")

// probes run in the namespaces that the first probe makes.
var probes = []probe{
	{"namespaces of containers", "use a kernel with CONFIG_PID_NS, CONFIG_IPC_NS and CONFIG_UTS_NS", container},
	{"veth interfaces", "modprobe veth", veth},
	{"bridges", "modprobe bridge", bridge},
	{"dummy or ifb interfaces", "modprobe dummy", dummy},
	{"packet filtering of bridged pods", "modprobe br_netfilter", bridgeFilter},
	{"nftables with address translation", "modprobe -a nf_tables nft_masq nft_ct nft_numgen", nftables},
	{"overlay file systems where the lab keeps its state", "modprobe overlay, or set LAB_STATE to a directory on an ordinary disk", overlay},
	{"control groups", "mount cgroup2 on /sys/fs/cgroup", groups},
}

// kernel runs the probes on a thread that ends after them.
func kernel(scratch string) []Feature {
	if !exists(bridgeSettings) {
		// No program of the lab loads this module by itself. If the load fails, a probe reports the
		// missing feature.
		_ = exec.Command("/sbin/modprobe", "br_netfilter").Run()
	}
	done := make(chan []Feature)
	go func() {
		runtime.LockOSThread()
		done <- runProbes(scratch)
	}()
	return <-done
}

func runProbes(scratch string) (missing []Feature) {
	if err := namespaces.try(scratch); err != nil {
		return []Feature{{namespaces.feature, err, namespaces.remedy}}
	}
	for _, p := range probes {
		if err := p.try(scratch); err != nil {
			missing = append(missing, Feature{p.feature, err, p.remedy})
		}
	}
	return missing
}

func unshare(string) error {
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		return err
	}
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if errors.Is(err, unix.EINVAL) {
		return errNoMountPoint
	}
	return err
}

// container runs a program in the other namespaces of a container.
func container(string) error {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS}
	return cmd.Run()
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

// nftables tries what kube-proxy uses. It succeeds if the program is missing, because the package check reports that.
func nftables(string) error {
	const nft = "/usr/sbin/nft"
	if !exists(nft) {
		return nil
	}
	out, err := exec.Command(nft, "add table inet probe; add chain inet probe nat {type nat hook postrouting priority 100;}; "+
		"add rule inet probe nat ct state new numgen random mod 2 vmap {0: accept}; add rule inet probe nat masquerade").CombinedOutput()
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
