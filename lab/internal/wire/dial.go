package wire

import (
	"context"
	"net"
	"net/http"
)

// Dial connects to an address from the network namespace at path. The dialer gets one literal address, so it
// opens the socket on this goroutine, in the namespace.
func Dial(ctx context.Context, path string, dialer net.Dialer, network, address string) (conn net.Conn, err error) {
	err = In(path, func() error {
		conn, err = dialer.DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Transport sends all requests to an address in the network namespace at path, each on its own connection.
func Transport(path, address string) *http.Transport {
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return Dial(ctx, path, net.Dialer{}, network, address)
	}}
}
