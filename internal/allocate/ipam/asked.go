package ipam

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
)

// asked returns the address of family f that the Service asks for.
func (c *chooser) asked(f addr.Family) (netip.Addr, bool) {
	i := slices.IndexFunc(c.r.Asked, func(a netip.Addr) bool { return addr.FamilyOf(a) == f })
	if i < 0 {
		return netip.Addr{}, false
	}
	return c.r.Asked[i], true
}

// asksFor reports whether the Service asks for an address of the family of a.
func (c *chooser) asksFor(a netip.Addr) bool {
	_, ok := c.asked(addr.FamilyOf(a))
	return ok
}

// fitting divides asked into the addresses of families that the Service has, and the others. If no
// address is of such a family, fitting returns all of them as fitting, so that malformed refuses
// them.
func (c *chooser) fitting(asked []netip.Addr) (fitting, ignored []netip.Addr) {
	for _, a := range asked {
		if c.r.Wants(addr.FamilyOf(a)) {
			fitting = append(fitting, a)
		} else {
			ignored = append(ignored, a)
		}
	}
	if len(fitting) == 0 {
		return asked, nil
	}
	return fitting, ignored
}

// ignores returns a requested address that the Service does not get although it gets another one,
// or "".
func (c *chooser) ignores() string {
	if len(c.ignored) == 0 {
		return ""
	}
	a := c.ignored[0]
	return fmt.Sprintf("%s was asked for too, but the Service has no %s: its ipFamilies are %s; change ipFamilies and ipFamilyPolicy, or ask for %s only",
		a, addr.FamilyOf(a), familyNames(c.r.Families), c.r.Asked[0])
}

// malformed refuses a request that no configuration can fulfil.
func (c *chooser) malformed() []*Refusal {
	if c.r.Malformed != "" {
		return []*Refusal{{Metric: metricOther, Pool: noPool, Reason: ReasonBadRequest, Message: c.r.Malformed}}
	}
	for _, a := range c.r.Asked {
		if f := addr.FamilyOf(a); !c.r.Wants(f) {
			return []*Refusal{{Metric: metricOther, Pool: noPool, Reason: ReasonWrongFamily,
				Message: fmt.Sprintf("%s was asked for, but the Service has no %s: its ipFamilies are %s;"+
					" change ipFamilies and ipFamilyPolicy, or ask for another address", a, f, familyNames(c.r.Families))}}
		}
	}
	return nil
}

// refuseAsked returns the reason why the Service cannot have a, which it asks for, or nil.
func (c *chooser) refuseAsked(a netip.Addr) *Refusal {
	if refusal := c.listedElsewhere(a); refusal != nil {
		return refusal
	}
	g, p, ok := c.GroupOf(a)
	if !ok {
		if refusal, asked := c.askBackend(a); asked {
			return refusal
		}
		return &Refusal{Metric: metricOther, Pool: noPool, Reason: ReasonOutside, needs: c.sharedLater(a),
			Message: fmt.Sprintf("%s was asked for, but is in no pool of any usable ServiceGroup; ask for another address, or add a pool that has it", a)}
	}
	if refusal := c.denied(g); refusal != nil {
		refusal.Message = fmt.Sprintf("%s was asked for: %s", a, refusal.Message)
		return refusal
	}
	if reason, message := c.withheld(g, p, a); reason != "" {
		return &Refusal{Metric: metricOther, Pool: g.DisplayName(), Reason: reason, Message: message}
	}
	if g.Backend != "" {
		if refusal := c.askGranted(g, a); refusal != nil {
			return refusal
		}
	}
	var held *HeldError
	if errors.As(c.keptFrom(a), &held) {
		return c.taken(held, g.DisplayName())
	}
	return nil
}

// withheld returns the reason why p, a pool of g that contains a, does not hand out a. It
// returns nothing if p hands out a.
func (c *chooser) withheld(g groups.Group, p groups.Pool, a netip.Addr) (reason, message string) {
	if why, blocked := c.Store.Blocked(a); blocked {
		return ReasonReserved, fmt.Sprintf("%s was asked for, but is not given to Services, because it is %s; ask for another address", a, why)
	}
	if purpose, reserved := p.Reserves(a); reserved {
		return ReasonReserved, fmt.Sprintf("%s was asked for, but is the %s of %s; ask for another address, or write the range of ServiceGroup %q "+
			"as its first and last address, such as %s", a, purpose, p.Subnet, g.DisplayName(), p.Range)
	}
	if r, excluded := p.Excludes(a); excluded {
		return ReasonExcluded, fmt.Sprintf("%s was asked for, but ServiceGroup %q excludes %s; ask for another address", a, g.DisplayName(), r)
	}
	if p.Draining {
		return ReasonDraining, fmt.Sprintf("%s was asked for, but the range %s of ServiceGroup %q is being drained and gives out nothing new; ask for another address",
			a, p.Text, g.DisplayName())
	}
	return "", ""
}
