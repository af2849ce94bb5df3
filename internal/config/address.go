package config

import (
	"cmp"
	"time"

	v2 "purelb.io/purelb/api/purelb/v2"
)

// shortestLifetime leaves the agent time to refresh an address before the kernel
// removes it.
const shortestLifetime = 60

// localDefaults expire, so that a node stops answering when its agent is gone for good.
// remoteDefaults do not expire: remote addresses are the same on every node, and stay when the
// agent is gone.
var (
	localDefaults  = AddressOptions{Valid: shortestLifetime * time.Second, Preferred: shortestLifetime * time.Second, NoPrefixRoute: true}
	remoteDefaults = AddressOptions{}
)

// address reads the attributes that addresses get in the kernel.
func (f *findings) address(name string, a *v2.AddressAttributes, defaults AddressOptions) AddressOptions {
	if a == nil {
		return defaults
	}
	field := "spec.local.addressConfig." + name
	valid := f.valid(field+".validLifetime", or(a.ValidLifetime, seconds(defaults.Valid)))
	return AddressOptions{
		Valid:         time.Duration(valid) * time.Second,
		Preferred:     time.Duration(f.preferred(field+".preferredLifetime", a.PreferredLifetime, valid)) * time.Second,
		NoPrefixRoute: or(a.NoPrefixRoute, defaults.NoPrefixRoute),
	}
}

func (f *findings) valid(field string, seconds int32) int32 {
	if seconds == 0 || seconds >= shortestLifetime {
		return seconds
	}
	f.warn(ReasonAdjusted, field, "%d is less than the shortest lifetime and counts as %d: "+
		"write 0 for ever, otherwise %[2]d or more", seconds, shortestLifetime)
	return shortestLifetime
}

func (f *findings) preferred(field string, seconds *int32, valid int32) int32 {
	if seconds == nil || *seconds == valid {
		return valid
	}
	switch n := *seconds; {
	case valid == 0:
		f.warn(ReasonAdjusted, field, "%d is not in effect, because validLifetime is 0, which is for ever: "+
			"remove it, or set validLifetime", n)
	case n < 0 || n > valid:
		f.warn(ReasonAdjusted, field, "%d counts as %d, which is validLifetime: write a number from 0 to %[2]d", n, valid)
	default:
		return n
	}
	return valid
}

func seconds(d time.Duration) int32 { return int32(d / time.Second) }

// garpDefaults announce an address three times within about a second.
var garpDefaults = GARP{
	Enabled:      true,
	InitialDelay: 100 * time.Millisecond,
	Count:        3,
	Interval:     500 * time.Millisecond,
	Verify:       true,
}

// mostGARPs is the largest count that the schema allows.
const mostGARPs = 10

// garp reads the schedule of gratuitous ARP.
func (f *findings) garp(s *v2.InterfaceSpec) GARP {
	g := garpDefaults
	c := s.GARPConfig
	if c == nil {
		g.Enabled = or(s.SendGARP, g.Enabled)
		return g
	}
	g = GARP{
		Enabled:      or(c.Enabled, g.Enabled),
		InitialDelay: duration(c.InitialDelay, g.InitialDelay),
		Count:        int(min(max(or(c.Count, int32(g.Count)), 1), mostGARPs)),
		Interval:     duration(c.Interval, g.Interval),
		Verify:       or(c.VerifyBeforeSend, g.Verify),
	}
	if or(s.SendGARP, g.Enabled) != g.Enabled {
		f.warn(ReasonAdjusted, "spec.local.sendgarp", "%t is not in effect, because garpConfig is set and says %t: "+
			"remove sendgarp", *s.SendGARP, g.Enabled)
	}
	return g
}

// duration reads text. The schema refuses text that is no duration.
func duration(text v2.Duration, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(string(text)); err == nil && d >= 0 {
		return d
	}
	return otherwise
}

// or returns the value at p, or otherwise if p is nil.
func or[T any](p *T, otherwise T) T { return *cmp.Or(p, &otherwise) }
