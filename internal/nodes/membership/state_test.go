package membership

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"purelb.io/purelb/internal/nodes/lease"
	"purelb.io/purelb/internal/testing/expect"
)

func TestStateShowsEachSource(t *testing.T) {
	m := New(Options{
		Lease: lease.Options{Node: "node-a", Duration: 10 * time.Second, RenewDeadline: 7 * time.Second, RetryPeriod: time.Second},
		Log:   slog.New(slog.DiscardHandler),
	})
	shows := map[string]string{
		"gossip": `{"runs":false}`,
		"leases": `{"contact":"0001-01-01T00:00:00Z","nodes":null,"settled":false,"trusted":false}`,
	}
	for name, view := range m.State() {
		text, err := json.Marshal(view())
		expect.NoError(t, err)
		expect.Equal(t, name, string(text), shows[name])
	}
}
