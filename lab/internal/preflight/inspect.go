package preflight

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// needs are the programs that the lab or its tests run. Programs of every Debian, such as mount and
// sh, are not listed.
var needs = []Program{
	{"/usr/lib/frr/zebra", "frr"},
	{"/usr/lib/frr/bgpd", "frr"},
	{"/usr/lib/frr/bfdd", "frr"},
	{"vtysh", "frr"},
	{"bird", "bird2"},
	{"nft", "nftables"},
	{"iptables", "iptables"}, // for kube-proxy in the world iptables
	{"containerd", "containerd"},
	{"runc", "runc"},
	{"ip", "iproute2"},
	{"ping", "iputils-ping"},
	{"arping", "iputils-arping"},
	{"tcpdump", "tcpdump"},
	{"curl", "curl"},
	{"promtool", "prometheus"}, // for the tests of the chart's alerts
}

// Inspect reads this host. It makes and removes the directory scratch, which must be on the disk of
// the lab.
func Inspect(scratch string) Host {
	h := Host{Root: os.Geteuid() == 0, System: system(), Apt: present("apt-get"), Memory: memory()}
	for _, n := range needs {
		if !present(n.Name) {
			h.Programs = append(h.Programs, n)
		}
	}
	if h.Root { // nobody else may try
		h.Kernel = kernel(scratch)
	}
	h.Disks = append(h.Disks, disk(filepath.Dir(scratch), false))
	if cache, err := os.UserCacheDir(); err == nil {
		h.Disks = append(h.Disks, disk(cache, true))
		h.Built = exists(filepath.Join(cache, "purelb-lab", "bin", "kubebox"))
	}
	return h
}

// system returns the name of the distribution, or of the kernel.
func system() string {
	text, _ := os.ReadFile("/etc/os-release")
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.Trim(name, `"'`)
		}
	}
	return "Linux"
}

// memory returns the number of bytes that programs can get without swapping.
func memory() (free uint64) {
	text, _ := os.ReadFile("/proc/meminfo")
	if _, after, ok := bytes.Cut(text, []byte("MemAvailable:")); ok {
		_, _ = fmt.Sscan(string(after), &free)
	}
	return free * 1024
}

// disk reads how much can be written to a directory, which need not exist yet.
func disk(path string, building bool) Disk {
	for dir := path; ; dir = filepath.Dir(dir) {
		var s unix.Statfs_t
		if err := unix.Statfs(dir, &s); err == nil || dir == filepath.Dir(dir) {
			return Disk{path, s.Bavail * uint64(s.Bsize), building}
		}
	}
}

// present also looks in directories that are not in an ordinary user's PATH.
func present(program string) bool {
	if _, err := exec.LookPath(program); err == nil {
		return true
	}
	return slices.ContainsFunc([]string{"/usr/sbin", "/sbin", "/usr/local/sbin"}, func(dir string) bool {
		return exists(filepath.Join(dir, program))
	})
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
