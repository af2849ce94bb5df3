package chart

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

// admin runs commands as an administrator does.
type admin struct {
	*testing.T
	server *apitest.Server
}

func (c admin) kubectl(line string) string {
	c.Helper()
	out, err := c.server.Shell("kubectl " + line)
	if err != nil {
		c.Fatal(err)
	}
	return out
}

func (c admin) helm(args ...string) (string, error) {
	c.Helper()
	out, _, err := helm(c.T, append(args, "--kubeconfig", c.server.Kubeconfig)...)
	return out, err
}

func (c admin) mustHelm(args ...string) string {
	c.Helper()
	out, err := c.helm(args...)
	if err != nil {
		c.Fatal(err)
	}
	return out
}

// install installs the chart in dir in a cluster without definitions, with an object of a user.
func (c admin) install(dir string) {
	c.Helper()
	c.kubectl("delete crd --all")
	c.mustHelm("install", "purelb", dir, "--namespace", "purelb-system", "--create-namespace")
	_, err := c.server.Kubectl(`{apiVersion: purelb.io/v2, kind: ServiceGroup, metadata: {name: mine, namespace: default}, spec: {local: {v4pools: [{subnet: 10.0.0.0/24, pool: 10.0.0.1-10.0.0.9}]}}}`,
		"create", "-f", "-")
	if err != nil {
		c.Fatal(err)
	}
}

// upgraded looks that the definitions are those of this chart, and that the user's object is there.
func (c admin) upgraded(when string) {
	c.Helper()
	if names := c.kubectl("get crd servicegroups.purelb.io -o jsonpath={.spec.names.shortNames}"); !strings.Contains(names, "sgs") {
		c.Errorf("%s, the short names of ServiceGroups are %s", when, names)
	}
	c.kubectl("get servicegroup mine --namespace default")
}

// Charts of before had their definitions in the folder crds alone, which Helm never upgrades.
func TestAnUpgradeUpgradesTheCRDs(t *testing.T) {
	c := admin{t, apitest.Start(t)}
	upgrade := []string{"upgrade", "purelb", ".", "--namespace", "purelb-system"}
	c.install(chartOfBefore(t))
	_, err := c.helm(upgrade...)
	if err == nil || !strings.Contains(err.Error(), "do not belong to this release") {
		t.Fatalf("the error of the upgrade is %v", err)
	}
	commands := regexp.MustCompile(`(?m)^  kubectl (.*)$`).FindAllStringSubmatch(err.Error(), -1)
	if len(commands) != 2 {
		t.Errorf("the error has %d commands: %v", len(commands), err)
	}
	for _, command := range commands {
		c.kubectl(command[1])
	}
	c.mustHelm(upgrade...)
	c.upgraded("after an upgrade")
	secret := c.kubectl("get secret sh.helm.release.v1.purelb.v2 --namespace purelb-system -o jsonpath={.data.release}")
	text, err := base64.StdEncoding.DecodeString(secret)
	if t.Logf("the Secret of the release has %d bytes of 1,048,576", len(text)); err != nil || len(text) > 500_000 {
		t.Errorf("that is too much: %v", err)
	}
	c.mustHelm("rollback", "purelb", "1", "--namespace", "purelb-system")
	c.upgraded("after a rollback")
	c.mustHelm(upgrade...)
	c.mustHelm("uninstall", "purelb", "--namespace", "purelb-system", "--no-hooks") // no node runs its Job
	c.upgraded("after an uninstall")

	out := c.mustHelm("install", "lb", ".", "--namespace", "network", "--create-namespace")
	if want := "meta.helm.sh/release-name=lb meta.helm.sh/release-namespace=network"; !strings.Contains(out, want) {
		t.Errorf("the notes do not say %q:\n%s", want, out)
	}
	c.mustHelm("uninstall", "lb", "--namespace", "network", "--no-hooks")

	// As the manual of before said: the definitions first.
	c.install(chartOfBefore(t))
	c.kubectl("apply --server-side --force-conflicts -f crds")
	c.mustHelm(upgrade...)
	c.upgraded("after both upgrades")
}

// chartOfBefore returns a folder with the chart without definitions that belong to the release.
func chartOfBefore(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	expect.NoError(t, os.CopyFS(dir, os.DirFS(".")))
	expect.NoError(t, os.Remove(filepath.Join(dir, "templates", "crds.yaml")))
	files, err := filepath.Glob(filepath.Join(dir, "crds", "*.yaml"))
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	owner := regexp.MustCompile(`(?m)^metadata: .*(name: [a-z.]+), labels: .*$`)
	for _, file := range files {
		text := owner.ReplaceAllString(apitest.Text(t, "charts/purelb/crds/"+filepath.Base(file)), "metadata: {annotations: {of: before}, $1}")
		text = strings.Replace(text, "shortNames: [sg, sgs]", "shortNames: [sg]", 1)
		expect.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	return dir
}
