package preflight_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/lab/internal/preflight"
)

func TestTheMessageSaysWhatWhyAndHow(t *testing.T) {
	const gb = 1 << 30
	good := preflight.Host{Root: true, System: "Debian GNU/Linux 13 (trixie)", Apt: true, Memory: 8 * gb, Disks: []preflight.Disk{
		{Path: "/var/lib", Free: 9 * gb}, {Path: "/root/.cache", Free: 9 * gb, Building: true},
	}}
	lacking := []preflight.Program{{Name: "/usr/lib/frr/zebra", Package: "frr"}, {Name: "vtysh", Package: "frr"}, {Name: "bird", Package: "bird2"}}
	with := func(change func(*preflight.Host)) preflight.Host {
		h := good
		h.Disks = append([]preflight.Disk(nil), good.Disks...)
		change(&h)
		return h
	}
	const root = "missing: root, for network namespaces, mounts and control groups: run the same command as root, for example with sudo"
	for _, tt := range []struct {
		name           string
		host           preflight.Host
		want, unready  string
		unreadyDiffers bool
	}{
		{name: "nothing is missing", host: good},
		{name: "root", host: with(func(h *preflight.Host) { h.Root = false }), want: root},
		{name: "packages of Debian", host: with(func(h *preflight.Host) { h.Programs = lacking }), unreadyDiffers: true,
			unready: "missing: programs (/usr/lib/frr/zebra vtysh bird), for the machines of the lab: " +
				"`make deps` installs them as root, or do it yourself, which also starts their daemons: apt-get install -y --no-install-recommends frr bird2"},
		{name: "another distribution", host: with(func(h *preflight.Host) { h.Programs, h.Apt, h.System = lacking, false, "Fedora Linux 44" }),
			want: "missing: programs (/usr/lib/frr/zebra vtysh bird), for the machines of the lab: " +
				"this is Fedora Linux 44, without apt-get, so install them by its own means (Debian has them in frr bird2)"},
		{name: "another distribution with all programs", host: with(func(h *preflight.Host) { h.Apt = false })},
		{name: "the kernel", host: with(func(h *preflight.Host) {
			h.Kernel = []preflight.Feature{{Name: "bridges", Err: errors.New("operation not supported"), Remedy: "modprobe bridge"}}
		}), want: "missing: bridges, which this kernel does not have or does not allow (operation not supported): modprobe bridge"},
		{name: "memory to compile", host: with(func(h *preflight.Host) { h.Memory = 2 * gb }),
			want: "missing: memory, of which 2.0 GB are free and 3.0 GB are needed to compile Kubernetes: end other programs, or use a larger machine"},
		{name: "less memory when Kubernetes is compiled", host: with(func(h *preflight.Host) { h.Memory, h.Built, h.Disks[1].Free = 2*gb, true, 0 })},
		{name: "disks", host: with(func(h *preflight.Host) { h.Disks[0].Free, h.Disks[1].Free = gb/2, 2*gb }),
			want: "missing: disk space, of which /var/lib has 0.5 GB and needs 1.0 GB: free some, or set LAB_STATE to a directory on another disk\n" +
				"missing: disk space, of which /root/.cache has 2.0 GB and needs 6.0 GB to compile Kubernetes: free some, or set GOCACHE and XDG_CACHE_HOME to directories on another disk"},
		{name: "in the order of their cure", host: with(func(h *preflight.Host) { h.Root, h.Apt, h.Programs, h.System = false, false, lacking[2:], "Alpine" }),
			want: root + "\nmissing: programs (bird), for the machines of the lab: this is Alpine, without apt-get, so install them by its own means (Debian has them in bird2)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !tt.unreadyDiffers {
				tt.unready = tt.want
			}
			if diff := cmp.Diff([]string{tt.want, tt.unready}, []string{text(tt.host.Missing()), text(tt.host.Unready())}); diff != "" {
				t.Errorf("before and after the installation (-want +got):\n%s", diff)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestThisHostIsInspectedWithoutATrace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test probes the kernel: run it as root")
	}
	scratch := filepath.Join(t.TempDir(), "lab.probe")
	host := preflight.Inspect(scratch)
	for _, f := range host.Kernel {
		t.Errorf("%s: %v", f.Name, f.Err)
	}
	if !host.Root || !host.Apt || host.System == "" || host.Memory == 0 || len(host.Disks) != 2 || host.Disks[0].Free == 0 || host.Disks[1].Free == 0 {
		t.Errorf("this host is %+v", host)
	}
	for _, left := range []string{scratch, "/sys/class/net/probe0"} {
		if _, err := os.Stat(left); err == nil {
			t.Errorf("the probes left %s behind", left)
		}
	}
}

// TestTheFirstLineOfTheScript runs hack/preflight as a stranger would, on a machine that lacks this
// or that.
func TestTheFirstLineOfTheScript(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test runs commands as another user: run it as root")
	}
	bin := t.TempDir()                                     // the PATH of a machine without apt-get
	for _, dir := range []string{bin, filepath.Dir(bin)} { // the other user may read it
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"dirname", "uname", "sed", "sort", "head", "id"} {
		at, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(at, filepath.Join(bin, program)); err != nil {
			t.Fatal(err)
		}
	}
	compiled := filepath.Join(bin, "compiled")
	if out, err := exec.Command("go", "build", "-o", compiled, "../../cmd/preflight").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	script, err := os.ReadFile("../../../hack/preflight")
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(module), "\ngo ")
	version, _, _ := strings.Cut(after, "\n")
	root := filepath.Join(bin, "purelb")
	for file, content := range map[string][]byte{"hack/preflight": script, "lab/go.mod": module} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, file), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const nobody = 65534
	for _, tt := range []struct {
		name, goes string // the version of Go, "" for none
		user       uint32
		want       string
	}{
		{"without Go", "", 0, "missing: Go " + version + ", which compiles everything here: get it from https://go.dev/dl"},
		{"an old Go", "go1.24.4", 0, "missing: Go " + version + ", which compiles everything here and is 1.24.4 on this machine: get it from https://go.dev/dl"},
		{"not root", "go" + version, nobody, "missing: root, for network namespaces, mounts and control groups: run the same command as root"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fake := filepath.Join(bin, "go")
			_ = os.Remove(fake)
			if tt.goes != "" {
				text := "#!/bin/sh\n[ $1 = env ] && echo " + tt.goes + " || exec " + compiled + "\n"
				if err := os.WriteFile(fake, []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("/bin/sh", filepath.Join(root, "hack/preflight"))
			cmd.Env = []string{"PATH=" + bin, "HOME=/nonexistent"}
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: tt.user, Gid: tt.user}}
			out, err := cmd.CombinedOutput()
			if first, _, _ := strings.Cut(string(out), "\n"); err == nil || !strings.HasPrefix(first, tt.want) {
				t.Errorf("hack/preflight says %v\n%s\nwant %s", err, out, tt.want)
			}
		})
	}
}
