package cluster

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
)

func TestTheNewestBoundsOfAGroupCount(t *testing.T) {
	status := func(minute int64, all ...bgpv1.GroupBounds) bgpv1.BGPNodeStatus {
		n := bgpv1.BGPNodeStatus{Status: bgpv1.BGPNodeStatusStatus{GroupBounds: all}}
		if minute > 0 {
			n.Status.LastUpdated = &metav1.Time{Time: time.Unix(60*minute, 0)}
		}
		return n
	}
	bounds := func(group, peer string) bgpv1.GroupBounds {
		return bgpv1.GroupBounds{Group: group, Peers: []string{peer}}
	}
	got := boundsIn([]bgpv1.BGPNodeStatus{
		status(0, bounds("a", "undated")), status(1, bounds("a", "old"), bounds("b", "old")), status(3, bounds("a", "new")), status(2, bounds("b", "new")),
	})
	if diff := cmp.Diff([]bgpv1.GroupBounds{bounds("a", "new"), bounds("b", "new")}, got); diff != "" {
		t.Errorf("bounds (-want +got)\n%s", diff)
	}
}

// A process may need the Services of a group that was made and deleted after its start.
func TestTheWatchOnServicesOfGroupsGoesOn(t *testing.T) {
	clients, err := NewClients(&rest.Config{Host: "http://api.example"})
	if err != nil {
		t.Fatal(err)
	}
	c := NewCaches(clients, "node-a", "purelb", slog.New(slog.DiscardHandler))
	over, end := context.WithCancel(t.Context())
	end() // no request is sent
	c.running = over
	netbox := v2.ServiceGroup{Spec: v2.ServiceGroupSpec{
		Netbox: &v2.NetboxSpec{URL: "https://netbox.example", Tenant: "k8s"}, BGP: &v2.RouteAttributes{Peers: []v2.Peer{"192.0.2.1"}},
	}}
	pooled := v2.ServiceGroup{Spec: v2.ServiceGroupSpec{Remote: &v2.RemoteSpec{}, BGP: netbox.Spec.BGP}}
	for _, step := range []struct {
		name            string
		groups          []v2.ServiceGroup
		known, complete bool
	}{
		{"no group", nil, true, true},
		{"a group with a pool", []v2.ServiceGroup{pooled}, true, true},
		{"a group", []v2.ServiceGroup{netbox}, false, false},
		{"a deleted group", nil, false, false},
	} {
		if services, complete := c.readManaged(step.groups); services != nil != step.known || complete != step.complete {
			t.Errorf("%s: known %v, complete %v, want %v, %v", step.name, services != nil, complete, step.known, step.complete)
		}
	}
}

// An API server that has just started refuses requests until it knows the rights of its users.
func TestBoundsAreReadAgainAfterAFailure(t *testing.T) {
	const own = `{"metadata": {"name": "node-a"}, "status": {"nodeName": "node-a", "groupBounds": [{"group": "own"}]}}`
	const others = `{"items": [{"status": {"groupBounds": [{"group": "others"}]}}]}`
	for _, tt := range []struct {
		name   string
		fail   int
		after  time.Duration // the API server fails so long
		others bool          // it fails only for the list
		want   string
		warned int
	}{
		{"no failure", 0, 0, false, "others own", 0},
		{"refused at first", http.StatusForbidden, 2 * time.Second, false, "others own", 0},
		{"refused for good", http.StatusForbidden, time.Hour, false, "", 1},
		{"no right to list", http.StatusForbidden, time.Hour, true, "own", 1},
		{"another failure for good", http.StatusInternalServerError, time.Hour, false, "", 1},
		{"no objects", http.StatusNotFound, time.Hour, false, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				clients, err := NewClients(&rest.Config{Host: "http://api.example", Transport: transport(func(r *http.Request) (*http.Response, error) {
					list := !strings.HasSuffix(r.URL.Path, "node-a")
					status, body := http.StatusOK, own
					if list {
						body = others
					}
					if time.Since(began) < tt.after && (list || !tt.others) {
						status, body = tt.fail, `{}`
					}
					return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
				})})
				if err != nil {
					t.Fatal(err)
				}
				var log strings.Builder
				c := NewCaches(clients, "node-a", "purelb", slog.New(slog.NewTextHandler(&log, nil)))
				c.readBounds(t.Context())
				var groups []string
				for _, b := range c.bounds {
					groups = append(groups, b.Group)
				}
				if got := strings.Join(groups, " "); got != tt.want {
					t.Errorf("the bounds are those of %q, want %q", got, tt.want)
				}
				if took := time.Since(began); !c.boundsRead || took > lateLimit {
					t.Errorf("after %v the start goes on: %v", took, c.boundsRead)
				}
				if n := strings.Count(log.String(), "groupBoundsUnknown"); n != tt.warned {
					t.Errorf("there are %d warnings, want %d: %s", n, tt.warned, log.String())
				}
			})
		})
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
		if err != nil {
			t.Fatal(err)
		}
		got, err := NewCaches(clients, "node-a", "purelb", slog.New(slog.DiscardHandler)).OthersServe(t.Context())
		if got != tt.want || (err == nil) != (tt.status == http.StatusOK) {
			t.Errorf("status %d with %q: %v, %v, want %v", tt.status, tt.nodes, got, err, tt.want)
		}
	}
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }
