package machine

import (
	"fmt"
	"net"
	"net/rpc"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// The path of a socket may have only 107 bytes, and the state directory may be anywhere. So both
// sides name the socket from an open directory.
func listen(path string) (net.Listener, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	_ = os.Remove(path) // an earlier machine may have left the socket
	return net.Listen("unix", short(dir, path))
}

func dial(path string) (net.Conn, error) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return net.DialTimeout("unix", short(dir, path), time.Second)
}

func short(dir *os.File, path string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
}

// Orders sends requests to the first process of a machine.
type Orders struct{ Socket string }

// Start starts a program. It does nothing if the program runs.
func (o Orders) Start(program string) error { return o.call("Start", program, &struct{}{}) }

// Signal sends a signal to a running program.
func (o Orders) Signal(program string, sig syscall.Signal) error {
	return o.call("Signal", Signal{program, int(sig)}, &struct{}{})
}

// List returns the status of every program of the machine.
func (o Orders) List() ([]Status, error) {
	var all []Status
	return all, o.call("List", struct{}{}, &all)
}

func (o Orders) call(method string, arg, into any) error {
	conn, err := dial(o.Socket)
	if err != nil {
		return fmt.Errorf("machine does not answer: %w", err)
	}
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	client := rpc.NewClient(conn)
	defer func() { _ = client.Close() }()
	return client.Call("Machine."+method, arg, into)
}
