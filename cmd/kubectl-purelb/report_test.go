package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/explain"
	"purelb.io/purelb/internal/testing/expect"
)

// planted are secrets, each in a place of its own.
const planted = "hunter2-"

// withSecrets is a cluster with a secret in every place where people and programs put them.
// It returns how many there are.
func withSecrets(t *testing.T) (w explain.World, logs map[string]string, n int) {
	secret := func() string { n++; return fmt.Sprintf("%s%02d-%c", planted, n, 'a'+n) }
	w = recorded(t)
	bgp := &w.Configurations[0]
	bgp.Spec.Neighbors[0].Config.AuthPassword = secret()
	peer := bgp.Spec.Neighbors[0].Config.AuthPassword
	bgp.Spec.PeerGroups = []bgpv1.PeerGroup{{Config: bgpv1.PeerGroupConfig{PeerGroupName: "tor", PeerConfig: bgpv1.PeerConfig{AuthPassword: secret()}}}}
	bgp.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"spec":{"authPassword":"` + secret() + `"}}`}
	bgp.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: secret()}}
	w.NodeStatuses[1].Status.Neighbors[0].LastError = "the neighbor has another key than " + peer + ", password: " + secret()
	w.Services[0].Annotations["example.com/dns-api"] = secret()
	w.Services[0].Annotations[corev1.LastAppliedConfigAnnotation] = secret()
	w.Services[0].Status.Conditions[0].Message += "; token=" + secret()
	w.Nodes[0].Annotations = map[string]string{"vendor.example.com/bmc": secret()}
	w.Groups[0].Status.Conditions = []metav1.Condition{{Type: "BackendReady", Message: "GET https://admin:" + secret() + "@netbox.example.com/api: Authorization: Bearer " + secret()}}
	pod := &w.Pods[0].Spec.Containers[0]
	pod.Env = append(pod.Env, corev1.EnvVar{Name: "IPAM_KEY", Value: secret()})
	env := pod.Env[len(pod.Env)-1].Value
	pod.Args = []string{"--netbox-token=" + secret(), "--api-key", secret()}
	pod.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{HTTPHeaders: []corev1.HTTPHeader{{Name: "X-Auth", Value: secret()}}}}}
	w.Pods[0].Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: []corev1.EnvVar{{Name: "IPAM_KEY", Value: secret()}}}}}
	pod.Ports = []corev1.ContainerPort{{Name: "monitoring", ContainerPort: 7472}}
	w.Pods[0].Spec.Volumes = []corev1.Volume{{Name: secret()}}
	const at = "/api/v1/namespaces/purelb-system/pods/allocator-1"
	logs = map[string]string{
		at + "/log":                     "asking with " + env + "\nNETBOX_TOKEN=" + secret() + "\nheader authorization: Token " + secret() + "\n" + `{"password":"` + secret() + `","level":"INFO"}` + "\nwhat is told\n",
		at + ":7472/proxy/metrics":      "purelb_up 1\npurelb_info{api_key=\"" + secret() + "\"} 1\n",
		"http:" + at + "/not/asked/for": "",
	}
	logs[strings.Replace(at, "allocator-1", "http:allocator-1:7472", 1)+"/proxy/metrics"] = logs[at+":7472/proxy/metrics"]
	return w, logs, n
}

func TestAReportHasNoSecrets(t *testing.T) {
	f := newFakeServer(t)
	w, logs, n := withSecrets(t)
	f.has(t, w)
	f.texts = logs
	name := filepath.Join(t.TempDir(), "report.tar.gz")
	if out, errs, code := f.ask(t, "report", name); code != exitFine {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	files := unpacked(t, name)
	for file, text := range files {
		for i := range n {
			if secret := fmt.Sprintf("%s%02d-%c", planted, i+1, 'a'+i+1); bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s tells %s: %s", file, secret, around(string(text), secret))
			}
		}
		if strings.Contains(string(text), planted) {
			t.Errorf("%s tells a part of a secret: %s", file, around(string(text), planted))
		}
	}
	for file, want := range map[string]string{
		"allocator-1.allocator.log": "what is told", "allocator-1.allocator.metrics": "purelb_up 1", archiveObjects: "name: kubernetes.io/hostname", archiveAbout: `"allocator-1.allocator.state": "`,
	} {
		if file == archiveObjects {
			want = "authPassword: " + redacted
		}
		if !strings.Contains(string(files[file]), want) {
			t.Errorf("%s does not tell %q; there are %q\n%s", file, want, slices.Sorted(maps.Keys(files)), files[file][:min(2000, len(files[file]))])
		}
	}
}

// JSON may be inside of JSON.
func TestAStateHasNoSecrets(t *testing.T) {
	state := `{"api_key":"hunter2","client_secret":"hunter2","delayed":[{"why":"the API server refuses {\"password\":\"hunter2-99\"}"}],"tokenSecret":{"name":"netbox-token"}}`
	if got, want := string((&redactor{}).file([]byte(state))), `{"api_key":"REDACTED","client_secret":"REDACTED","delayed":[{"why":"the API server refuses {\"password\":REDACTED}"}],"tokenSecret":{"name":"netbox-token"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func around(text, what string) string {
	i := strings.Index(text, what)
	return text[max(0, i-60):min(len(text), i+60)]
}

// The answers from an unpacked report are those from the cluster.
func TestAReportAnswersAsTheCluster(t *testing.T) {
	f := newFakeServer(t)
	w := recorded(t)
	// Where the API server is, and names of objects, are no secrets. 192.168.10.20 is also how
	// addresses of Services begin.
	pod := &w.Pods[0].Spec.Containers[0]
	for variable, value := range map[string]string{"KUBERNETES_SERVICE_HOST": "192.168.10.20", "NAMESPACE": "purelb-system", "TEAM": "default"} {
		pod.Env = append(pod.Env, corev1.EnvVar{Name: variable, Value: value})
	}
	f.has(t, w)
	dir := t.TempDir()
	if out, errs, code := f.ask(t, "report", filepath.Join(dir, "report.tar.gz")); code != exitFine {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	for name, text := range unpacked(t, filepath.Join(dir, "report.tar.gz")) {
		expect.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	for _, command := range []string{"services", "pools", "explain service default/late", "explain ip 192.168.10.203", "version"} {
		live, errs, code := f.ask(t, strings.Fields(command)...)
		out, opened := offline(t, "", append(strings.Fields(command), "-f", dir)...)
		known, _, _ := strings.Cut(live, "\n\nUnknown\n")
		if !strings.HasPrefix(out, strings.TrimSuffix(known, "\n")) || opened != code {
			t.Errorf("%s: from the report, exit code %d:\n%s\nfrom the cluster, exit code %d:\n%s%s", command, opened, out, code, live, errs)
		}
	}
}

// unpacked returns the files of an archive.
func unpacked(t *testing.T, name string) map[string][]byte {
	t.Helper()
	file, err := os.Open(name)
	expect.NoError(t, err)
	defer file.Close()
	plain, err := gzip.NewReader(file)
	expect.NoError(t, err)
	files := map[string][]byte{}
	for r := tar.NewReader(plain); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		expect.NoError(t, err)
		if files[path.Base(head.Name)], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}
