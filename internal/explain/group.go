package explain

import (
	"fmt"
	"net/netip"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/allocate/census"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
)

// Group explains whether a ServiceGroup is used, which Services it is for, how full it is,
// and where its addresses are announced.
func Group(w World, name string) (Story, error) {
	v := newView(w)
	s := Story{Subject: "ServiceGroup " + name, Unread: v.unread(KindGroups, KindServices, KindLeases, KindNamespaces)}
	g, ok := v.state.Config.Groups.Group(name)
	for _, o := range v.Groups {
		if why := terminating(o); why != "" && (name == o.Name || name == o.Namespace+"/"+o.Name) {
			s.add("Deletion", why)
		}
	}
	for _, r := range v.state.Config.Groups.Refused {
		if name == r.Namespace+"/"+r.Name || !ok && name == r.Name {
			s.setSummary(true, r.Reason, fmt.Sprintf("ServiceGroup %s/%s is not in use: %s", r.Namespace, r.Name, r.Message))
			return s, nil
		}
	}
	if err := w.needs("whether there is a ServiceGroup "+name, KindGroups); !ok && err != nil {
		return s, err
	}
	if !ok {
		return s, fmt.Errorf("there is no ServiceGroup %q; there are %s", name, v.groupNames())
	}
	v.tellGroup(&s, g)
	if o := v.groupObject(g); o != nil && o.Status.Backend != nil {
		s.add("Backend", v.backendLines(*o.Status.Backend, g)...)
	}
	s.add("For", forWhom(g)...)
	var ranges []string
	for _, p := range g.Pools {
		r := v.rangeOf(p)
		ranges = append(ranges, fmt.Sprintf("%s: %s used, %s free", p.Text, cell(reflect.ValueOf(r.Used)), cell(reflect.ValueOf(r.Available))))
	}
	s.add("Ranges", ranges...)
	inGroup := func(a netip.Addr) bool { _, in := g.PoolOf(a); return in }
	if services := v.holding(inGroup); len(services) > 0 {
		s.add("Services", list(services))
	}
	return s, nil
}

// backendLines describes the backend of g, by the status of g.
func (v *view) backendLines(b v2.BackendStatus, g groups.Group) []string {
	lines := []string{b.Name + " has not answered yet"}
	if b.LastReached != nil {
		lines[0] = b.Name + " answered " + short(v.Now.Sub(b.LastReached.Time)) + " ago"
	}
	lines = append(lines, b.Warnings...)
	if b.Orphans > 0 {
		lines = append(lines, fmt.Sprintf("it holds %d addresses for this cluster that no Service has; to release them: kubectl purelb ipam release-orphans %s", b.Orphans, g.Ref()))
	}
	if b.Unregistered > 0 {
		lines = append(lines, fmt.Sprintf("it does not know %d addresses that Services have; it is told of them", b.Unregistered))
	}
	return lines
}

// terminating says why a deleted ServiceGroup is still there, or returns "".
func terminating(g v2.ServiceGroup) string {
	if c := meta.FindStatusCondition(g.Status.Conditions, v2.ConditionTerminating); c != nil {
		return c.Message
	}
	return ""
}

// tellGroup sets the summary of g.
func (v *view) tellGroup(s *Story, g groups.Group) {
	name := "ServiceGroup " + g.DisplayName()
	for _, p := range census.Unreached(g, v.state.Subnets) {
		if len(v.state.Subnets) > 0 {
			s.setSummary(true, "", fmt.Sprintf("%s is in use, but no node announces addresses of %s, because none has an interface in %s", name, p.Text, p.Subnet))
			return
		}
	}
	if g.Deleting {
		s.setSummary(true, "", name+" is being deleted, and gives no new addresses")
		return
	}
	full := len(g.Pools) > 0
	for _, p := range g.Pools {
		_, free := v.held.Store.Next(p)
		full = full && !free
	}
	why := v.unknown(KindServices)
	switch fault := v.backendFault(g); {
	case fault != "":
		s.setSummary(true, ipam.ReasonBackendUnavailable, name+" is in use, but "+fault)
	case g.Backend != "":
		s.setSummary(false, "", name+" is in use; "+g.Backend+" manages its addresses")
	case why != "" && !v.absent(KindServices):
		s.setSummary(false, "", name+" is in use; whether it has free addresses is "+why)
	case full:
		s.setSummary(true, ipam.ReasonExhausted, name+" is in use, and has no free address")
	default:
		s.setSummary(false, "", name+" is in use, and has free addresses")
	}
}

// forWhom lists the Services that g is for.
func forWhom(g groups.Group) []string {
	var lines []string
	add := func(when bool, format string, args ...any) {
		if when {
			lines = append(lines, fmt.Sprintf(format, args...))
		}
	}
	add(len(g.Namespaces) > 0, "namespaces %s", list(g.Namespaces))
	add(g.NamespaceSelector != nil, "namespaces with the labels %v", g.NamespaceSelector)
	add(g.ServiceSelector != nil, "Services with the labels %v", g.ServiceSelector)
	add(g.Enforce, "Services of other namespaces get nothing from it, and those of these namespaces get nothing from groups that do not serve them (enforceNamespaces)")
	add(g.ByName, "Services that name it, and no others (autoAssign: false)")
	add(g.Priority != nil && len(lines) == 0, "all Services")
	add(len(lines) == 0 && g.Ref() == ipam.DefaultGroup, "all Services that no other group is for")
	add(len(lines) == 0, "Services that name it by the annotation purelb.io/service-group")
	if g.Priority != nil {
		lines = append(lines, fmt.Sprintf("its priority is %d", *g.Priority))
	}
	return lines
}
