//go:build install

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/internal/build"
)

// Promise: a stranger with a cluster reaches the first address by five commands at most.

// newcomer is a reader of docs/start.md. The reader has a folder with Helm and the plugin of a release, kubectl,
// and no source tree.
type newcomer struct {
	release
	folder   string
	here     *strings.Replacer // what the page leaves to the reader
	commands int
}

// TestAStrangerFollowsTheStartPage runs the commands of the page. Each must print what the page shows.
func TestAStrangerFollowsTheStartPage(t *testing.T) {
	w := newWorldFor(t, releasing)
	r := w.release("0.1.0", w.registry(), "HEAD", func(dir string) error { return lab.tree.Copy(w.ctx, dir) })
	w.replaceTree()
	page, err := os.ReadFile(filepath.Join(lab.tree.Root, "docs", "start.md"))
	if err != nil {
		t.Fatal(err)
	}
	first, fault, found := strings.Cut(string(page), "\n## The first fault\n")
	if !found {
		t.Fatal("docs/start.md has no first fault")
	}
	s := r.newcomer()
	t.Cleanup(func() {
		if _, err := s.shell("kubectl delete --ignore-not-found -f first.yaml -f second.yaml"); err != nil {
			t.Error(err)
		}
	})
	s.follow(first)
	if s.commands > 5 {
		t.Errorf("the first address needs %d commands", s.commands)
	}
	s.follow(fault)
}

func (r release) newcomer() *newcomer {
	r.t.Helper()
	s := &newcomer{release: r, folder: r.t.TempDir(), here: strings.NewReplacer(
		"oci://registry.example.org/purelb/charts/purelb", "oci://"+r.registry+"/charts/purelb --plain-http",
		"192.168.1.", "172.30.250.",
		"image: nginx", "image: docker.io/lab/echo:1", "ports: [{port: 80}]", "ports: [{port: 80, targetPort: 8080}]",
		"grep title", "grep pod=", "<title>Welcome to nginx!</title>", "pod=",
	)}
	bin := filepath.Join(s.folder, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := build.Program(r.ctx, filepath.Join(lab.tree.Root, "tools"), "helm.sh/helm/v3/cmd/helm", filepath.Join(bin, "helm")); err != nil {
		r.t.Fatal(err)
	}
	if out, err := s.shell("tar -xzf " + r.file("kubectl-purelb-*.tar.gz") + " -C bin"); err != nil {
		r.t.Fatalf("unpack the plugin: %v\n%s", err, out)
	}
	return s
}

// shell runs a line of a shell, "curl" outside of the cluster.
func (s *newcomer) shell(line string) (out string, err error) {
	s.t.Helper()
	machine, folder := cluster.ControlPlane, s.folder // It reaches the registry and the API server, as the machine of a user does.
	if strings.HasPrefix(line, "curl ") {
		machine, folder = cluster.Client, "/"
	}
	cmd, err := lab.Command(s.ctx, machine, "sh", "-c", line)
	if err != nil {
		s.t.Fatal(err)
	}
	var text strings.Builder
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, &text, &text
	cmd.Env = []string{"HOME=" + s.folder, "KUBECONFIG=" + filepath.Join(lab.Spec.State.PKI(), "admin.kubeconfig"),
		"PATH=" + filepath.Join(s.folder, "bin") + ":" + lab.Bin() + ":/usr/sbin:/usr/bin:/sbin:/bin"}
	err = cmd.Run()
	s.t.Logf("$ %s\n%s", line, &text)
	return text.String(), err
}

var (
	codeBlock = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	savedAs   = regexp.MustCompile("as `(\\w+\\.yaml)`")
)

// follow does what a part of the page says: it saves its files, and runs its commands.
func (s *newcomer) follow(part string) {
	s.t.Helper()
	names := savedAs.FindAllStringSubmatch(part, -1)
	for _, block := range codeBlock.FindAllStringSubmatch(part, -1) {
		text := s.here.Replace(block[2])
		if block[1] == "yaml" {
			if len(names) == 0 {
				s.t.Fatalf("the page does not say where to save\n%s", text)
			}
			if err := os.WriteFile(filepath.Join(s.folder, names[0][1]), []byte(text), 0o600); err != nil {
				s.t.Fatal(err)
			}
			names = names[1:]
			continue
		}
		for command := range strings.SplitSeq(strings.TrimPrefix(text, "$ "), "\n$ ") {
			line, shown, _ := strings.Cut(strings.ReplaceAll(command, "\\\n", ""), "\n")
			s.commands++
			s.prints(line, shown)
		}
	}
}

// varies is what differs from cluster to cluster in an answer: the cluster IP, a node port, an age.
var varies = regexp.MustCompile(`10\.96\.\d+\.\d+|\d{5}|\d+s$`)

// prints runs a line until it prints what the page shows. Only kubectl and curl run more than once.
func (s *newcomer) prints(line, shown string) {
	s.t.Helper()
	var wanted []*regexp.Regexp
	for want := range strings.Lines(shown) {
		want = strings.Join(strings.Fields(want), " ")
		parts := varies.Split(want, -1)
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		if want != "..." {
			wanted = append(wanted, regexp.MustCompile(strings.Join(parts, `\S+`)))
		}
	}
	missing := func() string {
		out, err := s.shell(line)
		if err != nil && !strings.HasPrefix(line, "kubectl purelb explain") { // It fails, because it shows a problem.
			return err.Error()
		}
		for _, want := range wanted {
			if !want.MatchString(strings.Join(strings.Fields(out), " ")) {
				return want.String()
			}
		}
		return ""
	}
	if strings.HasPrefix(line, "helm ") || strings.HasPrefix(line, "kubectl apply") {
		if text := missing(); text != "" {
			s.t.Fatalf("%s: %s is missing", line, text)
		}
		return
	}
	s.until(patience, line+" prints what the page shows", func() bool { return missing() == "" })
}
