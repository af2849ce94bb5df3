package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"purelb.io/purelb/lab/kube"
)

// step is a moment at which the allocator is killed.
type step struct {
	name string
	work work
	trap trap
}

// work is the change that makes the allocator reach a step.
type work int

const (
	claims   work = iota // two Services are created
	named                // a Service that asks for an address is created
	releases             // a Service is deleted
	calls                // a Service of the IPAM server's group is created
)

// trap stops the allocator at a step.
type trap struct {
	// The test calls set before the work and reached after it. reached returns when the allocator is at
	// the step. The test calls resume after it has killed the allocator.
	set, reached, resume func(k *killing)
}

// steps are the moments of a claim and of a release in NetBox, and one moment with an IPAM server. A
// lost request never reaches NetBox. NetBox executes all other requests after the death of the
// client.
var steps = []step{
	{"NetBox is asked for the claim", claims, request("GET", "cf_").lost()},
	{"NetBox says that there is no claim", claims, answer("GET", "cf_")},
	{"the claim is lost", claims, request("POST", "available-ips").lost()},
	{"the claim is carried out later", claims, request("POST", "available-ips")},
	{"the answer to the claim is lost", claims, answer("POST", "available-ips")},
	{"the Service is being patched", claims, patching()},
	{"the Service was patched", claims, trap{nothingYet, (*killing).served, nothingYet}},
	{"the claim of an address is lost", named, request("POST", "/ip-addresses/").lost()},
	{"the claim of an address is carried out later", named, request("POST", "/ip-addresses/")},
	{"the answer to the claim of an address is lost", named, answer("POST", "/ip-addresses/")},
	{"NetBox is asked for what is released", releases, request("GET", "cf_").lost()},
	{"the release is lost", releases, request("DELETE", "/ip-addresses/").lost()},
	{"the release is carried out later", releases, request("DELETE", "/ip-addresses/")},
	{"the answer to the release is lost", releases, answer("DELETE", "/ip-addresses/")},
	{"the IPAM server has the call", calls, trap{
		func(k *killing) { k.signalServer(syscall.SIGSTOP) },
		(*killing).claiming,
		func(k *killing) { k.signalServer(syscall.SIGCONT) },
	}},
}

func nothingYet(*killing) {}

// request stops a request before NetBox works on it.
func request(method, path string) trap { return stopped("request", method, path) }

// answer stops the answer to a request and loses it.
func answer(method, path string) trap { return stopped("answer", method, path).lost() }

func stopped(at, method, path string) trap {
	return trap{
		func(k *killing) { k.order("stop", "at="+at, "method="+method, "path="+path) },
		(*killing).stopped,
		func(k *killing) { k.order("resume", "lose=false") },
	}
}

// lost makes the trap lose the request or answer that it stopped.
func (t trap) lost() trap {
	t.resume = func(k *killing) { k.order("resume", "lose=true") }
	return t
}

// patching stops the allocator when it knows the addresses of a Service, before the API server has
// stored them. It depends on chance whether the API server stores them later.
func patching() trap {
	t := answer("POST", "available-ips")
	return trap{
		t.set,
		func(k *killing) {
			k.stopped()
			k.hang()
			k.order("resume", "lose=false")
			// The allocator has to read the answer and to begin its write. The test cannot observe
			// that, because the API server is stopped.
			time.Sleep(200 * time.Millisecond)
		},
		func(k *killing) { k.signalAPI(syscall.SIGCONT) },
	}
}

// killing is a test that kills the allocator.
type killing struct {
	backed
	step          string // the name of the step, for failure messages
	made, deleted int
	// round are the Services of this round. of are all Services by group, oldest first. They
	// have had addresses.
	round []string
	of    map[string][]string
	had   map[string][]netip.Addr
}

// killedAtAnyStep kills the allocator KILLS times (20). A number below that of the steps leaves out
// steps in between:
//
//	make e2e-backends KILLS=200
func killedAtAnyStep(t *testing.T, b backends) {
	n := numberOfKills(t)
	k := &killing{backed: b.world(t, timeOfKills(n)), of: map[string][]string{}, had: map[string][]netip.Addr{}}
	began := time.Now()
	for i := range n {
		k.kills(i, steps[i*max(1, len(steps)/n)%len(steps)])
	}
	took := time.Since(began)
	orphans := k.orphans()
	k.agree()
	k.keeps(k.had)
	t.Logf("the allocator was killed %d times in %s (%s each), %d Services came and %d went: 0 addresses of two, %d orphans before the sweep and 0 after it",
		n, took.Round(time.Second), (took / time.Duration(n)).Round(100*time.Millisecond), k.made, k.deleted, orphans)
	for _, name := range slices.Concat(slices.Collect(maps.Values(k.of))...) {
		k.delete(name)
	}
	k.clean()
}

func numberOfKills(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv("KILLS"), "20"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func timeOfKills(n int) time.Duration { return time.Duration(n) * 15 * time.Second }

// kills kills the allocator at a step, and waits until the next allocator has done the work.
func (k *killing) kills(i int, s step) {
	k.t.Helper()
	k.stock()
	k.step = fmt.Sprintf("round %d, %s", i, s.name)
	victim := k.allocator()
	s.trap.set(k)
	k.begin(i, s.work)
	s.trap.reached(k)
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		k.t.Fatal(err)
	}
	s.trap.resume(k)
	// The Service is deleted before the next allocator watches.
	k.deleteOldest()
	k.makes(fmt.Sprintf("r%d-unseen", i), netboxGroup, service)
	for _, name := range k.round {
		want := 2
		if k.service(name).Annotations["purelb.io/addresses"] != "" {
			want = 1
		}
		k.until(patience, name+" has its addresses after the allocator was killed ("+k.step+")", func() bool {
			return len(kube.Addresses(k.service(name))) == want
		})
		k.had[name] = kube.Addresses(k.service(name))
	}
	k.keeps(k.had)
	k.orphans() // fails the test if two Services have one address
	if k.t.Failed() {
		k.t.Fatal("the failure happened in " + k.step)
	}
}

// orphans returns the number of addresses that the backends hold without a Service.
func (k *killing) orphans() (n int) {
	k.t.Helper()
	held := k.held()
	for a, who := range k.shown() {
		if held[a] == who {
			delete(held, a)
		}
	}
	return len(held)
}

// begin gives the allocator the work of a round.
func (k *killing) begin(i int, w work) {
	k.t.Helper()
	switch w {
	case claims:
		k.makes(fmt.Sprintf("r%d-a", i), netboxGroup, service)
		k.makes(fmt.Sprintf("r%d-b", i), netboxGroup, service)
	case named:
		k.makes(fmt.Sprintf("r%d-named", i), netboxGroup, func(name, group string, _ ...string) string {
			asks := fmt.Sprintf("purelb.io/addresses: 10.255.24.%d", 1+i%254)
			return strings.Replace(annotated(service(name, group), asks), "RequireDualStack", "SingleStack", 1)
		})
	case releases:
		k.deleteOldest()
	case calls:
		k.makes(fmt.Sprintf("r%d-called", i), externalGroup, service)
	}
}

// stock makes Services with addresses of NetBox for later deletions.
func (k *killing) stock() {
	k.t.Helper()
	for len(k.of[netboxGroup]) < 3 {
		name := fmt.Sprintf("stock-%d", k.made)
		k.makes(name, netboxGroup, service)
		k.had[name] = k.addresses(name, 2)
	}
	for len(k.of[netboxGroup]) > 8 {
		k.deleteOldest()
	}
	k.round = nil
}

func (k *killing) makes(name, group string, manifest func(name, group string, spec ...string) string) {
	k.t.Helper()
	k.apply(manifest(name, group))
	k.made++
	k.of[group] = append(k.of[group], name)
	k.round = append(k.round, name)
}

func (k *killing) deleteOldest() {
	k.t.Helper()
	name := k.of[netboxGroup][0]
	k.of[netboxGroup] = k.of[netboxGroup][1:]
	delete(k.had, name)
	k.delete(name)
}

func (k *killing) delete(name string) {
	k.t.Helper()
	if err := k.Delete(k.ctx, k.service(name)); err != nil {
		k.t.Fatal(err)
	}
	k.deleted++
}

// stopped waits until NetBox has stopped a request.
func (k *killing) stopped() {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.ctx, patience)
	defer cancel()
	if _, err := k.netbox.Stopped(ctx); err != nil {
		k.t.Fatalf("the allocator does not reach the step (%s): %v", k.step, err)
	}
}

// served waits until the first Service of the round has its addresses.
func (k *killing) served() {
	k.t.Helper()
	k.until(patience, "a Service has its addresses", func() bool { return len(kube.Addresses(k.service(k.round[0]))) == 2 })
}

// claiming waits until the status of the round's Service says that it waits for its backend.
func (k *killing) claiming() {
	k.t.Helper()
	k.until(patience, "the Service waits for the IPAM server", func() bool { return k.condition(k.round[0]).Status == "False" })
}

func (k *killing) signalServer(sig syscall.Signal) {
	k.t.Helper()
	if err := syscall.Kill(k.ipamServer(), sig); err != nil {
		k.t.Fatal(err)
	}
}
