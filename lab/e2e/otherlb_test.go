package e2e

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/lab/kube"
	"purelb.io/purelb/lab/product"
)

// Promise: PureLB shares a cluster with other load balancer controllers. It never takes over or
// announces an address of another controller. It notices a contest about a Service, writes ever more
// rarely, and reports the contest.

const ourClass = "loadBalancerClass: purelb.io/purelbv2"

// writesPerMinute is the number of writes that the allocator may make to a Service in a minute of a
// contest.
const writesPerMinute = 8

func TestServicesOfAnotherControllerStayWithIt(t *testing.T) {
	w := newWorld(t)
	o, h, wires := w.otherController(), w.history(), w.wires()
	resume := w.stopAllocator()
	o.start()
	groupOf := map[string]string{"theirs-1": "local", "theirs-2": "local", "theirs-3": "remote", "ours-1": "local", "ours-2": "remote"}
	theirs, ours := []string{"theirs-1", "theirs-2", "theirs-3"}, []string{"ours-1", "ours-2"}
	had := map[string][]netip.Addr{}
	for _, name := range theirs {
		w.apply(plain(name, 80, "purelb.io/service-group: "+groupOf[name]))
		had[name] = w.addresses(name, 1)
	}
	resume()
	for _, name := range ours {
		w.apply(plain(name, 80, "purelb.io/service-group: "+groupOf[name], ourClass))
		had[name] = w.addresses(name, 1)
	}
	w.restartAllocator()
	o.restart()
	w.servesOurs("fresh-1")
	for _, name := range theirs {
		h.always(name, had[name])
		h.untouched(name)
	}
	wires.bare()

	began := time.Now()
	o.removeAddresses()
	for _, name := range theirs {
		w.until(patience, "the other controller has cleared "+name, func() bool {
			return slices.ContainsFunc(h.of(name, otherWriter), func(s state) bool { return len(s.shows) == 0 })
		})
	}
	o.stop()
	for _, name := range theirs {
		got := w.settles(name)
		if !slices.ContainsFunc(got, w.inGroup(groupOf[name])) {
			t.Errorf("%s had %v of the other controller and now has %v, want an address of the group %s", name, had[name], got, groupOf[name])
		}
		h.restrained(name, writesPerMinute*(1+int(time.Since(began).Minutes())))
	}
	for _, name := range ours {
		h.always(name, had[name])
		if n := len(h.of(name, otherWriter)); n > 0 {
			t.Errorf("%s has the class of PureLB, and the other controller wrote to it %d times", name, n)
		}
		w.until(patience, name+" is announced", func() bool { return len(w.holders(had[name][0])) > 0 })
	}
	wires.bare()
}

// servesOurs makes a Service of PureLB's class and waits for its address. After that, the allocator
// has read all earlier Services.
func (w *world) servesOurs(name string) {
	w.t.Helper()
	w.apply(plain(name, 80, "purelb.io/service-group: remote", ourClass))
	w.addresses(name, 1)
}

// settles waits until a Service has only addresses of PureLB, and returns them. The other controller
// must have ended.
func (w *world) settles(name string) (has []netip.Addr) {
	w.t.Helper()
	w.until(patience, name+" has an address of PureLB", func() bool {
		has = kube.Addresses(w.service(name))
		return len(has) > 0 && !slices.ContainsFunc(has, isOthers)
	})
	return has
}

// inGroup returns a function that reports whether an address belongs to a group of the tests.
func (w *world) inGroup(group string) func(netip.Addr) bool {
	prefix := map[string]netip.Prefix{
		"local":  netip.MustParsePrefix("172.30.250.0/24"),
		"remote": netip.MustParsePrefix("10.255.1.0/24"),
	}[group]
	return func(a netip.Addr) bool { return prefix.Contains(a) && !isOthers(a) }
}

// Both controllers restart during the contest, and in the end the other one has no addresses.
func TestAContestIsReportedThrottledAndEnds(t *testing.T) {
	w := newWorld(t)
	names := []string{"local", "remote"}
	had := w.classless(names)
	w.servesOurs("ours")
	ours := kube.Addresses(w.service("ours"))
	o, h, wires := w.otherController(), w.history(), w.wires()
	began := time.Now()
	o.start()
	for _, name := range names {
		w.contested(name)
	}
	w.restartAllocator()
	o.restart()
	w.servesOurs("fresh")
	o.removeAddresses()
	for _, name := range names {
		n := len(h.of(name, otherWriter))
		w.until(patience, "the other controller clears "+name, func() bool {
			writes := h.of(name, otherWriter)
			return len(writes) > n && len(writes[len(writes)-1].shows) == 0
		})
	}
	o.stop()
	for _, name := range names {
		if got := w.settles(name); !equal(got, had[name]) {
			t.Errorf("%s had %v before the contest and has %v after it", name, had[name], got)
		}
		w.until(patience, name+" is announced", func() bool { return len(w.holders(had[name][0])) > 0 })
		w.until(4*patience, "the condition of "+name+" says that the contest has ended", func() bool {
			return w.condition(name).Status == "True"
		})
		const lives = 2 // the allocator restarts once, and each process has its own count
		h.restrained(name, writesPerMinute*(lives+int(time.Since(began).Minutes())))
	}
	t.Logf("the contest and its end took %s", time.Since(began).Round(time.Second))
	h.always("ours", ours)
	wires.bare()
}

// classless makes Services without a class. Each has the name of its group. It returns the addresses
// that PureLB assigned.
func (w *world) classless(names []string) map[string][]netip.Addr {
	w.t.Helper()
	had := map[string][]netip.Addr{}
	for _, name := range names {
		w.apply(plain(name, 80, "purelb.io/service-group: "+name))
		had[name] = w.addresses(name, 1)
	}
	return had
}

// contested waits until the condition of a Service reports a contest and names the other writer.
func (w *world) contested(name string) {
	w.t.Helper()
	w.until(patience, "the condition of "+name+" names the contest", func() bool {
		c := w.condition(name)
		return c.Status == "False" && c.Reason == "StatusContested" && strings.Contains(c.Message, otherWriter)
	})
	w.warned(name, "StatusContested", otherWriter)
}

func TestALeftoverAnnotationAnnouncesNothing(t *testing.T) {
	w := newWorld(t)
	wires := w.wires()
	for i, poolType := range []string{"local", "remote"} {
		name := "theirs-" + poolType
		w.apply(plain(name, 80, "purelb.io/allocated-by: PureLB, purelb.io/pool-type: "+poolType, "loadBalancerClass: example.com/lb"))
		kubectl(w, "patch", "service", name, "--namespace", namespace, "--subresource=status", "--type=merge", "--patch",
			fmt.Sprintf(`{"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.%d"},{"ip":"172.30.250.22%d"}]}}}`, i+1, i))
		w.until(patience, "the allocator takes its annotations off "+name, func() bool {
			return len(w.service(name).Annotations) == 0
		})
		want := []netip.Addr{netip.AddrFrom4([4]byte{203, 0, 113, byte(i + 1)}), netip.AddrFrom4([4]byte{172, 30, 250, 220 + byte(i)})}
		if got := kube.Addresses(w.service(name)); !equal(got, want) {
			t.Errorf("%s has %v, want %v as its controller wrote", name, got, want)
		}
	}
	w.servesOurs("ours")
	ours := kube.Addresses(w.service("ours"))[0]
	w.until(patience, "the agents have announced a later Service", func() bool {
		return len(w.holders(ours)) == len(lab.Nodes())
	})
	wires.bare()
}

// TestClassesDivideTheServicesOfACluster is the recommended way to share a cluster: each
// controller serves its own classes.
func TestClassesDivideTheServicesOfACluster(t *testing.T) {
	w := newWorldFor(t, 3*time.Minute)
	w.apply(plain("left", 80, "purelb.io/service-group: remote"))
	left := w.addresses("left", 1)
	takeAll := w.defaultAnnouncer("none")
	o, h, wires := w.otherController(), w.history(), w.wires()
	w.servesOurs("first")
	h.always("left", left)
	o.start()
	w.until(patience, "PureLB has left the Service without a class to the other controller", func() bool {
		return w.service("left").Annotations["purelb.io/allocated-by"] == "" && slices.ContainsFunc(kube.Addresses(w.service("left")), isOthers)
	})
	w.apply(echo("web", 2), plain("theirs", 80, ""), plain("ours", 80, "purelb.io/service-group: local", ourClass))
	theirs, ours := w.addresses("theirs", 1), w.addresses("ours", 1)
	w.restartAllocator()
	o.restart()
	w.servesOurs("fresh")
	h.always("theirs", theirs)
	h.untouched("theirs")
	h.always("ours", ours)
	if n := len(h.of("ours", otherWriter)); n > 0 {
		t.Errorf("the other controller wrote %d times to a Service of PureLB's class", n)
	}
	h.restrained("ours", 1)
	h.restrained("left", 1)
	w.answers(ours...)
	wires.bare()

	// The other controller is removed, and its Service moves to PureLB with its address.
	o.stop()
	takeAll()
	w.servesOurs("second")
	h.untouched("theirs")
	w.group("e2e-moved", "{local: {v4pool: {subnet: 172.30.250.0/24, pool: "+otherSegment+"}}}")
	kubectl(w, "annotate", "service", "theirs", "--namespace", namespace,
		"purelb.io/service-group=e2e-moved", "purelb.io/addresses="+theirs[0].String())
	h.untouched("theirs")
	kubectl(w, "patch", "service", "theirs", "--namespace", namespace, "--subresource=status", "--type=merge",
		"--patch", `{"status":{"loadBalancer":{"ingress":null}}}`)
	w.answers(theirs...)
	h.always("theirs", theirs)
}

// defaultAnnouncer sets the value defaultAnnouncer of the chart until the test calls undo.
func (w *world) defaultAnnouncer(value string) (undo func()) {
	w.t.Helper()
	tree, err := product.FindTree(".", io.Discard)
	if err != nil {
		w.t.Fatal(err)
	}
	set := func(value string) { w.setValues(tree, "defaultAnnouncer="+value) }
	set(value)
	return w.undoable(func() { set("PureLB") })
}

// setValues sets more values of the chart, and keeps the others.
func (w *world) setValues(tree product.Tree, values ...string) {
	w.t.Helper()
	args := []string{"upgrade", product.Release, "charts/purelb", "--kubeconfig", lab.Kubeconfig(),
		"--namespace", product.Namespace, "--reset-then-reuse-values", "--wait", "--timeout", "3m"}
	for _, v := range values {
		args = append(args, "--set", v)
	}
	if err := tree.Helm(w.ctx, args...); err != nil {
		w.t.Errorf("set %v: %v", values, err)
	}
}
