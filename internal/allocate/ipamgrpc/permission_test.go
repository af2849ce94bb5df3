package ipamgrpc

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/testing/ipamtest"
)

func TestErrorNamesMissingPermission(t *testing.T) {
	for _, tt := range []struct {
		name         string
		folder, file os.FileMode
		want         string
	}{
		{"everybody may", 0o755, 0o666, ""},
		{"only the owner may write", 0o755, 0o755, "permission denied; user 0, as which the allocator runs"},
		{"the folder is closed", 0o700, 0o666, "permission denied; user 0, as which the allocator runs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			socket := ipamtest.Socket(t)
			ipamtest.Serve(t, listen(t, socket), newStore())
			for path, mode := range map[string]os.FileMode{socket: tt.file, filepath.Dir(socket): tt.folder} {
				if err := os.Chmod(path, mode); err != nil {
					t.Fatal(err)
				}
			}
			g, _ := open(t, socket)
			fault := asNobody(func() *ipam.Error {
				if fault := g.connection.missing(); fault != nil {
					return fault
				}
				conn, err := g.connection.dial(t.Context(), "")
				if err != nil {
					return g.connection.unreached(err)
				}
				conn.Close()
				return nil
			})
			if got := fmt.Sprint(fault); (fault != nil) != (tt.want != "") || fault != nil && (fault.Kind != ipam.KindMisconfigured || !strings.Contains(got, tt.want)) {
				t.Errorf("the connection gets %s, want %q", got, tt.want)
			}
		})
	}
}

// asNobody returns the result of do, which it calls with the rights of another user to files, because root may do
// everything.
func asNobody(do func() *ipam.Error) *ipam.Error {
	result := make(chan *ipam.Error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread dies with the goroutine
		_ = syscall.Setfsuid(65534)
		result <- do()
	}()
	return <-result
}
