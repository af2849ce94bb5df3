package agent

import (
	"encoding/json"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/service"
)

// Write is a change of the annotations of one Service.
type Write struct {
	Namespace, Name string
	// Version is the resourceVersion that Patch holds for.
	Version string
	// Patch is a merge patch of services/status.
	Patch string
	// Done, if set, is called after the write succeeded.
	Done func()
}

// same says whether w and v write the same.
func (w Write) same(v Write) bool { return w.Version == v.Version && w.Patch == v.Patch }

// write is what makes the annotations of svc say what was decided; ok is false
// when they do already.
func (r *reporter) write(svc *Service, decisions []announce.Decision) (w Write, ok bool) {
	change, stolen := slotChanges(svc, r.node, decisions)
	if len(change) == 0 {
		return Write{}, false
	}
	name := svc.name()
	return Write{
		Namespace: name.Namespace, Name: name.Name, Version: svc.Version,
		Patch: slotPatch(svc, change),
		Done: func() {
			for _, s := range stolen {
				r.stolen(svc, s.Node, s.Address)
			}
		},
	}, true
}

// slotChanges returns how the announcing annotations of svc must change to say
// what this node announces, nil for one to delete, and the slots that it takes
// from other nodes.
func slotChanges(svc *Service, node string, decisions []announce.Decision) (change map[string]*string, stolen []service.Slot) {
	for _, f := range []addr.Family{addr.V4, addr.V6} {
		slots := service.ParseSlots(svc.announcing(f))
		mine := slotsOf(node, f, decisions)
		if slices.Equal(mine, ofNode(slots, node)) {
			continue // what others say of other addresses is for them to write
		}
		slots = slices.DeleteFunc(slots, func(s service.Slot) bool { return s.Node == node })
		for _, s := range mine {
			if other, taken := service.SlotOf(slots, s.Address); taken {
				stolen = append(stolen, other)
			}
			slots = service.SetSlot(slots, s)
		}
		if change == nil {
			change = map[string]*string{}
		}
		name := service.AnnotationAnnouncing(f)
		change[name] = nil
		if text := service.EncodeSlots(service.LiveSlots(slots, svc.Addresses)); text != "" {
			change[name] = &text
		}
	}
	return change, stolen
}

// asWritten is d with what the annotations of svc say already: while an address
// comes or goes, nothing is written about it.
func asWritten(svc *Service, node string, d announce.Decision) announce.Decision {
	d.Where = announce.Nowhere
	if svc == nil {
		return d
	}
	slots := service.ParseSlots(svc.announcing(addr.FamilyOf(d.IP)))
	if slot, ok := service.SlotOf(slots, d.IP); ok && slot.Node == node {
		d.Where, d.Address.Link = announce.Local, slot.Interface
	}
	return d
}

// slotsOf are the slots of family f that decisions give to this node, in the
// order of the annotation.
func slotsOf(node string, f addr.Family, decisions []announce.Decision) []service.Slot {
	var mine []service.Slot
	for _, d := range decisions {
		if d.Where == announce.Local && addr.FamilyOf(d.IP) == f {
			mine = append(mine, service.Slot{Node: node, Interface: d.Address.Link, Address: d.IP})
		}
	}
	slices.SortFunc(mine, byAddress)
	return mine
}

// ofNode are those slots that are node's, in the same order.
func ofNode(slots []service.Slot, node string) []service.Slot {
	own := slices.DeleteFunc(slices.Clone(slots), func(s service.Slot) bool { return s.Node != node })
	slices.SortStableFunc(own, byAddress)
	return own
}

func byAddress(a, b service.Slot) int { return a.Address.Compare(b.Address) }

// slotPatch is the merge patch that changes annotations of svc, for this version
// of it only.
func slotPatch(svc *Service, change map[string]*string) string {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": svc.UID, "resourceVersion": svc.Version, "annotations": change,
	}})
	if err != nil {
		panic(err) // strings only
	}
	return string(patch)
}
