package routing

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/testing/expect"
)

func TestALaterProcessRemovesRoutesOfAnEarlierOne(t *testing.T) {
	t.Parallel()
	s := router(t)
	s.IP(`route add 203.0.113.0/24 via 192.0.2.254 proto 186 metric 20
		-6 route add 2001:db8:e::/64 via 2001:db8::fe proto 186 metric 20
		route add default via 192.0.2.254 proto 186 metric 30`)
	theirs := s.table(t, "all")
	earlier := []Route{
		learned("198.51.100.0/24", "192.0.2.254"), learned("0.0.0.0/0", "192.0.2.254"),
		learned("2001:db8:f::/64", "2001:db8::fe", "2001:db8:1::fe"), learned("::/0", "2001:db8::fe"),
		inTable(100, learned("198.51.100.0/24", "192.0.2.254")), inTable(4_000_000_000, learned("2001:db8:f::/64", "2001:db8::fe")),
		with(learned("198.51.101.0/24", "192.0.2.254"), func(r *Route) { r.Protocol = 200 }),
	}
	first := s.kernel(t)
	program(t, first, earlier...)
	equal(t, strings.Count(s.IP("route show table all"), ourMark), len(earlier))
	before := s.table(t, "all")
	expect.NoError(t, first.Close())
	later := s.kernel(t)
	if problems, err := later.Program(t.Context(), nil, true); err != nil || len(problems) > 0 {
		t.Error(err, show(problems))
	}
	equal(t, s.table(t, "all"), before)
	program(t, later, earlier[0])
	equal(t, s.table(t, "all"), sorted("198.51.100.0/24 via 192.0.2.254 dev eth0 proto 186 metric 20\n"+theirs))
	program(t, later)
	equal(t, s.table(t, "all"), theirs)
}

func TestForeignRoutesAreNotChanged(t *testing.T) {
	t.Parallel()
	s := router(t)
	s.IP(`route add default via 192.0.2.254 proto 186 metric 20
		-6 route add default via 2001:db8::fe proto 186 metric 20
		route add 198.51.100.0/24 via 192.0.2.253 metric 20
		-6 route add 2001:db8:f::/64 via 2001:db8::fd metric 20
		route add blackhole 198.51.102.0/24 proto 186 metric 20
		route add 198.51.101.0/24 via 192.0.2.253 proto 186 metric 10
		-6 route add 2001:db8:e::/64 via 2001:db8::fd proto 12`)
	theirs := s.table(t, "254")
	k := s.kernel(t)
	problems := program(t, k,
		learned("198.51.100.0/24", "192.0.2.254"), learned("2001:db8:f::/64", "2001:db8::fe"),
		learned("0.0.0.0/0", "192.0.3.254"), learned("::/0", "2001:db8:1::fe"), learned("198.51.102.0/24", "192.0.2.254"))
	var want strings.Builder
	for _, prefix := range []string{"198.51.100.0/24", "2001:db8:f::/64", "0.0.0.0/0", "::/0", "198.51.102.0/24"} {
		want.WriteString(prefix + " table 254 metric 20 installed false: " + ErrOccupied.Error() + "\n")
	}
	equal(t, show(problems), want.String())
	equal(t, s.table(t, "254"), theirs)

	program(t, k, learned("198.51.101.0/24", "192.0.2.254")) // beside the route of another program
	equal(t, strings.Count(s.table(t, "254"), "198.51.101.0/24"), 2)
	program(t, k)
	equal(t, s.table(t, "254"), theirs)
}

// Two speakers run in one network namespace. Neither removes the routes of the other.
func TestASecondSpeakerLeavesTheRoutesOfTheFirstAlone(t *testing.T) {
	t.Parallel()
	s := router(t)
	theirs, own := learned("198.51.100.0/24", "192.0.2.254"), learned("198.51.101.0/24", "192.0.2.254")
	first, second := s.kernel(t), s.kernel(t)
	program(t, second) // with nothing to write, it keeps nobody from it
	program(t, first, theirs)
	before := s.table(t, "254")
	program(t, second)
	if _, err := second.Program(t.Context(), []Route{own}, false); !errors.Is(err, ErrNotAlone) {
		t.Errorf("the error is %v, want %v", err, ErrNotAlone)
	}
	equal(t, s.table(t, "254"), before)

	expect.NoError(t, first.Close())
	program(t, second, own)
	equal(t, s.table(t, "254"), strings.ReplaceAll(before, "198.51.100.0", "198.51.101.0"))
}

// Another program adds its routes after Program has read the table.
func TestARouteThatAnotherProgramAddsMeanwhileStays(t *testing.T) {
	t.Parallel()
	s := router(t)
	k := s.kernel(t)
	targets, _, err := k.targets(t.Context(), []Route{learned("198.51.100.0/24", "192.0.2.254"), learned("2001:db8:f::/64", "2001:db8::fe")})
	expect.NoError(t, err)
	changes, _, _ := difference(targets, nil)
	s.IP(`route add 198.51.100.0/24 via 192.0.2.253 metric 20
		-6 route add 2001:db8:f::/64 via 2001:db8::fd metric 20`)
	theirs := s.table(t, "254")
	for _, err := range k.carryOut(t.Context(), changes) {
		equal(t, errors.Is(err, unix.EEXIST), true)
	}
	equal(t, s.table(t, "254"), theirs)
}

func TestANewProtocolReplacesRoutesInPlace(t *testing.T) {
	t.Parallel()
	s := router(t)
	k := s.kernel(t)
	wanted := []Route{
		learned("198.51.100.0/24", "192.0.2.254"), learned("198.51.101.0/24", "192.0.2.254", "192.0.3.254"), learned("0.0.0.0/0", "192.0.2.254"),
		learned("2001:db8:f::/64", "2001:db8::fe"), learned("2001:db8:e::/64", "2001:db8::fe", "2001:db8:1::fe"), learned("::/0", "2001:db8::fe"),
	}
	program(t, k, append(wanted, learned("198.51.102.0/24", "192.0.2.254"))...)
	before := s.table(t, "254")
	for i := range wanted {
		wanted[i].Protocol = 200
	}
	wire := s.count(t, k)
	if problems := program(t, k, wanted...); len(problems) > 0 {
		t.Error(show(problems))
	}
	equal(t, wire.writes, len(wanted)+1) // one write for each route
	after := strings.Replace(before, "198.51.102.0/24 via 192.0.2.254 dev eth0 proto 186 metric 20\n", "", 1)
	equal(t, s.table(t, "254"), strings.ReplaceAll(after, "proto 186", "proto 200"))
}

func TestKeepReplacesAndAdds(t *testing.T) {
	t.Parallel()
	s := router(t)
	k := s.kernel(t)
	program(t, k, learned("198.51.100.0/24", "192.0.2.254"), learned("198.51.101.0/24", "192.0.2.254"))
	exported, err := k.Program(t.Context(), []Route{learned("198.51.100.0/24", "192.0.3.254"), learned("198.51.102.0/24", "192.0.2.254")}, true)
	if problems := unlike(exported); err != nil || len(problems) > 0 {
		t.Fatal(err, show(problems))
	}
	equal(t, s.table(t, "main"), "198.51.100.0/24 via 192.0.3.254 dev eth1 proto 186 metric 20\n"+
		"198.51.101.0/24 via 192.0.2.254 dev eth0 proto 186 metric 20\n198.51.102.0/24 via 192.0.2.254 dev eth0 proto 186 metric 20\n")
}

// sorted sorts lines.
func sorted(lines string) string {
	return strings.Join(slices.Sorted(strings.Lines(lines)), "")
}
