package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"purelb.io/purelb/internal/ipamserver"
	"purelb.io/purelb/internal/testing/apitest"
)

// The server reads the file in the manual, with a token in place of the Secret.
func TestConfigurationInTheManualWorks(t *testing.T) {
	_, text, _ := strings.Cut(apitest.Text(t, "docs/ipam.md"), "```yaml\napiVersion: v1\nkind: ConfigMap\n")
	text, _, _ = strings.Cut(text, "```")
	var written corev1.ConfigMap
	if err := yaml.UnmarshalStrict([]byte(text), &written); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	config := strings.ReplaceAll(written.Data["config.yaml"], "/etc/netbox", folder)
	config = strings.ReplaceAll(config, "    caFile: "+folder+"/ca.crt\n", "")
	for name, content := range map[string]string{"config.yaml": config, "user-token": "0123456789abcdef0123456789abcdef01234567\n"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := ipamserver.Read(filepath.Join(folder, "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if p := c.Pools["default"]; len(c.Pools) != 1 || len(p.Group.Parents) != 2 || p.Source.TokenFile != folder+"/user-token" {
		t.Errorf("the server reads %+v", c)
	}
}

// The manual shows a part of the program that its own tests run.
func TestManualShowsTheTestedServer(t *testing.T) {
	_, code, _ := strings.Cut(apitest.Text(t, "docs/ipam.md"), "```go\n")
	code, _, found := strings.Cut(code, "```")
	if !found || !strings.Contains(apitest.Text(t, "docs/examples/ipam-server/server.go"), code) {
		t.Errorf("docs/ipam.md shows other code than docs/examples/ipam-server/server.go:\n%s", code)
	}
	if n := strings.Count(code, "\n"); n < 40 || n > 70 {
		t.Errorf("the code has %d lines, want about 60", n)
	}
}
