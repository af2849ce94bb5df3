package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/expect"
)

func TestAddressesAreCountedByState(t *testing.T) {
	decided := func(reason, winner, because string) fact {
		return fact{decision: &announce.Decision{Reason: reason, Winner: winner, Because: because}}
	}
	here := func(where announce.Where) fact { return fact{decision: &announce.Decision{Where: where}} }
	failed := here(announce.Local)
	failed.failure = errors.New("no such device").Error()
	for _, tt := range []struct {
		name string
		of   []fact
		want string
	}{
		{"local", []fact{here(announce.Local)}, "local"},
		{"remote", []fact{here(announce.Remote)}, "remote"},
		{"refused by the kernel", []fact{failed}, "failed"},
		{"another node won", []fact{decided(announce.ReasonLostElection, "node-b", "")}, "elsewhere"},
		{"of another network", []fact{decided(announce.ReasonNoInterface, "node-b", "")}, "elsewhere"},
		{"a network that no node has", []fact{decided(announce.ReasonNoInterface, "", "")}, "unplaced"},
		{"all nodes of its network are dead", []fact{decided(announce.ReasonNoEligibleNodes, "", "")}, "unplaced"},
		{"endpoints are on other nodes", []fact{decided(announce.ReasonNoEndpoints, "", "")}, "elsewhere"},
		{"local, no endpoint", []fact{decided(announce.ReasonNoEndpoints, "", election.ReasonNoEndpoints)}, "withheld"},
		{"remote, no endpoint", []fact{decided(announce.ReasonNoEndpoints, "", announce.BecauseNoNode)}, "withheld"},
		{"idle", []fact{decided(announce.ReasonIdle, "", "")}, "withheld"},
		{"shared, one Service without endpoints", []fact{decided(announce.ReasonIdle, "", ""), here(announce.Remote)}, "remote"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, report := newAnnounced(10), reports{}
			for i, f := range tt.of {
				report[subject{fmt.Sprint("default/", i), addrOf("192.0.2.9")}] = f
			}
			a.show("node-a", report, 0)
			counts := a.last.Load().count()
			for s, n := range counts {
				if want := addressState(s).String() == tt.want; (n == 1) != want || n > 1 {
					t.Errorf("%d addresses have the state %s, want one with %s", n, addressState(s), tt.want)
				}
			}
		})
	}
}

// The alert PureLBAddressNotAnnounced counts the announced addresses.
func TestAnAddressThatAnotherMachineTookCountsAsWaiting(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.cluster.change(serving(branded("web", "192.0.2.9")))
		pass(time.Minute)
		counts := func(when string, series, local, waiting int) {
			t.Helper()
			expect.Equal(t, when+": series", testutil.CollectAndCount(w.metrics.announced, "purelb_lbnodeagent_announced", "purelb_lbnodeagent_announced_local"), series)
			got := w.metrics.announced.last.Load().count()
			if got[addressLocal] != local || got[addressWaiting] != waiting {
				t.Errorf("%s: %d local addresses and %d that wait, want %d and %d", when, got[addressLocal], got[addressWaiting], local, waiting)
			}
		}
		counts("at first", 2, 1, 0)
		w.kernel.plug("eth0", false)
		settle()
		w.kernel.change(func() { w.kernel.answers["192.0.2.9"] = someMAC })
		w.kernel.plug("eth0", true)
		pass(5 * time.Minute)
		expect.Equal(t, "kernel", w.kernel.String(), "")
		counts("while another machine has it", 0, 0, 1)
		w.kernel.change(func() { clear(w.kernel.answers) })
		pass(time.Minute)
		expect.Equal(t, "kernel, when no machine answers any more", w.kernel.String(), "192.0.2.9/24 eth0")
		counts("when it is back", 2, 1, 0)
	})
}

// The alert PureLBAddressAnnouncedTwice compares the local addresses of all nodes, so many remote
// addresses must not hide them.
func TestTooManyAddressesHaveNoOwnSeries(t *testing.T) {
	const most = 3
	for _, tt := range []struct{ local, remote, localSeries, series, omitted int }{
		{most, 0, most, most, 0}, {most + 1, 0, 0, 0, most + 1}, {most, most, most, 0, 2 * most},
	} {
		a, report := newAnnounced(most), reports{}
		for i := range max(tt.local, tt.remote) {
			report[subject{"default/near", addrOf(fmt.Sprintf("192.0.2.%d", i))}] = fact{decision: &announce.Decision{Where: announce.Local}}
			if i < tt.remote {
				report[subject{"default/far", addrOf(fmt.Sprintf("203.0.113.%d", i))}] = fact{decision: &announce.Decision{Where: announce.Remote}}
			}
		}
		a.show("node-a", report, 2)
		what := fmt.Sprintf("of %d local and %d remote addresses", tt.local, tt.remote)
		expect.Equal(t, "local series "+what, testutil.CollectAndCount(a, "purelb_lbnodeagent_announced_local"), tt.localSeries)
		expect.Equal(t, "series "+what, testutil.CollectAndCount(a, "purelb_lbnodeagent_announced"), tt.series)
		text := fmt.Sprintf(`
# HELP purelb_lbnodeagent_announced_omitted Announced addresses without series of their own, because the node has more than --max-address-metrics.
# TYPE purelb_lbnodeagent_announced_omitted gauge
purelb_lbnodeagent_announced_omitted %d
`, tt.omitted)
		if err := testutil.CollectAndCompare(a, strings.NewReader(text), "purelb_lbnodeagent_announced_omitted"); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
