// Package e2e has the end-to-end tests. They use a real cluster with PureLB, installed from its chart,
// and a client outside of the cluster. Each test has the name of a promise to users.
//
// The tests need the lab ("make up"). They install the product from this tree themselves.
// Without a lab they fail.
package e2e

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/internal/scenes"
	"purelb.io/purelb/lab/kube"
	"purelb.io/purelb/lab/product"
	"purelb.io/purelb/lab/router"
)

// fixture is the running lab with the product in it.
type fixture struct {
	*cluster.Cluster
	kube *kube.Client
	tree product.Tree
	book *logBook
}

var lab fixture

var byName = flag.Bool("scenes", false, "run the tests whose names arrive on standard input, one after the other (package scenes)")

func TestMain(m *testing.M) {
	flag.Parse()
	if err := setUp(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	if *byName {
		os.Exit(runNamed(m))
	}
	os.Exit(m.Run())
}

// runNamed runs the tests whose names arrive on standard input.
func runNamed(m *testing.M) (code int) {
	fmt.Println(scenes.Ready)
	for names := bufio.NewScanner(os.Stdin); names.Scan(); {
		if err := flag.Set("test.run", "^"+names.Text()+"$"); err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
			return 1
		}
		result := "ok"
		if c := m.Run(); c != 0 {
			code, result = c, "failed"
		}
		fmt.Println(scenes.Ended + names.Text() + " " + result)
	}
	return code
}

// installing is the time limit for building and installing the product.
const installing = 10 * time.Minute

func setUp() error {
	c, err := cluster.Open()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), installing)
	defer cancel()
	tree, err := product.FindTree(".", os.Stderr)
	if err != nil {
		return err
	}
	if err := tree.Install(ctx, c, c.Kubeconfig(), c.World().Values...); err != nil {
		return err
	}
	api, err := kube.New(c.Kubeconfig())
	if err != nil {
		return err
	}
	lab = fixture{Cluster: c, kube: api, tree: tree}
	lab.book = lab.followLogs()
	return nil
}

// install brings the product to the state at the start of a test. It has its own time limit, because
// it also cleans up after a test that took too long.
func (f fixture) install() error {
	ctx, cancel := context.WithTimeout(context.Background(), installing)
	defer cancel()
	return f.tree.Install(ctx, f.Cluster, f.Kubeconfig(), f.World().Values...)
}

// restore is install for the end of a test after which all agents restart. They restart together,
// and not one after another.
func (f fixture) restore() error {
	ctx, cancel := context.WithTimeout(context.Background(), installing)
	defer cancel()
	if err := f.tree.Install(ctx, f.Cluster, f.Kubeconfig(), append(slices.Clone(f.World().Values), allAtOnce)...); err != nil {
		return err
	}
	return f.tree.Install(ctx, f.Cluster, f.Kubeconfig(), f.World().Values...)
}

const (
	// maxUnavailable sets how many agents may restart at the same time.
	maxUnavailable = "lbnodeagent.updateStrategy.rollingUpdate.maxUnavailable="
	allAtOnce      = maxUnavailable + "100%"
	oneByOne       = maxUnavailable + "1"
)

// watching returns a client that can watch.
func (f fixture) watching() (client.WithWatch, error) {
	config, err := clientcmd.BuildConfigFromFlags("", f.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return client.NewWithWatch(config, client.Options{})
}

// powered returns the names of the nodes with power.
func (f fixture) powered() []string {
	var names []string
	for _, n := range f.Nodes() {
		if f.Running(n.Name) {
			names = append(names, n.Name)
		}
	}
	return names
}

// carriers returns the interfaces of a node that carry an address. It leaves out the interface of
// kube-proxy in IPVS mode, which has all addresses and sends no packets.
func (f fixture) carriers(node string, a netip.Addr) ([]string, error) {
	links, err := router.Carriers(f.Netns(node), a)
	return slices.DeleteFunc(links, func(l string) bool { return l == ipvsLink }), err
}

// ipvsLink is the interface of kube-proxy in IPVS mode.
const ipvsLink = "kube-ipvs0"

// links returns the interfaces of a node that have the addresses of the node.
func (f fixture) links(node string) (names []string) {
	m, _ := f.Spec.Plan.Machine(node)
	for _, n := range m.NICs {
		names = append(names, n.Carrier())
	}
	return names
}

// names returns the nodes whose first addresses these are, sorted. If no node has an address, the
// result has the address itself.
func (f fixture) names(addresses []netip.Addr) []string {
	var names []string
	for _, a := range addresses {
		name := a.String()
		for _, n := range f.Nodes() {
			if n.V4() == a || n.V6() == a {
				name = n.Name
			}
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// boot powers a node on, without some of its programs, and waits until it is ready.
func (f fixture) boot(t testing.TB, node string, without ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	defer cancel()
	if err := f.Boot(ctx, node, without...); err != nil {
		t.Fatal(err)
	}
	err := kube.Until(ctx, func() (string, bool) {
		err := f.NodesReady(ctx)
		if err == nil {
			return "", true
		}
		// containerd opens its socket before it serves Kubernetes. A kubelet that starts before that
		// ends.
		_ = f.Start(ctx, node, "kubelet")
		return err.Error(), false
	})
	if err != nil {
		t.Fatal(err)
	}
}

// logs returns the last lines of the product's containers for a failed test.
func (f fixture) logs() string {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var out strings.Builder
	for _, component := range []string{"allocator", "lbnodeagent"} {
		text, err := f.Exec(ctx, cluster.ControlPlane, "kubectl", "logs", "--namespace", product.Namespace,
			"--selector", "component="+component, "--all-containers", "--prefix", "--tail", "40")
		fmt.Fprintf(&out, "--- logs of %s (%v)\n%s\n", component, err, text)
	}
	return out.String()
}
