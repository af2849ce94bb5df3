package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/explain"
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
	files, err := readArchive(name)
	if err != nil {
		t.Fatal(err)
	}
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

func around(text, what string) string {
	i := strings.Index(text, what)
	return text[max(0, i-60):min(len(text), i+60)]
}

// The answers from a report are those from the cluster.
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
	name := filepath.Join(t.TempDir(), "report.tar.gz")
	if out, errs, code := f.ask(t, "report", name); code != exitFine {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	for _, command := range []string{"services", "pools", "validate", "election --simulate-drain n1", "explain service default/late", "explain ip 192.168.10.203", "inspect default/web", "bgp sessions --check", "version"} {
		live, errs, code := f.ask(t, append(strings.Fields(command), "-o", "json")...)
		var out bytes.Buffer
		opened := run(t.Context(), append([]string{"report", "--open", name}, append(strings.Fields(command), "-o", "json")...), strings.NewReader(""), &out, &out)
		if got, want := timeless(t, out.String()), timeless(t, live); got != want || opened != code {
			t.Errorf("%s: from the report, exit code %d:\n%s\nfrom the cluster, exit code %d:\n%s%s", command, opened, out.String(), code, live, errs)
		}
	}
	openedAlone(t, name)
	var out bytes.Buffer
	if code := run(t.Context(), []string{"report", "--open", "testdata/cluster.yaml", "status"}, strings.NewReader(""), &out, &out); code != exitFailed || !strings.Contains(out.String(), "is not a report of this plugin") {
		t.Errorf("exit code %d: %s", code, out.String())
	}
}

// openedAlone checks that a command on an archive asks no cluster: the one that kubectl
// would ask is another.
func openedAlone(t *testing.T, name string) {
	t.Helper()
	t.Setenv("KUBECONFIG", "/dev/null")
	const group = "apiVersion: purelb.io/v2\nkind: ServiceGroup\nmetadata: {name: more, namespace: purelb-system}\nspec: {remote: {v4pools: [{pool: 203.0.113.7/32, subnet: 203.0.113.0/24}]}}\n"
	for _, tt := range []struct{ args, want string }{
		{"report --open " + name + " validate -f - --against-cluster", `Pool overlaps with already defined pool "far"`},
		{"report --open " + name + " report " + filepath.Join(t.TempDir(), "other.tar.gz"), "report collects from a cluster"},
		{"-o json report --open " + name + " version", `"plugin":`},
	} {
		var out bytes.Buffer
		run(t.Context(), strings.Fields(tt.args), strings.NewReader(group), &out, &out)
		if !strings.Contains(out.String(), tt.want) {
			t.Errorf("%s does not say %q:\n%s", tt.args, tt.want, out.String())
		}
	}
}

// timeless is an answer without what changes from one moment to the next.
func timeless(t *testing.T, text string) string {
	var o any
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	var clean func(any) any
	clean = func(o any) any {
		switch o := o.(type) {
		case map[string]any:
			delete(o, "uptime")
			for k := range o {
				o[k] = clean(o[k])
			}
		case []any:
			for i := range o {
				o[i] = clean(o[i])
			}
		}
		return o
	}
	out, err := json.MarshalIndent(clean(o), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
