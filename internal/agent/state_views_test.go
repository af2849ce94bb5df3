package agent

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"purelb.io/purelb/internal/lease"
)

func TestTheStateSaysWhatEachSourceTells(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	leases := lease.New(lease.Options{Node: "node-a", Duration: 10 * time.Second, RenewDeadline: 7 * time.Second, RetryPeriod: time.Second, Log: log})
	f := newFellows(Setup{Node: "node-a", Log: log}, leases, nil)
	shows := map[string]string{
		"gossip": `{"runs":false}`,
		"leases": `{"contact":"0001-01-01T00:00:00Z","nodes":null,"settled":false,"trusted":false}`,
	}
	for name, view := range f.views() {
		text, err := json.Marshal(view())
		if err != nil {
			t.Fatal(err)
		}
		want(t, name, string(text), shows[name])
	}
}
