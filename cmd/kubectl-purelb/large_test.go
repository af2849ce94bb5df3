package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"purelb.io/purelb/internal/announce/probe"
	"purelb.io/purelb/internal/explain"
	"purelb.io/purelb/internal/testing/expect"
)

// The size of a large cluster.
const (
	manyNodes    = 1000
	manyServices = 5000
)

// largeWorld is a cluster of many nodes and Services. The agent of node-500 has restarted.
func largeWorld(t *testing.T) explain.World {
	w := wellWorld(t)
	agent, allocator, lease, svc := w.Pods[1], w.Pods[0], w.Leases[0], w.Services[2]
	w.Pods, w.Leases, w.Services, w.Nodes, w.NodeStatuses = []corev1.Pod{allocator}, nil, nil, nil, nil
	for i := range manyNodes {
		name := fmt.Sprintf("node-%03d", i)
		p, l := *agent.DeepCopy(), *lease.DeepCopy()
		p.Name, p.Spec.NodeName = "lbnodeagent-"+name, name
		if i == 500 {
			p.Status.ContainerStatuses[0].RestartCount = 3
		}
		l.Name = "purelb-node-" + name
		w.Pods, w.Leases = append(w.Pods, p), append(w.Leases, l)
		w.Nodes = append(w.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for i := range manyServices {
		one := *svc.DeepCopy()
		ip := fmt.Sprintf("203.0.%d.%d", 100+i/250, i%250)
		one.Name, one.Annotations["purelb.io/allocated-addresses"] = fmt.Sprintf("s%d", i), ip
		one.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
		w.Services = append(w.Services, one)
	}
	running(w.Pods)
	w.Leases = append(w.Leases, coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: installNamespace}})
	return w
}

// A report of a large cluster asks few pods, keeps little of each file, and says what it leaves
// out.
func TestAReportOfALargeClusterIsBounded(t *testing.T) {
	f := newFakeServer(t)
	f.has(t, largeWorld(t))
	line := strings.Repeat("a line of a log ", 64) + "\n"
	f.texts[pathPods+"/allocator-1/log"] = strings.Repeat(line, 3<<20/len(line)) + "the last line\n"
	f.texts[pathPods+"/http:allocator-1:7472/proxy/metrics"] = "the first line\n" + strings.Repeat(line, 5<<20/len(line))
	name := filepath.Join(t.TempDir(), "report.tar.gz")
	out, errs, code := f.ask(t, "report", name)
	if code != exitFine || !strings.Contains(out, fmt.Sprintf("%d of %d pods were not asked", manyNodes+1-mostPods, manyNodes+1)) {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	// Lists of 1,000 objects a request, and for each pod two logs, /state and /metrics.
	if most := 30 + mostPods*6; len(f.asked) > most {
		t.Errorf("it sends %d requests, want at most %d", len(f.asked), most)
	}
	files := unpacked(t, name)
	if text := files["allocator-1.allocator.log"]; len(text) > mostOfLog || !strings.HasSuffix(string(text), "the last line\n") {
		t.Errorf("of the log it keeps %d bytes, which end with %q", len(text), text[max(0, len(text)-20):])
	}
	if text := files["allocator-1.allocator.metrics"]; len(text) > mostOfPage || !strings.HasPrefix(string(text), "the first line\n") {
		t.Errorf("of the metrics it keeps %d bytes", len(text))
	}
	var a about
	expect.NoError(t, json.Unmarshal(files[archiveAbout], &a))
	if len(a.LeftOut) != manyNodes+1-mostPods || len(a.Cut) != 2 {
		t.Errorf("it leaves out %d pods, and cuts %q", len(a.LeftOut), a.Cut)
	}
	if _, missing := a.Missing["lbnodeagent-node-500.lbnodeagent.state"]; !missing {
		t.Error("it does not ask the agent that has restarted")
	}
	if out, _, code := f.ask(t, "report", "--node", "node-900", name); code != exitFine {
		t.Fatal(code, out)
	}
	files = unpacked(t, name)
	expect.NoError(t, json.Unmarshal(files[archiveAbout], &a))
	if _, asked := a.Missing["lbnodeagent-node-900.lbnodeagent.state"]; !asked {
		t.Error("it does not ask the agent of the node that is named")
	}
}

// All agents of a large cluster are asked within the time, some at a time.
func TestAProbeOfALargeClusterAsksAllAgents(t *testing.T) {
	const step = time.Second // An agent asks its segment three times, and waits.
	if limit, needed := probeTimeout(manyNodes), manyNodes/atOnce*2*step; limit < needed {
		t.Errorf("%d agents may take %s, and need %s if each takes twice as long as it should", manyNodes, limit, needed)
	}
	ip := netip.MustParseAddr("192.0.2.9")
	var now, most, probes atomic.Int64
	var busy sync.Map // the agents that were busy
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
		}
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/pods"):
			pods := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: largeWorld(t).Pods}
			_ = json.NewEncoder(w).Encode(pods)
		case strings.HasSuffix(r.URL.Path, "/token"):
			fmt.Fprint(w, `{"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "status": {"token": "good"}}`)
		default:
			// Some agents are busy at the first request.
			if _, again := busy.Load(r.URL.Path); probes.Add(1)%10 == 0 && !again {
				busy.Store(r.URL.Path, true)
				w.Header().Set("Retry-After", "0")
				http.Error(w, "other probes run on this node", http.StatusTooManyRequests)
				return
			}
			_ = json.NewEncoder(w).Encode(probe.Answer{Address: ip, Result: probe.OffLink})
		}
	}))
	t.Cleanup(server.Close)
	pods, err := newPods(&rest.Config{Host: server.URL, QPS: -1})
	expect.NoError(t, err)
	answers, err := (&reader{pods: pods, namespace: installNamespace}).probe(t.Context(), ip, nil)
	if err != nil || len(answers) != manyNodes {
		t.Fatalf("%v: %d answers", err, len(answers))
	}
	for _, a := range answers {
		if a.Result != probe.OffLink {
			t.Fatalf("%+v", a)
		}
	}
	if most.Load() > atOnce {
		t.Errorf("%d agents are asked at a time, want at most %d", most.Load(), atOnce)
	}
}

// A fault that all Services have must not push everything else off the screen.
func TestManyProblemsStayOnOneScreen(t *testing.T) {
	w := wellWorld(t)
	svc := w.Services[0]
	w.Services = nil
	for i := range 100 {
		one := *svc.DeepCopy()
		one.Name, one.Annotations, one.Status = fmt.Sprintf("s%02d", i), map[string]string{"purelb.io/service-group": "nowhere"}, corev1.ServiceStatus{}
		w.Services = append(w.Services, one)
	}
	f := newFakeServer(t)
	f.has(t, w)
	for args, want := range map[string]string{
		"status":         "\n  and 80 more; -o wide has all, and \"kubectl purelb services --problems\" lists Services\n",
		"check":          "\n  and 90 more; -o wide has all\n",
		"check -o short": "\n  and 90 more; -o wide has all\n",
	} {
		out, errs, _ := f.ask(t, strings.Fields(args)...)
		if !strings.Contains(out, want) || !strings.Contains(out, "default/s00") || strings.Count(out, "\n") > 80 {
			t.Errorf("%s has %d lines, want one with %q\n%s%s", args, strings.Count(out, "\n"), want, out, errs)
		}
	}
	for _, args := range []string{"status -o json", "check -o json", "status -o wide", "check -o wide"} {
		if out, errs, _ := f.ask(t, strings.Fields(args)...); !strings.Contains(out, "default/s99") {
			t.Errorf("%s leaves out the last Service\n%s%s", args, out, errs)
		}
	}
}
