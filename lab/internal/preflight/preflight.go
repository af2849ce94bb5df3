// Package preflight checks whether this host can run the lab. It lists what is missing and how to
// get it. It leaves nothing behind.
package preflight

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// need is a program, and the Debian package that contains it.
type need struct{ program, pkg string }

// needs are the programs that the lab or its tests run. Programs of every Debian, such as mount and
// sh, are not listed.
var needs = []need{
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

// Missing returns the needed Debian packages that are not installed.
func Missing() []string {
	var pkgs []string
	for _, n := range needs {
		if !present(n.program) && !slices.Contains(pkgs, n.pkg) {
			pkgs = append(pkgs, n.pkg)
		}
	}
	return pkgs
}

// Check returns all reasons why the lab cannot run here, as one error for users. It makes and
// removes the directory scratch, which must be on the disk of the lab.
func Check(scratch string) error {
	if os.Geteuid() != 0 {
		return errors.New("the lab makes network namespaces and mounts: run it as root")
	}
	errs := append(packages(), kernel(scratch)...)
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("this host cannot run the lab yet:\n%w", errors.Join(errs...))
}

func packages() []error {
	missing := Missing()
	if len(missing) == 0 {
		return nil
	}
	return []error{fmt.Errorf("- packages are missing; install them with `lab deps`, or by yourself, which starts their daemons:\n    %s", aptLine(missing))}
}

func aptLine(pkgs []string) string {
	return "apt-get install -y --no-install-recommends " + strings.Join(pkgs, " ")
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
