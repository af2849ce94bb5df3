package peering_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
)

// node is the node of the tables: dual stack, in rack 1.
var node = peering.Node{
	Name:   "node-a",
	Labels: map[string]string{"rack": "1", "example.com/asn": "64700", "example.com/address": "192.0.2.11"},
	Annotations: map[string]string{
		"example.com/router-id": "192.0.2.77", "example.com/broken": "fe80::1", "example.com/asn": "4200000001",
		"example.com/address": "2001:db8::11", "example.com/name": "rack", "example.com/trans": "23456",
	},
	InternalIPs: ips("192.0.2.10", "2001:db8::10"),
	ExternalIPs: ips("203.0.113.10"),
}

func ips(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, t := range texts {
		all = append(all, netip.MustParseAddr(t))
	}
	return all
}

// secrets has a good password, an empty one, and passwords of 80 and 81 bytes. The kernel accepts
// at most 80.
func secrets(name, key string) (string, error) {
	value, ok := map[string]string{
		"bgp/password": "swordfish", "bgp/empty": "",
		"bgp/80": strings.Repeat("x", 80), "bgp/81": strings.Repeat("x", 81), "bgp/zero": "x\x00y", "bgp/line": "swordfish\n",
	}[name+"/"+key]
	if !ok {
		return "", fmt.Errorf("secret purelb-system/%s has no key %q", name, key)
	}
	return value, nil
}

// egress uses eth0 with both families. For 198.51.100.0/24 and 2001:db8:51::/48 it uses eth1
// with one family each. 203.0.113.0/24 has no route. No route uses eth2, which has both
// families, or eth3, which has IPv4.
func egress(to netip.Addr) (peering.Egress, bool) {
	switch {
	case to.Zone() == "eth2":
		return peering.Egress{Interface: "eth2", Addresses: ips("172.16.0.2", "2001:db8:2::b", "2001:db8:2::a")}, true
	case to.Zone() == "eth3":
		return peering.Egress{Interface: "eth3", Addresses: ips("172.16.3.2")}, true
	case to.Zone() == "eth4":
		return peering.Egress{}, false
	case netip.MustParsePrefix("198.51.100.0/24").Contains(to):
		return peering.Egress{Interface: "eth1", Addresses: ips("198.51.100.10")}, true
	case netip.MustParsePrefix("2001:db8:51::/48").Contains(to):
		return peering.Egress{Interface: "eth1", Addresses: ips("2001:db8:51::10")}, true
	case netip.MustParsePrefix("203.0.113.0/24").Contains(to):
		return peering.Egress{}, false
	}
	return peering.Egress{Interface: "eth0", Addresses: ips("192.0.2.9", "192.0.2.10", "2001:db8::10", "2001:db8::5")}, true
}

// config reads a spec in YAML's flow style. It adds a global if there is none.
func config(t testing.TB, text string) bgpv1.BGPConfigurationSpec {
	t.Helper()
	if !strings.Contains(text, "global:") {
		text = "{global: {asn: 64512}, " + strings.TrimPrefix(text, "{")
	}
	var spec bgpv1.BGPConfigurationSpec
	if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return spec
}

func decide(t testing.TB, text string) peering.Decision {
	t.Helper()
	return peering.Decide(config(t, text), node, secrets, egress)
}

// print returns d as text, with a line for each fact.
func print(d peering.Decision) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if g := d.State.Global; d.OK {
		line("as %d id %s (%s)%s%s%s families %v", g.ASN, g.RouterID, d.RouterIDSource, when(g.Port >= 0, fmt.Sprintf(" port %d", g.Port)),
			when(len(g.Listen) > 0, fmt.Sprintf(" at %v", g.Listen)), when(g.Device != "", " on "+g.Device), g.Families)
	}
	for _, p := range d.State.Peers {
		line("peer %s %s%s%s%s%s", p.Name(), options(p.Options), when(p.Port != 0, fmt.Sprintf(" port %d", p.Port)),
			when(p.AdminDown, " down"),
			when(len(p.NextHops) > 0, fmt.Sprintf(" hops %v", p.NextHops)), when(len(p.Mute) > 0, fmt.Sprintf(" mute %v", p.Mute)))
		for _, group := range p.Groups {
			line("  gets %s", group)
		}
		for _, mark := range slices.Sorted(maps.Keys(p.Overrides)) {
			line("  gets %s with%s", mark, override(p.Overrides[mark]))
		}
	}
	for _, group := range d.Unnamed {
		line("no neighbor gets %s", group)
	}
	if d.State.Learns {
		line("learn all but %v", d.State.Own)
	}
	if d.Import.Enabled {
		line("take %q", d.Import.Patterns)
	}
	for _, e := range d.Export {
		line("put %s%s%s to table %d metric %d%s%s after %s as %d", e.Name,
			when(len(e.Communities) > 0, fmt.Sprintf(" %v", e.Communities)), when(len(e.LargeCommunities) > 0, fmt.Sprintf(" %v", e.LargeCommunities)),
			e.Table, e.Metric, when(e.ValidateNextHop, " validated"), when(e.AllowDefault, " default"), d.Dampening, d.Protocol)
	}
	for _, l := range d.LeftOut {
		line("left out %s as %d: %s", l.Name, l.ASN, l.Message)
	}
	for _, p := range d.Problems {
		line("%s%s%s %s", when(p.Fatal, "fatal "), when(p.Here, "here "), p.Reason, p)
	}
	return b.String()
}

func options(o peering.Options) string {
	text := "as " + when(o.External, "any ") + fmt.Sprintf("%d from %d", o.ASN, o.LocalASN) + when(o.Description != "", fmt.Sprintf(" %q", o.Description)) +
		when(o.Password != "", " password "+o.Password)
	for _, f := range o.Families {
		text += " " + f.Family.String() + when(f.MaxPrefixes != peering.DefaultMaxPrefixes, fmt.Sprintf("<%d", f.MaxPrefixes)) + when(f.WarnPercent > 0, fmt.Sprintf("(%d%%)", f.WarnPercent))
	}
	text += fmt.Sprintf(" %v/%v/%v", o.Timers.Hold.Seconds(), o.Timers.Keepalive.Seconds(), o.Timers.ConnectRetry.Seconds())
	text += when(o.LocalAddress.IsValid(), " by "+o.LocalAddress.String()) + when(o.Device != "", " on "+o.Device) + when(o.Passive, " passive") +
		when(o.Multihop > 0, fmt.Sprintf(" multihop %d", o.Multihop)) + when(o.TTLSecurity > 0, fmt.Sprintf(" ttl %d", o.TTLSecurity))
	if g := o.GracefulRestart; g.Enabled {
		text += fmt.Sprintf(" restart %s deferral %s%s", g.Restart, g.Deferral, when(g.HelperOnly, " helper"))
	}
	if o.BFD != nil {
		text += fmt.Sprintf(" bfd %s/%sx%d", o.BFD.MinTransmit, o.BFD.MinReceive, o.BFD.Multiplier) +
			when(o.BFD.MinTTL > 0, fmt.Sprintf(" ttl %d", o.BFD.MinTTL)) + when(o.BFD.Passive, " passive")
	}
	return text
}

// override prints what is set in o.
func override(o peering.Override) string {
	text := when(len(o.Communities) > 0, " communities "+communities(o.Communities)) + when(len(o.LargeCommunities) > 0, fmt.Sprintf(" large %v", o.LargeCommunities))
	if o.MED != nil {
		text += fmt.Sprintf(" med=%d", *o.MED)
	}
	if o.LocalPref != nil {
		text += fmt.Sprintf(" pref=%d", *o.LocalPref)
	}
	return text + when(o.Prepend > 0, fmt.Sprintf(" prepend x%d", o.Prepend))
}

func communities(all []uint32) string {
	var texts []string
	for _, c := range all {
		texts = append(texts, fmt.Sprintf("%d:%d", c>>16, c&0xFFFF))
	}
	return fmt.Sprint(texts)
}

// when returns text if so is true, and otherwise "".
func when(so bool, text string) string {
	if !so {
		return ""
	}
	return text
}

// trimmed returns the lines of text without indentation, in their order.
func trimmed(text string) string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return strings.Join(slices.Clip(all), "\n") + "\n"
}

// plain is the printed decision of a configuration that has only the AS number.
const plain = `as 64512 id 192.0.2.10 (node-ipv4) families [IPv4 IPv6]
take []
`

// beyond compares d with plain. It returns the lines that only d has, and the lines that only
// plain has.
func beyond(d peering.Decision) string {
	var b strings.Builder
	text := print(d)
	for line := range strings.Lines(plain) {
		if !strings.Contains("\n"+text, "\n"+line) {
			b.WriteString("not " + line)
		}
	}
	for line := range strings.Lines(text) {
		if !strings.Contains("\n"+plain, "\n"+line) {
			b.WriteString(line)
		}
	}
	return b.String()
}
