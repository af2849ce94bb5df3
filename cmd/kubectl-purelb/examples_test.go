package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"purelb.io/purelb/internal/testing/expect"
)

// commands returns cmd and all commands below it that the plugin defines.
func commands(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, c := range cmd.Commands() {
		if c.Name() != "help" && c.Name() != "completion" {
			all = append(all, commands(c)...)
		}
	}
	return all
}

// Every command has examples, and they work as written on a cluster that has their objects.
func TestExamplesOfTheHelpWork(t *testing.T) {
	f := newFakeServer(t)
	w := wellWorld(t)
	running(w.Pods)
	for i := range w.Nodes {
		w.Nodes[i].Name = strings.Replace(w.Nodes[i].Name, "n", "node-", 1)
	}
	for i := range w.Leases {
		w.Leases[i].Name = strings.Replace(w.Leases[i].Name, "-n", "-node-", 1)
	}
	for i := range w.NodeStatuses {
		w.NodeStatuses[i].Status.NodeName = strings.Replace(w.NodeStatuses[i].Status.NodeName, "n", "node-", 1)
	}
	f.has(t, w)
	o := &options{}
	root := newRoot(o)
	ran := 0
	for _, cmd := range commands(root) {
		if cmd.Example == "" && cmd != root {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			if _, after, piped := strings.Cut(line, " | "); piped {
				line = after
			}
			args := strings.Fields(line)
			if len(args) < 3 || args[0] != "kubectl" || args[1] != "purelb" {
				t.Errorf("%s: %q is no command line", cmd.CommandPath(), line)
				continue
			}
			ran++
			t.Run(strings.Join(args[2:], " "), func(t *testing.T) { example(t, f, args[2:]) })
		}
	}
	if ran < 30 {
		t.Errorf("there are %d examples", ran)
	}
}

// example runs one command line in a folder with the files that examples name.
func example(t *testing.T, f *fakeServer, args []string) {
	t.Helper()
	manifests, err := os.ReadFile(filepath.Join("testdata", "manifests", "more", "services.yml"))
	expect.NoError(t, err)
	t.Chdir(t.TempDir())
	for _, name := range []string{"purelb.yaml", "servicegroups.yaml", "overlays/a.yaml", "purelb-report/objects.yaml"} {
		expect.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		expect.NoError(t, os.WriteFile(name, manifests, 0o600))
	}
	if i := slices.Index(args, "--timeout"); i > 0 {
		args[i+1] = "1s"
	}
	if args[0] == "watch" {
		args[1], args[3] = "127.0.0.1:1", "50ms"
	}
	var out, errs string
	var code int
	if slices.Contains(args, "-") {
		t.Setenv("KUBECONFIG", "/dev/null")
		var text, complaints bytes.Buffer
		code = run(t.Context(), args, bytes.NewReader(manifests), &text, &complaints)
		out, errs = text.String(), complaints.String()
	} else {
		out, errs, code = f.ask(t, args...)
	}
	// Those about objects that this cluster does not have say so. They are no mistakes in the
	// command line.
	absent := strings.Contains(errs, "there is no ") || strings.Contains(errs, "no live node has") || strings.Contains(errs, "no agent runs") || strings.Contains(errs, "the allocator was not heard") || strings.Contains(errs, "make a token")
	if code == exitFailed && !absent || strings.Contains(errs, "--help") {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
}

// Under the name that kubectl looks for, the program completes the arguments of kubectl purelb.
func TestKubectlCompletesThePlugin(t *testing.T) {
	for _, tt := range []struct {
		called []string
		want   string
	}{
		{[]string{"/usr/bin/" + completer, "sta"}, "status\t"},
		{[]string{completer + ".exe", "explain", ""}, "service\t"},
		{[]string{"kubectl_complete-purelb", "services", "--prob"}, "--problems\t"},
	} {
		var out bytes.Buffer
		code := run(t.Context(), arguments(tt.called), strings.NewReader(""), &out, &bytes.Buffer{})
		if code != exitFine || !strings.Contains(out.String(), tt.want) || !strings.Contains(out.String(), "\n:") {
			t.Errorf("%q: exit code %d, and no %q in\n%s", tt.called, code, tt.want, out.String())
		}
	}
	if got := arguments([]string{"/usr/bin/kubectl-purelb", "status"}); !slices.Equal(got, []string{"status"}) {
		t.Errorf("the plugin itself is called with %q", got)
	}
}

// The ports of nodes that other pods have are read page by page.
func TestCheckSeesPortsOfOtherPods(t *testing.T) {
	f := newFakeServer(t)
	f.purelb(t)
	pod := func(name, namespace string, labels map[string]any) map[string]any {
		return map[string]any{
			"metadata": map[string]any{"name": name, "namespace": namespace, "labels": labels},
			"spec": map[string]any{"nodeName": "n1", "hostNetwork": true, "containers": []any{
				map[string]any{"name": "c", "ports": []any{map[string]any{"containerPort": 7472}}},
			}},
		}
	}
	for range page {
		f.objects[pathAllPods] = append(f.objects[pathAllPods], map[string]any{"metadata": map[string]any{"name": "x", "namespace": "y"}})
	}
	f.objects[pathAllPods] = append(f.objects[pathAllPods], pod("agent", installNamespace, map[string]any{"app": "purelb"}))
	if out, _, _ := f.ask(t, "check", "--pre"); strings.Contains(out, "7472") {
		t.Errorf("the agents themselves are named:\n%s", out)
	}
	f.objects[pathAllPods] = append(f.objects[pathAllPods], pod("speaker", "metallb-system", nil))
	want := "TCP port 7472 of 1 node is that of pod metallb-system/speaker on node n1"
	if out, _, code := f.ask(t, "check", "--pre"); !strings.Contains(out, want) || code != exitProblems {
		t.Errorf("exit code %d, and it does not say %q:\n%s", code, want, out)
	}
	f.faults[pathAllPods] = 403
	if out, _, _ := f.ask(t, "check", "--pre"); !strings.Contains(out, "no right to list the Pods of all namespaces") {
		t.Errorf("it does not name the missing right:\n%s", out)
	}
}
