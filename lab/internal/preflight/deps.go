package preflight

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
)

// policyFile controls whether Debian's packages may start their daemons.
const policyFile = "/usr/sbin/policy-rc.d"

// daemons are units that the packages would start now, or at the next boot of the host. The lab
// starts its own daemons in its machines.
var daemons = map[string]string{"containerd": "containerd", "frr": "frr", "bird2": "bird", "prometheus": "prometheus"}

// Install installs the missing packages without letting them start anything.
func (h Host) Install(ctx context.Context, out io.Writer) error {
	if err := h.Missing(); err != nil {
		return err
	}
	missing := h.packages()
	if len(missing) == 0 {
		fmt.Fprintln(out, "all packages are installed")
		return nil
	}
	fmt.Fprintln(out, "installing", strings.Join(missing, " "))
	allow, err := forbidDaemons()
	if err != nil {
		return err
	}
	defer allow()
	if err := apt(ctx, "update", "-qq"); err != nil {
		return err
	}
	args := append([]string{"install", "-qq", "-y", "--no-install-recommends"}, missing...)
	if err := apt(ctx, args...); err != nil {
		return err
	}
	return disable(ctx, missing)
}

// forbidDaemons installs the policy until allow is called. It leaves an existing policy unchanged.
func forbidDaemons() (allow func(), err error) {
	f, err := os.OpenFile(policyFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.WriteString("#!/bin/sh\nexit 101\n"); err != nil {
		return nil, err
	}
	return func() { _ = os.Remove(policyFile) }, nil
}

func apt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	said, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("apt-get %s: %w\n%s", strings.Join(args, " "), err, said)
	}
	return nil
}

// disable prevents the daemons of newly installed packages from starting at the host's next boot.
func disable(ctx context.Context, installed []string) error {
	if !exists("/run/systemd/system") {
		return nil
	}
	var errs []error
	for _, pkg := range installed {
		if unit, ok := daemons[pkg]; ok {
			errs = append(errs, exec.CommandContext(ctx, "systemctl", "disable", "--quiet", unit).Run())
		}
	}
	return errors.Join(errs...)
}
