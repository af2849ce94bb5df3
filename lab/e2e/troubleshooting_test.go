package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/lab/backend"
	"purelb.io/purelb/lab/internal/build"
	"purelb.io/purelb/lab/kube"
	"purelb.io/purelb/lab/product"
)

// trouble is a fault that users meet.
type trouble struct {
	// name describes the fault.
	name string
	// ask are the arguments of the plugin. says is a part of the first line of its answer.
	ask, says string
	// cause makes the fault. The function that it returns mends it.
	cause func(t *troubled) (mend func())
}

// troubled is the world of a set of faults that exist at the same time.
type troubled struct {
	*world
	plugin string
}

// reply is the answer of the plugin.
type reply struct {
	first, all string
	code       int
}

// asks runs the plugin with these arguments.
func (w *troubled) asks(question string) reply {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.plugin, strings.Fields(question)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+lab.Kubeconfig())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		w.t.Fatalf("kubectl purelb %s: %v", question, err)
	}
	first, _, _ := strings.Cut(out.String(), "\n")
	return reply{first, out.String(), cmd.ProcessState.ExitCode()}
}

// buildPlugin builds the plugin as "make plugin" does.
func buildPlugin(t testing.TB) string {
	t.Helper()
	tree, err := product.FindTree(".", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "kubectl-purelb")
	if err := build.Program(t.Context(), tree.Root, "./cmd/kubectl-purelb", to); err != nil {
		t.Fatal(err)
	}
	return to
}

// mended reports whether the fault is gone from a reply. The command check covers the whole cluster,
// so for some minutes it may name faults of earlier tests.
func (f trouble) mended(got reply) bool {
	if f.ask == "check" {
		return !strings.Contains(got.all, f.says)
	}
	return got.code != 1
}

// meet makes the faults of a set and waits until the plugin names each fault in the first line of its
// answer. Then it mends the faults and waits until the plugin names none of them.
func (w *troubled) meet(all []trouble) map[string]string {
	w.t.Helper()
	lines := map[string]string{}
	var mends []func()
	for _, one := range all {
		mends = append(mends, w.undoable(one.cause(w)))
	}
	for _, one := range all {
		began := time.Now()
		var got reply
		// Kubernetes says that a node is not ready up to 65 s after the node has lost its power.
		if !w.within(2*patience, func() bool { got = w.asks(one.ask); return strings.Contains(got.first, one.says) }) {
			w.t.Errorf("%s: kubectl purelb %s does not begin with %q:\n%s", one.name, one.ask, one.says, got.all)
			continue
		}
		w.t.Logf("%s: after %s: %s", one.name, time.Since(began).Round(100*time.Millisecond), got.first)
		lines[one.name] = got.first
	}
	for _, mend := range mends {
		mend()
	}
	for _, one := range all {
		began := time.Now()
		var got reply
		if !w.within(patience, func() bool { got = w.asks(one.ask); return one.mended(got) }) {
			w.t.Errorf("%s: after the fault is mended, kubectl purelb %s answers:\n%s", one.name, one.ask, got.all)
		}
		w.t.Logf("%s: mended after %s: %s", one.name, time.Since(began).Round(100*time.Millisecond), got.first)
	}
	return lines
}

// within reports whether condition becomes true before the limit.
func (w *troubled) within(limit time.Duration, condition func() bool) bool {
	ctx, cancel := context.WithTimeout(w.ctx, limit)
	defer cancel()
	return kube.Until(ctx, func() (string, bool) { return "not yet", condition() }) == nil
}

// troubles are all faults.
func troubles(n *backend.NetBox) []troubleSet {
	return []troubleSet{
		{"services", slices.Concat(ofServices, ofBackends(n))}, {"cluster", ofCluster}, {"namespace", ofNamespace},
		{"allocator", ofPrograms}, {"gossip", ofGossip}, {"key", ofKeys}, {"routers", ofRouters},
		{"nodes", ofNodes}, {"arp", ofARP}, {"power", ofPower},
	}
}

// troubleSet is a set of faults that exist at the same time.
type troubleSet struct {
	name   string
	faults []trouble
}

// Promise: the first line of the plugin's answer names the cause of a fault.
func TestThePluginNamesTheCauseOfFaults(t *testing.T) {
	plugin := buildPlugin(t)
	n := startTroubledNetBox(t)
	lines := map[string]string{}
	for _, set := range troubles(n) {
		t.Run(set.name, func(t *testing.T) {
			w := &troubled{newWorld(t), plugin}
			t.Cleanup(w.withoutGroups)
			w.sessions()
			maps.Copy(lines, w.meet(set.faults))
		})
	}
	if !t.Failed() {
		documented(t, troubles(n), lines)
	}
}

var update = flag.Bool("update", false, "write tables that tests generate into the documentation")

// The table is between these lines of the page.
const tableBegins, tableEnds = "<!-- The test TestThePluginNamesTheCauseOfFaults writes this table. -->\n", "<!-- End of the table. -->\n"

// varying are the texts that differ from run to run, with their replacements in the table.
var varying = []struct {
	what    *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`[0-9a-f]{2}(:[0-9a-f]{2}){5}`), "02:00:5e:00:53:01"},
	{regexp.MustCompile(`,? as node node-[0-9]+ reports(, and .*)?`), ", as node node-2 reports"},
	{regexp.MustCompile(`; the Lease of its agent ended .* ago`), ""},
	{regexp.MustCompile(`; state unchanged since [0-9TZ:-]+`), ""},
	{regexp.MustCompile(` is (Idle|Connect|Active|OpenSent|OpenConfirm):`), " is Active:"},
	{regexp.MustCompile(`the node has eth0(, [a-z0-9]+)*`), "the node has eth0"},
	{regexp.MustCompile(`\(seen by node-[^)]*\)`), "(seen by node-2)"},
	{regexp.MustCompile(`BFD is (Down|Init)`), "BFD is Down"},
}

// documented compares the table of docs/troubleshooting.md with the answers of the plugin, or writes
// the table.
func documented(t *testing.T, sets []troubleSet, lines map[string]string) {
	t.Helper()
	var table strings.Builder
	table.WriteString("| Fault | Command | First line |\n|---|---|---|\n")
	for _, set := range sets {
		for _, one := range set.faults {
			line := lines[one.name]
			for _, v := range varying {
				line = v.what.ReplaceAllString(line, v.instead)
			}
			fmt.Fprintf(&table, "| %s | `kubectl purelb %s` | %s |\n", one.name, one.ask, strings.ReplaceAll(line, "|", "\\|"))
		}
	}
	page := filepath.Join("..", "..", "docs", "troubleshooting.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), tableBegins)
	old, after, ends := strings.Cut(rest, tableEnds)
	switch {
	case !ok || !ends:
		t.Fatalf("%s has no place for the table", page)
	case *update:
		if err := os.WriteFile(page, []byte(before+tableBegins+"\n"+table.String()+"\n"+tableEnds+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case strings.TrimSpace(old) != strings.TrimSpace(table.String()):
		t.Errorf("%s has another table (go -C lab test ./e2e -run %s -update writes this one):\n%s", page, t.Name(), table.String())
	}
}

// startTroubledNetBox starts a NetBox for these tests.
func startTroubledNetBox(t *testing.T) *backend.NetBox {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	tree, err := product.FindTree(".", os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := backend.StartNetBox(ctx, lab.Cluster, tree.Root, 8020, false, "-range=10.255.16.1-10.255.16.254/24")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := n.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return n
}
