//go:build install

package e2e

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/internal/spec"
	"purelb.io/purelb/lab/product"
)

// release is a release of PureLB as users get it. It has files, and a registry of the cluster has its
// images and its chart.
type release struct {
	*world
	tree              string // the source that it was made from
	version, registry string
}

// releases makes and publishes two releases: of the commit from which an upgrade starts, and of this
// tree.
func (w *world) releases() (before, after release) {
	w.t.Helper()
	from, err := lab.tree.Before(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Logf("the upgrade starts from commit %s", from)
	registry := w.registry()
	before = w.release("0.0.1", registry, from, func(dir string) error { return lab.tree.Checkout(w.ctx, from, dir) })
	after = w.release("0.0.2", registry, "HEAD", func(dir string) error { return lab.tree.Copy(w.ctx, dir) })
	return before, after
}

// registry returns a new repository in the registry of the lab, which never replaces a version.
func (w *world) registry() string {
	w.t.Helper()
	cp, err := lab.Machine(cluster.ControlPlane)
	if err != nil {
		w.t.Fatal(err)
	}
	return fmt.Sprintf("%s/run-%d", netip.AddrPortFrom(cp.V4(), spec.RegistryPort), time.Now().UnixMilli())
}

// release makes and publishes a release. write writes its source, which is that of the commit or
// newer.
func (w *world) release(version, registry, commit string, write func(dir string) error) release {
	w.t.Helper()
	revision, err := lab.tree.Commit(w.ctx, commit)
	if err != nil {
		w.t.Fatal(err)
	}
	r := release{world: w, tree: w.t.TempDir(), version: version, registry: registry}
	if err := write(r.tree); err != nil {
		w.t.Fatal(err)
	}
	began, platform := time.Now(), "linux/"+runtime.GOARCH
	cmd := exec.CommandContext(w.ctx, "make", "release", "VERSION="+version, "REGISTRY="+registry,
		"RELEASE_ARGS=-image-platforms "+platform+" -plugin-platforms "+platform)
	cmd.Dir, cmd.Env = r.tree, append(outside(), "PURELB_REVISION="+revision, "SOURCE_DATE_EPOCH=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("make release of version %s: %v\n%s", version, err, out)
	}
	w.t.Logf("version %s is made in %s", version, time.Since(began).Round(time.Second))
	r.run("make", "publish", "VERSION="+version, "REGISTRY="+registry, "INSECURE=1")
	return r
}

// outside returns the environment without the variables of the make that runs the tests.
func outside() (env []string) {
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "MAKE") && !strings.HasPrefix(e, "MFLAGS") {
			env = append(env, e)
		}
	}
	return env
}

// run runs a command in the source of the release on the machine of the control plane. That machine
// reaches the registry and the API server, as the machine of a user does.
func (r release) run(argv ...string) {
	r.t.Helper()
	cmd, err := lab.Command(r.ctx, cluster.ControlPlane, argv...)
	if err != nil {
		r.t.Fatal(err)
	}
	var out strings.Builder
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.tree, &out, io.Writer(&out)
	cmd.Env = append(outside(), "PATH="+lab.Bin()+":"+os.Getenv("PATH"), "KUBECONFIG="+filepath.Join(lab.Spec.State.PKI(), "admin.kubeconfig"))
	if err := cmd.Run(); err != nil {
		r.t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, &out)
	}
}

// helm runs Helm with the chart of the release where args have CHART.
func (r release) helm(args ...string) {
	r.t.Helper()
	argv := []string{"go", "tool", "-modfile=tools/go.mod", "helm"}
	for _, a := range args {
		if a == "CHART" {
			argv = append(argv, "oci://"+r.registry+"/charts/purelb", "--version", r.version, "--plain-http")
			continue
		}
		argv = append(argv, a)
	}
	r.run(append(argv, "--namespace", product.Namespace)...)
}

// define applies the custom resource definitions of the release.
func (r release) define() {
	r.t.Helper()
	r.run("kubectl", "apply", "--server-side", "--force-conflicts", "-f", r.file("crds.yaml"))
}

// file is a file of the release.
func (r release) file(name string) string {
	return filepath.Join(r.tree, "dist", "purelb-"+r.version, name)
}

// manifests applies install.yaml of the release and waits until the programs run.
func (r release) manifests() {
	r.t.Helper()
	r.run("kubectl", "apply", "-f", r.file("install.yaml"))
	for _, object := range []string{"deployment/allocator", "daemonset/lbnodeagent"} {
		r.run("kubectl", "rollout", "status", object, "--namespace", product.Namespace, "--timeout=5m")
	}
	r.runs()
}

// runs waits until every pod of the product runs an image of the release.
func (r release) runs() {
	r.t.Helper()
	r.until(2*patience, "all pods are of version "+r.version, func() bool {
		pods, err := r.Pods(r.ctx, product.Namespace, nil)
		if err != nil {
			r.t.Fatal(err)
		}
		n := 0
		for _, p := range pods {
			for _, c := range append(p.Spec.InitContainers, p.Spec.Containers...) {
				if !ready(p) || p.DeletionTimestamp != nil || !strings.HasPrefix(c.Image, r.registry+"/"+c.Name+":"+r.version+"@sha256:") {
					return false
				}
				n++
			}
		}
		return n == 2*len(lab.Nodes())+1 // an agent and a speaker on each node, and the allocator
	})
}

// remains returns the objects of the product in the API server as kind/name, except events.
func (w *world) remains() (found []string) {
	w.t.Helper()
	kinds, err := lab.Exec(w.ctx, cluster.ControlPlane, "kubectl", "api-resources", "--verbs=list", "--output=name")
	if err != nil {
		w.t.Fatal(err)
	}
	var list []string
	for kind := range strings.Lines(kinds) {
		if kind = strings.TrimSpace(kind); !strings.HasPrefix(kind, "events") {
			list = append(list, kind)
		}
	}
	out, err := lab.Exec(w.ctx, cluster.ControlPlane, "kubectl", "get", strings.Join(list, ","), "--all-namespaces", "--ignore-not-found",
		"--output", `jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.namespace}{"\n"}{end}`)
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !ours(fields[1], strings.Join(fields[2:], "")) {
			continue
		}
		found = append(found, fields[0]+"/"+fields[1])
	}
	return found
}

// ours reports whether an object belongs to the product, by its name and its namespace. The namespace
// of a cluster-wide object is "".
func ours(name, namespace string) bool {
	switch {
	case name == product.Namespace && namespace == "", name == "kube-root-ca.crt", name == "default" && namespace == product.Namespace:
		return false // Kubernetes makes these for each namespace
	case namespace == product.Namespace:
		return true
	}
	return namespace == "" && strings.Contains(name, product.Release)
}

// dummies returns the nodes with the interface for remote addresses, and the alias of the interface.
// By the alias, an agent knows that an agent created the interface.
func (w *world) dummies() map[string]string {
	w.t.Helper()
	found := map[string]string{}
	for _, node := range lab.powered() {
		out, err := lab.Exec(w.ctx, node, "ip", "-oneline", "link")
		if err != nil {
			w.t.Fatal(err)
		}
		for line := range strings.Lines(out) {
			if strings.Contains(line, ": kube-lb0: ") {
				_, alias, _ := strings.Cut(strings.TrimSpace(line), "alias ")
				found[node] = alias
			}
		}
	}
	return found
}
