// Package forward passes TCP connections on. The lab gives a process in one network namespace a
// listening socket of another namespace. That is how the host reaches the API server without an
// address or a route in the lab.
package forward

import (
	"io"
	"log"
	"net"
	"time"
)

// Serve passes every connection that l accepts on to the address.
func Serve(l net.Listener, to string) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go pass(conn, to)
	}
}

func pass(in net.Conn, to string) {
	defer in.Close()
	out, err := net.DialTimeout("tcp", to, 5*time.Second)
	if err != nil {
		log.Print(err)
		return
	}
	defer out.Close()
	done := make(chan struct{}, 2)
	go stream(in, out, done)
	go stream(out, in, done)
	<-done
	<-done
}

// stream copies one direction and passes its end on. The other direction may still carry data.
func stream(to, from net.Conn, done chan<- struct{}) {
	_, _ = io.Copy(to, from)
	if c, ok := to.(*net.TCPConn); ok {
		_ = c.CloseWrite()
	}
	done <- struct{}{}
}
