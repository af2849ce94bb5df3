package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/apitest"
	"purelb.io/purelb/internal/service"
)

const (
	// bulk is how many Services there are, concurrency how many requests are
	// on their way at a time, the allocator's as the floor's.
	bulk        = 10_000
	concurrency = 16
	// rounds is how often the allocator is measured, in turns with the floor.
	rounds = 3
	quiet  = time.Minute
)

// Limits of what is measured.
const (
	mostOverAllocating = 1.15
	mostOverReleasing  = 1.3
	mostMemory         = 80 // MB
)

// BenchmarkBulk measures an allocator, as a process of its own, with 10,000
// Services: from its start to the last address, from its second start to being
// ready, what it needs and writes while nothing happens, and from the first
// deletion to the last released address.
//
// The floor is a bare loop which writes the same patches, and deletes the same
// Services, while there is no allocator. It runs before and after each
// measurement, which counts against the mean of the two, so that what else the
// machine does weighs on both. The median counts.
func BenchmarkBulk(b *testing.B) {
	server := apitest.Start(b)
	if out, err := server.Kubectl("", "create", "namespace", "purelb-system"); err != nil {
		b.Fatal(err, out)
	}
	if out, err := server.Kubectl(largeGroup, "apply", "-f", "-"); err != nil {
		b.Fatal(err, out)
	}
	w := newBulkWorld(b, server)
	for b.Loop() {
		var allocating, releasing, speeds, adopting []float64
		before := w.floor()
		for range rounds {
			m := w.measure()
			after := w.floor()
			b.Logf("allocated in %s, released in %s; bare patches in %s and %s, bare deletions in %s and %s",
				m.allocating, m.releasing, before.allocating, after.allocating, before.releasing, after.releasing)
			allocating = append(allocating, 2*m.allocating.Seconds()/(before.allocating+after.allocating).Seconds())
			releasing = append(releasing, 2*m.releasing.Seconds()/(before.releasing+after.releasing).Seconds())
			speeds = append(speeds, bulk/m.allocating.Seconds())
			adopting = append(adopting, m.adopting.Seconds())
			before = after
			w.note(m)
		}
		w.result("bulk_allocate_vs_floor", median(allocating), "x", mostOverAllocating)
		w.result("bulk_allocate_per_second", median(speeds), "1/s", 0)
		w.result("bulk_release_vs_floor", median(releasing), "x", mostOverReleasing)
		w.result("restart_adopt_10k_s", median(adopting), "s", 0)
		w.result("restart_adopt_writes", w.adoptWrites, "", 0.5)
		w.result("allocator_rss_10k_mb", w.memory, "MB", mostMemory)
		w.result("idle_service_writes_per_minute", w.idleWrites, "", 0.5)
		w.result("idle_writes_per_minute", w.idleAll, "", 60/4+1) // its Lease, every 4 s
	}
}

const largeGroup = `
apiVersion: purelb.io/v2
kind: ServiceGroup
metadata: {name: default, namespace: purelb-system}
spec: {remote: {v4pool: {subnet: 10.64.0.0/16, pool: 10.64.0.0/16, aggregation: /32}}}
`

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// bulkWorld is an API server with many Services, and what was worst so far.
type bulkWorld struct {
	*testing.B
	server  *apitest.Server
	clients kubernetes.Interface

	adoptWrites, memory, idleWrites, idleAll float64
}

// measured is what one round shows.
type measured struct {
	allocating, releasing, adopting          time.Duration
	adoptWrites, memory, idleWrites, idleAll float64
}

func newBulkWorld(b *testing.B, server *apitest.Server) *bulkWorld {
	cfg := *server.Config
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	clients, err := kubernetes.NewForConfig(&cfg)
	if err != nil {
		b.Fatal(err)
	}
	return &bulkWorld{B: b, server: server, clients: clients}
}

// note keeps what is worst.
func (w *bulkWorld) note(m measured) {
	w.adoptWrites = max(w.adoptWrites, m.adoptWrites)
	w.memory = max(w.memory, m.memory)
	w.idleWrites = max(w.idleWrites, m.idleWrites)
	w.idleAll = max(w.idleAll, m.idleAll)
}

// result prints a measurement, and fails if it is more than most (0: anything).
func (w *bulkWorld) result(name string, value float64, unit string, most float64) {
	fmt.Printf("RESULT %s %.3f %s\n", name, value, unit)
	w.ReportMetric(value, name)
	if most > 0 && value > most {
		w.Errorf("%s is %.3f; at most %.2f is wanted", name, value, most)
	}
}

// floor does what an allocator would have to, and nothing else.
func (w *bulkWorld) floor() measured {
	w.Helper()
	patches := w.patches(w.create())
	began := time.Now()
	w.each(func(i int) error {
		_, err := w.services().Patch(context.Background(), name(i), types.MergePatchType, patches[i], metav1.PatchOptions{}, "status")
		return err
	})
	allocated := time.Now()
	w.delete()
	return measured{allocating: allocated.Sub(began), releasing: time.Since(allocated)}
}

// measure has an allocator do it.
func (w *bulkWorld) measure() (m measured) {
	w.Helper()
	w.create()
	began := time.Now()
	first := w.start()
	first.until(func(value func(string) float64) bool { return value("purelb_k8s_client_updates_total") >= bulk })
	m.allocating = time.Since(began)
	first.kill()

	began = time.Now()
	second := w.start()
	second.until(func(value func(string) float64) bool { return value("purelb_address_pool_addresses_in_use") == bulk })
	m.adopting = time.Since(began)
	m.idleWrites, m.idleAll = second.idle()
	m.adoptWrites = second.value("purelb_k8s_client_updates_total")
	m.memory = second.memory()

	began = time.Now()
	w.delete()
	second.until(func(value func(string) float64) bool { return value("purelb_address_pool_addresses_in_use") == 0 })
	m.releasing = time.Since(began)
	second.kill()
	return m
}

func (w *bulkWorld) services() interface {
	Create(context.Context, *corev1.Service, metav1.CreateOptions) (*corev1.Service, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*corev1.Service, error)
} {
	return w.clients.CoreV1().Services("default")
}

func name(i int) string { return fmt.Sprintf("bulk-%05d", i) }

// create makes the Services and returns them as the API server has them.
func (w *bulkWorld) create() []*corev1.Service {
	w.Helper()
	made := make([]*corev1.Service, bulk)
	w.each(func(i int) (err error) {
		made[i], err = w.services().Create(context.Background(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name(i)},
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: new(bool), Ports: []corev1.ServicePort{{Port: 80}},
			},
		}, metav1.CreateOptions{})
		return err
	})
	return made
}

func (w *bulkWorld) delete() {
	w.Helper()
	w.each(func(i int) error { return w.services().Delete(context.Background(), name(i), metav1.DeleteOptions{}) })
}

// patches are what an allocator would write into services.
func (w *bulkWorld) patches(services []*corev1.Service) [][]byte {
	w.Helper()
	first := addr.NumberOf(netip.MustParseAddr("10.64.0.1"))
	all := make([][]byte, len(services))
	for i, svc := range services {
		a := first.Plus(uint64(i)).Addr(addr.V4)
		var err error
		all[i], err = service.Result{
			Addresses: []netip.Addr{a}, From: "default", PoolType: service.PoolRemote,
			Allocated: true, Reason: "Allocated", Message: "Assigned " + a.String() + " from pool default",
		}.Patch(svc, time.Now())
		if err != nil {
			w.Fatal(err)
		}
	}
	return all
}

// each does something for every Service, so many at a time.
func (w *bulkWorld) each(do func(i int) error) {
	w.Helper()
	var wg sync.WaitGroup
	var once sync.Once
	var failed error
	for hand := range concurrency {
		wg.Go(func() {
			for i := hand; i < bulk; i += concurrency {
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

// process is an allocator, and where its metrics are.
type process struct {
	w       *bulkWorld
	cmd     *exec.Cmd
	metrics string
}

func (w *bulkWorld) start() *process {
	w.Helper()
	port := freePort(w)
	exe, err := os.Executable()
	if err != nil {
		w.Fatal(err)
	}
	cmd := exec.Command(exe, "--namespace", "purelb-system", "--kubeconfig", w.server.Kubeconfig, "--port", port,
		"--host", "127.0.0.1", "--health-address", "0", "--identity", "allocator-1")
	cmd.Env = append(os.Environ(), asAllocator+"=1", "DEFAULT_ANNOUNCER=PureLB")
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	return &process{w: w, cmd: cmd, metrics: "http://127.0.0.1:" + port + "/metrics"}
}

func freePort(b *bulkWorld) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // It says that it was killed.
}

// until waits for something that the metrics tell.
func (p *process) until(ok func(value func(string) float64) bool) {
	p.w.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(25 * time.Millisecond) {
		values := p.scrape()
		if ok(func(name string) float64 { return values[name] }) {
			return
		}
		if time.Now().After(deadline) {
			p.kill()
			p.w.Fatalf("the allocator does not get there: %v", values)
		}
	}
}

func (p *process) value(name string) float64 { return p.scrape()[name] }

// scrape returns each metric, summed over its labels; those of requests to the
// API server that write as "writes". There are none before the process serves
// them.
func (p *process) scrape() map[string]float64 {
	values := map[string]float64{}
	response, err := http.Get(p.metrics)
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

// idle returns how much is written in a minute in which nothing happens: to
// Services, and at all. The first status of the group is none of it.
func (p *process) idle() (services, all float64) {
	time.Sleep(2 * time.Second)
	before := p.scrape()
	time.Sleep(quiet)
	after := p.scrape()
	const updates = "purelb_k8s_client_updates_total"
	return after[updates] - before[updates], after["writes"] - before["writes"]
}

// memory is what the process holds that is not backed by files, in MB.
func (p *process) memory() float64 {
	p.w.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.w.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb / 1000
		}
	}
	p.w.Fatal("the kernel does not tell the memory of a process")
	return 0
}
