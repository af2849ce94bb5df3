package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

const token = "0123456789abcdef"

// program is a running fakenetbox.
type program struct {
	t               *testing.T
	netbox, control string
}

func start(t *testing.T) program {
	p := program{t, free(t, "127.18.0.1"), free(t, "127.18.0.2")}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"-listen", p.netbox, "-control", p.control, "-token", token, "-range", "192.0.2.10-192.0.2.19/24"}, io.Discard)
	}()
	t.Cleanup(func() {
		defer stop()
		p.order("POST", "/exit", new(any))
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for { // until it listens
		conn, err := net.Dial("tcp", p.control)
		if err == nil {
			conn.Close()
			return p
		}
		select {
		case err := <-ended:
			t.Fatal(err)
		default:
		}
	}
}

// free returns an address of ip that nothing listens on. Other programs that let the kernel choose
// a port use 127.0.0.1, so ip is another loopback address.
func free(t *testing.T, ip string) string {
	l, err := net.Listen("tcp", ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// order calls the control endpoint, and decodes the answer into v.
func (p program) order(method, path string, v any) {
	p.t.Helper()
	request, err := http.NewRequest(method, "http://"+p.control+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		p.t.Fatalf("%s %s: %s %v %s", method, path, answer.Status, err, text)
	}
	if err := json.Unmarshal(text, v); err != nil {
		p.t.Fatalf("%s %s: %v in %s", method, path, err, text)
	}
}

func (p program) addresses() (list []Address) {
	p.t.Helper()
	p.order("GET", "/addresses", &list)
	return list
}

// claim requests an address, and returns the status of the answer.
func (p program) claim(ctx context.Context) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.netbox+"/api/ipam/ip-ranges/1/available-ips/", strings.NewReader(`{"description":"web"}`))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Token "+token)
	request.Header.Set("Content-Type", "application/json")
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	return answer.StatusCode, nil
}

// wants fails the test unless a claim gets this status.
func (p program) wants(status int) {
	p.t.Helper()
	if got, err := p.claim(context.Background()); err != nil || got != status {
		p.t.Errorf("a claim was answered %d %v, want %d", got, err, status)
	}
}

func TestFakeServesTheNetBoxAPI(t *testing.T) {
	p := start(t)
	p.wants(http.StatusCreated)
	list := p.addresses()
	if len(list) != 1 || list[0].Address.String() != "192.0.2.10/24" || list[0].URL != "http://"+p.netbox+"/ipam/ip-addresses/1/" {
		t.Errorf("NetBox holds %+v", list)
	}
	var requests map[string]int
	if p.order("GET", "/requests", &requests); requests["POST /api/ipam/ip-ranges/{id}/available-ips/"] != 1 {
		t.Errorf("NetBox was asked %v", requests)
	}
}

// NetBox completes a request whose client has gone. A held request is completed when it is
// released, unless it is lost.
func TestHeldRequestOutlivesItsClient(t *testing.T) {
	for _, c := range []struct {
		at, lose     string
		before, then int
	}{
		{"request", "false", 0, 1},
		{"request", "true", 0, 0},
		{"answer", "true", 1, 1},
	} {
		p := start(t)
		p.order("POST", "/stop?method=POST&path=available-ips&at="+c.at, new(any))
		ctx, leave := context.WithCancel(context.Background())
		answered := make(chan error, 1)
		go func() {
			_, err := p.claim(ctx)
			answered <- err
		}()
		var held []string
		if p.order("GET", "/stopped", &held); len(held) != 1 || held[0] != "POST /api/ipam/ip-ranges/1/available-ips/" {
			t.Errorf("%v is held", held)
		}
		if n := len(p.addresses()); n != c.before {
			t.Errorf("stopped at the %s: NetBox holds %d addresses, want %d", c.at, n, c.before)
		}
		leave()
		if err := <-answered; err == nil {
			t.Errorf("stopped at the %s: an answer came", c.at)
		}
		p.order("POST", "/resume?lose="+c.lose, new(any))
		for len(p.addresses()) < c.then {
		}
		p.wants(http.StatusCreated)
		if n := len(p.addresses()); n != c.then+1 {
			t.Errorf("stopped at the %s, lost %s: NetBox holds %d addresses after one more, want %d", c.at, c.lose, n, c.then+1)
		}
	}
}

func TestFaultsAreSwitchedOnAndOff(t *testing.T) {
	p := start(t)
	p.order("POST", "/token?state=disabled", new(any))
	p.wants(http.StatusForbidden)
	p.order("POST", "/token?state=valid", new(any))
	p.order("POST", "/down", new(any))
	if status, err := p.claim(context.Background()); err == nil {
		t.Errorf("a server that is down answered %d", status)
	}
	p.order("POST", "/up", new(any))
	p.wants(http.StatusCreated)
	if n := len(p.addresses()); n != 1 {
		t.Errorf("NetBox holds %d addresses, want 1", n)
	}
}
