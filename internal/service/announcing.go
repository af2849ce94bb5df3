package service

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"purelb.io/purelb/internal/addr"
)

// Annotations that tell which node announces the local addresses of a Service. The
// value is a list of slots, separated by spaces, each "node,interface,address". An
// address that every node announces has no slot.
const (
	AnnotationAnnouncingIPv4 = "purelb.io/announcing-IPv4"
	AnnotationAnnouncingIPv6 = "purelb.io/announcing-IPv6"
	// AnnotationAnnouncingUnknown was written by older agents.
	AnnotationAnnouncingUnknown = "purelb.io/announcing-unknown"
)

// AnnotationAnnouncing returns the annotation with the slots of family f.
func AnnotationAnnouncing(f addr.Family) string {
	if f == addr.V6 {
		return AnnotationAnnouncingIPv6
	}
	return AnnotationAnnouncingIPv4
}

// Slot says that Node announces Address on Interface.
type Slot struct {
	Node, Interface string
	Address         netip.Addr
}

// String returns the slot as it is written in the annotation.
func (s Slot) String() string {
	return s.Node + "," + s.Interface + "," + s.Address.String()
}

// compare orders slots by address, node and interface.
func (s Slot) compare(t Slot) int {
	return cmp.Or(s.Address.Compare(t.Address), cmp.Compare(s.Node, t.Node), cmp.Compare(s.Interface, t.Interface))
}

// ParseSlots reads the value of an announcing annotation. It skips entries that are
// no slots: older agents wrote entries without an address.
func ParseSlots(text string) []Slot {
	var slots []Slot
	for entry := range strings.FieldsSeq(text) {
		if s, ok := parseSlot(entry); ok {
			slots = append(slots, s)
		}
	}
	return slots
}

// parseSlot splits entry at its first and its last comma, because the name of an
// interface may contain commas.
func parseSlot(entry string) (Slot, bool) {
	node, rest, _ := strings.Cut(entry, ",")
	comma := strings.LastIndexByte(rest, ',')
	if node == "" || comma < 1 {
		return Slot{}, false
	}
	a, err := netip.ParseAddr(rest[comma+1:])
	if err != nil || a.Zone() != "" {
		return Slot{}, false
	}
	return Slot{Node: node, Interface: rest[:comma], Address: a.Unmap()}, true
}

// EncodeSlots writes slots for the annotation: sorted, one per address. Without
// slots it returns "", and the annotation should be removed.
func EncodeSlots(slots []Slot) string {
	sorted := slices.Clone(slots)
	slices.SortFunc(sorted, Slot.compare)
	sorted = slices.CompactFunc(sorted, func(s, t Slot) bool { return s.Address == t.Address })
	texts := make([]string, len(sorted))
	for i, s := range sorted {
		texts[i] = s.String()
	}
	return strings.Join(texts, " ")
}

// SetSlot returns slots with s in place of any other slot of its address.
func SetSlot(slots []Slot, s Slot) []Slot {
	return append(DropSlot(slots, s.Address), s)
}

// DropSlot returns slots without the slots of a.
func DropSlot(slots []Slot, a netip.Addr) []Slot {
	return slices.DeleteFunc(slices.Clone(slots), func(s Slot) bool { return s.Address == a })
}

// LiveSlots returns those slots whose address is one of addresses.
func LiveSlots(slots []Slot, addresses []netip.Addr) []Slot {
	return slices.DeleteFunc(slices.Clone(slots), func(s Slot) bool { return !slices.Contains(addresses, s.Address) })
}

// SlotOf returns the slot of a.
func SlotOf(slots []Slot, a netip.Addr) (Slot, bool) {
	i := slices.IndexFunc(slots, func(s Slot) bool { return s.Address == a })
	if i < 0 {
		return Slot{}, false
	}
	return slots[i], true
}
