package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"purelb.io/purelb/internal/announce/probe"
	"purelb.io/purelb/internal/explain"
)

// fakeServer is an API server that has lists, and that fails as it is told.
type fakeServer struct {
	*httptest.Server
	mu sync.Mutex
	// objects are what it has, by the path of the list, and faults the codes that it
	// answers with instead.
	objects map[string][]map[string]any
	texts   map[string]string
	faults  map[string]int
	// all is the code that it answers each request with, or 0.
	all int
	// expires is the page that has expired.
	expires string
	// asked are the requests, in the order in which they came.
	asked []string
	// patches are the paths and bodies of the patches, and posts the bodies of what is posted.
	patches, posts []string
}

func newFakeServer(t *testing.T) *fakeServer {
	f := &fakeServer{objects: map[string][]map[string]any{}, texts: map[string]string{}, faults: map[string]int{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, r.URL.RequestURI())
	if r.Method == http.MethodPatch {
		body, _ := io.ReadAll(r.Body)
		f.patches = append(f.patches, r.URL.Path+" "+string(body))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "{}")
		return
	}
	if r.Method == http.MethodPost {
		body, _ := io.ReadAll(r.Body)
		f.posts = append(f.posts, r.Header.Get(probe.Header)+string(body))
	}
	text, says := f.texts[r.URL.Path]
	if code := cmp.Or(f.all, f.faults[r.URL.Path]); code != 0 {
		if says {
			http.Error(w, text, code)
		} else {
			f.status(w, code)
		}
		return
	}
	if says {
		if strings.HasPrefix(text, "{") {
			w.Header().Set("Content-Type", "application/json")
		}
		fmt.Fprint(w, text)
		return
	}
	if strings.Contains(r.URL.Path, "/pods/") {
		f.status(w, http.StatusNotFound)
		return
	}
	version, kind := kindAt(r.URL.Path)
	if kind == "" { // Such as the version of the server.
		f.status(w, http.StatusNotFound)
		return
	}
	items := f.objects[r.URL.Path]
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	from := r.URL.Query().Get("continue")
	if from != "" && from == f.expires {
		f.status(w, http.StatusGone)
		return
	}
	start, _ := strconv.Atoi(from)
	items = items[start:]
	meta := map[string]any{}
	if limit > 0 && len(items) > limit {
		items, meta["continue"] = items[:limit], strconv.Itoa(start+limit)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": kind + "List", "apiVersion": version, "metadata": meta, "items": items})
}

// kindAt returns what a list at path is of.
func kindAt(path string) (version, kind string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if len(parts) < 3 {
		return "", ""
	}
	version = parts[1]
	if parts[0] == "apis" {
		version += "/" + parts[2]
	}
	gv, _ := schema.ParseGroupVersion(version)
	known, _ := mapper().KindFor(gv.WithResource(parts[len(parts)-1])) // the one that the plugin asks for by this path
	return version, known.Kind
}

func (f *fakeServer) status(w http.ResponseWriter, code int) {
	reason := map[int]string{400: "BadRequest", 403: "Forbidden", 404: "NotFound", 410: "Expired", 401: "Unauthorized"}[code]
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "the list is broken", "reason": reason, "code": code})
}

const (
	pathServices  = "/api/v1/services"
	pathPods      = "/api/v1/namespaces/purelb-system/pods"
	pathAllPods   = "/api/v1/pods"
	pathTokens    = "/api/v1/namespaces/purelb-system/serviceaccounts/purelb-prober/token"
	pathLeases    = "/apis/coordination.k8s.io/v1/namespaces/purelb-system/leases"
	pathAllLeases = "/apis/coordination.k8s.io/v1/leases"
	pathGroups    = "/apis/purelb.io/v2/servicegroups"
	pathConfigs   = "/apis/bgp.purelb.io/v1/configs"
	pathStatuses  = "/apis/bgp.purelb.io/v1/bgpnodestatuses"
)

// ask runs a command against f.
func (f *fakeServer) ask(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	t.Setenv("KUBECONFIG", "/dev/null")
	var text, complaints bytes.Buffer
	code = run(t.Context(), append(args, "--server", f.URL), strings.NewReader(""), &text, &complaints)
	return text.String(), complaints.String(), code
}

// purelb is a cluster in which all is well.
func (f *fakeServer) purelb(t *testing.T) { f.has(t, wellWorld(t)) }

// leaderIn is the Lease of an allocator.
func leaderIn(namespace string, renewed time.Time) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"name": leaderLease, "namespace": namespace},
		"spec":     map[string]any{"renewTime": renewed.UTC().Format(metav1.RFC3339Micro)},
	}
}

// has gives f the objects of w, and the Lease of an allocator.
func (f *fakeServer) has(t *testing.T, w explain.World) {
	f.objects[pathAllLeases] = []map[string]any{leaderIn(installNamespace, time.Now())}
	for i := range w.Leases {
		w.Leases[i].Spec.LeaseDurationSeconds = new(int32(1 << 30)) // The time is that of the fake's clock.
	}
	for i := range w.NodeStatuses {
		w.NodeStatuses[i].Status.HeartbeatSeconds = 1 << 30
	}
	for kind, path := range map[string]string{
		explain.KindServices: pathServices, explain.KindGroups: pathGroups, explain.KindAgents: "/apis/purelb.io/v2/lbnodeagents", explain.KindLeases: pathLeases,
		explain.KindNodes: "/api/v1/nodes", explain.KindPods: pathPods, explain.KindConfigurations: pathConfigs, explain.KindNodeStatuses: pathStatuses,
		explain.KindEndpoints: "/apis/discovery.k8s.io/v1/endpointslices",
	} {
		var all []map[string]any
		remade(t, listsOf(&w)[kind], &all)
		if kind == explain.KindPods {
			f.objects[pathAllPods] = all
		}
		for _, o := range all {
			f.objects[path] = append(f.objects[path], o)
			if kind == explain.KindEndpoints {
				within := fmt.Sprintf("/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices", o["metadata"].(map[string]any)["namespace"])
				f.objects[within] = append(f.objects[within], o)
			}
		}
	}
}

// A server that is not there yet, or cuts connections, is asked again.
func TestWaitingOutlastsAServerThatIsAway(t *testing.T) {
	var complaints bytes.Buffer
	o := &options{errs: &complaints}
	errs := []error{syscall.ECONNREFUSED, context.DeadlineExceeded}
	s, _, err := await(t.Context(), o, time.Minute, pause, func(context.Context) (explain.Status, bool, error) {
		if len(errs) > 0 {
			err := errs[0]
			errs = errs[1:]
			return statusNow(explain.World{}, err)
		}
		return statusNow(wellWorld(t), nil)
	})
	if err != nil || s.Overall != explain.OverallOK {
		t.Errorf("%v: %s", err, s.Overall)
	}
	if got, want := complaints.String(), "asking again: connection refused\nasking again: context deadline exceeded\n"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

// A server that does not know the user is not asked again.
func TestWaitingEndsWhereItCannotHelp(t *testing.T) {
	f := newFakeServer(t)
	f.purelb(t)
	f.faults = map[string]int{}
	for path := range f.objects {
		f.faults[path] = http.StatusUnauthorized
	}
	for _, path := range []string{pathStatuses, "/apis/networking.k8s.io/v1/servicecidrs", "/api/v1/namespaces", pathConfigs} {
		f.faults[path] = http.StatusUnauthorized
	}
	if out, errs, code := f.ask(t, "status", "--wait", "--timeout", "60s"); code != exitFailed || strings.Contains(errs, "asking again") {
		t.Errorf("a user without rights: exit code %d:\n%s%s", code, out, errs)
	}
}

func TestWaitingEndsWithTheRightCode(t *testing.T) {
	f := newFakeServer(t)
	f.purelb(t)
	pods := f.objects[pathPods]
	f.objects[pathPods] = pods[1:] // no allocator
	if out, errs, code := f.ask(t, "status", "--wait", "--timeout", "1ns"); code != exitFailed || !strings.Contains(errs, "there was no answer in time") {
		t.Errorf("no answer: exit code %d:\n%s%s", code, out, errs)
	}
	if out, errs, code := f.ask(t, "status", "--wait", "--timeout", "1s"); code != exitProblems || !strings.Contains(out, "there is no pod of the allocator") {
		t.Errorf("problems: exit code %d:\n%s%s", code, out, errs)
	}
	f.faults[pathStatuses], f.objects[pathPods] = http.StatusForbidden, pods
	if out, errs, code := f.ask(t, "status", "--wait", "--timeout", "20s"); code != exitProblems || !strings.Contains(out, "Overall: UNKNOWN") {
		t.Errorf("a missing right, which waiting does not give: exit code %d:\n%s%s", code, out, errs)
	}
}

// Lists are read by the page, and once more as a whole if a page has expired.
func TestListsAreReadByThePage(t *testing.T) {
	for _, tt := range []struct {
		name    string
		expires string
	}{
		{"as they are", ""},
		{"a page has expired", strconv.Itoa(page)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFakeServer(t)
			f.purelb(t)
			f.expires = tt.expires
			for i := range 2*page + 100 {
				spec := map[string]any{"type": "LoadBalancer", "clusterIP": "10.96.9.9", "loadBalancerClass": "purelb.io/purelbv2", "ipFamilies": []string{"IPv4"}}
				f.objects[pathServices] = append(f.objects[pathServices], map[string]any{"metadata": map[string]any{"name": fmt.Sprintf("s%d", i), "namespace": "many"}, "spec": spec})
			}
			out, errs, code := f.ask(t, "services", "-o", "json")
			var s explain.Services
			if err := json.Unmarshal([]byte(out), &s); err != nil || s.TotalServices != 2*page+103 || code != exitFine {
				t.Errorf("%d Services, exit code %d, %v %s", s.TotalServices, code, err, errs)
			}
		})
	}
}

// The Lease of an allocator that is gone does not show where PureLB is.
func TestAStaleLeaseShowsNothing(t *testing.T) {
	stale, fresh := leaderIn("old", time.Now().AddDate(-1, 0, 0)), leaderIn(installNamespace, time.Now())
	for _, tt := range []struct {
		name, command string
		leases        []map[string]any
	}{
		{"beside pods elsewhere", "validate", []map[string]any{stale}},
		{"in the namespace of the object", "validate -n old", []map[string]any{stale, fresh}},
	} {
		f := newFakeServer(t)
		f.purelb(t)
		f.objects[pathAllLeases] = tt.leases
		if out, errs, code := f.ask(t, strings.Fields(tt.command)...); code != exitFine || strings.Contains(out, "kubectl delete") {
			t.Errorf("%s: exit code %d:\n%s%s", tt.name, code, out, errs)
		}
	}
}

// In JSON a list is never null.
func TestListsAreNeverNull(t *testing.T) {
	f := newFakeServer(t)
	for _, command := range []string{"status", "pools", "services", "election", "validate", "version", "explain ip 192.0.2.1"} {
		out, errs, _ := f.ask(t, append(strings.Fields(command), "-o", "json")...)
		var o any
		if err := json.Unmarshal([]byte(out), &o); err != nil {
			t.Errorf("%s: %v: %s%s", command, err, out, errs)
		}
		if strings.Contains(out, ": null") {
			t.Errorf("%s has a null:\n%s", command, out)
		}
	}
}
