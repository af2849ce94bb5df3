package peering_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/yaml"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

var renew = flag.Bool("update", false, "write the answers of the scenes into testdata")

// stage is what a scene is about.
type stage struct {
	// node is the node of the tables with the fields of the line "node: ".
	node peering.Node
	// ways has the ways to neighbors of the line "ways: ", beside those of egress.
	ways map[netip.Addr]peering.Egress
	// links has the neighbors that are found on links, of the line "links: ".
	links map[string]netip.Addr
	// neighbors and report are for scenes about the health.
	neighbors statuses
	report    peering.Report
	// spec has the other lines.
	spec string
}

// statuses are those of the neighbors that the server has, by their addresses. What a scene does not say of a
// neighbor is as in neighbor.
type statuses []peering.NeighborStatus

func (all *statuses) UnmarshalJSON(text []byte) error {
	var said map[string]json.RawMessage
	err := json.Unmarshal(text, &said)
	for _, address := range slices.Sorted(maps.Keys(said)) {
		n := neighbor(address, peering.Established)
		err = errors.Join(err, json.Unmarshal(said[address], &n))
		if n.State != peering.Established {
			n.UpSince = time.Time{}
		}
		*all = append(*all, n)
	}
	return err
}

// stageOf reads a scene. said has all lines but the answer, whose lines begin with "-> ".
func stageOf(t *testing.T, script string) (s stage, said string) {
	t.Helper()
	s = stage{node: node, report: peering.Report{Node: "node-a", Now: noon}}
	s.node.Labels, s.node.Annotations = maps.Clone(node.Labels), maps.Clone(node.Annotations)
	s.node.InternalIPs, s.node.ExternalIPs = slices.Clone(node.InternalIPs), slices.Clone(node.ExternalIPs)
	parts := map[string]any{"node": &s.node, "ways": &s.ways, "links": &s.links, "neighbors": &s.neighbors, "report": &s.report}
	for line := range strings.Lines(script + "\n") {
		if strings.HasPrefix(line, "-> ") {
			continue
		}
		said += line
		word, value, _ := strings.Cut(line, ": ")
		if to := parts[word]; to != nil && s.spec == "" {
			expect.NoError(t, yaml.UnmarshalStrict([]byte(value), to))
		} else {
			s.spec += line
		}
	}
	return s, said
}

func (s stage) decide(t *testing.T) peering.Decision {
	t.Helper()
	d := peering.Decide(config(t, s.spec), s.node, secrets, func(to netip.Addr) (peering.Egress, bool) {
		if way, there := s.ways[to]; there {
			return way, true
		}
		return egress(to)
	})
	invariants(t, d)
	if s.links != nil {
		var waiting []peering.Problem
		d.State, waiting = d.State.Resolved(s.links)
		d.Problems = append(d.Problems, waiting...)
	}
	return d
}

// answered returns a scene with another answer.
func answered(said, answer string) string {
	for line := range strings.Lines(answer) {
		said += "-> " + line
	}
	return strings.TrimSuffix(said, "\n")
}

// The answer is how the decision differs from that of a configuration that has only the AS number.
func TestDecisions(t *testing.T) {
	expect.Scenes(t, "testdata/*.txt", *renew, func(t *testing.T, script string) string {
		s, said := stageOf(t, script)
		return answered(said, beyond(s.decide(t)))
	})
}

// The answer is the status of the node, and which neighbors are well.
func TestTheHealthOfANode(t *testing.T) {
	expect.Scenes(t, "testdata/health/*.txt", *renew, func(t *testing.T, script string) string {
		s, said := stageOf(t, script)
		r := s.report
		r.Decision, r.Neighbors = s.decide(t), s.neighbors
		return answered(said, healthy(peering.NodeStatus(r, bgpv1.BGPNodeStatusStatus{}))+fmt.Sprintf("well: %v\n", r.Healthy()))
	})
}
