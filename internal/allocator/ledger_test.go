package allocator

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/pool"
	"purelb.io/purelb/internal/service"
)

// model is an API server with Services, a cache of it that lags behind, and a
// ledger at work between them. Writes fail in all the ways that there are.
type model struct {
	t       *rapid.T
	ledger  *ledger
	version int
	// live is what the API server has, cached what the cache has of it.
	live, cached map[pool.Owner]object
	// late are writes that nobody has heard of, and that may still be done.
	late []write
	// busy are decisions that are being written.
	busy map[pool.Owner]decision
	// queue are those to be looked at.
	queue map[pool.Owner]bool
	// pools is how many addresses of each family there are.
	pools int
}

// object is a version of a Service.
type object struct {
	version int
	request service.Request
}

// write gives a version of a Service addresses.
type write struct {
	who       pool.Owner
	version   int
	addresses []netip.Addr
}

// decision is what is about to be written, or that nothing is to be.
type decision struct {
	write
	nothing bool
}

func newModel(t *rapid.T) *model {
	m := &model{t: t, live: map[pool.Owner]object{}, cached: map[pool.Owner]object{}, queue: map[pool.Owner]bool{}, pools: 3}
	m.restart()
	return m
}

// restart is another allocator, with a cache as it is.
func (m *model) restart() {
	m.late, m.busy = nil, map[pool.Owner]decision{}
	m.queue = map[pool.Owner]bool{}
	m.ledger = newLedger(func(owners ...pool.Owner) {
		for _, o := range owners {
			m.queue[o] = true
		}
	})
	m.configure()
	var all []service.Request
	for _, o := range m.live {
		all = append(all, o.request)
	}
	m.ledger.open(all)
	for who := range m.cached {
		m.queue[who] = true
	}
}

// configure tells the ledger of the pools.
func (m *model) configure() { m.ledger.change(pools(m.t, m.pools)) }

// pools are the surroundings with so many addresses of each family.
func pools(t interface{ Fatal(...any) }, n int) surroundings {
	var g config.Group
	for _, texts := range [][2]string{{"192.0.2.1-192.0.2.%d", "192.0.2.0/24"}, {"2001:db8::1-2001:db8::%d", "2001:db8::/64"}} {
		p, err := pool.Parse(fmt.Sprintf(texts[0], n), texts[1], "default")
		if err != nil {
			t.Fatal(err)
		}
		g.Pools = append(g.Pools, p)
	}
	g.Name, g.Announce = "default", config.AnnounceLocal
	return surroundings{config: config.Config{Groups: []config.Group{g}}}
}

func (m *model) anyone() pool.Owner {
	return pool.Owner("default/" + rapid.StringMatching("[a-f]").Draw(m.t, "service"))
}

// put makes a new version of a Service.
func (m *model) put(who pool.Owner, r service.Request) {
	m.version++
	m.live[who] = object{version: m.version, request: r}
}

func (m *model) create(who pool.Owner) {
	if _, there := m.live[who]; there {
		return
	}
	r := service.Request{Namespace: "default", Name: string(who[len("default/"):]), Created: time.Unix(int64(m.version), 0), Policy: service.All}
	r.Families = m.families()
	r.Policy = rapid.SampledFrom([]service.Policy{service.All, service.Some}).Draw(m.t, "policy")
	m.put(who, r)
}

func (m *model) families() []addr.Family {
	return rapid.SampledFrom([][]addr.Family{{addr.V4}, {addr.V6}, {addr.V4, addr.V6}}).Draw(m.t, "families")
}

// edit changes what a Service wants, as its user may.
func (m *model) edit(who pool.Owner) {
	if o, there := m.live[who]; there {
		o.request.Families = m.families()
		m.put(who, o.request)
	}
}

func (m *model) remove(who pool.Owner) { delete(m.live, who) }

// sync brings the cache up to date, for one Service.
func (m *model) sync(who pool.Owner) {
	o, there := m.live[who]
	if !there {
		delete(m.cached, who)
	} else {
		m.cached[who] = o
	}
	m.queue[who] = true
}

// look is what the loop does for one Service, without a pause.
func (m *model) look(who pool.Owner, outcome string) {
	m.begin(who)
	m.finish(who, outcome)
}

// begin decides for a Service. The write is done later: meanwhile others are
// looked at.
func (m *model) begin(who pool.Owner) {
	if _, busy := m.busy[who]; busy {
		return
	}
	delete(m.queue, who)
	o, there := m.cached[who]
	if !there {
		if _, exists := m.live[who]; exists {
			m.queue[who] = true
		} else {
			m.ledger.forget(who)
		}
		return
	}
	choice, _ := m.ledger.decide(o.request)
	m.busy[who] = decision{write{who, o.version, choice.Result.Addresses}, slices.Equal(choice.Result.Addresses, o.request.Held)}
}

// finish writes what was decided for a Service.
func (m *model) finish(who pool.Owner, outcome string) {
	d, busy := m.busy[who]
	delete(m.busy, who)
	switch {
	case !busy:
	case d.nothing:
		m.ledger.settle(who, d.addresses)
	case outcome == "lost" || outcome == "late" || outcome == "done":
		m.queue[who] = true
		if outcome == "late" {
			m.late = append(m.late, d.write)
		}
		if outcome == "done" {
			m.write(d.write)
		}
	case m.write(d.write):
		m.ledger.settle(who, d.addresses)
	}
}

// write does a write, unless the Service has changed since.
func (m *model) write(w write) bool {
	o, there := m.live[w.who]
	if !there || o.version != w.version {
		return false
	}
	o.request.Held, o.request.From, o.request.PoolType = w.addresses, "default", service.PoolLocal
	m.put(w.who, o.request)
	return true
}

// arrive does the oldest of the late writes.
func (m *model) arrive() {
	if len(m.late) > 0 {
		m.write(m.late[0])
		m.late = m.late[1:]
	}
}

// quiet lets everything arrive and be looked at until nothing changes.
func (m *model) quiet() {
	for who := range maps.Clone(m.busy) {
		m.finish(who, "well")
	}
	for len(m.late) > 0 {
		m.arrive()
	}
	for i := 0; ; i++ {
		for who := range maps.Clone(m.cached) {
			if o, there := m.live[who]; !there || o.version != m.cached[who].version {
				m.sync(who)
			}
		}
		for who := range m.live {
			if _, there := m.cached[who]; !there {
				m.sync(who)
			}
		}
		if len(m.queue) == 0 {
			return
		}
		if i > 100 {
			m.t.Fatal("it does not come to rest")
		}
		for _, who := range slices.Sorted(maps.Keys(m.queue)) {
			m.look(who, "well")
		}
	}
}

// check is what must be true at any time.
func (m *model) check() {
	holders := map[netip.Addr]pool.Owner{}
	for who, o := range m.live {
		for _, a := range o.request.Held {
			if other, taken := holders[a]; taken {
				m.t.Fatalf("%s and %s both have %s", other, who, a)
			}
			holders[a] = who
			if by, _ := m.ledger.cluster.Book.Owner(a); by != who {
				m.t.Fatalf("%s has %s, which the book has for %q", who, a, by)
			}
		}
	}
}

// checkQuiet is what must be true once nothing changes any more.
func (m *model) checkQuiet() {
	book := m.ledger.cluster.Book
	for who, o := range m.live {
		r := o.request
		held := slices.SortedFunc(slices.Values(r.Held), netip.Addr.Compare)
		if booked := book.Held(who); !slices.Equal(booked, held) {
			m.t.Fatalf("%s has %s, and the book has %s for it", who, r.Held, booked)
		}
		choice := m.ledger.cluster.Choose(r)
		if !slices.Equal(choice.Result.Addresses, r.Held) {
			m.t.Fatalf("%s has %s, and could have %s", who, r.Held, choice.Result.Addresses)
		}
	}
	for _, u := range m.ledger.usages() {
		var n int64
		for _, o := range m.live {
			for _, a := range o.request.Held {
				if _, in := u.group.PoolOf(a); in {
					n++
				}
			}
		}
		if u.total() != n {
			m.t.Fatalf("%d addresses are in use, and the book has %d", n, u.total())
		}
	}
}

func TestNoAddressIsLostOrDoubledWhateverFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"":        func(*rapid.T) { m.check() },
			"create":  func(*rapid.T) { m.create(m.anyone()) },
			"edit":    func(*rapid.T) { m.edit(m.anyone()) },
			"remove":  func(*rapid.T) { m.remove(m.anyone()) },
			"sync":    func(*rapid.T) { m.sync(m.anyone()) },
			"arrive":  func(*rapid.T) { m.arrive() },
			"restart": func(*rapid.T) { m.restart() },
			"pools": func(t *rapid.T) {
				m.pools = rapid.IntRange(1, 4).Draw(t, "pools")
				m.configure()
			},
			"begin": func(*rapid.T) { m.begin(m.anyone()) },
			"finish": func(t *rapid.T) {
				m.finish(m.anyone(), rapid.SampledFrom([]string{"well", "well", "lost", "late", "done"}).Draw(t, "outcome"))
			},
			"quiet": func(*rapid.T) {
				m.quiet()
				m.checkQuiet()
			},
		})
	})
}

func TestWhoWaitsComesBeforeNewcomersAlsoWhileBeingWritten(t *testing.T) {
	woken := map[pool.Owner]bool{}
	l := newLedger(func(owners ...pool.Owner) {
		for _, o := range owners {
			woken[o] = true
		}
	})
	l.change(pools(t, 1))
	l.open(nil)
	wants := func(name string, families ...addr.Family) service.Request {
		return service.Request{Namespace: "default", Name: name, Policy: service.Some, Families: families, Created: time.Unix(int64(len(name)), 0)}
	}
	holder := wants("a", addr.V6)
	l.decide(holder)
	waiter := wants("bb", addr.V4, addr.V6)
	partly, _ := l.decide(waiter) // has 192.0.2.1, and that is being written
	l.forget(owner(holder))       // now 2001:db8::1 is free
	l.settle(owner(waiter), partly.Result.Addresses)
	if newcomer, _ := l.decide(wants("ccc", addr.V6)); len(newcomer.Result.Addresses) > 0 {
		t.Fatalf("the newcomer gets %s", newcomer.Result.Addresses)
	}
	if !woken[owner(waiter)] {
		t.Fatal("who waits is not looked at")
	}
}
