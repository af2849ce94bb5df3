package speaker

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// counted counts the questions to an API server, and passes them on.
type counted struct {
	gets *atomic.Int32
	to   http.RoundTripper
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		c.gets.Add(1)
	}
	return c.to.RoundTrip(r)
}

func TestTheNodeStatusIsWrittenWithoutAskingUnlessSomebodyElseDid(t *testing.T) {
	c := newCluster(t)
	var gets atomic.Int32
	config := rest.CopyConfig(c.config)
	config.Wrap(func(to http.RoundTripper) http.RoundTripper { return counted{&gets, to} })
	clients, err := NewClients(config)
	if err != nil {
		t.Fatal(err)
	}
	node := "writer-of-" + c.namespace
	var n nodeWriter
	write := func(what string, asks int) {
		t.Helper()
		gets.Store(0)
		r := NodeReport{Enabled: true, Heartbeat: time.Minute, Status: bgpv1.BGPNodeStatusStatus{NodeName: node, RouterIDSource: what}}
		if size, err := n.write(t.Context(), clients, r, time.Now()); err != nil || size == 0 {
			t.Errorf("%s: wrote %d bytes: %v", what, size, err)
		}
		object := c.nodeStatus(node)
		if got := fmt.Sprint(object.Status.RouterIDSource, " ", gets.Load()); got != fmt.Sprint(what, " ", asks) {
			t.Errorf("is %q and asked %d times, want %q and %d", object.Status.RouterIDSource, gets.Load(), what, asks)
		}
	}
	write("new", 1)
	write("changed", 0)
	write("changed once more", 0)

	theirs := c.nodeStatus(node)
	theirs.Labels = map[string]string{"team": "network"}
	if err := c.clients.bgp.Put().Resource(nodeStatuses).Name(node).Body(&theirs).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	write("labelled by somebody", 1)
	if got := c.nodeStatus(node).Labels["team"]; got != "network" {
		t.Errorf("the label of somebody else is %q now", got)
	}

	if err := c.clients.bgp.Delete().Resource(nodeStatuses).Name(node).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	write("removed by somebody", 1)
	write("changed in the end", 0)
}
