package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"

	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

const (
	// bulk is the number of Services. concurrency is the number of requests in flight at a time,
	// for the allocator and for the floor.
	bulk        = 10_000
	concurrency = 16
	// turn is the number of Services that get an address before the floor has its turn. A shared
	// machine may be half as fast a minute later.
	turn = 1000
	// block is the number of Services that are deleted in one turn of the allocator or the floor.
	block = 1250
	// digestion is the time that the API server needs for Services that appear all at once.
	digestion = 5 * time.Second
	quiet     = time.Minute
)

// Limits of the results.
const (
	mostOverAllocating = 1.15
	mostOverReleasing  = 1.3
	mostMemory         = 80 // MB
)

// BenchmarkBulk measures an allocator that runs as a separate process, with 10,000 Services. It
// measures the time from the start to the last address, the time from a second start until the
// allocator is ready, memory and writes without any event, and the time from deletions to released
// addresses.
//
// The floor is a simple loop that writes patches of the same size, and deletes the same Services,
// while the allocator is stopped. The two alternate, so that other load on the machine affects
// both. The benchmark stores the Services directly in etcd, because the API server would need
// minutes to create them.
func BenchmarkBulk(b *testing.B) {
	server := apitest.Start(b)
	for _, namespace := range []string{"purelb-system", bare.namespace} {
		if out, err := server.Kubectl("", "create", "namespace", namespace); err != nil {
			b.Fatal(err, out)
		}
	}
	if out, err := server.Kubectl(largeGroup, "apply", "-f", "-"); err != nil {
		b.Fatal(err, out)
	}
	w := newBulkWorld(b, server)
	w.warm()
	for b.Loop() {
		w.allocate()
		w.restart()
	}
}

const largeGroup = `
apiVersion: purelb.io/v2
kind: ServiceGroup
metadata: {name: default, namespace: purelb-system}
spec: {remote: {v4pool: {subnet: 10.64.0.0/16, pool: 10.64.0.0/16, aggregation: /32}}}
`

// set is the Services of a namespace. Their cluster addresses are consecutive, and begin with a
// text with which no address of the other set begins.
type set struct {
	namespace, from, prefix string
	kind                    corev1.ServiceType
}

// The Services of the allocator, and those of the floor. The allocator must not see the floor's.
var (
	served = set{"default", "10.96.128.0", "10.96.1", corev1.ServiceTypeLoadBalancer}
	bare   = set{"bare", "10.96.200.0", "10.96.2", corev1.ServiceTypeClusterIP}
)

// bulkWorld is an API server with many Services.
type bulkWorld struct {
	*testing.B
	server  *apitest.Server
	clients kubernetes.Interface
}

func newBulkWorld(b *testing.B, server *apitest.Server) *bulkWorld {
	cfg := *server.Config
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	clients, err := kubernetes.NewForConfig(&cfg)
	expect.NoError(b, err)
	return &bulkWorld{B: b, server: server, clients: clients}
}

// result prints a measurement, and fails if value is more than most. A limit of 0 allows any value.
func (w *bulkWorld) result(name string, value float64, unit string, most float64) {
	fmt.Printf("RESULT %s %.3f %s\n", name, value, unit)
	w.ReportMetric(value, name)
	if most > 0 && value > most {
		w.Errorf("%s is %.3f, want at most %.2f", name, value, most)
	}
}

// warm starts an allocator without Services. The first start after that of the API server takes a
// second longer than later ones, and in real clusters the API server has served requests before.
func (w *bulkWorld) warm() {
	w.Helper()
	p := w.start()
	p.until(100*time.Millisecond, func() bool {
		log, _ := os.ReadFile(p.log.Name())
		return bytes.Contains(log, []byte(`"msg":"bookOpened"`))
	})
	p.end()
}

// allocate measures how long an allocator takes for Services that wait. They keep their addresses.
// After each turn, it stops the allocator, and the floor has its turn.
func (w *bulkWorld) allocate() {
	w.Helper()
	w.erase(served)
	patches := w.patches(w.create(bare, bulk))
	w.create(served, bulk)
	time.Sleep(digestion)
	var with, without time.Duration
	began := time.Now()
	p := w.start()
	for n := 0; n < bulk; n += turn {
		p.assigns(n + turn)
		p.signal(syscall.SIGSTOP)
		stopped := time.Now()
		w.each(n, n+turn, func(i int) error {
			_, err := w.clients.CoreV1().Services(bare.namespace).Patch(context.Background(), name(i), types.MergePatchType, patches[i], metav1.PatchOptions{}, "status")
			return err
		})
		with, without, began = with+stopped.Sub(began), without+time.Since(stopped), time.Now()
		p.signal(syscall.SIGCONT)
	}
	p.end()
	w.erase(bare)
	cpu := p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
	w.Logf("allocated in %s, with %s of its own CPU; bare patches in %s", with, cpu, without)
	w.result("bulk_allocate_vs_floor", with.Seconds()/without.Seconds(), "x", mostOverAllocating)
	w.result("bulk_allocate_per_second", bulk/with.Seconds(), "1/s", 0)
}

// restart measures an allocator that finds all Services with their addresses, is then idle for a
// while, and then sees their deletion.
func (w *bulkWorld) restart() {
	w.Helper()
	began := time.Now()
	p := w.start()
	defer p.kill() // the next allocator must lead
	p.uses(bulk)
	w.result("restart_adopt_10k_s", time.Since(began).Seconds(), "s", 0)
	idleWrites, idleAll := p.idle()
	w.result("restart_adopt_writes", p.value("purelb_k8s_client_updates_total"), "", 0.5)
	w.result("allocator_rss_10k_mb", p.memory(), "MB", mostMemory)
	w.result("idle_service_writes_per_minute", idleWrites, "", 0.5)
	w.result("idle_writes_per_minute", idleAll, "", 60/4+1) // its Lease, every 4 s
	w.result("bulk_release_vs_floor", w.release(p), "x", mostOverReleasing)
}

// release deletes all Services, one block at a time: one with the allocator p running, then two
// while it is stopped, then one with it, and so on, because each block is faster than the one
// before. It returns how many times longer the blocks with p take.
func (w *bulkWorld) release(p *instance) float64 {
	w.Helper()
	var with, without time.Duration
	for n := 0; n < bulk; n += block {
		working := n/block%4 == 0 || n/block%4 == 3
		if !working {
			p.signal(syscall.SIGSTOP)
		}
		began := time.Now()
		w.each(n, n+block, func(i int) error {
			return w.clients.CoreV1().Services(served.namespace).Delete(context.Background(), name(i), metav1.DeleteOptions{})
		})
		if working {
			p.uses(bulk - n - block)
			with += time.Since(began)
			continue
		}
		without += time.Since(began)
		p.signal(syscall.SIGCONT)
		p.uses(bulk - n - block)
	}
	w.Logf("released in %s; bare deletions in %s", with, without)
	return with.Seconds() / without.Seconds()
}

func name(i int) string { return fmt.Sprintf("bulk-%05d", i) }

// create makes n Services and returns them as stored by the API server.
func (w *bulkWorld) create(s set, n int) []*corev1.Service {
	w.Helper()
	ctx, services := context.Background(), w.clients.CoreV1().Services(s.namespace)
	first, err := services.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name(0)},
		Spec:       s.spec(),
	}, metav1.CreateOptions{})
	expect.NoError(w, err)
	address, err := w.clients.NetworkingV1().IPAddresses().Get(ctx, first.Spec.ClusterIP, metav1.GetOptions{})
	expect.NoError(w, err)
	copies, addresses := s.copies(first, address, n)
	// The API server looks up the cluster address of every Service that it sees.
	expect.NoError(w, errors.Join(w.server.Store(addresses), w.server.Store(copies)))
	for {
		list, err := services.List(ctx, metav1.ListOptions{FieldSelector: "spec.type=" + string(s.kind)})
		expect.NoError(w, err)
		if len(list.Items) == n {
			made := make([]*corev1.Service, n)
			for i := range made {
				made[i] = &list.Items[i]
			}
			return made
		}
	}
}

func (s set) spec() corev1.ServiceSpec {
	spec := corev1.ServiceSpec{Type: s.kind, ClusterIP: s.from, Ports: []corev1.ServicePort{{Port: 80}}}
	if s.kind == corev1.ServiceTypeLoadBalancer {
		spec.AllocateLoadBalancerNodePorts = new(bool)
	}
	return spec
}

// copies returns Services like svc, which has the cluster address a, until there are n of them.
// Each has its own cluster address.
func (s set) copies(svc *corev1.Service, a *networkingv1.IPAddress, n int) (services, addresses []apitest.Stored) {
	clusterIP := netip.MustParseAddr(s.from)
	for i := 1; i < n; i++ {
		clusterIP = clusterIP.Next()
		svc, a, ip := svc.DeepCopy(), a.DeepCopy(), clusterIP.String()
		svc.Name, svc.UID, svc.ResourceVersion = name(i), uuid.NewUUID(), ""
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs = ip, []string{ip}
		a.Name, a.UID, a.ResourceVersion, a.Spec.ParentRef.Name = ip, uuid.NewUUID(), "", svc.Name
		services = append(services, apitest.Stored{Key: "services/specs/" + s.namespace + "/" + svc.Name, Object: svc})
		addresses = append(addresses, apitest.Stored{Key: "ipaddresses/" + ip, Object: a})
	}
	return services, addresses
}

// erase removes the Services of s with their cluster addresses.
func (w *bulkWorld) erase(s set) {
	w.Helper()
	for _, key := range []string{"services/specs/" + s.namespace + "/bulk-", "ipaddresses/" + s.prefix} {
		expect.NoError(w, w.server.Erase(key))
	}
}

// patches returns the patches that an allocator would write into services, except for the address
// in their status: only Services of type LoadBalancer may have one. A longer message makes up for
// the missing text.
func (w *bulkWorld) patches(services []*corev1.Service) [][]byte {
	w.Helper()
	a := netip.MustParseAddr("10.64.0.1")
	all := make([][]byte, len(services))
	for i, svc := range services {
		result := service.Result{
			Addresses: []netip.Addr{a}, Origin: service.Origin{From: "default", PoolType: service.PoolRemote},
			Allocated: true, Reason: "Allocated", Message: "Assigned " + a.String() + " from pool default",
		}
		full, err := result.Patch(svc, time.Now())
		expect.NoError(w, err)
		status := regexp.MustCompile(`"loadBalancer":\{.*?\]\},`).FindString(string(full))
		if status == "" {
			w.Fatalf("the patch has no address: %s", full)
		}
		bare := strings.Replace(string(full), status, "", 1)
		all[i] = []byte(strings.Replace(bare, result.Message, result.Message+strings.Repeat(".", len(status)), 1))
		a = a.Next()
	}
	return all
}

// each calls do for every Service from number from until to, with limited concurrency.
func (w *bulkWorld) each(from, to int, do func(i int) error) {
	w.Helper()
	var wg sync.WaitGroup
	var once sync.Once
	var failed error
	for hand := range concurrency {
		wg.Go(func() {
			for i := from + hand; i < to; i += concurrency {
				if err := do(i); err != nil {
					once.Do(func() { failed = err })
					return
				}
			}
		})
	}
	wg.Wait()
	if failed != nil {
		w.Fatal(failed)
	}
}

// instance is a running allocator, with the places of its metrics and its log.
type instance struct {
	w       *bulkWorld
	cmd     *exec.Cmd
	metrics string
	log     *os.File
	// assigned is the number of addresses in the part of the log that was read. begun is the start
	// of a line whose end was not written yet.
	assigned int
	begun    []byte
}

// read reads the new part of the log.
func (p *instance) read() {
	p.w.Helper()
	fresh, err := io.ReadAll(p.log)
	expect.NoError(p.w, err)
	p.begun = append(p.begun, fresh...)
	ended := bytes.LastIndexByte(p.begun, '\n') + 1
	p.assigned += bytes.Count(p.begun[:ended], []byte(`"msg":"addressAssigned"`))
	p.begun = append(p.begun[:0], p.begun[ended:]...)
}

func (w *bulkWorld) start() *instance {
	w.Helper()
	port := freePort(w)
	exe, err := os.Executable()
	expect.NoError(w, err)
	cmd := exec.Command(exe, "--namespace", "purelb-system", "--kubeconfig", w.server.Kubeconfig, "--port", port,
		"--host", "127.0.0.1", "--health-address", "0", "--identity", "allocator-1")
	cmd.Env = append(os.Environ(), asAllocator+"=1", "DEFAULT_ANNOUNCER=PureLB")
	// A file, because a pipe would wake this process for every line.
	path := filepath.Join(w.TempDir(), "log")
	out, err := os.Create(path)
	expect.NoError(w, err)
	defer out.Close()
	cmd.Stdout = out
	log, err := os.Open(path)
	expect.NoError(w, err)
	expect.NoError(w, cmd.Start())
	p := &instance{w: w, cmd: cmd, metrics: "http://127.0.0.1:" + port + "/metrics", log: log}
	w.Cleanup(p.kill)
	return p
}

func freePort(b *bulkWorld) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	expect.NoError(b, err)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func (p *instance) kill() {
	_ = p.log.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // the error says that it was killed
}

// end lets the process release its Lease. After an end without that, the next process does not
// trust the cache, and writes to every Service.
func (p *instance) end() {
	p.w.Helper()
	p.signal(syscall.SIGTERM)
	expect.NoError(p.w, p.cmd.Wait())
}

// until polls ok at this interval.
func (p *instance) until(every time.Duration, ok func() bool) {
	p.w.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !ok(); time.Sleep(every) {
		if time.Now().After(deadline) {
			p.w.Fatalf("timeout: the allocator has assigned %d addresses, and its metrics are %v", p.assigned, p.scrape())
		}
	}
}

// assigns waits until the log has this many addresses. A scrape of the metrics would cost the
// allocator as much time as two Services, each time.
func (p *instance) assigns(n int) {
	p.w.Helper()
	p.until(10*time.Millisecond, func() bool {
		p.read()
		return p.assigned >= n
	})
}

// uses waits until this many addresses are in use.
func (p *instance) uses(n int) {
	p.w.Helper()
	p.until(250*time.Millisecond, func() bool {
		used, there := p.scrape()["purelb_address_pool_addresses_in_use"]
		return there && used == float64(n)
	})
}

func (p *instance) signal(s syscall.Signal) {
	expect.NoError(p.w, p.cmd.Process.Signal(s))
}

func (p *instance) value(name string) float64 { return p.scrape()[name] }

// plain requests uncompressed answers, because compressing the metrics takes an allocator longer
// than allocating some addresses.
var plain = &http.Client{Transport: &http.Transport{DisableCompression: true}}

// scrape returns each metric, summed over its labels. "writes" is the number of requests to the API
// server that write. The result is empty until the process serves metrics.
func (p *instance) scrape() map[string]float64 {
	values := map[string]float64{}
	response, err := plain.Get(p.metrics)
	if err != nil {
		return values
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return values
	}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			v := m.GetCounter().GetValue() + m.GetGauge().GetValue()
			values[name] += v
			for _, l := range m.GetLabel() {
				if name == "rest_client_requests_total" && l.GetName() == "method" && l.GetValue() != http.MethodGet {
					values["writes"] += v
				}
			}
		}
	}
	return values
}

// idle returns the number of writes in a minute without any event: to Services, and to all objects.
// The first status of the group does not count.
func (p *instance) idle() (services, all float64) {
	time.Sleep(2 * time.Second)
	before := p.scrape()
	time.Sleep(quiet)
	after := p.scrape()
	const updates = "purelb_k8s_client_updates_total"
	return after[updates] - before[updates], after["writes"] - before["writes"]
}

// memory is the memory of the process that no file backs, in MB.
func (p *instance) memory() float64 {
	p.w.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	expect.NoError(p.w, err)
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb / 1000
		}
	}
	p.w.Fatal("the kernel does not report the memory of a process")
	return 0
}
