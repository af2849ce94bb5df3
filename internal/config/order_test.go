package config_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/config"
)

// judged returns groups with the conditions that the allocator writes after For.
func judged(groups []v2.ServiceGroup) []v2.ServiceGroup {
	c := config.For(groups, nil, home)
	groups = slices.Clone(groups)
	for i := range groups {
		status := metav1.ConditionFalse
		if _, ok := c.Groups.Group(groups[i].Name); ok {
			status = metav1.ConditionTrue
		}
		groups[i].Status.Conditions = []metav1.Condition{{
			Type: v2.ConditionAccepted, Status: status, ObservedGeneration: groups[i].Generation,
		}}
	}
	return groups
}

// inUse returns the names of the groups that c uses.
func inUse(c config.Config) []string {
	var names []string
	for _, g := range c.Groups.Usable {
		names = append(names, g.Name)
	}
	return names
}

// TestWorkingGroupStaysInUse has three groups. "old" and "young" have the same
// addresses.
func TestWorkingGroupStaysInUse(t *testing.T) {
	const taken = `{remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/25}}}`
	const free = `{remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.128/25}}}`
	const broken = `{remote: {v4pool: {subnet: 192.0.2.0/24, pool: oops}}}`
	tests := []struct {
		name       string
		old, young string // their ranges when the conditions were written
		edits      map[string]string
		want       []string
	}{
		{name: "the older of two new groups wins", old: taken, young: taken, want: []string{"old"}},
		{name: "an edit of the older group loses", old: free, young: taken, edits: map[string]string{"old": taken}, want: []string{"young"}},
		{name: "an edit of the younger group loses", old: taken, young: free, edits: map[string]string{"young": taken}, want: []string{"old"}},
		{name: "an edit of a group in use wins over that of a refused group", old: broken, young: free, edits: map[string]string{"old": taken, "young": taken}, want: []string{"young"}},
		{name: "the older group wins after two edits", old: free, young: taken, edits: map[string]string{"old": taken, "young": taken}, want: []string{"old"}},
		{name: "a corrected group takes nothing from a younger one", old: broken, young: taken, edits: map[string]string{"old": taken}, want: []string{"young"}},
		{name: "a group corrected with other addresses is in use", old: broken, young: taken, edits: map[string]string{"old": free}, want: []string{"old", "young"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all := judged(serviceGroups(t, "old: "+tt.old+"\nyoung: "+tt.young))
			for i := range all {
				if spec, ok := tt.edits[all[i].Name]; ok {
					all[i].Generation, all[i].Spec = 1, v2.ServiceGroupSpec{}
					unmarshal(t, spec, &all[i].Spec)
				}
			}
			if diff := cmp.Diff(tt.want, inUse(config.For(all, nil, home))); diff != "" {
				t.Errorf("in use (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNameDecidesWithinOneSecond(t *testing.T) {
	all := serviceGroups(t, `
		b: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24}}}
		a: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/24}}}`)
	all[1].CreationTimestamp = all[0].CreationTimestamp
	if diff := cmp.Diff([]string{"a"}, inUse(config.For(all, nil, home))); diff != "" {
		t.Errorf("both new:\n%s", diff)
	}
	all = append(judged(all[:1]), all[1:]...)
	if diff := cmp.Diff([]string{"b"}, inUse(config.For(all, nil, home))); diff != "" {
		t.Errorf("one in use already:\n%s", diff)
	}
}

func TestStandingReadsTheCondition(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, generation int64) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, ObservedGeneration: generation}
	}
	tests := []struct {
		name       string
		conditions []metav1.Condition
		want       int
	}{
		{"in use, unchanged", []metav1.Condition{condition(v2.ConditionAccepted, metav1.ConditionTrue, 3)}, 0},
		{"in use before an edit", []metav1.Condition{condition(v2.ConditionAccepted, metav1.ConditionTrue, 2)}, 1},
		{"refused", []metav1.Condition{condition(v2.ConditionAccepted, metav1.ConditionFalse, 3)}, 2},
		{"not judged", nil, 2},
		{"another condition", []metav1.Condition{condition(v2.ConditionIPv4Exhausted, metav1.ConditionTrue, 3)}, 2},
	}
	for _, tt := range tests {
		sg := v2.ServiceGroup{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
		sg.Status.Conditions = tt.conditions
		if got := config.Standing(sg); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestNoEditStopsAWorkingGroup adds and edits objects. All other groups in use must stay in use.
// When the allocator writes the conditions, that must change nothing.
func TestNoEditStopsAWorkingGroup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := judged(anyGroups(t))
		for range rapid.IntRange(1, 5).Draw(t, "changes") {
			before := config.For(all, nil, home)
			edited := ""
			added := anyGroups(t)
			for i := range added {
				added[i].Name = fmt.Sprintf("%s-of-%d", added[i].Name, len(all))
			}
			if len(all) > 0 && rapid.Bool().Draw(t, "edit") {
				sg := &all[rapid.IntRange(0, len(all)-1).Draw(t, "edited")]
				edited, sg.Generation = sg.Name, sg.Generation+1
				sg.Spec = v2.ServiceGroupSpec{Remote: &v2.RemoteSpec{Pools: v2.Pools{
					V4Pools: []v2.AddressPool{anyPool(t, "192.0.2.%d", "192.0.2.0/24")},
				}}}
			}
			all = append(all, added...)
			after := config.For(all, nil, home)
			for _, name := range inUse(before) {
				if name != edited && !slices.Contains(inUse(after), name) {
					t.Fatalf("%s is no longer in use (edited: %q):\n%s", name, edited, print(after))
				}
			}
			all = judged(all)
			if diff := cmp.Diff(print(after), print(config.For(all, nil, home))); diff != "" {
				t.Fatalf("the conditions change the result:\n%s", diff)
			}
		}
	})
}
