// Echo answers each request with the pod and the node that got it, and with both addresses that the
// pod sees. Tests reach it through Services. It ends at SIGTERM, or serves for a time of LINGER after that.
//
//	:8080  HTTP, one line a request; /lookup/NAME answers with the addresses of a name instead
//	:8081  TCP, a line of greeting, then every line comes back; for connections that last
//	:8082  UDP, every datagram comes back behind the line
package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed := make(chan error, 3)
	go func() { failed <- http.ListenAndServe(":8080", pages()) }()
	go func() { failed <- serveTCP(":8081") }()
	go func() { failed <- serveUDP(":8082") }()
	select {
	case err := <-failed:
		log.Fatal(err)
	case <-ctx.Done():
		linger, _ := time.ParseDuration(os.Getenv("LINGER")) // usually there is none
		time.Sleep(linger)
	}
}

func line(peer, local net.Addr) string {
	host, _ := os.Hostname()
	return fmt.Sprintf("pod=%s node=%s peer=%s local=%s\n",
		cmp.Or(os.Getenv("POD_NAME"), host), cmp.Or(os.Getenv("NODE_NAME"), "-"), peer, local)
}

func pages() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", page)
	mux.HandleFunc("/lookup/{name}", lookup)
	return mux
}

// lookup resolves a name with the pod's resolver configuration.
func lookup(w http.ResponseWriter, r *http.Request) {
	addresses, err := net.DefaultResolver.LookupNetIP(r.Context(), "ip", r.PathValue("name"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	for _, a := range addresses {
		fmt.Fprintln(w, a.Unmap())
	}
}

func page(w http.ResponseWriter, r *http.Request) {
	local := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	peer, err := net.ResolveTCPAddr("tcp", r.RemoteAddr)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprint(w, line(peer, local))
}

func serveTCP(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go talk(conn)
	}
}

func talk(conn net.Conn) {
	defer conn.Close()
	fmt.Fprint(conn, line(conn.RemoteAddr(), conn.LocalAddr()))
	for in := bufio.NewScanner(conn); in.Scan(); {
		fmt.Fprintln(conn, in.Text())
	}
}

func serveUDP(addr string) error {
	conn, err := net.ListenPacket("udp", addr)
	if err != nil {
		return err
	}
	// Data that arrives while this process does not run must wait. The kernel grants at most
	// rmem_max for that.
	if err := conn.(*net.UDPConn).SetReadBuffer(4 << 20); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for {
		n, peer, err := conn.ReadFrom(buf)
		if err != nil {
			return err
		}
		_, _ = conn.WriteTo(append([]byte(line(peer, conn.LocalAddr())), buf[:n]...), peer)
	}
}
