package cluster

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"purelb.io/purelb/internal/testing/expect"
)

// A process may need the Services of a group that was made and deleted after its start.
func TestTheWatchOnServicesOfGroupsGoesOn(t *testing.T) {
	clients, err := NewClients(&rest.Config{Host: "http://api.example"})
	expect.NoError(t, err)
	c := NewCaches(clients, "node-a", "purelb", slog.New(slog.DiscardHandler))
	over, end := context.WithCancel(t.Context())
	end() // no request is sent
	c.running = over
	for _, step := range []struct {
		name             string
		needed, complete bool
	}{
		{"no group", false, true},
		{"a group that names neighbors", true, false},
		{"a deleted group", false, false},
	} {
		if _, complete := c.readManaged(step.needed); complete != step.complete {
			t.Errorf("%s: the Services are complete: %v, want %v", step.name, complete, step.complete)
		}
	}
}

func TestWhetherOtherNodesServe(t *testing.T) {
	const ready, silent = `{"metadata": {"name": "node-b"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}`, `{"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}`
	const leaving = `{"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}`
	speaks := func(state string, ago time.Duration) string {
		return fmt.Sprintf(`{"status": {"heartbeatSeconds": 60, "lastUpdated": %q, "neighbors": [{"state": %q}]}}`, time.Now().Add(-ago).UTC().Format(time.RFC3339), state)
	}
	for _, tt := range []struct {
		nodes   string
		speaker string // its BGPNodeStatus, or "" if there is none
		status  int
		want    bool
	}{
		{"", "", http.StatusOK, false},
		{ready, speaks("Established", time.Minute), http.StatusOK, true},
		{ready, speaks("Established", 4*time.Minute), http.StatusOK, false},
		{ready, speaks("Active", time.Minute), http.StatusOK, false},
		{ready, "", http.StatusOK, false},
		{silent, speaks("Established", time.Minute), http.StatusOK, false},
		{leaving, speaks("Established", time.Minute), http.StatusOK, false},
		{silent + "," + ready, speaks("Established", time.Minute), http.StatusOK, true},
		{ready, speaks("Established", time.Minute), http.StatusForbidden, false},
	} {
		clients, err := NewClients(&rest.Config{Host: "http://api.example", Transport: transport(func(r *http.Request) (*http.Response, error) {
			status, body := tt.status, `{"kind": "NodeList", "apiVersion": "v1", "items": [`+tt.nodes+`]}`
			switch {
			case strings.Contains(r.URL.Path, "/bgpnodestatuses/"):
				if body = tt.speaker; body == "" {
					status, body = http.StatusNotFound, `{}`
				}
			case r.URL.Query().Get("labelSelector") != "!node.kubernetes.io/exclude-from-external-load-balancers":
				t.Errorf("the request is %s", r.URL)
			}
			return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
		})})
		expect.NoError(t, err)
		got, err := NewCaches(clients, "node-a", "purelb", slog.New(slog.DiscardHandler)).OthersServe(t.Context())
		if got != tt.want || (err == nil) != (tt.status == http.StatusOK) {
			t.Errorf("status %d with %q: %v, %v, want %v", tt.status, tt.nodes, got, err, tt.want)
		}
	}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }
