package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"purelb.io/purelb/internal/testing/expect"
)

// listen returns a listener at an address that only this process uses, so that the port stays free
// for the test after the listener is closed.
func listen(t *testing.T) net.Listener {
	t.Helper()
	pid := os.Getpid()
	own := netip.AddrFrom4([4]byte{127, byte(1 + pid>>16%250), byte(pid >> 8), byte(pid)})
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", netip.AddrPortFrom(own, 0).String())
	expect.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// get returns the answer at address.
func get(ctx context.Context, address string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, nil)
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return fmt.Sprint(response.StatusCode, " ", string(body)), err
}

func TestTheServerAnswersUntilItsEndAndFreesItsPort(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listener := listen(t)
	address := listener.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- Server{Handler: Probe(func() error { return nil })}.serve(ctx, listener) }()
	if got, err := get(t.Context(), address); got != "200 ok\n" || err != nil {
		t.Errorf("answered %q, %v", got, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	if again, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address); err != nil {
		t.Error(err)
	} else {
		_ = again.Close()
	}
}

func TestTheEndDoesNotWaitForAnAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listener, release := listen(t), make(chan struct{})
	defer close(release)
	slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		cancel()
		<-release
	})
	ended := make(chan error, 1)
	go func() { ended <- Server{Handler: slow}.serve(ctx, listener) }()
	if got, err := get(t.Context(), listener.Addr().String()); err == nil {
		t.Errorf("answered %q after the end", got)
	}
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestPortInUseIsAnError(t *testing.T) {
	address := listen(t).Addr().String()
	err := Server{Address: address, Handler: http.NotFoundHandler()}.Run(t.Context())
	if want := "serve metrics and probes: listen tcp " + address; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestServerWithoutAddressRunsUntilTheEnd(t *testing.T) {
	for _, nowhere := range []string{"", "0"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- Server{Address: nowhere}.Run(ctx) }()
			synctest.Wait()
			select {
			case err := <-ended:
				t.Fatalf("%q: the server ended at once, with %v", nowhere, err)
			default:
			}
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("%q: ended with %v", nowhere, err)
			}
		})
	}
}

func TestProbeReturnsItsError(t *testing.T) {
	for want, err := range map[string]error{"200 ok\n": nil, "503 the loop is stuck\n": errors.New("the loop is stuck")} {
		w := httptest.NewRecorder()
		Probe(func() error { return err }).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
		expect.Equal(t, "the answer", fmt.Sprint(w.Code, " ", w.Body), want)
	}
}
