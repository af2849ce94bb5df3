package config

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
)

// Standing is the turn of a group when groups are accepted: 0 when it was
// accepted as it is now, 1 when it was accepted and has been edited since, 2
// when it is not in use. So no new group and no edit takes a group out of use
// that works.
//
// It comes from the condition that is written about what For answered, and For
// answers the same when that is written. A Config that is kept must be made
// anew also when the Standing of a group changes.
func Standing(sg v2.ServiceGroup) int {
	c := meta.FindStatusCondition(sg.Status.Conditions, v2.ConditionAccepted)
	switch {
	case c == nil || c.Status != metav1.ConditionTrue:
		return 2
	case c.ObservedGeneration != sg.Generation:
		return 1
	}
	return 0
}

// byStanding orders groups that are sorted by age for their acceptance.
func byStanding(a, b *reading) int { return cmp.Compare(Standing(a.sg), Standing(b.sg)) }

// byAge orders groups by creation, and those of the same second by name.
func byAge(a, b v2.ServiceGroup) int {
	if d := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); d != 0 {
		return d
	}
	return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
}
