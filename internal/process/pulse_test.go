package process

import (
	"testing"
	"time"
)

func TestEndlessPassIsStuck(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var p Pulse
	if err := p.Stuck(now, 0); err != nil {
		t.Errorf("before the first pass: %v", err)
	}
	p.Begin(now)
	if err := p.Stuck(now.Add(59*time.Second), time.Minute); err != nil {
		t.Errorf("within the limit: %v", err)
	}
	err := p.Stuck(now.Add(time.Minute), time.Minute)
	if err == nil || err.Error() != "a pass began 1m0s ago and has not ended" {
		t.Errorf("after the limit: %v", err)
	}
	p.End()
	if err := p.Stuck(now.Add(time.Hour), time.Minute); err != nil {
		t.Errorf("after its end: %v", err)
	}
	if p.Decided() {
		t.Error("decided without deciding")
	}
	if p.Decide(); !p.Decided() {
		t.Error("Decided is false after a pass")
	}
}
