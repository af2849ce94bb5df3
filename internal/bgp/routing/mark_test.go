package routing

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRoutesOfAnotherProgramAreReportedAndNotRemoved(t *testing.T) {
	t.Parallel()
	s := router(t)
	k := s.kernel(t)
	s.IP(`route add 203.0.113.0/24 via 192.0.2.254 proto 186 metric 20
		route add 203.0.112.0/24 via 192.0.2.254 proto 186 metric 20
		route add 2001:db8:f::/64 via 2001:db8::fe proto 186 metric 20`)
	before := s.table(t, "main")
	own := []Realm{{Protocol: bgp}, {Protocol: bgp, Table: 100}}
	other := with(learned("198.51.100.0/24", "192.0.2.254"), func(r *Route) { r.Table = 100 })
	for range 2 {
		problems := show(programIn(t, k, own, learned("198.51.100.0/24", "192.0.2.254"), other))
		if !strings.Contains(problems, "203.0.112.0/24 table 254 metric 20 installed false: another program uses this protocol number in this table: "+
			"3 routes of protocol 186 that this program did not make") {
			t.Error(problems)
		}
		if !strings.Contains(problems, "198.51.100.0/24 table 254 metric 20 installed false: another program uses") {
			t.Error(problems)
		}
		want(t, "the other program's routes", s.table(t, "main"), before)
		want(t, "the table without routes of another program", s.table(t, "100"), "198.51.100.0/24 via 192.0.2.254 dev eth0 proto 186 metric 20\n")
	}
	s.IP(`route flush proto 186 table main
		-6 route flush proto 186 table main`)
	want(t, "problems without the other program", show(programIn(t, k, own, learned("198.51.100.0/24", "192.0.2.254"), other)), "")
	want(t, "routes without the other program", s.table(t, "main"), "198.51.100.0/24 via 192.0.2.254 dev eth0 proto 186 metric 20\n")
}

func TestRoutesThatAnotherProgramAddsLaterStay(t *testing.T) {
	t.Parallel()
	s := router(t)
	k := s.kernel(t)
	own := []Realm{{Protocol: bgp}}
	ours := "198.51.100.0/24 via 192.0.2.254 dev eth0 proto 186 metric 20\n"
	programIn(t, k, own, learned("198.51.100.0/24", "192.0.2.254"), learned("198.51.101.0/24", "192.0.2.254"))
	s.IP("route add 203.0.113.0/24 via 192.0.2.254 proto 186 metric 20")
	foreign := "203.0.113.0/24 via 192.0.2.254 dev eth0 proto 186 metric 20\n"
	problem := "203.0.113.0/24 table 254 metric 20 installed false: another program uses this protocol number in this table too: " +
		"1 routes of protocol 186 that another program added\n"
	for range 2 {
		want(t, "problems", show(programIn(t, k, own, learned("198.51.100.0/24", "192.0.2.254"))), problem)
		want(t, "routes of both", s.table(t, "main"), ours+foreign)
	}
	occupied := show(programIn(t, k, own, learned("198.51.100.0/24", "192.0.2.254"), learned("203.0.113.0/24", "192.0.3.254")))
	if !strings.Contains(occupied, "203.0.113.0/24 table 254 metric 20 installed false: a route of another program is in its place") {
		t.Error(occupied)
	}
	want(t, "routes of both", s.table(t, "main"), ours+foreign)

	later := s.kernel(t)
	if problems := show(programIn(t, later, own)); !strings.Contains(problems, "2 routes of protocol 186 that this program did not make") {
		t.Errorf("the problems of a later process are %s, want one about 2 routes of unknown origin", problems)
	}
	want(t, "routes of both", s.table(t, "main"), ours+foreign)

	want(t, "problems without wanted routes", show(programIn(t, k, nil)), "")
	want(t, "routes of the other program", s.table(t, "main"), foreign)
	s.IP("route flush proto 186 table main")
	want(t, "problems without the other program", show(programIn(t, k, own, learned("198.51.100.0/24", "192.0.2.254"))), "")
	want(t, "problems of a later process", show(programIn(t, s.kernel(t), own)), "")
	want(t, "routes of a later process", s.table(t, "main"), "")
}

func TestALaterProcessRecognizesItsRoutes(t *testing.T) {
	t.Parallel()
	s := router(t)
	own := []Realm{{Protocol: bgp, Default: true, DefaultMetric: 20}, {Protocol: bgp, Table: 4000000000}}
	far := with(learned("198.51.101.0/24", "192.0.2.254"), func(r *Route) { r.Table = 4000000000 })
	programIn(t, s.kernel(t), own, learned("198.51.100.0/24", "192.0.2.254"), learned("0.0.0.0/0", "192.0.2.254"), far)
	main := s.table(t, "main")
	later := s.kernel(t)
	keep := func(own ...Realm) {
		if problems, err := later.Program(t.Context(), Wanted{Own: own, Keep: true}); err != nil || len(problems) > 0 {
			t.Error(err, show(problems))
		}
	}
	keep(own...)
	keep()
	want(t, "routes while the neighbors announce them again", s.table(t, "main"), main)
	want(t, "problems", show(programIn(t, later, []Realm{{Protocol: bgp}})), "")
	want(t, "routes that no neighbor announced again", s.table(t, "main"), "")
	want(t, "routes of a table without a rule", s.table(t, "4000000000"), "")
	want(t, "problems", show(programIn(t, later, nil)), "")
	want(t, "marks of a table without a rule", s.table(t, "1886743650"), "")
}

func TestAMarkEncodesOneRealm(t *testing.T) {
	for _, r := range []Realm{
		{Protocol: 5, Table: 254}, {Protocol: 255, Table: 4294967295}, {Protocol: bgp, Table: 7, Default: true},
		{Protocol: bgp, Table: 7, Default: true, DefaultMetric: mostMarked - 1},
	} {
		if got, ok := realmOf(markOf(r)); !ok || got != r {
			t.Errorf("the mark of %+v is read as %+v, %v", r, got, ok)
		}
	}
	if got, _ := realmOf(markOf(Realm{Protocol: bgp, Table: 7, Default: true, DefaultMetric: mostMarked})); got != (Realm{Protocol: bgp, Table: 7}) {
		t.Errorf("the mark of a metric that is too large is %+v", got)
	}
}

func TestKeepReplacesAndAdds(t *testing.T) {
	t.Parallel()
	s := router(t)
	k := s.kernel(t)
	programIn(t, k, []Realm{{Protocol: bgp}}, learned("198.51.100.0/24", "192.0.2.254"), learned("198.51.101.0/24", "192.0.2.254"))
	problems, err := k.Program(t.Context(), Wanted{
		Own: []Realm{{Protocol: bgp}}, Keep: true,
		Routes: []Route{learned("198.51.100.0/24", "192.0.3.254"), learned("198.51.102.0/24", "192.0.2.254")},
	})
	if err != nil || len(problems) > 0 {
		t.Fatal(err, show(problems))
	}
	want(t, "routes", s.table(t, "main"), "198.51.100.0/24 via 192.0.3.254 dev eth1 proto 186 metric 20\n"+
		"198.51.101.0/24 via 192.0.2.254 dev eth0 proto 186 metric 20\n198.51.102.0/24 via 192.0.2.254 dev eth0 proto 186 metric 20\n")
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", what, diff)
	}
}
