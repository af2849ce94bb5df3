package e2e

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"purelb.io/purelb/lab/product"
)

// Promise: without the speaker, a routing daemon of the user announces remote addresses.

// guidesBIRD returns the configuration of BIRD from docs/bgp-advanced.md, section "A routing daemon of your
// own". It has the addresses of a node and of the router on its segment.
func (w *world) guidesBIRD(tree product.Tree, node string) string {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(tree.Root, "docs/bgp-advanced.md"))
	if err != nil {
		w.t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\n## A routing daemon of your own")
	_, after, _ = strings.Cut(after, "```\n")
	example, _, ok := strings.Cut(after, "```\n")
	n, err := lab.Machine(node)
	if !ok || err != nil {
		w.t.Fatalf("the guide has an example: %v; %v", ok, err)
	}
	beside := w.routerBeside(n)
	return strings.NewReplacer(
		"192.168.1.11", n.V4().String(), "2001:db8:1::11", n.V6().String(),
		"192.168.1.1", beside.V4.Addr().String(), "2001:db8:1::1", beside.V6.Addr().String(),
		"as 65001", "as 64515", "as 65000", "as 64514",
	).Replace(example)
}

// bird runs BIRD on a node until the test calls stop.
func (w *world) bird(node, config string) (stop func()) {
	w.t.Helper()
	return w.daemon(node, "/run/bird.conf", config, "bird", "-f", "-c", "/run/bird.conf", "-s", "/run/bird.ctl", "-P", "/run/bird.pid")
}

// daemon runs a routing daemon with a configuration on a node until the test calls stop.
func (w *world) daemon(node, file, config string, argv ...string) (stop func()) {
	w.t.Helper()
	write := "cat > " + file + " <<'END'\n" + config + "END\n"
	if out, err := lab.Exec(w.ctx, node, "sh", "-c", write); err != nil {
		w.t.Fatalf("configure %s on %s: %v %s", argv[0], node, err, out)
	}
	cmd, err := lab.Command(w.ctx, node, argv...)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatalf("start %s on %s: %v", argv[0], node, err)
	}
	return w.undoable(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
}

// withoutSpeakers removes the speakers of all nodes until the test calls undo.
func (w *world) withoutSpeakers(tree product.Tree) (undo func()) {
	w.t.Helper()
	undo = w.undoable(func() {
		w.setValues(tree, "gobgp.enabled=true", allAtOnce)
		w.setValues(tree, "gobgp.enabled=true", oneByOne)
		w.sessions()
	})
	w.setValues(tree, "gobgp.enabled=false", allAtOnce)
	return undo
}

func TestARoutingDaemonOfTheUserAnnouncesRemoteAddresses(t *testing.T) {
	w := newWorld(t)
	tree, err := product.FindTree(".", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	w.expect("nodeStatusNotWritten") // the rights of the speakers are removed before the speakers
	addresses := w.remote()
	undo := w.withoutSpeakers(tree)
	w.until(patience, "the router has no route of a speaker", func() bool {
		return !slices.ContainsFunc(addresses, func(a netip.Addr) bool { return len(w.nextHops(host(a))) > 0 })
	})
	stop := map[string]func(){}
	for _, n := range nodeNames() {
		stop[n] = w.bird(n, w.guidesBIRD(tree, n))
	}
	// BIRD also announces its link-local address as a next hop, and the router uses it. So the test
	// cannot compare the names of nodes.
	through := func(nodes int) {
		t.Helper()
		for _, a := range addresses {
			w.until(2*patience, fmt.Sprintf("the router reaches %s by way of %d nodes", a, nodes), func() bool { return len(w.nextHops(host(a))) == nodes })
		}
	}
	through(len(nodeNames()))
	w.answers(addresses...)
	stop["node-3"]()
	through(len(nodeNames()) - 1)
	w.answers(addresses...)
	w.remove(service("web", "remote"))
	through(0)
	for _, end := range stop {
		end()
	}
	undo()
}
