package linux

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
)

// mostOverBatch is how much longer than `ip -batch` programming may take.
const mostOverBatch = 1.5

// BenchmarkProgram10k measures how long it takes to add 10,000 addresses, half of each
// family, to a link without addresses. It alternates with `ip -batch`, which does the same.
// It also counts the writes of a round that finds all addresses in place.
func BenchmarkProgram10k(b *testing.B) {
	newWorld(b)
	s := newStack(b)
	wanted := append(block("kube-lb0", "198.18.0.1/32", 5000), block("kube-lb0", "2001:db8::1/128", 5000)...)
	var batch strings.Builder
	for _, a := range wanted {
		fmt.Fprintf(&batch, "addr add %s dev %s\n", a.Prefix, a.Link)
	}
	const turns = 3
	var ours, theirs time.Duration
	for b.Loop() {
		for range turns {
			theirs += onEmptyLink(b, s, func() { programByHand(b, batch.String()) })
			ours += onEmptyLink(b, s, func() { put(b, s, wanted...) })
		}
	}
	ratio := ours.Seconds() / theirs.Seconds()
	fmt.Printf("RESULT program_10k_vs_ip_batch %.2f x\n", ratio)
	if ratio > mostOverBatch {
		b.Errorf("10,000 addresses take %.2f times as long as with ip -batch, want at most %.1f", ratio, mostOverBatch)
	}
	reportIdleWrites(b, s, wanted)
}

func reportIdleWrites(b *testing.B, s *Stack, wanted []announce.Address) {
	b.Helper()
	kernel := count(b, s)
	dummy(b, s)
	round(b, s, wanted)
	fmt.Printf("RESULT program_10k_idle_writes %d writes\n", kernel.writes)
	if kernel.writes > 0 {
		b.Errorf("%d writes without a change", kernel.writes)
	}
}

// onEmptyLink returns how long program takes on a kube-lb0 without addresses.
func onEmptyLink(b *testing.B, s *Stack, program func()) time.Duration {
	b.Helper()
	if _, err := s.link(b.Context(), "kube-lb0"); err == nil {
		ip(b, "link del kube-lb0")
	}
	dummy(b, s)
	began := time.Now()
	program()
	return time.Since(began)
}

func programByHand(b *testing.B, batch string) {
	b.Helper()
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(batch)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("ip -batch: %v\n%s", err, out)
	}
}
