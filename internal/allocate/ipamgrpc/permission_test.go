package ipamgrpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
)

// asAllocator is the environment variable with the socket for a process that claims as the user of
// the allocator.
const asAllocator = "IPAMGRPC_TEST_SOCKET"

func TestMain(m *testing.M) {
	if socket := os.Getenv(asAllocator); socket != "" {
		fmt.Println(claimAsAllocator(socket))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func claimAsAllocator(socket string) string {
	g, err := Open(socket, "default", "test", unseen)
	if err != nil {
		return err.Error()
	}
	g.connection.withTimeout = patiently
	answer := g.Claim(context.Background(), []ipam.Claim{claim("web", addr.V4)})[0]
	var e *ipam.Error
	if errors.As(answer.Err, &e) {
		return string(e.Kind) + ": " + e.Message
	}
	return answer.Grant.Address.String()
}

// Root ignores permissions, so another process claims as the user of the allocator.
func TestErrorNamesMissingPermission(t *testing.T) {
	for _, tt := range []struct {
		name         string
		folder, file os.FileMode
		want         string
	}{
		{"everybody may", 0o755, 0o666, "192.0.2.1"},
		{"only the owner may write", 0o755, 0o755, "permission denied; user 65534, as which the allocator runs"},
		{"the folder is closed", 0o700, 0o666, "permission denied; user 65534, as which the allocator runs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			socket := socketIn(t)
			start(t, listen(t, socket), newStore())
			program := copyOfTest(t)
			for path, mode := range map[string]os.FileMode{socket: tt.file, filepath.Dir(socket): tt.folder} {
				if err := os.Chmod(path, mode); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(program)
			cmd.Dir, cmd.Env = "/", append(os.Environ(), asAllocator+"="+socket)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("claim as user 65534, which needs root: %v\n%s", err, out)
			}
			got := string(bytes.TrimSpace(out))
			if !strings.Contains(got, tt.want) || strings.HasPrefix(got, string(ipam.KindMisconfigured)) != (tt.want != "192.0.2.1") {
				t.Errorf("the claim got %q, want %q", got, tt.want)
			}
		})
	}
}

// copyOfTest copies this program to a place where every user may run it.
func copyOfTest(t *testing.T) string {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(filepath.Dir(socketIn(t)), "claim")
	if err := os.WriteFile(program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	return program
}
