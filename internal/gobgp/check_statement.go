package gobgp

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/peering"
)

// community matches the text in which GoBGP finds a community, even if the text has more.
var community = regexp.MustCompile(`^\d{1,5}:\d{1,5}$`)

// checkStatement refuses conditions that GoBGP silently drops: without a condition, a
// statement applies to more routes.
func checkStatement(st peering.Statement) error {
	var errs []error
	refuse := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(!slices.Contains([]peering.Origin{peering.Anywhere, peering.Local, peering.Internal, peering.External}, st.If.Origin),
		"origin %q does not exist", st.If.Origin)
	refuse(!slices.Contains([]string{"", "valid", "invalid", "not-found"}, st.If.RPKI), "RPKI result %q does not exist", st.If.RPKI)
	for _, f := range st.If.Families {
		refuse(f != addr.V4 && f != addr.V6, "address family %v does not exist", f)
	}
	for _, ref := range []*peering.SetRef{
		st.If.Prefixes, st.If.Neighbors, st.If.ASPaths, st.If.Communities, st.If.LargeCommunities,
	} {
		refuse(ref != nil && ref.Name == "", "a condition names no set")
	}
	for _, c := range []*peering.CommunityChange{st.Then.Communities, st.Then.LargeCommunities} {
		// An empty list is valid only for Replace, which then removes all communities.
		refuse(c != nil && len(c.List) == 0 && c.Change != peering.Replace, "there are no communities to change")
	}
	if c := st.Then.Communities; c != nil && c.Change != peering.Remove {
		for _, text := range c.List {
			_, known := bgp.WellKnownCommunityValueMap[text]
			refuse(!known && !community.MatchString(text), "%q is not a community", text)
		}
	}
	refuse(st.Then.NextHop.IsValid() && !slices.Equal(st.If.Families, []addr.Family{addr.FamilyOf(st.Then.NextHop)}),
		"next hop %v is not of the family of the routes", st.Then.NextHop)
	refuse(st.Then.LocalPref != nil && *st.Then.LocalPref == 0, "GoBGP cannot set a local preference of 0")
	if m := st.Then.MED; m != nil {
		refuse(m.Value > math.MaxUint32 || m.Value < -math.MaxUint32 || !m.Modify && m.Value < 0, "MED %d does not exist", m.Value)
		refuse(m.Modify && m.Value == 0, "GoBGP would set the MED to 0 instead of adding that")
	}
	return errors.Join(errs...)
}
