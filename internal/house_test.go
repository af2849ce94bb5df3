// Package internal holds the plan of the house: which packages there are, in
// which layer each lies, what each may import and what of the world it may
// touch. The plan is the table below, and this test holds the code to it.
package internal

import (
	"os"
	"slices"
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/expect"
)

// The layers, from the ground up.
const (
	words     = "WORDS"     // types and arithmetic that everybody speaks
	decisions = "DECISIONS" // values in, values out: no I/O, no clock, no goroutine
	drivers   = "DRIVERS"   // one piece of the world each
	loops     = "LOOPS"     // observe, decide, act, report
	programs  = "PROGRAMS"  // flags, constructors bottom to top, run
	testHelp  = "TEST HELP" // imported by tests only
)

// A room is a package: its layer, the packages of the house that it may import
// and the doors that it may use.
type room struct {
	layer, path, imports, doors string
}

// house lists every package of the module, each below those that import it.
var house = []room{
	{words, "internal/addr", "", ""},
	{words, "internal/buildinfo", "", "process"}, // what the toolchain noted in the program
	{words, "internal/allocate/allocstate", "", ""},
	{words, "charts/purelb", "", ""}, // the definitions of the custom resources
	{words, "api/purelb/v2", "", "types"},
	{words, "api/purelb/v1", "api/purelb/v2", "types"},
	{words, "api/bgp/v1", "", "types"},
	{words, "api/ipam/v1", "", "process grpc"}, // generated code, which has client and server

	{decisions, "internal/nodes/detector", "", ""},
	{decisions, "internal/nodes/election", "internal/addr", ""},
	{decisions, "internal/service", "internal/addr", "types"},
	{decisions, "internal/groups", "internal/addr", "types"},
	{decisions, "internal/allocate/ipam", "internal/addr internal/groups internal/service", "types"},
	{decisions, "internal/config", "internal/addr internal/groups api/purelb/v1 api/purelb/v2", "types"},
	{decisions, "internal/announce", "internal/addr internal/groups internal/config internal/nodes/election internal/service", "types"},

	{decisions, "internal/announce/agentstate", "internal/nodes/election", ""}, // the words of /state, with the members of the election
	{decisions, "internal/announce/probe", "internal/announce internal/nodes/election", ""},

	{decisions, "internal/bgp/peering", "internal/addr api/bgp/v1", "types"},
	{decisions, "internal/nodes/ending", "", "types"},
	{decisions, "internal/bgp/intent", "internal/addr internal/groups internal/config internal/nodes/ending internal/bgp/peering api/purelb/v2 api/bgp/v1", "types"},

	{drivers, "internal/backoff", "", "process"}, // waits
	{drivers, "internal/rtnetlink", "internal/backoff", "process kernel"},
	{drivers, "internal/announce/linux", "internal/addr internal/announce internal/rtnetlink internal/backoff", "process kernel"},
	{drivers, "internal/kube", "internal/backoff", "process types apiserver http"},
	{drivers, "internal/nodes/lease", "internal/addr internal/nodes/election internal/backoff internal/kube", "process types apiserver"},
	{decisions, "internal/allocate/census", "api/purelb/v2 internal/addr internal/groups internal/allocate/ipam internal/service internal/config internal/nodes/lease", "types"}, // of lease only what a Lease says
	{drivers, "internal/nodes/gossip", "internal/nodes/detector internal/nodes/election internal/backoff", "process gossip"},
	{drivers, "internal/bgp/gobgp", "internal/addr internal/bgp/peering internal/backoff", "process gobgp"},
	{drivers, "internal/bgp/bfd", "internal/backoff", "process kernel sockets gobgp"},
	{drivers, "internal/bgp/routing", "internal/addr internal/bgp/peering internal/rtnetlink internal/backoff", "process kernel sockets"},

	{drivers, "internal/allocate/ipamgrpc", "internal/addr internal/allocate/ipam api/ipam/v1", "process grpc"},
	{drivers, "internal/allocate/netbox", "internal/addr internal/allocate/ipam internal/config internal/backoff", "process http"},
	{drivers, "internal/allocate/backends", "internal/addr internal/allocate/ipam internal/config internal/allocate/ipamgrpc internal/allocate/netbox internal/backoff", "process apiserver"},

	{drivers, "internal/kube/events", "internal/backoff", "process types apiserver"},
	{drivers, "internal/kube/callers", "", "process types apiserver"},
	{drivers, "internal/process", "internal/buildinfo", "process http metrics"},
	{drivers, "internal/nodes/membership", "internal/config internal/nodes/election internal/nodes/lease internal/nodes/gossip internal/process internal/backoff internal/kube", "process types apiserver metrics"},
	{drivers, "internal/nodes/shutdown", "internal/nodes/ending internal/backoff internal/kube", "process types apiserver"},

	{drivers, "internal/bgp/speaker/cluster", "api/purelb/v2 api/bgp/v1 internal/addr internal/service internal/config internal/bgp/peering internal/nodes/ending internal/bgp/intent internal/kube internal/backoff", "process types apiserver"},

	{loops, "internal/allocate", "internal/allocate/allocstate internal/buildinfo api/purelb/v1 api/purelb/v2 api/bgp/v1 internal/addr internal/groups internal/allocate/ipam internal/service internal/config internal/nodes/election internal/nodes/lease internal/allocate/census internal/kube internal/kube/events internal/process internal/allocate/netbox internal/allocate/backends internal/backoff", "process types apiserver manager klog http metrics"},
	{loops, "internal/announce/agent", "internal/announce/agentstate api/purelb/v1 api/purelb/v2 internal/addr internal/service internal/config internal/nodes/election internal/announce internal/announce/linux internal/nodes/lease internal/kube internal/kube/events internal/process internal/nodes/membership internal/nodes/ending internal/nodes/shutdown internal/buildinfo internal/backoff internal/kube/callers internal/announce/probe", "process types apiserver http metrics"},
	{loops, "internal/bgp/speaker", "api/purelb/v2 api/bgp/v1 internal/addr internal/service internal/config internal/bgp/peering internal/nodes/ending internal/bgp/intent internal/bgp/speaker/cluster internal/bgp/gobgp internal/bgp/bfd internal/bgp/routing internal/kube internal/kube/events internal/process internal/nodes/shutdown internal/backoff", "process types apiserver http metrics"},

	{loops, "internal/bgp/configstatus", "api/bgp/v1 internal/bgp/peering internal/backoff internal/kube internal/kube/events", "process types apiserver manager"},

	{decisions, "internal/explain", "internal/buildinfo internal/announce/agentstate internal/allocate/allocstate api/purelb/v2 api/bgp/v1 internal/addr internal/groups internal/allocate/ipam internal/service internal/config internal/nodes/election internal/announce internal/bgp/peering internal/nodes/lease internal/allocate/census", "types"}, // of lease only what a Lease says

	{decisions, "internal/explain/importer", "api/purelb/v2 api/bgp/v1 internal/addr internal/service", "types yaml"},

	{programs, "cmd/allocator", "internal/allocate internal/bgp/configstatus internal/config internal/kube internal/process internal/service", "process manager klog"},
	{programs, "cmd/lbnodeagent", "internal/announce/agent internal/announce/linux internal/config internal/kube internal/process internal/nodes/shutdown", "process klog"},
	{programs, "cmd/k8gobgp", "internal/bgp/speaker internal/bgp/gobgp internal/bgp/bfd internal/bgp/routing internal/config internal/kube internal/process internal/nodes/shutdown", "process klog"},

	{programs, "cmd/kubectl-purelb", "charts/purelb internal/announce/agentstate internal/allocate/allocstate api/purelb/v1 api/purelb/v2 api/bgp/v1 internal/allocate/census internal/config internal/explain internal/explain/importer internal/nodes/lease internal/buildinfo internal/announce/probe internal/backoff internal/service", "process types apiserver manager klog http yaml cli kernel schemas"}, // of the kernel only its neighbors, for watch,

	{programs, "docs/examples/ipam-server", "api/ipam/v1", "process grpc"},

	{testHelp, "internal/testing/netboxtest", "internal/addr", "process http"},
	{testHelp, "internal/testing/netboxtest/fakenetbox", "internal/testing/netboxtest", "process http"},
	{testHelp, "internal/testing/ipamtest", "internal/addr internal/allocate/ipam api/ipam/v1", "process grpc"},
	{testHelp, "internal/testing/processes", "", "process exec"},
	{testHelp, "internal/testing/expect", "", "process diffs"},
	{testHelp, "internal/testing/bgptest", "internal/testing/processes", "process kernel exec"},
	{testHelp, "internal/testing/apitest", "api/purelb/v1 api/purelb/v2", "process types apiserver manager http exec"},
}

// neighbors says which folders the packages of a folder may import, beside their own. There is a
// folder for each question of an operator (see docs/architecture.md). What all folders use lies
// outside of them.
var neighbors = map[string]string{
	"allocate": "nodes",
	"announce": "nodes",
	"bgp":      "nodes",
	"nodes":    "",
	"explain":  "allocate announce bgp nodes", // it asks each of them why
}

// A door is a way to the outside: the imports that go through it (each with
// all that lies below it), and what to do instead of using it elsewhere.
type door struct {
	name, imports, instead string
}

// doors guards what may be touched only in some rooms. A package from outside
// that no door leads to may be used nowhere: it needs a door first.
var doors = []door{
	{"types", "k8s.io/api k8s.io/apimachinery",
		"addresses, pools and the election know nothing of Kubernetes; translate in internal/service or internal/config"},
	{"process", "context io log os/signal sync os net syscall runtime flag math/rand",
		"WORDS and DECISIONS do no I/O and start nothing: pass what was read in as a value, and act on the answer in a loop or a driver"},
	{"kernel", "github.com/vishvananda/netlink github.com/google/nftables golang.org/x/sys/unix",
		"only internal/announce/linux, and for BGP internal/bgp/routing, talk to the kernel's network stack, by internal/rtnetlink; read it there, and carry changes out there"},
	{"sockets", "golang.org/x/net",
		"what only some packets carry, such as their TTL, is for the drivers of protocols that need it"},
	{"gobgp", "github.com/osrg/gobgp",
		"only internal/bgp/gobgp runs a BGP server, and internal/bgp/bfd uses its packets; decisions say in peering's words what it is to be"},
	{"apiserver", "k8s.io/client-go",
		"only the loops, internal/nodes/lease, internal/nodes/membership, internal/kube/events, internal/kube/callers, internal/nodes/shutdown and internal/kube talk to the API server; decisions get its objects as values. internal/allocate/backends has a queue of client-go"},
	{"gossip", "github.com/hashicorp/memberlist",
		"only internal/nodes/gossip talks to the other agents; decisions get what it knows of them as values"},
	{"grpc", "google.golang.org/grpc google.golang.org/protobuf",
		"only internal/allocate/ipamgrpc talks to IPAM servers, by api/ipam/v1; decisions get what these grant as values"},
	{"yaml", "sigs.k8s.io/yaml sigs.k8s.io/json go.yaml.in/yaml",
		"only cmd/kubectl-purelb reads manifests; all others have custom resources and flags"},
	{"schemas", "k8s.io/apiextensions-apiserver k8s.io/apiserver",
		"only cmd/kubectl-purelb judges manifests as an API server does; all others get objects that the API server has accepted"},
	{"cli", "github.com/spf13 k8s.io/cli-runtime charm.land",
		"only the plugin for kubectl has commands and kubectl's flags; the programs of the cluster have package flag"},
	{"manager", "sigs.k8s.io/controller-runtime",
		"only the allocator has a manager, with its caches and leader election, and internal/bgp/configstatus runs in it; others watch by internal/kube, and cmd/kubectl-purelb reads"},
	{"klog", "github.com/go-logr/logr k8s.io/klog k8s.io/utils/clock",
		"only programs say where the logs of libraries go"},
	{"http", "net/http",
		"HTTP is served by internal/process (metrics and probes, as the loops answer them) and by nothing else; internal/kube stands between client-go and the wire, and internal/allocate/netbox talks to NetBox"},
	{"metrics", "github.com/prometheus/client_golang",
		"a decision returns its reason; the loop counts it in its metrics.go. Of the drivers only internal/nodes/membership has metrics, because no loop sees what it counts, and internal/process has that of the release"},
	{"diffs", "github.com/google/go-cmp",
		"only tests show what differs, by internal/testing/expect"},
	{"exec", "os/exec",
		"no program of the product runs another program; only tests do"},
}

func TestTheHouseStandsAsPlanned(t *testing.T) {
	packages, err := readModule("..")
	expect.NoError(t, err)
	if len(packages) == 0 {
		t.Fatal("no package found: is this test still in the folder internal of the module?")
	}
	for _, p := range packages {
		for _, complaint := range complaints(p) {
			t.Error(complaint)
		}
	}
	for _, r := range house {
		if !slices.ContainsFunc(packages, func(p source) bool { return p.path == r.path }) {
			t.Errorf("the table lists %s, which has no Go code: remove its row from internal/house_test.go", r.path)
		}
	}
}

func TestTheTableIsBuiltFromTheGroundUp(t *testing.T) {
	var built []string
	for _, r := range house {
		for _, below := range strings.Fields(r.imports) {
			if !slices.Contains(built, below) {
				t.Errorf("%s may import %s, which does not stand above it in the table: a package imports only what lies below it in the house", r.path, below)
			}
		}
		for _, name := range strings.Fields(r.doors) {
			if !slices.ContainsFunc(doors, func(d door) bool { return d.name == name }) {
				t.Errorf("%s uses the door %q, which is not in the list of doors", r.path, name)
			}
		}
		built = append(built, r.path)
	}
}

// The folders keep apart: each answers its question from what all of them use.
func TestFoldersKeepApart(t *testing.T) {
	for _, r := range house {
		inside, isPart := strings.CutPrefix(r.path, "internal/")
		if !isPart || r.layer == testHelp {
			continue
		}
		folder := folderOf(inside)
		for _, imported := range strings.Fields(r.imports) {
			other := folderOf(strings.TrimPrefix(imported, "internal/"))
			if other == "" || other == folder || slices.Contains(strings.Fields(neighbors[folder]), other) {
				continue
			}
			t.Errorf("%s may import %s of the folder %s: move what it needs to a package outside of the folders", r.path, imported, other)
		}
	}
}

// folderOf returns the folder of a package inside internal, or "" if the package is what all use.
func folderOf(inside string) string {
	first, _, _ := strings.Cut(inside, "/")
	if _, ok := neighbors[first]; !ok {
		return ""
	}
	return first
}

// The drawing for readers has the same packages as the table, in the same layers.
func TestTheDrawingShowsEveryPackage(t *testing.T) {
	page, err := os.ReadFile("../docs/architecture.md")
	expect.NoError(t, err)
	_, drawing, _ := strings.Cut(string(page), "## The house")
	_, drawing, _ = strings.Cut(drawing, "```")
	drawing, _, found := strings.Cut(drawing, "```")
	if !found {
		t.Fatal("docs/architecture.md has no drawing of the house")
	}
	layer, drawn := "", map[string]string{}
	for line := range strings.Lines(drawing) {
		for _, word := range strings.Fields(line) {
			switch {
			case slices.Contains([]string{words, decisions, drivers, loops, programs}, word):
				layer = word
			case strings.Contains(word, "/") && word != "I/O" && word != "I/O,":
				drawn[word] = layer
			}
		}
	}
	for _, r := range house {
		if r.layer == testHelp || strings.HasPrefix(r.path, "docs/") {
			continue
		}
		if drawn[r.path] != r.layer {
			t.Errorf("docs/architecture.md draws %s in %q, want %s", r.path, drawn[r.path], r.layer)
		}
		delete(drawn, r.path)
	}
	for path := range drawn {
		t.Errorf("docs/architecture.md draws %s, which is no package of the table", path)
	}
}
