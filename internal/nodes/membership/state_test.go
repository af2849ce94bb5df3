package membership

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"purelb.io/purelb/internal/nodes/lease"
	"purelb.io/purelb/internal/testing/expect"
)

func TestStateShowsThatThereIsNoGossip(t *testing.T) {
	m := New(Options{
		Lease: lease.Options{Node: "node-a", Duration: 10 * time.Second, RenewDeadline: 7 * time.Second, RetryPeriod: time.Second},
		Log:   slog.New(slog.DiscardHandler),
	})
	text, err := json.Marshal(m.State())
	expect.NoError(t, err)
	expect.Equal(t, "state", string(text), `{"runs":false}`)
}
