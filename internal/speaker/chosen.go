package speaker

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/peering"
)

// announcedElsewhere reports whether the nodeSelector of a group leaves out the node with these
// labels, and what is wrong with the selector. A malformed selector selects no node: otherwise
// a mistake could announce the addresses where they must not be announced.
func announcedElsewhere(g ipam.Group, s *metav1.LabelSelector, node map[string]string) (bool, []peering.Problem) {
	const field = "nodeSelector"
	if s == nil {
		return false, nil
	}
	_, err := metav1.LabelSelectorAsSelector(s)
	switch {
	case len(g.Pools) == 0:
		return false, []peering.Problem{{
			Field: field, Reason: peering.ReasonNotSupported,
			Message: "is not in effect, because the group has no pool: all nodes announce the addresses of its IPAM system. Remove it",
		}}
	case err != nil:
		return true, []peering.Problem{{
			Field: field, Reason: peering.ReasonParseError,
			Message: err.Error() + ": no node announces the addresses of the group: correct it, or remove it to select all nodes",
		}}
	}
	return !selects(s, node), nil
}

// selects reports whether a selector that is not malformed selects the node with these labels.
func selects(s *metav1.LabelSelector, node map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(node))
}

// announcedHere divides imported addresses: here are those that this node may announce, and
// elsewhere is the number of those that only other nodes announce.
func (a Attributes) announcedHere(imported []peering.Imported) (here []peering.Imported, elsewhere int) {
	here = make([]peering.Imported, 0, len(imported))
	for _, i := range imported {
		if r := a.around(i.Address.Addr()); r != nil && r.Elsewhere {
			elsewhere++
			continue
		}
		here = append(here, i)
	}
	return here, elsewhere
}
