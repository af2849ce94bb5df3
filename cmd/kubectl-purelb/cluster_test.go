package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

func TestMain(m *testing.M) { os.Exit(apitest.Run(m)) }

// cli runs a command against the API server, as the user of a kubeconfig.
func cli(t *testing.T, input string, args ...string) (out string, code int) {
	t.Helper()
	var text bytes.Buffer
	code = run(t.Context(), append(args, "--kubeconfig", apitest.Shared(t).Kubeconfig), strings.NewReader(input), &text, &text)
	return text.String(), code
}

// applied has the objects of a recorded world in the API server.
func applied(t *testing.T) {
	t.Helper()
	server := apitest.Shared(t)
	apitest.EnsureNamespace(t, installNamespace)
	apitest.EnsureNamespace(t, "shop")
	if out, err := server.Kubectl("", "apply", "--server-side", "--force-conflicts", "-f", apitest.File(t, "cmd/kubectl-purelb/testdata/live.yaml")); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// The answers about a cluster are those about the same objects in a file.
func TestAClusterAndItsFilesAreValidatedAlike(t *testing.T) {
	applied(t)
	live, code := cli(t, "", "validate")
	if code != exitProblems {
		t.Errorf("exit code %d", code)
	}
	for _, line := range []string{
		"PASS  ServiceGroup purelb-system/default is in order [Accepted]",
		`FAIL  ServiceGroup purelb-system/twice: spec.remote.v4pools[0].pool: Pool overlaps with already defined pool "default"`,
		`FAIL  Service default/typo: unknown pool "fra"`,
		"Result: 2 FAIL, ",
	} {
		if !strings.Contains(live, line) {
			t.Errorf("there is no line %q in\n%s", line, live)
		}
	}
	kinds := "servicegroups.v2.purelb.io,lbnodeagents.v2.purelb.io,services"
	if _, err := apitest.Shared(t).Kubectl("", "get", "servicecidrs"); err == nil { // from Kubernetes 1.33 on
		kinds += ",servicecidrs"
	}
	dump, err := apitest.Shared(t).Kubectl("", "get", kinds, "-A", "-o", "yaml")
	if err != nil {
		t.Fatal(err, dump)
	}
	filed, _ := cli(t, dump, "validate", "-f", "-")
	if got, want := messages(filed), messages(live); got != want {
		t.Errorf("of the files:\n%s\nof the cluster:\n%s", got, want)
	}
}

// messages are the lines of checks, without the places in files.
func messages(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		status, message, found := strings.Cut(line, "  ")
		if _, after, placed := strings.Cut(message, ": "); placed && strings.HasPrefix(message, "stdin:") {
			message = after
		}
		if found {
			lines = append(lines, status+"  "+message)
		}
	}
	return strings.Join(lines, "")
}

// With the right to read Services alone, the answer names what is unknown because of that.
func TestAMissingRightIsNamed(t *testing.T) {
	applied(t)
	server := apitest.Shared(t)
	if out, err := server.Kubectl(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: only-services}
rules: [{apiGroups: [""], resources: [services], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: only-services}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: only-services}
subjects: [{kind: User, name: jane, apiGroup: rbac.authorization.k8s.io}]
`, "apply", "-f", "-"); err != nil {
		t.Fatal(err, out)
	}
	out, _ := cli(t, "", "validate", "--as", "jane")
	want := "not looked at: ServiceGroups: you have no right to list them (the ClusterRole purelb-viewer has); where addresses come from is unknown"
	if !strings.Contains(out, want) {
		t.Errorf("there is no line %q in\n%s", want, out)
	}
	out, code := cli(t, "", "validate", "--as", "nobody")
	if code != exitFailed || !strings.Contains(out, "forbidden") {
		t.Errorf("without any right the exit code is %d, and it says\n%s", code, out)
	}
}

func TestACommandWithSubcommandsPrintsItsUsage(t *testing.T) {
	for _, args := range []string{"", "explain", "explain --help"} {
		if out, code := offline(t, "", strings.Fields(args)...); code != exitFine || !strings.Contains(out, "Usage:") {
			t.Errorf("%q: exit code %d: %s", args, code, out)
		}
	}
}

// The rights of the ClusterRole in the chart are enough for every answer.
func TestAViewerSeesAll(t *testing.T) {
	applied(t)
	template, err := os.ReadFile(apitest.File(t, "charts/purelb/templates/viewer-rbac.yaml"))
	expect.NoError(t, err)
	_, rules, found := strings.Cut(strings.TrimSuffix(string(template), "{{- end }}\n"), "\nrules:\n")
	if !found {
		t.Fatal("the template has no rules")
	}
	if out, err := apitest.Shared(t).Kubectl(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: viewer}
subjects: [{kind: User, name: vera, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: viewer}
rules:
`+rules, "apply", "-f", "-"); err != nil {
		t.Fatal(err, out)
	}
	for _, command := range []string{"status", "pools", "services", "election", "validate", "version", "bgp sessions", "bgp dataplane", "inspect default/web", "explain service default/web", "explain group default", "explain ip 203.0.113.10", "check"} {
		if out, code := cli(t, "", append(strings.Fields(command), "--as", "vera", "-o", "json")...); code == exitFailed || strings.Contains(out, "no right") {
			t.Errorf("%s, exit code %d:\n%s", command, code, out)
		}
	}
}

// A real API server answers all that a check asks.
func TestAClusterIsChecked(t *testing.T) {
	applied(t)
	out, code := cli(t, "", "check", "--pre")
	for _, want := range []string{"√ the API server is recent enough", "√ you have the rights that are needed", "? how kube-proxy is configured is unknown: there is no ConfigMap", "√ no other load balancer"} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
	if code != exitFine {
		t.Errorf("exit code %d", code)
	}
	if out, _ := cli(t, "", "check", "--pre", "--as", "nobody", "--as-group", "system:authenticated"); !strings.Contains(out, "forbidden") {
		t.Errorf("a user without rights is told\n%s", out)
	}
	out, code = cli(t, "", "check", "-o", "short")
	if code != exitProblems || strings.Contains(out, "√") || !strings.Contains(out, "× ServiceGroup purelb-system/twice") || !strings.Contains(out, "/docs/kubectl-purelb.md#check-configuration") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}
