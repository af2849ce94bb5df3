package config

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
)

// Standing is the position of a group when groups are accepted. It is 0 if the
// present generation was accepted, 1 if the group was accepted and edited since,
// 2 if the group is not in use, and 3 if it is being deleted. So neither a new group
// nor an edit puts a working group out of use, and a deleted group makes room for one
// with the same addresses.
//
// Standing comes from the condition that reports the result of For. Writing that
// condition does not change what For returns. A cached Config must be made again
// when the Standing of a group changes.
func Standing(sg v2.ServiceGroup) int {
	c := meta.FindStatusCondition(sg.Status.Conditions, v2.ConditionAccepted)
	switch {
	case !sg.DeletionTimestamp.IsZero():
		return 3
	case c == nil || c.Status != metav1.ConditionTrue:
		return 2
	case c.ObservedGeneration != sg.Generation:
		return 1
	}
	return 0
}

// byStanding orders groups for acceptance. They must be sorted by age.
func byStanding(a, b *reading) int { return cmp.Compare(Standing(a.sg), Standing(b.sg)) }

// byAge orders groups by creation time, and by name within one second.
func byAge(a, b v2.ServiceGroup) int {
	if d := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); d != 0 {
		return d
	}
	return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
}
