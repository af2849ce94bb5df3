package forward

import (
	"fmt"
	"io"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

func TestBothDirectionsAreForwarded(t *testing.T) {
	server := listen(t)
	go func() {
		conn, err := server.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		question, _ := io.ReadAll(conn) // ends when the client has sent everything
		_, _ = conn.Write(append([]byte("you said "), question...))
	}()
	door := listen(t)
	go func() { _ = Serve(door, server.Addr().String()) }()

	conn := dial(t, door)
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); string(answer) != "you said hello" {
		t.Errorf("answer %q, %v", answer, err)
	}
}

func TestConnectionToAClosedPortIsClosed(t *testing.T) {
	door := listen(t)
	go func() { _ = Serve(door, closedPort(t)) }()
	if answer, err := io.ReadAll(dial(t, door)); len(answer) != 0 {
		t.Errorf("answer %q, %v", answer, err)
	}
}

// closedPort returns the address of a socket that does not listen. No other process can take the port
// while the test runs.
func closedPort(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	own, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", own.(*unix.SockaddrInet4).Port)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func dial(t *testing.T, l net.Listener) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}
