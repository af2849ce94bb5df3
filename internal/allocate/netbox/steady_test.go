package netbox_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"purelb.io/purelb/internal/allocate/netbox"
	"purelb.io/purelb/internal/testing/netboxtest"
)

type failing func() error

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f() }

// Each new text is written into the conditions and events of all Services that wait.
func TestOutageHasOneText(t *testing.T) {
	server := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 80), Port: 443}
	expired := &x509.Certificate{NotBefore: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	for _, tt := range []struct {
		name, says string
		attempt    func(n int) error
	}{
		{"reset", "read tcp 192.0.2.80:443: connection reset by peer", func(n int) error {
			return &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 40000 + n}, Addr: server, Err: syscall.ECONNRESET}
		}},
		{"no answer of the name server", "read udp [2001:db8::53]:53: i/o timeout", func(n int) error {
			return &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{
				Name: "netbox.example", Server: "[2001:db8::53]:53", IsTimeout: true, Err: fmt.Sprintf("read udp [2001:db8::1]:%d->[2001:db8::53]:53: i/o timeout", 40000+n)}}
		}},
		{"expired certificate", "valid from 2025-01-01T00:00:00Z to 2026-01-01T00:00:00Z", func(n int) error {
			return &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Cert: expired, Reason: x509.Expired, Detail: fmt.Sprintf("current time 2026-01-01T00:00:%02dZ is after 2026-01-01T00:00:00Z", n)}}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, n := newMemoryNetBox(t, netboxtest.V46, inPrefixes), 0
			c := connect(t, netbox.Config{URL: "https://netbox.example", Transport: failing(func() error { n++; return tt.attempt(n) })})
			_, first := c.Prepare(t.Context(), b.group)
			_, second := c.Prepare(t.Context(), b.group)
			if first == nil || second == nil || first.Error() != second.Error() || !strings.Contains(first.Error(), tt.says) {
				t.Errorf("the texts are\n%v\n%v", first, second)
			}
		})
	}
}
