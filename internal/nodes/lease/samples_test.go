package lease

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/expect"
)

// slowTable returns the table of node-a, which does not watch Leases.
func slowTable() *table {
	t := fastTable()
	t.endWatch(at(0))
	t.turn = 0.5 // no spread
	return t
}

// slow returns a Lease of node that was renewed at this time and counts for three minutes.
func slow(node string, renewed float64) coordinationv1.Lease {
	o := leaseOf(node, at(renewed), "192.0.2.0/24")
	seconds := int32(180)
	o.Spec.LeaseDurationSeconds = &seconds
	return *o
}

// about returns the state of node-b in t at the time now.
func about(t *table, now float64) string {
	for _, l := range t.view(at(now)).Leases {
		if l.Node == "node-b" {
			renewed := "never"
			if !l.Renewed.IsZero() {
				renewed = fmt.Sprint("after ", l.Renewed.Sub(at(0)))
			}
			return fmt.Sprintf("alive %t, renewed %s", l.Alive, renewed)
		}
	}
	return "gone"
}

func says(t *testing.T, table *table, now float64, want string) {
	t.Helper()
	expect.Equal(t, fmt.Sprintf("at %g s: node-b", now), about(table, now), want)
}

func TestAnUnwatchedLeaseCountsUntilItIsFoundSilent(t *testing.T) {
	table := slowTable()
	table.list([]coordinationv1.Lease{slow("node-b", 0)}, at(0))
	table.list([]coordinationv1.Lease{slow("node-b", 0)}, at(300))
	says(t, table, 300, "alive true, renewed never")

	table.lost = map[string]time.Time{"node-b": at(310)}
	table.list([]coordinationv1.Lease{slow("node-b", 0)}, at(315))
	table.list([]coordinationv1.Lease{slow("node-b", 0)}, at(320))
	says(t, table, 320, "alive true, renewed never") // the Lease of a lost node has the duration of a fast Lease
	table.list([]coordinationv1.Lease{slow("node-b", 0)}, at(321))
	says(t, table, 321, "alive false, renewed never")

	table.list([]coordinationv1.Lease{slow("node-b", 330)}, at(331))
	says(t, table, 331, "alive true, renewed after 5m21s") // not before the last observation
	table.list(nil, at(400))
	says(t, table, 400, "gone")
}

func TestUnprovenLeaseCountsForItsDuration(t *testing.T) {
	table := slowTable()
	table.list([]coordinationv1.Lease{slow("node-b", 0)}, at(0))
	table.unproven = map[string]bool{"node-b": true}
	table.plan(at(0))
	reads(t, table, 0, "nothing for 3m5.03s") // until 5.03 s after the Lease expired
	table.list([]coordinationv1.Lease{slow("node-b", 0)}, at(180))
	says(t, table, 180, "alive true, renewed never")
	table.list([]coordinationv1.Lease{slow("node-b", 0)}, at(185))
	says(t, table, 185, "alive false, renewed never")
	table.postpone(at(186))
	reads(t, table, 186, "nothing for 4m59s")
	table.list([]coordinationv1.Lease{slow("node-b", 200)}, at(201))
	says(t, table, 201, "alive true, renewed after 3m5s")
}

func TestTheNextWatchRemembersRenewals(t *testing.T) {
	table := fastTable()
	table.observe(leaseOf("node-b", at(0), "192.0.2.0/24"), at(0))
	renewed(table, at(1), false)
	table.observe(leaseOf("node-b", at(3), "192.0.2.0/24"), at(3))
	table.endWatch(at(4))
	table.beginWatch()
	says(t, table, 5, "alive true, renewed after 3s")
}

func TestWatchCountsLeasesOfLostNodesAsFast(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lost  bool
		first float64 // the renewal that the watch shows first; the list before it showed the renewal at -60
		show  func(*table)
		want  string
	}{
		{"lost and silent", true, -60, func(*table) {}, "alive false, renewed never"},
		{"renewed between the last list and the loss", true, -5, func(*table) {}, "alive false, renewed never"},
		{"lost, and renews once", true, -60, func(t *table) { o := slow("node-b", 3); t.observe(&o, at(3)) }, "alive true, renewed after 3s"},
		{"never gossiped", false, -60, func(*table) {}, "alive true, renewed never"},
	} {
		table := slowTable()
		table.list([]coordinationv1.Lease{slow("node-b", -60)}, at(-50))
		if tt.lost {
			table.lost = map[string]time.Time{"node-b": at(-1)}
		}
		table.beginWatch()
		table.list([]coordinationv1.Lease{slow("node-b", tt.first)}, at(0))
		table.synced = true
		renewed(table, at(1), false)
		tt.show(table)
		for s := 4.0; s <= 16; s += 3 {
			renewed(table, at(s), false)
		}
		expect.Equal(t, tt.name, about(table, 16), tt.want)
	}
}

func TestLeaseOfANodeLostDuringAWatchCountsAsFast(t *testing.T) {
	table := fastTable()
	o := slow("node-b", 0)
	table.observe(&o, at(0))
	for s := 0.0; s <= 58; s += 4 {
		renewed(table, at(s), false)
	}
	table.lose(map[string]time.Time{"node-b": at(57)}, at(57))
	for s := 60.0; s <= 66; s += 3 {
		renewed(table, at(s), false)
	}
	says(t, table, 66, "alive true, renewed never")
	renewed(table, at(67), false)
	says(t, table, 67, "alive false, renewed never")
}

// A node that lost only a few nodes keeps its Lease slow until a list shows that a lost node has a
// fast Lease.
func TestUnnoticedLossWaitsForAList(t *testing.T) {
	for _, tt := range []struct {
		nodes int
		until float64 // after the loss
	}{{4, 10}, {1000, 10.0/3 + 1.25*(5+30)}} {
		table := fastTable()
		table.unnoticed = true
		for i := range tt.nodes - 2 {
			o := slow(fmt.Sprint("node-", i), 0)
			table.observe(&o, at(0))
		}
		o := slow("node-b", 0)
		table.observe(&o, at(0))
		table.lose(map[string]time.Time{"node-b": at(1)}, at(1))
		for s := 0.0; s < tt.until; s += 3 {
			renewed(table, at(s), false)
		}
		renewed(table, at(tt.until+0.9), false)
		says(t, table, tt.until+0.9, "alive true, renewed never")
		renewed(table, at(tt.until+1.2), false)
		says(t, table, tt.until+1.2, "alive false, renewed never")
	}
}

// The API server shows a renewal a moment after gossip reports the loss.
func TestLateRenewalOfALostNodeCountsAsFast(t *testing.T) {
	for _, tt := range []struct {
		name  string
		early coordinationv1.Lease
	}{
		{"a slow Lease", slow("node-b", 0)},
		{"a fast Lease", *leaseOf("node-b", at(0), "192.0.2.0/24")},
	} {
		table := fastTable()
		table.observe(&tt.early, at(0))
		renewed(table, at(4), false)
		table.lose(map[string]time.Time{"node-b": at(5)}, at(5))
		late := slow("node-b", 4.9)
		table.observe(&late, at(5.5))
		for s := 8.0; s <= 16; s += 4 {
			renewed(table, at(s), false)
		}
		expect.Equal(t, tt.name, about(table, 16), "alive false, renewed after 5.5s")
	}
}

func TestADeathDuringAWatchOutlastsTheWatch(t *testing.T) {
	table := fastTable()
	o := leaseOf("node-b", at(0), "192.0.2.0/24")
	table.observe(o, at(0))
	for s := 0.0; s <= 12; s += 3 {
		renewed(table, at(s), false)
	}
	table.endWatch(at(12))
	says(t, table, 12, "alive false, renewed never")
	table.beginWatch()
	table.synced = true
	table.observe(o, at(20))
	says(t, table, 20, "alive false, renewed never")
	table.observe(leaseOf("node-b", at(21), "192.0.2.0/24"), at(21))
	says(t, table, 21, "alive true, renewed never")
}

func TestWithoutAWatchAListAfterOurLeaseSettles(t *testing.T) {
	for _, tt := range []struct {
		create bool
		after  float64 // the time of the list
	}{{false, 2}, {true, 4}} {
		table := slowTable()
		table.list(nil, at(0))
		o := slow("node-a", 1)
		table.send(versionOf(&o), tt.create, at(1))
		if table.unlisted() {
			t.Error("a list is due before the own Lease is written")
		}
		table.acknowledge(versionOf(&o))
		if !table.unlisted() || table.view(at(1)).Contact != at(1) {
			t.Error("no list is due, or the list is no proof of contact")
		}
		table.list([]coordinationv1.Lease{o}, at(2))
		if v := table.view(at(tt.after)); !v.Settled || v.Trusted {
			t.Errorf("the view is settled %t and trusted %t", v.Settled, v.Trusted)
		}
		if tt.create && table.view(at(3.9)).Settled {
			t.Error("the view is settled before nodes that started together could see each other")
		}
	}
}

func TestASlowLeaseHasALongDuration(t *testing.T) {
	client := api(t)
	l, _ := start(t, client, "node-a", 2*time.Second)
	l.SetMode(Mode{})
	l.Publish(record("192.0.2.0/24"))
	for !l.View().Settled {
		<-l.Changed()
	}
	expect.Equal(t, "the duration of the Lease", *get(t, client, "node-a").Spec.LeaseDurationSeconds, 180)
	l.SetMode(Mode{Fast: true})
	for *get(t, client, "node-a").Spec.LeaseDurationSeconds != 2 {
		<-l.Changed()
	}
}

func TestDeleteIsFinal(t *testing.T) {
	client := api(t)
	l, _ := start(t, client, "node-a", 10*time.Second)
	l.Publish(record("192.0.2.0/24"))
	await(t, l, "node-a is known", members("node-a"))
	expect.NoError(t, l.Delete(t.Context()))
	await(t, l, "the table has no Lease", func(p election.Peers) bool { return len(p.Members) == 0 })
	if err := l.renewNow(t.Context()); err != nil {
		t.Error(err)
	}
	if all, err := client.List(t.Context(), metav1.ListOptions{}); err != nil || len(all.Items) != 0 {
		t.Errorf("the Lease is %v, %v", all, err)
	}
}

func TestTheLeaseCarriesGossipAddressAndDraining(t *testing.T) {
	l, gossip := New(Options{Node: "node-a"}), netip.MustParseAddrPort("[2001:db8::1]:7934")
	o := &coordinationv1.Lease{}
	l.write(o, Record{Draining: "cordoned", Gossip: gossip}, time.Minute, at(0))
	if got, why := Gossip(o), o.Annotations[AnnotationDraining]; got != gossip || why != "cordoned" || !Draining(o) {
		t.Errorf("the Lease has the gossip address %s and draining %q", got, why)
	}
	l.write(o, Record{}, time.Minute, at(0))
	if _, there := o.Annotations[AnnotationGossip]; there || Draining(o) {
		t.Errorf("the annotations are %v", o.Annotations)
	}
	for _, text := range []string{"", "192.0.2.1", "192.0.2.1:0", "node:7934"} {
		o.Annotations[AnnotationGossip] = text
		if got := Gossip(o); got.IsValid() {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}
