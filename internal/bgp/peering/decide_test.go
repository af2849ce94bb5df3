package peering_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/bgp/peering"
)

func TestAnASNumberIsEnough(t *testing.T) {
	d := decide(t, "{global: {asn: 64512}}")
	if diff := cmp.Diff(plain, print(d)); diff != "" {
		t.Errorf("the result differs (-want +got):\n%s", diff)
	}
	if !d.StatusEnabled || d.Heartbeat != time.Minute {
		t.Errorf("the decision is %+v, want one without problems", d)
	}
}

// TestOptionsAreInEffect compares each spec with a configuration that has only the AS number.
func TestOptionsAreInEffect(t *testing.T) {
	for _, tt := range examples(t, "options") {
		t.Run(tt.name, func(t *testing.T) {
			d := decide(t, tt.config)
			if diff := cmp.Diff(trimmed(tt.want), beyond(d)); diff != "" {
				t.Errorf("the result differs (-want +got):\n%s", diff)
			}
			invariants(t, d)
		})
	}
}

func TestNoInternalAddressesToListenAtAreReported(t *testing.T) {
	d := peering.Decide(config(t, "{global: {asn: 64512, listenAddresses: ['${NODE_IP}']}}"), peering.Node{Name: "node-1"}, secrets, egress)
	want := "${NODE_IP} stands for the internal addresses of the Node, which has none: write addresses"
	if !slices.ContainsFunc(d.Problems, func(p peering.Problem) bool {
		return p.Field == "spec.global.listenAddresses[0]" && p.Message == want
	}) {
		t.Errorf("got the problems %v, want one of listenAddresses[0]: %s", d.Problems, want)
	}
}

// The kernel refuses a socket at an address beside one at all addresses.
func TestNoAddressToListenAtIsCoveredByAnother(t *testing.T) {
	for listen, want := range map[string]string{
		"[192.0.2.10, 0.0.0.0, '2001:db8::10']": "[0.0.0.0 2001:db8::10]",
		"['::', '2001:db8::10', 192.0.2.10]":    "[:: 192.0.2.10]",
		"['::', 0.0.0.0]":                       "[:: 0.0.0.0]",
		"['${NODE_IP}', 0.0.0.0, '::']":         "[0.0.0.0 ::]",
	} {
		if got := fmt.Sprint(decide(t, "{global: {asn: 64512, listenAddresses: "+listen+"}}").State.Global.Listen); got != want {
			t.Errorf("with %s, the node listens at %s, want %s", listen, got, want)
		}
	}
}

func TestTemplatesWithoutAValueAreReported(t *testing.T) {
	for template, want := range map[string]string{
		"${NODE_IP}":                     "the node has no internal IPv4 address",
		"${NODE_IPV4}":                   "the node has no internal IPv4 address",
		"${NODE_EXTERNAL_IP}":            "the node has no external IPv4 address",
		"${node.annotations['a.b/c-d']}": "the node node-a has no annotation a.b/c-d: set it, such as with kubectl annotate node node-a a.b/c-d=192.0.2.10",
		"${node.labels['a.b/c-d']}":      "the node node-a has no label a.b/c-d: set it, such as with kubectl label node node-a a.b/c-d=192.0.2.10",
	} {
		spec := config(t, "{global: {asn: 64512}}")
		spec.Global.RouterID = template
		d := peering.Decide(spec, peering.Node{Name: "node-a"}, secrets, egress)
		if d.OK || !strings.Contains(print(d), "fatal here RouterIDResolutionFailed spec.global.routerID: there is no router ID: "+want) {
			t.Errorf("%s: the decision is\n%s\nwant the problem %q", template, print(d), want)
		}
	}
}

// TestTheOrderInTheSpecHasNoEffect is about neighbors with different addresses.
func TestTheOrderInTheSpecHasNoEffect(t *testing.T) {
	const a, b = "{config: {neighborAddress: 192.0.2.1, peerAsn: 1}}", "{config: {neighborAddress: '2001:db8::1', peerAsn: 2}}"
	one := decide(t, "{neighbors: ["+a+", "+b+"]}")
	other := decide(t, "{neighbors: ["+b+", "+a+"]}")
	if diff := cmp.Diff(print(one), print(other)); diff != "" {
		t.Errorf("the result differs (-want +got):\n%s", diff)
	}
}

// The password is too long.
func TestProblemsDoNotShowPasswords(t *testing.T) {
	long := strings.Repeat("hush", 21)
	d := decide(t, "{neighbors: [{config: {neighborInterface: eth1, peerAsn: 1, authPassword: "+long+"}}]}")
	if len(d.Problems) != 1 || strings.Contains(complaints(d)+d.LeftOut[0].Message, "hush") {
		t.Error(complaints(d))
	}
}
