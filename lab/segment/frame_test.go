package segment

import (
	"encoding/hex"
	"net/netip"
	"testing"

	"purelb.io/purelb/lab/internal/topology"
)

func TestQuestionsAndAnswersFollowTheRFCs(t *testing.T) {
	me := nic(topology.SegmentA)
	for _, c := range []struct{ address, question, answer string }{
		{
			"172.30.250.120",
			"ffffffffffff 024cac1efa62 0806 0001080006040001 024cac1efa62 ac1efa62 000000000000 ac1efa78",
			"024cac1efa62 024cac1efa65 0806 0001080006040002 024cac1efa65 ac1efa78 024cac1efa62 ac1efa62",
		},
		{
			"2001:db8:1:250:b::1",
			"3333ff000001 024cac1efa62 86dd 60000000 0020 3aff 20010db8000102500000000000000062 ff0200000000000000000001ff000001 " +
				"8700704e 00000000 20010db800010250000b000000000001 0101024cac1efa62",
			"024cac1efa62 024cac1efa65 86dd 60000000 0020 3aff 20010db800010250000b000000000001 20010db8000102500000000000000062 " +
				"88000000 60000000 20010db800010250000b000000000001 0201024cac1efa65",
		},
	} {
		address := netip.MustParseAddr(c.address)
		if got := question(me, address); hex.EncodeToString(got) != compact(c.question) {
			t.Errorf("the question for %s is\n%x, want\n%s", address, got, compact(c.question))
		}
		frame, err := hex.DecodeString(compact(c.answer))
		if err != nil {
			t.Fatal(err)
		}
		got, mac, ok := answer(frame, me)
		if !ok || got != address || mac.String() != "02:4c:ac:1e:fa:65" {
			t.Errorf("the answer for %s parses as %v of %v (%v)", address, got, mac, ok)
		}
		for n := range frame {
			answer(frame[:n], me)
			source(frame[:n])
		}
	}
}

func compact(s string) string {
	var out []byte
	for _, c := range []byte(s) {
		if c != ' ' {
			out = append(out, c)
		}
	}
	return string(out)
}
