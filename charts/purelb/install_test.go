package chart

import (
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

func TestItInstallsAndUpgrades(t *testing.T) {
	server := apitest.Start(t)
	run := func(args ...string) string {
		t.Helper()
		out, warnings, err := helm(t, append(args, "--namespace", "purelb-system", "--kubeconfig", server.Kubeconfig)...)
		expect.NoError(t, err)
		if warnings != "" {
			t.Errorf("helm %s warns:\n%s", args[0], warnings)
		}
		return out
	}
	out := run("install", "purelb", ".", "--create-namespace")
	for _, want := range []string{
		"kind: ServiceGroup", "kind: BGPConfiguration", "set image.repository and image.tag to images that you have pushed",
		"kubectl label namespace purelb-system pod-security.kubernetes.io/enforce=privileged",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the notes do not contain %q:\n%s", want, out)
		}
	}
	out = run("upgrade", "purelb", ".", "--values", "testdata/everything.yaml")
	for _, want := range []string{"list these in the value gobgp.passwordSecrets", "gobgp.image (the speaker has the version of the other programs)"} {
		if !strings.Contains(out, want) {
			t.Errorf("the notes do not contain %q:\n%s", want, out)
		}
	}
	run("upgrade", "purelb", ".", "--reset-values")
	run("uninstall", "purelb", "--no-hooks") // no node runs the Job that removes finalizers
}
