package gobgp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/peering"
)

// Limits of the protocols and of GoBGP's fields.
const (
	maxPassword = 80        // bytes of a TCP-MD5 key
	maxRestart  = 4095      // seconds, 12 bits of RFC 4724
	maxStale    = 1<<24 - 1 // seconds, 24 bits of RFC 9494
	maxSeconds  = 1<<16 - 1
	maxLink     = 15 // bytes of an interface's name
)

// checkGlobal refuses values that make GoBGP panic or that it takes for something else.
func checkGlobal(g peering.Global) error {
	var errs []error
	refuse := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(g.ASN == 0, "the AS number is 0")
	refuse(!g.RouterID.Is4() || g.RouterID.IsUnspecified(), "router ID %v is not an IPv4 address", g.RouterID)
	refuse(g.Port < -1 || g.Port > 65535, "port %d does not exist", g.Port)
	refuse(len(g.Families) == 0, "there is no address family")
	for _, f := range g.Families {
		refuse(f != addr.V4 && f != addr.V6, "address family %v does not exist", f)
	}
	for _, a := range g.Listen {
		refuse(!a.IsValid() || a.Is4In6(), "listen address %v is not an address", a)
	}
	refuse(len(g.Device) > maxLink, "%q is not the name of an interface", g.Device)
	if c := g.Confederation; c != nil {
		refuse(c.Identifier == 0, "the confederation's identifier is 0")
		refuse(slices.Contains(c.Members, 0), "a member of the confederation is 0")
	}
	return errors.Join(errs...)
}

// valid returns the parts of s that GoBGP can take. The other parts become problems.
func (a *application) valid(s peering.State) peering.State {
	s.Groups = sieve(a, s.Groups, func(g peering.Group) string { return g.Path },
		unique(func(g peering.Group) string { return g.Name }, func(g peering.Group) error { return checkGroup(g, s.Global) }))
	s.Dynamic = sieve(a, s.Dynamic, func(d peering.Dynamic) string { return d.Path },
		unique(func(d peering.Dynamic) string { return d.Prefix.String() }, func(d peering.Dynamic) error { return checkDynamic(d, s.Groups) }))
	s.Peers = sieve(a, s.Peers, func(p peering.Peer) string { return p.Path },
		unique(peering.Peer.Name, func(p peering.Peer) error { return checkPeer(p, s) }))
	return s
}

// sieve returns the elements that pass check.
func sieve[T any](a *application, all []T, path func(T) string, check func(T) error) []T {
	var good []T
	for _, one := range all {
		if err := check(one); err != nil {
			a.problem(path(one), reasonInvalid, err)
			continue
		}
		good = append(good, one)
	}
	return good
}

// unique returns check with a second rule: it refuses the second element of a name.
func unique[T any](name func(T) string, check func(T) error) func(T) error {
	seen := map[string]bool{}
	return func(one T) error {
		if err := check(one); err != nil {
			return err
		}
		if n := name(one); seen[n] {
			return fmt.Errorf("%s is there twice", n)
		}
		seen[name(one)] = true
		return nil
	}
}

func checkGroup(g peering.Group, global peering.Global) error {
	if g.Name == "" {
		return errors.New("the peer group has no name")
	}
	return checkOptions(g.Options, global)
}

func checkDynamic(d peering.Dynamic, groups []peering.Group) error {
	if !d.Prefix.IsValid() || d.Prefix.Addr().Is4In6() || d.Prefix != d.Prefix.Masked() {
		return fmt.Errorf("%v is not a prefix", d.Prefix)
	}
	if !slices.ContainsFunc(groups, func(g peering.Group) bool { return g.Name == d.Group }) {
		return fmt.Errorf("there is no peer group %q", d.Group)
	}
	return nil
}

func checkPeer(p peering.Peer, s peering.State) error {
	var errs []error
	switch {
	case p.Address.IsValid() == (p.Interface != ""):
		errs = append(errs, errors.New("a neighbor has either an address or an interface"))
	case p.Interface != "" && !isLinkName(p.Interface):
		errs = append(errs, fmt.Errorf("%q is not the name of an interface", p.Interface))
	case p.Interface == "" && !isNeighbor(p.Address):
		errs = append(errs, fmt.Errorf("%v is not the address of a neighbor", p.Address))
	}
	if l := p.LocalAddress; l.IsValid() && p.Address.IsValid() && l.Is4() != p.Address.Is4() {
		errs = append(errs, fmt.Errorf("local address %v is not of the family of %v", l, p.Address))
	}
	return errors.Join(append(errs, checkOptions(p.Options, s.Global))...)
}

func isLinkName(name string) bool {
	return len(name) <= maxLink && !strings.ContainsAny(name, "/ %\n\t")
}

func isNeighbor(a netip.Addr) bool {
	return !a.IsUnspecified() && !a.IsMulticast() && !a.Is4In6() &&
		(a.Zone() != "") == (a.Is6() && a.IsLinkLocalUnicast())
}

// checkOptions never shows the password.
func checkOptions(o peering.Options, g peering.Global) error {
	var errs []error
	refuse := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse((o.ASN == 0) != o.External, "the AS number %d is of an external neighbor: %t", o.ASN, o.External)
	refuse(len(o.Password) > maxPassword, "the password is longer than %d bytes", maxPassword)
	refuse(strings.ContainsRune(o.Password, 0), "the password has a zero byte")
	refuse(o.LocalAddress.Is4In6() || o.LocalAddress.IsMulticast(), "local address %v is not one", o.LocalAddress)
	refuse(!isLinkName(o.Device), "%q is not the name of an interface", o.Device)
	refuse(o.Multihop > 0 && o.TTLSecurity > 0, "multihop and TTL security exclude each other")
	refuse(len(o.Families) == 0, "there is no address family")
	seen := map[addr.Family]bool{}
	for _, f := range o.Families {
		refuse(!slices.Contains(g.Families, f.Family), "address family %v is not one of this speaker", f.Family)
		refuse(seen[f.Family], "address family %v is there twice", f.Family)
		refuse(f.WarnPercent > 100, "%d percent are more than all", f.WarnPercent)
		seen[f.Family] = true
	}
	refuse(o.RouteReflector.ClusterID.IsValid() && !o.RouteReflector.ClusterID.Is4(),
		"cluster ID %v is not an IPv4 address", o.RouteReflector.ClusterID)
	for name, t := range map[string]time.Duration{
		"hold time": o.Timers.Hold, "keepalive interval": o.Timers.Keepalive,
		"connect retry": o.Timers.ConnectRetry, "advertisement interval": o.Timers.Advertisement,
		"deferral time": o.GracefulRestart.Deferral,
	} {
		refuse(t < 0 || t > maxSeconds*time.Second || t%time.Second != 0, "%s %v is not in whole seconds from 0 to %d", name, t, maxSeconds)
	}
	refuse(o.Timers.Hold > 0 && o.Timers.Hold < 3*time.Second, "hold time %v is less than 3 s", o.Timers.Hold)
	refuse(o.GracefulRestart.Restart < 0 || o.GracefulRestart.Restart > maxRestart*time.Second,
		"restart time %v is not from 0 to %d s", o.GracefulRestart.Restart, maxRestart)
	refuse(o.GracefulRestart.LongLived < 0 || o.GracefulRestart.LongLived > maxStale*time.Second,
		"long-lived restart time %v is not from 0 to %d s", o.GracefulRestart.LongLived, maxStale)
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}
