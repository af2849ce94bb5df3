package service_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"purelb.io/purelb/internal/service"
)

func slot(node, link, address string) service.Slot {
	return service.Slot{Node: node, Interface: link, Address: netip.MustParseAddr(address)}
}

var compareSlots = cmp.Options{cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty()}

func TestParseSlotsSkipsOtherEntries(t *testing.T) {
	tests := []struct {
		name, text string
		want       []service.Slot
	}{
		{"nothing", "", nil},
		{"blanks", " \t\n", nil},
		{"one", "node-1,eth0,192.0.2.1", []service.Slot{slot("node-1", "eth0", "192.0.2.1")}},
		{"IPv6", "node-1,eth0,2001:db8::1", []service.Slot{slot("node-1", "eth0", "2001:db8::1")}},
		{"several, with any blanks between them", " n1,eth0,192.0.2.1\n\tn2,eth1,192.0.2.2 ",
			[]service.Slot{slot("n1", "eth0", "192.0.2.1"), slot("n2", "eth1", "192.0.2.2")}},
		{"an interface with commas", "n1,a,b,c,192.0.2.1", []service.Slot{slot("n1", "a,b,c", "192.0.2.1")}},
		{"an IPv4 address in IPv6 form", "n1,eth0,::ffff:192.0.2.1", []service.Slot{slot("n1", "eth0", "192.0.2.1")}},
		{"the older forms have no address", "n1,eth0 n1, eth0 n1", nil},
		{"a zone", "n1,eth0,fe80::1%eth0", nil},
		{"no address", "n1,eth0,lb.example.com n1,eth0,", nil},
		{"no node or no interface", ",eth0,192.0.2.1 n1,,192.0.2.1 ,,192.0.2.1", nil},
		{"valid entries among invalid ones", "n1,eth0 n2,eth0,192.0.2.2 ,", []service.Slot{slot("n2", "eth0", "192.0.2.2")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, service.ParseSlots(tt.text), compareSlots); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEncodeSlotsWritesOneSlotPerAddress(t *testing.T) {
	got := service.EncodeSlots([]service.Slot{
		slot("n2", "eth0", "2001:db8::1"), slot("n2", "eth0", "192.0.2.2"), slot("n1", "eth1", "192.0.2.2"),
		slot("n1", "eth0", "192.0.2.2"), slot("n3", "eth0", "192.0.2.10"),
	})
	want := "n1,eth0,192.0.2.2 n3,eth0,192.0.2.10 n2,eth0,2001:db8::1"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := service.EncodeSlots(nil); got != "" {
		t.Errorf("no slots are written as %q, want an empty text", got)
	}
}

func TestSetSlotReplacesOnlyItsAddress(t *testing.T) {
	slots := service.ParseSlots("n1,eth0,192.0.2.1 n1,eth0,192.0.2.2 n1,eth0,192.0.2.3")
	kept := slices.Clone(slots)
	slots = service.SetSlot(slots, slot("n2", "eth9", "192.0.2.2"))
	if got, want := service.EncodeSlots(slots), "n1,eth0,192.0.2.1 n2,eth9,192.0.2.2 n1,eth0,192.0.2.3"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if s, ok := service.SlotOf(slots, netip.MustParseAddr("192.0.2.2")); !ok || s.Node != "n2" {
		t.Errorf("the slot of 192.0.2.2 is %v", s)
	}
	slots = service.LiveSlots(slots, []netip.Addr{netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")})
	slots = service.DropSlot(slots, netip.MustParseAddr("192.0.2.3"))
	if got, want := service.EncodeSlots(slots), "n2,eth9,192.0.2.2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if diff := cmp.Diff(kept, service.ParseSlots("n1,eth0,192.0.2.1 n1,eth0,192.0.2.2 n1,eth0,192.0.2.3"), compareSlots); diff != "" {
		t.Errorf("the argument has changed:\n%s", diff)
	}
	if _, ok := service.SlotOf(slots, netip.MustParseAddr("192.0.2.9")); ok {
		t.Error("a slot of 192.0.2.9 exists")
	}
}

func FuzzSlots(f *testing.F) {
	for _, text := range []string{"", "n1,eth0,192.0.2.1", "n1,a,b,2001:db8::1 n2,eth0,192.0.2.2", "n1, eth0", ",,", "n1,eth0,fe80::1%eth0"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		slots := service.ParseSlots(text)
		for _, s := range slots {
			if s.Node == "" || strings.Contains(s.Node, ",") || s.Interface == "" || !s.Address.IsValid() || s.Address.Zone() != "" || s.Address.Is4In6() {
				t.Errorf("%q has the slot %+v", text, s)
			}
		}
		once := service.EncodeSlots(slots)
		if again := service.EncodeSlots(service.ParseSlots(once)); again != once {
			t.Errorf("%q becomes %q, and that %q", text, once, again)
		}
	})
}
