package explain

import (
	"fmt"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/service"
)

// Service explains why a Service, "namespace/name", has its addresses or has none, and which nodes
// announce them.
func Service(w World, key string) (Story, error) {
	v := newView(w)
	if r, there := v.requests[key]; there {
		return v.service(r), nil
	}
	if err := w.needs("whether there is a Service "+key, KindServices); err != nil {
		return Story{}, err
	}
	return Story{}, fmt.Errorf("there is no Service %s of type LoadBalancer", key)
}

func (v *view) service(r service.Request) Story {
	s := Story{Subject: "Service " + r.Key(), Unread: v.unread(KindServices, KindGroups, KindLeases, KindNodes, KindNamespaces)}
	if r.Owner == service.Anothers {
		s.setSummary(r.NotAdopted != "", r.NotAdopted, r.Key()+" is not served by PureLB: "+r.Reason)
		if len(r.Strange) > 0 {
			s.add("Addresses", "another controller gave it "+joined(r.Strange)+"; PureLB gives no other Service the same")
		}
		return s
	}
	choice := v.plan.Choices[ipam.Owner(r.Key())]
	v.summarize(&s, r, choice)
	s.add("Warnings", choice.Result.Warnings...)
	if r.Dying != "" {
		s.Summary += "; " + r.Dying
	}
	v.addAddresses(&s, r, choice)
	if v.knows(KindGroups) {
		s.add("Groups that were looked at", v.standings(r, v.plan.Cluster, r.Families)...)
	}
	for _, o := range v.outlooks[r.Key()] {
		if o.Where == announce.Local {
			s.add("Nodes for "+o.IP.String(), v.candidacies(o)...)
		}
	}
	v.addRoutes(&s, v.outlooks[r.Key()])
	v.addAgents(&s, v.outlooks[r.Key()])
	v.addAllocator(&s, r)
	if s.Problem {
		s.Unread = v.unheardAgents(v.unheardAllocator(s.Unread))
	}
	if c := v.allocated(r); c != nil {
		s.add("What the Service says itself", fmt.Sprintf("%s %s (%s): %s", c.Type, c.Status, c.Reason, c.Message))
	}
	v.addGuesses(&s, r)
	return s
}

// addGuesses lists the assumptions about the Service of r on which the answer rests.
func (v *view) addGuesses(s *Story, r service.Request) {
	var lines []string
	for _, g := range v.Guesses {
		if g.Object == (Object{"Service", r.Namespace, r.Name}) {
			lines = append(lines, g.What)
		}
	}
	if len(lines) > 0 && len(r.Shown) == 0 {
		s.Summary += " (this rests on a guess)"
	}
	s.add("Guessed", lines...)
}

// summarize reports the first problem, or the addresses of the Service.
func (v *view) summarize(s *Story, r service.Request, choice ipam.Choice) {
	status, code, message := v.serviceState(r)
	key := r.Key()
	switch status {
	case statusWaiting:
		s.setSummary(true, code, key+" has no address: "+message)
	case statusPending:
		s.setSummary(true, "", key+" has no address yet: "+message)
	case statusNotAnnounced:
		s.setSummary(true, "", key+" has an address that is not announced: "+message)
	case statusConflict, statusPartial, statusContested, statusUnknown:
		s.setSummary(true, code, key+": "+message)
	default:
		text := fmt.Sprintf("%s has %s from %s", key, joined(r.Shown), choice.Result.From)
		for _, o := range v.outlooks[key] {
			text += "; " + v.whereabouts(o)
		}
		s.setSummary(false, "", text)
	}
}

// addAddresses adds for each address why the Service has this one.
func (v *view) addAddresses(s *Story, r service.Request, choice ipam.Choice) {
	var lines []string
	for _, o := range v.outlooks[r.Key()] {
		line := o.IP.String() + ": the Service has it, and keeps it; " + v.whereabouts(o)
		if sharers := v.sharers(o.IP, r); len(sharers) > 0 {
			line += "; it is shared with " + list(sharers)
		}
		lines = append(lines, line)
	}
	for _, a := range choice.Result.Addresses {
		if v.isShown(r, a) {
			continue
		}
		lines = append(lines, a.String()+": the next free address of "+v.group(a, choice.Result.From))
		lines = append(lines, skips(v.plan.Cluster, a)...)
	}
	s.add("Addresses", lines...)
	for _, f := range r.Families {
		v.addHolders(s, r, choice, f)
	}
}

// addHolders lists the holders of the addresses of a full group.
func (v *view) addHolders(s *Story, r service.Request, choice ipam.Choice, f addr.Family) {
	if choice.Result.Reason != ipam.ReasonExhausted {
		return
	}
	for _, standing := range v.plan.Cluster.Survey(r, f) {
		g, ok := v.state.Config.Groups.Group(standing.Group)
		if standing.Place == 0 || standing.Free.IsValid() || !ok {
			continue
		}
		for _, p := range g.Pools {
			if p.Family() != f {
				continue
			}
			var lines []string
			if why := v.plan.Cluster.Unfree(p.Range.To); why != "" {
				lines = append(skips(v.plan.Cluster, p.Range.To), p.Range.To.String()+" was skipped, because "+why)
			}
			s.add("Addresses of "+standing.Group+", "+p.Text, lines...)
		}
	}
}
