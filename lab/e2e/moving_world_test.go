package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"purelb.io/purelb/lab/kube"
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

// follow runs a command of a page in docs/migrate. It returns what the command prints.
func (w *troubled) follow(page, command string) string {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(lab.tree.Root, "docs/migrate", page))
	if err != nil {
		w.t.Fatal(err)
	}
	if !strings.Contains(string(text), "kubectl purelb "+command) {
		w.t.Errorf("docs/migrate/%s does not have the command kubectl purelb %s", page, command)
	}
	return w.succeed(command)
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
