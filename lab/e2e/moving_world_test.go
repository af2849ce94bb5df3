package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"purelb.io/purelb/lab/kube"
	"purelb.io/purelb/lab/product"
)

// shows makes the status of a Service show addresses, as its load balancer does.
func (w *world) shows(name string, addresses ...netip.Addr) {
	w.t.Helper()
	var ingress []string
	for _, a := range addresses {
		ingress = append(ingress, fmt.Sprintf(`{"ip":%q}`, a))
	}
	kubectl(w, "--namespace", namespace, "patch", "service", name, "--subresource=status", "--type=merge",
		`--patch={"status":{"loadBalancer":{"ingress":[`+strings.Join(ingress, ",")+`]}}}`)
}

// publishedChart is how the pages name the chart. helmOfTree lets a shell run the Helm of this tree.
const (
	publishedChart = "oci://registry.example.org/purelb/charts/purelb --version VERSION"
	helmOfTree     = `helm() { go -C "$TREE" tool -modfile=tools/go.mod helm "$@"; }` + "\n"
)

// follow runs a command of a page in docs/migrate in a shell, as the reader of the page does. CHART in the command
// is the published chart in the page, and that of this tree in the lab. pairs are further texts of the command,
// each with what replaces it. follow returns what the command prints.
func (w *troubled) follow(page, command string, pairs ...string) string {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(lab.tree.Root, "docs/migrate", page))
	if err != nil {
		w.t.Fatal(err)
	}
	if published := strings.Replace(command, "CHART", publishedChart, 1); !strings.Contains(string(text), published+"\n") {
		w.t.Errorf("docs/migrate/%s does not have the command %s", page, published)
	}
	return w.shell(strings.NewReplacer(append(pairs, "CHART", "charts/purelb")...).Replace(command))
}

// shell runs a line of a shell in the folder, with the plugin, kubectl and Helm. It returns what the line prints.
func (w *troubled) shell(line string) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.ctx, "sh", "-ec", helmOfTree+line)
	cmd.Dir = w.folder()
	cmd.Env = append(os.Environ(), "TREE="+lab.tree.Root, "KUBECONFIG="+lab.Kubeconfig(),
		"PATH="+strings.Join([]string{lab.Bin(), filepath.Dir(w.plugin), os.Getenv("PATH")}, ":"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	w.t.Logf("%s:\n%s", line, out)
	return string(out)
}

// folder is where the reader of a page keeps files.
func (w *troubled) folder() string { return filepath.Dir(w.plugin) }

// install installs PureLB by the command of a page. Before that, start runs in a cluster without PureLB. The values of
// the lab's release come first.
func (w *troubled) install(page, command string, start func()) {
	w.t.Helper()
	w.expect("departed", "Failed to release lease")
	w.expect(withoutAPI...) // the rights go with the release
	values := filepath.Join(w.folder(), "lab.yaml")
	w.shell("helm get values " + product.Release + " --namespace " + product.Namespace + " --output yaml > " + values)
	w.t.Cleanup(func() {
		if err := lab.restore(); err != nil {
			w.t.Error(err)
		}
		w.sessions()
	})
	w.shell("helm uninstall " + product.Release + " --namespace " + product.Namespace + " --wait")
	start()
	w.follow(page, command, "CHART", "charts/purelb --wait --values "+values)
}

// translate translates the configuration of another load balancer by the command of a page, which writes purelb.yaml, and
// applies that file until the end of the test.
func (w *troubled) translate(page, command string) {
	w.t.Helper()
	w.follow(page, command)
	w.t.Cleanup(func() { w.shell("kubectl delete --ignore-not-found -f purelb.yaml") })
	w.follow(page, "kubectl apply -f purelb.yaml")
}

// succeed runs the plugin. It fails the test if the plugin fails.
func (w *troubled) succeed(command string) string {
	w.t.Helper()
	got := w.asks(command)
	if got.code != 0 {
		w.t.Fatalf("kubectl purelb %s: exit code %d:\n%s", command, got.code, got.all)
	}
	w.t.Logf("kubectl purelb %s:\n%s", command, got.all)
	return got.all
}

// notTaken fails the test if PureLB serves a Service.
func (w *world) notTaken(name string, addresses []netip.Addr) {
	w.t.Helper()
	svc := w.service(name)
	if by := svc.Annotations["purelb.io/allocated-by"]; by != "" {
		w.t.Errorf("PureLB has taken %s, and nobody has asked for that", name)
	}
	if got := kube.Addresses(svc); !equal(got, addresses) {
		w.t.Errorf("%s had %v, and has %v", name, addresses, got)
	}
}

// commas returns addresses with commas between them.
func commas(addresses []netip.Addr) string {
	var texts []string
	for _, a := range addresses {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, ",")
}
