package announce_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
)

// parting is a node that has v4 and v6 and must give them up.
type parting struct {
	t    *testing.T
	does announce.Addresses
	to   map[string]string // address to heir
	dark bool              // the addresses are where no client gets an answer
	fail string            // the address that cannot be added to its new place, or ""
	told strings.Builder
}

// do carries out a step such as "10 taken node-b fd00::50". After "pass" it records the
// result.
func (w *parting) do(step string) {
	words := strings.Fields(step)
	ms, now := clock(w.t, words[0])
	switch words[1] {
	case "to":
		for _, ip := range words[3:] {
			w.to[ip] = words[2]
		}
	case "stay":
		w.pass(ms, now, words[2:]...)
	case "dark":
		w.dark = true
	case "failing":
		w.fail = words[2]
		w.pass(ms, now)
		w.fail = ""
	case "taken":
		w.does.Taken(now, words[2], addrs(words[3:]...))
	case "unasked":
		w.does.Unasked(words[2], addrs(words[3:]...))
	case "onlyTaken":
		w.does.OnlyTaken = true
	case "pass":
		w.pass(ms, now)
	default:
		w.t.Fatal(step)
	}
}

func (w *parting) pass(ms int, now time.Time, stay ...string) {
	var p announce.Plan
	var remove []announce.Address
	for _, a := range []announce.Address{hasLocal("eth0", v4+"/24", lifetime), hasLocal("eth0", v6+"/64", lifetime)} {
		ip := a.Prefix.Addr()
		d := announce.Decision{IP: ip, HandTo: w.to[ip.String()], Dark: w.dark}
		if strings.Contains(strings.Join(stay, " "), ip.String()) {
			d = announce.Decision{IP: ip, Where: announce.Local, Address: a}
		} else {
			remove = append(remove, a)
		}
		p.Decisions = append(p.Decisions, d)
	}
	s := announce.NewOutcome()
	if w.fail != "" {
		s.Failed = map[netip.Addr]error{netip.MustParseAddr(w.fail): errors.New("refused")}
	}
	w.does.Leave(now, p, remove, s)
	var said []string
	for _, a := range s.Remove {
		said = append(said, "remove "+a.Prefix.Addr().String())
	}
	for _, a := range remove {
		if ip := a.Prefix.Addr(); !s.Parting[ip] && !slices.Contains(s.Remove, a) {
			said = append(said, "leave "+ip.String())
		}
	}
	for _, node := range []string{"node-b", "node-c"} {
		if ips := s.Take[node]; len(ips) > 0 {
			said = append(said, fmt.Sprintf("ask %s for %v", node, ips))
		}
	}
	if !s.Next.IsZero() {
		said = append(said, fmt.Sprintf("next at %d", s.Next.Sub(begin).Milliseconds()))
	}
	fmt.Fprintf(&w.told, "%d: %s\n", ms, strings.Join(said, "; "))
}

func TestHandovers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []string
		want  string
	}{
		{"what nobody is to have goes at once", []string{"0 pass"}, "0: remove 10.0.0.5; remove fd00::50\n"},
		{"the heir is asked once, and it goes when that has it",
			[]string{"0 to node-b " + v4 + " " + v6, "0 pass", "5 pass", "20 taken node-b " + v6, "20 pass", "30 taken node-b " + v4, "30 pass"},
			"0: ask node-b for [10.0.0.5 fd00::50]; next at 1000\n5: next at 1000\n" +
				"20: remove fd00::50; next at 1000\n30: remove 10.0.0.5; remove fd00::50\n"},
		{"or when it has had the time", []string{"0 to node-b " + v4, "0 pass", "999 pass", "1000 pass"},
			"0: remove fd00::50; ask node-b for [10.0.0.5]; next at 1000\n999: remove fd00::50; next at 1000\n1000: remove 10.0.0.5; remove fd00::50\n"},
		{"another heir is asked too, and has as long",
			[]string{"0 to node-b " + v6, "0 to node-b " + v4, "0 pass", "900 to node-c " + v6, "900 pass", "1000 pass", "1899 pass", "1900 pass"},
			"0: ask node-b for [10.0.0.5 fd00::50]; next at 1000\n900: ask node-c for [fd00::50]; next at 1000\n" +
				"1000: remove 10.0.0.5; next at 1900\n1899: remove 10.0.0.5; next at 1900\n1900: remove 10.0.0.5; remove fd00::50\n"},
		{"it goes when any of them has it",
			[]string{"0 to node-b " + v4 + " " + v6, "0 pass", "600 to node-c " + v4 + " " + v6, "600 pass",
				"601 taken node-b " + v6, "601 taken node-d " + v4, "601 pass", "602 taken node-c " + v4, "602 pass"},
			"0: ask node-b for [10.0.0.5 fd00::50]; next at 1000\n600: ask node-c for [10.0.0.5 fd00::50]; next at 1600\n" +
				"601: remove fd00::50; next at 1600\n602: remove 10.0.0.5; remove fd00::50\n"},
		{"another heir is asked if the first one cannot be asked",
			[]string{"0 to node-b " + v4 + " " + v6, "0 pass", "20 unasked node-b " + v4 + " " + v6, "20 to node-c " + v4, "20 pass"},
			"0: ask node-b for [10.0.0.5 fd00::50]; next at 1000\n20: remove fd00::50; ask node-c for [10.0.0.5]; next at 1020\n"},
		{"what is to stay after all is forgotten", []string{"0 to node-b " + v4 + " " + v6, "0 pass", "500 stay " + v4 + " " + v6, "900 pass"},
			"0: ask node-b for [10.0.0.5 fd00::50]; next at 1000\n500: \n900: ask node-b for [10.0.0.5 fd00::50]; next at 1900\n"},
		{"what fails to move meanwhile stays, and then the next one is asked anew",
			[]string{"0 to node-b " + v4, "0 stay " + v6, "10 taken node-b " + v4, "10 to node-c " + v4, "10 failing " + v4, "20 stay " + v6},
			"0: ask node-b for [10.0.0.5]; next at 1000\n10: remove fd00::50; leave 10.0.0.5\n20: ask node-c for [10.0.0.5]; next at 1020\n"},
		{"what was taken goes also if it is found again",
			[]string{"0 to node-b " + v4, "0 to node-b " + v6, "0 pass", "10 taken node-b " + v4 + " " + v6, "10 to node-c " + v4, "10 pass"},
			"0: ask node-b for [10.0.0.5 fd00::50]; next at 1000\n10: remove 10.0.0.5; remove fd00::50\n"},
		{"where nobody is answered the heir is asked, and it goes at once", []string{"0 to node-b " + v4 + " " + v6, "0 dark", "0 pass", "5 pass"},
			"0: remove 10.0.0.5; remove fd00::50; ask node-b for [10.0.0.5 fd00::50]\n5: remove 10.0.0.5; remove fd00::50\n"},
		{"also while it is being handed over", []string{"0 to node-b " + v4, "0 pass", "300 dark", "300 pass"},
			"0: remove fd00::50; ask node-b for [10.0.0.5]; next at 1000\n300: remove 10.0.0.5; remove fd00::50\n"},
		{"only what is taken goes: what nobody takes in time stays",
			[]string{"0 onlyTaken", "0 to node-b " + v4 + " " + v6, "0 pass", "20 taken node-b " + v6, "20 pass", "1000 pass"},
			"0: ask node-b for [10.0.0.5 fd00::50]; next at 1000\n20: remove fd00::50; next at 1000\n1000: remove fd00::50; leave 10.0.0.5\n"},
		{"only what is taken goes: what cannot be asked for stays at once", []string{"0 onlyTaken", "0 to node-b " + v4 + " " + v6, "0 pass", "20 unasked node-b " + v6, "20 pass"},
			"0: ask node-b for [10.0.0.5 fd00::50]; next at 1000\n20: leave fd00::50; next at 1000\n"},
		{"only what is taken goes, and what nobody is answered at", []string{"0 onlyTaken", "0 to node-b " + v4 + " " + v6, "0 dark", "0 pass"},
			"0: remove 10.0.0.5; remove fd00::50; ask node-b for [10.0.0.5 fd00::50]\n"},
		{"what cannot be asked for goes at once", []string{"0 to node-b " + v4 + " " + v6, "0 pass", "20 unasked node-b " + v4 + " " + v6, "20 pass"},
			"0: ask node-b for [10.0.0.5 fd00::50]; next at 1000\n20: remove 10.0.0.5; remove fd00::50\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &parting{t: t, to: map[string]string{}, does: announce.Addresses{Limit: announce.HandoverLimit}}
			for _, step := range tt.steps {
				w.do(step)
			}
			equal(t, w.told.String(), tt.want)
		})
	}
}
