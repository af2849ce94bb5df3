package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/expect"
)

func TestSlotsOfTheAnnotations(t *testing.T) {
	local := func(ip, link string) announce.Decision {
		return announce.Decision{IP: addrOf(ip), Where: announce.Local, Address: announce.Address{Link: link}}
	}
	elsewhere := func(ip string) announce.Decision { return announce.Decision{IP: addrOf(ip)} }
	const untouched = "untouched"
	for _, tt := range []struct {
		name      string
		has       string
		ips       []string
		decisions []announce.Decision
		want      string // the slots of the family of the first address
		stolen    string
	}{
		{"claim, IPv4", "", []string{"192.0.2.9"}, []announce.Decision{local("192.0.2.9", "eth0")}, "me,eth0,192.0.2.9", ""},
		{"claim, IPv6", "", []string{"2001:db8::9"}, []announce.Decision{local("2001:db8::9", "eth0")}, "me,eth0,2001:db8::9", ""},
		{"an unchanged slot", "me,eth0,192.0.2.9", []string{"192.0.2.9"}, []announce.Decision{local("192.0.2.9", "eth0")}, untouched, ""},
		{"an unchanged slot beside the slot of another node", "you,eth1,192.0.2.10  me,eth0,192.0.2.9", []string{"192.0.2.9", "192.0.2.10"},
			[]announce.Decision{local("192.0.2.9", "eth0"), elsewhere("192.0.2.10")}, untouched, ""},
		{"another interface", "me,eth0,192.0.2.9", []string{"192.0.2.9"}, []announce.Decision{local("192.0.2.9", "eth1")}, "me,eth1,192.0.2.9", ""},
		{"taken over", "you,eth7,192.0.2.9", []string{"192.0.2.9"}, []announce.Decision{local("192.0.2.9", "eth0")}, "me,eth0,192.0.2.9", "you"},
		{"given up", "me,eth0,192.0.2.9", []string{"192.0.2.9"}, []announce.Decision{elsewhere("192.0.2.9")}, "", ""},
		{"a removed slot beside the slot of another node", "me,eth0,2001:db8::9 you,eth0,2001:db8::a", []string{"2001:db8::9", "2001:db8::a"},
			[]announce.Decision{elsewhere("2001:db8::9"), elsewhere("2001:db8::a")}, "you,eth0,2001:db8::a", ""},
		{"the slot of another node stays", "you,eth0,192.0.2.9", []string{"192.0.2.9"}, []announce.Decision{elsewhere("192.0.2.9")}, untouched, ""},
		{"the next write removes slots of released addresses", "you,eth0,192.0.2.8", []string{"192.0.2.9"}, []announce.Decision{local("192.0.2.9", "eth0")}, "me,eth0,192.0.2.9", ""},
		{"an own slot of a released address is removed", "me,eth0,192.0.2.8", []string{"192.0.2.9"}, []announce.Decision{elsewhere("192.0.2.9")}, "", ""},
		{"a slot of an older agent", "you,eth0", []string{"192.0.2.9"}, []announce.Decision{local("192.0.2.9", "eth0")}, "me,eth0,192.0.2.9", ""},
		{"remote addresses have no slot", "", []string{"203.0.113.7"}, []announce.Decision{{IP: addrOf("203.0.113.7"), Where: announce.Remote}}, untouched, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			svc := branded("web", tt.ips...)
			name := service.AnnotationAnnouncingIPv4
			if strings.Contains(tt.ips[0], ":") {
				name = service.AnnotationAnnouncingIPv6
			}
			svc.Annotations[name] = tt.has
			change, stolen := slotChanges(kept(&svc), "me", tt.decisions)
			got := untouched
			if value, changed := change[name]; changed && value == nil {
				got = ""
			} else if changed {
				got = *value
			}
			from := ""
			for _, s := range stolen {
				from += s.Node
			}
			if got != tt.want || from != tt.stolen || len(change) > 1 {
				t.Errorf("the slots are %q, taken over from %q, with %d changes; want %q, %q", got, from, len(change), tt.want, tt.stolen)
			}
		})
	}
}

// writer returns Slots that write by services until the test calls stop.
func writer(t *testing.T, services typedcorev1.ServicesGetter) (s *Slots, metrics *Metrics, stop func()) {
	metrics = NewMetrics(prometheus.NewRegistry(), 1000)
	s = NewSlots(services, metrics, slog.New(slog.DiscardHandler))
	return s, metrics, run(t, s.Run)
}

// claimOf returns the write that puts node into the slot of svc.
func claimOf(svc *corev1.Service, node string, done func()) map[string]Write {
	w, _ := (&reporter{node: node}).write(kept(svc), []announce.Decision{{
		IP: service.Ingress(svc)[0], Where: announce.Local, Address: announce.Address{Link: "eth0"},
	}})
	w.Done = done
	return map[string]Write{svc.Name: w}
}

func TestOneOfTwoConcurrentSlotWritesIsRefused(t *testing.T) {
	c := newCluster(t)
	c.serve("web", nil, "192.0.2.9")
	svc := c.get("web")
	var won sync.Map
	var wait sync.WaitGroup
	var all []*Slots
	var stops []func()
	for _, node := range []string{"node-a", "node-b"} {
		slots, _, stop := writer(t, c.core.CoreV1())
		all, stops = append(all, slots), append(stops, stop)
		wait.Go(func() { slots.Want(claimOf(svc, node, func() { won.Store(node, true) })) })
	}
	wait.Wait()
	eventually(t, "both nodes have tried to write", func() bool {
		return !slices.ContainsFunc(all, func(s *Slots) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.wanted["web"] == nil || !s.wanted["web"].tried
		})
	})
	for _, stop := range stops {
		stop() // stop waits for every callback
	}
	var winners []string
	won.Range(func(node, _ any) bool { winners = append(winners, node.(string)); return true })
	expect.Equal(t, fmt.Sprintf("writes that succeed, of %v", winners), len(winners), 1)
	expect.Equal(t, "the slot", c.get("web").Annotations[service.AnnotationAnnouncingIPv4], winners[0]+",eth0,192.0.2.9")
}

func TestASlotWriteIsNotRepeatedBeforeTheCacheHasIt(t *testing.T) {
	c := newCluster(t)
	c.serve("web", nil, "192.0.2.9")
	slots, metrics, _ := writer(t, c.core.CoreV1())
	stale := c.get("web")
	done := make(chan struct{}, 10)
	for range 3 {
		slots.Want(claimOf(stale, "node-a", func() { done <- struct{}{} }))
	}
	<-done
	version := c.get("web").ResourceVersion
	slots.Want(claimOf(stale, "node-a", func() { done <- struct{}{} }))
	slots.Want(nil)
	slots.Want(claimOf(c.get("web"), "node-b", func() { done <- struct{}{} }))
	<-done
	expect.Equal(t, "writes that the metric counts", testutil.ToFloat64(metrics.updates), 2)
	if c.get("web").ResourceVersion == version {
		t.Error("the slot was not written into a later version of the Service")
	}
}

// stripped is a Service whose annotations another program removes after each write.
type stripped struct {
	typedcorev1.ServicesGetter
	typedcorev1.ServiceInterface
	writes chan time.Time
}

func (s stripped) Services(string) typedcorev1.ServiceInterface { return s }

func (s stripped) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*corev1.Service, error) {
	s.writes <- time.Now()
	return nil, nil
}

func TestSlotsThatAreRemovedAgainAndAgainComeBackEverMoreSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stripped{writes: make(chan time.Time, 1)}
		slots, _, stop := writer(t, s)
		began, svc, at := time.Now(), branded("web", "192.0.2.9"), ""
		for i := range 8 {
			svc.ResourceVersion = strconv.Itoa(i)
			slots.Want(claimOf(&svc, "node-a", nil))
			at += fmt.Sprint((<-s.writes).Sub(began).Round(time.Second), " ")
		}
		expect.Equal(t, "the times of the writes", at, "0s 10s 30s 1m10s 2m30s 5m10s 10m10s 15m10s ")
		slots.Want(claimOf(&svc, "node-b", nil))
		expect.Equal(t, "the time of another change", (<-s.writes).Sub(began).Round(time.Second), 15*time.Minute+10*time.Second)
		svc.UID = "another"
		slots.Want(claimOf(&svc, "node-b", nil))
		expect.Equal(t, "the time of the slot of a new Service with the same name", (<-s.writes).Sub(began).Round(time.Second), 15*time.Minute+10*time.Second)
		stop()
	})
}

// unreliable fails its first writes.
type unreliable struct {
	typedcorev1.ServicesGetter
	mu   sync.Mutex
	left int
}

func (u *unreliable) Services(namespace string) typedcorev1.ServiceInterface {
	return unreliableServices{u.ServicesGetter.Services(namespace), u}
}

type unreliableServices struct {
	typedcorev1.ServiceInterface
	*unreliable
}

func (u unreliableServices) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, sub ...string) (*corev1.Service, error) {
	u.mu.Lock()
	u.left--
	fail := u.left >= 0
	u.mu.Unlock()
	if fail {
		return nil, errors.New("connection refused")
	}
	return u.ServiceInterface.Patch(ctx, name, kind, data, o, sub...)
}

func TestAFailedSlotWriteIsRetried(t *testing.T) {
	c := newCluster(t)
	c.serve("web", nil, "2001:db8::9")
	slots, metrics, _ := writer(t, &unreliable{ServicesGetter: c.core.CoreV1(), left: 3})
	done := make(chan struct{})
	slots.Want(claimOf(c.get("web"), "node-a", func() { close(done) }))
	<-done
	expect.Equal(t, "the slot", c.get("web").Annotations[service.AnnotationAnnouncingIPv6], "node-a,eth0,2001:db8::9")
	expect.Equal(t, "errors that the metric counts", testutil.ToFloat64(metrics.updateErrors), 3)
}
