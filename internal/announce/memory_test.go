package announce_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/config"
)

func TestClaims(t *testing.T) {
	every := config.GARP{Enabled: true, Count: 2, InitialDelay: 100 * time.Millisecond, Interval: time.Second}
	noDelay, none, verify := every, every, every
	noDelay.InitialDelay, none.Count, verify.Verify = 0, 0, true
	there := hasLocal("eth0", v4+"/24", lifetime)
	detected := func(at time.Duration) announce.Address { // the kernel looks for duplicates for a second
		return with(there, func(a *announce.Address) { a.Tentative = at < time.Second })
	}
	for _, tt := range []struct {
		name string
		garp config.GARP
		used bool
		is   func(at time.Duration) announce.Address // how the kernel shows it
		want string
	}{
		{"an address that is new", every, false, nil, "100ms 1.1s"},
		{"an address that moves", every, true, nil, "0s urgent 100ms 1.1s"},
		{"an address that moves, without a delay", noDelay, true, nil, "0s urgent 1s"},
		{"after duplicates have been looked for", every, false, detected, "1.1s 2.1s"},
		{"not while another machine has it", verify, false, func(time.Duration) announce.Address {
			return with(detected(time.Hour), func(a *announce.Address) { a.Failed = true })
		}, ""},
		{"none is asked for", none, true, nil, ""},
		{"switched off", config.GARP{Count: 2}, true, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, p, held := situation(), elected("eth0"), each("eth0", v4)
			s.Agent.GARP, p.Decisions[0].Used = tt.garp, tt.used
			does, said := announce.Addresses{Self: "node-a"}, ""
			for at := time.Duration(0); at < time.Minute; at += 100 * time.Millisecond {
				o := announce.NewOutcome()
				if at == 0 {
					o.Added[p.Wanted[0].Prefix.Addr()] = p.Wanted[0]
				}
				s.Node.Addresses = list(there)
				if tt.is != nil {
					s.Node.Addresses = list(tt.is(at))
				}
				for _, c := range does.Claim(begin.Add(at), s, p, o, held, nil) {
					if said += fmt.Sprintf(" %s", at); c.Urgent {
						said += " urgent"
					}
				}
			}
			equal(t, said, map[bool]string{true: " "}[tt.want != ""]+tt.want)
		})
	}
}

// TestLosses looks at certain seconds whether an address is "there", or else whether the agent "adds" it
// or "waits".
func TestLosses(t *testing.T) {
	used := func(seconds int) (all []string) { // vanishes each second, after it was in use
		for second := range seconds {
			all = append(all, fmt.Sprint(second, " adds"), fmt.Sprint(second, " there"))
		}
		return all
	}
	for _, tt := range []struct {
		name  string
		steps []string
		fails bool
	}{
		{"what vanished once comes back at once", []string{"0 adds", "1 adds"}, false},
		{"what vanished twice waits for a second", []string{"0 adds", "1 adds", "2 waits", "3 adds"}, true},
		{"what vanishes each second after it was in use comes back at once", used(11), false},
		{"but only for a while", append(used(62), "62 waits", "63 adds"), true},
		{"the third pause is two seconds", []string{"0 adds", "1 adds", "2 waits", "3 adds", "4 waits", "5 waits", "6 adds"}, true},
		{"what has stayed is forgiven", []string{"0 adds", "1 adds", "2 waits", "3 adds", "8 there"}, false},
		{"what vanishes after it has stayed begins anew", []string{"0 adds", "1 adds", "2 there", "60 adds"}, false},
		{"what was never in use has not stayed, however long it took", []string{"0 adds", "8 adds", "16 waits", "17 adds"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			does, a := announce.Addresses{Self: "node-a"}, wantLocal("eth0", v6+"/64")
			p := announce.Plan{Wanted: list(a)} // without a Decision it needs no probe
			for _, step := range tt.steps {
				var second int
				var what string
				if _, err := fmt.Sscan(step, &second, &what); err != nil {
					t.Fatal(err)
				}
				now, missing := begin.Add(time.Duration(second)*time.Second), p.Wanted
				if what == "there" {
					missing = nil
				}
				o := does.Come(now, beside(announce.Node{}), p, missing, nil)
				does.Came(now, p, o, nil)
				if adds := o.Put > 0; what != "there" && adds != (what == "adds") {
					t.Errorf("after %d s it is added: %v", second, adds)
				}
				if err := o.Failed[a.Prefix.Addr()]; step == tt.steps[len(tt.steps)-1] && errors.Is(err, announce.ErrVanishes6) != tt.fails {
					t.Errorf("it fails by %v", err)
				}
			}
		})
	}
}

// A MAC is easy to forge. The machines of one address must not take the room of all others.
func TestConflictsAreLimited(t *testing.T) {
	c, now, ip := announce.Conflicts{}, time.Unix(1000, 0), netip.MustParseAddr("10.0.0.1")
	for i := range 10_000 {
		c.Note(now, announce.Rival{IP: ip, MAC: [6]byte{2, 0, 0, 0, byte(i >> 8), byte(i)}}, "eth0", true)
	}
	c.Inherit(announce.Rival{IP: ip, MAC: [6]byte{4}}, "", "eth0", now)
	equal(t, len(c), 4)
	for range 2000 { // one machine with many addresses
		ip = ip.Next()
		c.Note(now, announce.Rival{IP: ip, MAC: [6]byte{2}}, "eth0", true)
	}
	equal(t, len(c), 1024)
}
