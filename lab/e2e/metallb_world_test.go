package e2e

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"purelb.io/purelb/lab/internal/build"
)

// metalLBNamespace is where MetalLB's own manifest puts it.
const metalLBNamespace = "metallb-system"

// metalLB is the real MetalLB: its controller, and its speakers, which answer for addresses that are on no
// interface (layer 2).
type metalLB struct{ *world }

// metalLB installs MetalLB. It has no addresses to give yet.
func (w *world) metalLB() metalLB {
	w.t.Helper()
	const controller, speaker = "metallb-controller", "metallb-speaker"
	programs, err := build.Build(w.ctx, io.Discard, controller, speaker)
	if err != nil {
		w.t.Fatal(err)
	}
	definitions, rest := metalLBManifest(w)
	for _, name := range []string{controller, speaker} {
		image := "quay.io/metallb/" + strings.TrimPrefix(name, "metallb-")
		_, version, _ := strings.Cut(rest, "image: "+image+":")
		version, _, _ = strings.Cut(version, "\n")
		if _, err := lab.AddImage(w.ctx, image+":"+version, filepath.Join(programs, name)); err != nil {
			w.t.Fatal(err)
		}
	}
	w.t.Cleanup(func() { w.remove(rest, definitions) })
	if err := w.Define(w.ctx, definitions); err != nil {
		w.t.Fatal(err)
	}
	m := metalLB{w}
	w.apply(rest)
	m.running(true)
	return m
}

// metalLBManifest returns the custom resource definitions of MetalLB's own manifest, and the rest of it.
// Its API has no webhook.
func metalLBManifest(w *world) (definitions, rest string) {
	w.t.Helper()
	source, err := build.Source()
	if err != nil {
		w.t.Fatal(err)
	}
	list := exec.CommandContext(w.ctx, "go", "list", "-m", "-f", "{{.Dir}}", "go.universe.tf/metallb")
	list.Dir, list.Env = filepath.Join(source, "metallb"), append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	dir, err := list.Output()
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "config/manifests/metallb-native.yaml"))
	if err != nil {
		w.t.Fatal(err)
	}
	changed := strings.NewReplacer("--tls-min-version=VersionTLS12", "--webhook-mode=disabled",
		"initialDelaySeconds: 10", "initialDelaySeconds: 1").Replace(string(text))
	var one, other []string
	for document := range strings.SplitSeq(changed, "\n---\n") {
		switch {
		case strings.Contains(document, "kind: CustomResourceDefinition"):
			one = append(one, document)
		case !strings.Contains(document, "kind: ValidatingWebhookConfiguration"):
			other = append(other, document)
		}
	}
	return strings.Join(one, "\n---\n"), strings.Join(other, "\n---\n")
}

// running waits until the programs of MetalLB run, or have ended.
func (m metalLB) running(yes bool) {
	m.t.Helper()
	what, want := "MetalLB has ended", 0
	if yes {
		what, want = "MetalLB runs", 1+len(lab.Nodes())
	}
	m.until(3*patience, what, func() bool {
		pods, err := m.Pods(m.ctx, metalLBNamespace, map[string]string{"app": "metallb"})
		if err != nil {
			m.t.Fatal(err)
		}
		up := 0
		for _, p := range pods {
			if ready(p) {
				up++
			}
		}
		return len(pods) == want && up == want
	})
}

// run starts or ends MetalLB.
func (m metalLB) run(yes bool) {
	m.t.Helper()
	replicas, selector := "0", `{"spec":{"template":{"spec":{"nodeSelector":{"lab":"none"}}}}}`
	if yes {
		replicas, selector = "1", `{"spec":{"template":{"spec":{"nodeSelector":{"lab":null}}}}}`
	}
	kubectl(m.world, "--namespace", metalLBNamespace, "scale", "deployment", "controller", "--replicas="+replicas)
	kubectl(m.world, "--namespace", metalLBNamespace, "patch", "daemonset", "speaker", "--patch", selector)
	m.running(yes)
}
